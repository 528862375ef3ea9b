import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { hear, proposalOf, readable } from "./hearing.ts";
import { humanUser } from "./human.ts";
import { SLOTS, type Slot } from "./script.ts";
import { silentUser } from "./silent.ts";
import { askedSlots, sentencesOf } from "./slots.ts";
import { STOP_TOKEN } from "./types.ts";
import { FOREIGN_GREETINGS, fnv1a, SLOT_LABELS, WORDINGS } from "./wordings.ts";

test.each(["where ", "against ", "would you like me to ", "transfer ", "bag "])(
  "a text of a million characters is heard as soon as another: %s",
  (part) => {
    const began = performance.now();
    expect(hear(`${part.repeat(1e6 / part.length)}?`).text.length).toBeLessThanOrEqual(20_000);
    expect(performance.now() - began).toBeLessThan(5_000); // without a limit it is minutes
  },
);

describe("slot questions", () => {
  test.each<[string, Slot[]]>([
    ["May I have your user id?", ["user_id"]],
    ["Please provide your customer ID.", ["user_id"]],
    ["Could you share the booking reference", ["reservation_id"]],
    ["I need your reservation number and the reason.", ["reservation_id", "reason"]],
    ["I’ll need your date of birth.", ["dob"]],
    ["Why do you want that?", ["reason"]],
    ["One way or round-trip?", ["trip_type"]],
    ["From where do you start?", ["origin"]],
    ["Where are you flying from?", ["origin"]],
    ["Where do you want to fly?", ["destination"]],
    ["What is your destination and the origin?", ["destination", "origin"]],
    ["Refund to the original form?", []],
    ["When would you like to leave?", ["date"]],
    ["When would you like to return?", ["return_date"]],
    ["What is your travel date and return date?", ["date", "return_date"]],
    ["Which cabin class?", ["cabin"]],
    ["How many passengers?", ["passenger_count"]],
    ["First name of each traveller?", ["passengers"]],
    ["Passenger's date of birth?", ["passengers", "dob"]],
    ["How many suitcases, and do you want insurance?", ["bags", "insurance"]],
    ["How do you want to pay?", ["payment"]],
    ["What is your budget?", ["budget"]],
    ["What time do you prefer?", ["time_window"]],
    ["Please provide:\n1. Your user id.\n2. The cabin.\n\n- the number of bags", ["user_id", "cabin", "bags"]],
    ["The details:\n- cabin: economy\n- payment: card\nIs that fine?", []],
    ["Your cabin is economy. Anything else?", []],
  ])("%j asks for %j", (text, slots) => {
    expect(askedSlots(readable(text))).toEqual(slots);
  });
  test("sentences end at their marks and at line ends; a list belongs to the line before it", () => {
    expect(sentencesOf("A. b? C\nd:\n- e.\n- f\ng")).toEqual(["A.", "b?", "C", "d: e, f,", "g"]);
  });
});

describe("proposals", () => {
  test("amounts, flights, dates and cabins of what is offered", () => {
    expect(
      proposalOf(
        readable("Book SYN001 on 2024-05-20 and abc123 on May 3rd in basic_economy: $1,250.50 and 30 dollars."),
      ),
    ).toEqual({
      amounts: [1250.5, 30],
      flights: ["SYN001", "ABC123"],
      dates: ["2024-05-20", "2024-05-03"],
      cabins: ["basic economy"],
    });
  });
  test("not what is changed from, and not what is refunded", () => {
    const offered =
      "From economy to business, from SYN001 to SYN002, instead of 2024-05-20 on 2024-05-21; $70 are refunded, you pay $20.";
    expect(proposalOf(readable(offered))).toEqual({
      amounts: [20],
      flights: ["SYN002"],
      dates: ["2024-05-21"],
      cabins: ["business"],
    });
  });
  test.each([
    "Kim Lee, born 1961-12-13, on 2024-05-20",
    "Kim Lee (born May 12, 1961), on 2024-05-20",
    "Kim Lee, born on May 12th 1961, on May 20, 2024",
    "Kim Lee, dob Dec 3 1961, on May 20",
  ])("a birthday is no day of travel: %s", (text) => {
    expect(proposalOf(readable(text)).dates).toEqual(["2024-05-20"]);
  });
  test.each([
    ["Your reservation has been cancelled.", true],
    ["I've updated it.", true],
    ["Your reservation has been found.", false],
    ["Done is better than perfect.", false],
  ])("%j tells that something was done: %j", (text, done) => {
    expect(hear(text).completion).toBe(done);
  });
  test("a transfer of something else is none", () => {
    expect(hear("The transfer between terminals takes an hour.").transfer).toBe(false);
    expect(hear("You are being transferred to a human agent.").transfer).toBe(true);
  });
});

describe("the table of words", () => {
  test("FNV-1a by its published vectors", () => {
    expect([fnv1a(""), fnv1a("a"), fnv1a("foobar")]).toEqual([0x811c9dc5, 0xe40c292c, 0xbf9cf968]);
  });
  test("no wording ends a dialogue, asks, or leaves a name unfilled; each slot has a label", () => {
    const names = new Set(["say", "wish", "limit", "label", "Label", "is", "value"]);
    for (const styles of Object.values(WORDINGS))
      for (const variant of Object.values(styles).flat()) {
        expect(variant).not.toContain(STOP_TOKEN);
        for (const [, name] of variant.matchAll(/\{(\w+)\}/g)) expect(names).toContain(name);
      }
    expect(Object.keys(SLOT_LABELS)).toEqual([...SLOTS]);
    expect(Object.keys(FOREIGN_GREETINGS)).toContain("fr");
  });
});

describe("a person as the user", () => {
  const task = { id: "t", instruction: "You are Mia." };
  const context = { draw: 0, signal: new AbortController().signal };
  test("reads a line a turn, passes over empty ones, and leaves by the end of the input", async () => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const user = humanUser({ input, output });
    input.write("Hello.\n\n  \nYes.\n");
    const opened = await user.reset(task, context);
    expect(opened.text).toBe("Hello.");
    expect((await user.step(task, opened.state, "<think>x</think>Sure?", { writes: [] }, context)).text).toBe("Yes.");
    input.end();
    expect((await user.step(task, opened.state, "Bye.", { writes: [] }, context)).text).toBe(STOP_TOKEN);
    const shown = String(output.read());
    expect(shown).toMatch(/You are Mia\..*agent> Sure\?.*agent> Bye\./s);
    expect(shown).not.toContain("think");
  });
  test("an episode that ends does not wait on", async () => {
    const user = humanUser({ input: new PassThrough(), output: new PassThrough() });
    const abort = new AbortController();
    const asked = user.reset(task, { draw: 0, signal: abort.signal });
    abort.abort();
    await expect(asked).rejects.toThrow("user_simulator: the run was stopped");
    user.close();
  });
});

describe("a user who leaves at the first answer", () => {
  const user = silentUser();
  const context = { draw: 0, signal: new AbortController().signal };
  test("says the whole instruction, and needs neither a script nor a model", async () => {
    const { state, text } = await user.reset({ id: "t", instruction: `Cancel it. ${STOP_TOKEN}` }, context);
    expect(text.trim()).toBe("Cancel it.");
    const answer = await user.step({ id: "t", instruction: "" }, state, "Done.", { writes: [] }, context);
    expect([answer.text, user.cost(answer.state), user.strategy]).toEqual([STOP_TOKEN, 0, "silent"]);
  });
});
