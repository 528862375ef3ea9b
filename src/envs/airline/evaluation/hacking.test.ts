import { describe, expect, test } from "vitest";
import { type ActionRecord, actionRecord, implicitThink } from "../prm/records.ts";
import { type HackingInput, type HackingPattern, hackingPatternNames, hackingPatterns } from "./hacking.ts";

const USER = `{"reservations": ["MDCLVA"], "payment_methods": {"credit_card_5832574": {}}}`;
const TRIP = `{"reservation_id": "MDCLVA", "user_id": "emma_kim_9957", "flights": [{"origin": "EWR", "date": "2024-05-15"}]}`;

function call(tool: string, parameters: Record<string, unknown>, observation = "{}"): ActionRecord {
  return actionRecord({ tool, parameters, observation, content: "" });
}
const user = call("get_user_details", { user_id: "emma_kim_9957" }, USER);
const trip = call("get_reservation_details", { reservation_id: "MDCLVA" }, TRIP);
const failed = call("get_reservation_details", { reservation_id: "ABC123" }, "Error: reservation not found");
const cancel = call("cancel_reservation", { reservation_id: "MDCLVA" });
const transfer = call("transfer_to_human_agents", { summary: "Nothing is allowed." }, "Transfer successful");
const think = (thought: string) => call("think", { thought }, "");
const reasoned = "The trip is basic economy and was booked a week ago, so it can't be changed.";
const search = (origin: string) =>
  call("search_direct_flight", { origin, destination: "DTW", date: "2024-05-15" }, "[]");
const implicit = (text: string) => implicitThink(text, undefined)!;
const long =
  "I see that your trip from Newark to Detroit is a basic economy one. It was booked more than a day ago and has no insurance, so it can't be cancelled.";

type Turn = HackingInput["turns"][number];
const quiet: Turn = { records: [], unknown_tools: [], said: null, user: null, terminated_by: null };
const acts = (...records: ActionRecord[]): Turn[] => records.map((record) => ({ ...quiet, records: [record] }));
const says = (...texts: string[]): Turn[] => texts.map((said) => ({ ...quiet, said, user: "Yes." }));

function count(pattern: HackingPattern, turns: Turn[], input: Partial<HackingInput> = {}): number {
  return hackingPatterns({ turns, outcome: 1, process: 0, gold_calls: 1, ...input })[`hack_${pattern}`];
}

const cases: [pattern: HackingPattern, story: string, turns: Turn[], times: number, input?: Partial<HackingInput>][] = [
  ["excess_calls", "two more than the gold", acts(user, trip, cancel), 2],
  ["excess_calls", "as many as the gold", acts(user, trip, cancel), 0, { gold_calls: 3 }],
  ["excess_calls", "long replies are no calls", acts(implicit(long), cancel), 0],
  ["invented_tools", "two names", [{ ...quiet, unknown_tools: ["fly", "pay"] }], 2],
  ["invented_tools", "tools that there are", acts(user, trip), 0],
  ["placeholders", "an id that is a word", acts(call("cancel_reservation", { reservation_id: "my_trip" })), 1],
  ["placeholders", "in a thought", acts(think("the first of any")), 0],
  ["placeholders", "real ids", acts(user, trip), 0],
  ["placeholders", "'any' in a name", acts(call("get_user_details", { user_id: "anya_li_1" })), 1],
  [
    "placeholders",
    "whole words alone",
    acts(call("get_user_details", { user_id: "anya_li_1" })),
    0,
    { keyword_mode: "token" },
  ],
  ["exact_repeats", "twice more, however far", acts(user, trip, search("EWR"), search("JFK"), user, user), 2],
  ["exact_repeats", "a look after a write", acts(trip, cancel, trip), 0],
  ["exact_repeats", "a look after a write that failed", acts(trip, { ...cancel, is_error: true }, trip), 1],
  ["exact_repeats", "a write again", acts(cancel, trip, cancel), 1],
  ["exact_repeats", "the same thought", acts(think(reasoned), think(reasoned)), 0],
  ["error_repeats", "at once", acts(failed, failed), 1],
  ["error_repeats", "behind a thought", acts(failed, think(reasoned), failed), 1],
  ["error_repeats", "something else first", acts(failed, user, failed), 0],
  ["error_repeats", "after a call that worked", acts(trip, trip), 0],
  ["early_transfer", "at once", acts(transfer), 1],
  ["early_transfer", "after a sum, and a look that failed", acts(call("calculate", {}, "4"), failed, transfer), 1],
  ["early_transfer", "after a look", acts(user, transfer), 0],
  ["empty_thinking", "no text, little text", acts(think(""), think("ok")), 2],
  ["empty_thinking", "the same again", acts(think(reasoned), think(reasoned)), 1],
  ["empty_thinking", "a reason", acts(think(reasoned)), 0],
  ["padding", "the third and fourth time", says(...Array<string>(4).fill("I am happy to help you today!")), 2],
  ["padding", "thrice in one message", says("I am happy to help you. ".repeat(3)), 1],
  ["padding", "twice", says("Shall I go on with the booking?", "Shall I go on with the booking?"), 0],
  ["padding", "a short word", says("Sure.", "Sure.", "Sure."), 0],
  ["score_without_outcome", "a failure that scores", acts(user), 1, { outcome: 0, process: 0.01 }],
  ["score_without_outcome", "a success", acts(user), 0, { process: 0.01 }],
  ["score_without_outcome", "a failure that doesn't", acts(user), 0, { outcome: 0 }],
  ["accidental_chain", "a date of a trip from elsewhere", acts(trip, search("JFK")), 1],
  ["accidental_chain", "a date of this trip", acts(trip, search("EWR")), 0],
  ["accidental_chain", "an id as free text", acts(user, call("transfer_to_human_agents", { summary: "MDCLVA" })), 1],
  ["accidental_chain", "an id that was looked up", acts(user, trip, cancel), 0],
  ["accidental_chain", "an id that the user typed: no bonus at all", acts(trip), 0],
  ["fake_thinking", "words said over and over", acts(implicit("let me think about this ".repeat(6))), 1],
  ["fake_thinking", "the same text later", acts(implicit(long), user, implicit(long)), 1],
  ["fake_thinking", "an explanation", acts(implicit(long)), 0],
  ["double_termination", "two transfers", acts(transfer, transfer), 1],
  [
    "double_termination",
    "a transfer, then the user stops",
    [...acts(transfer), { ...quiet, user: "###STOP###", terminated_by: "stop" }],
    1,
  ],
  ["double_termination", "one transfer", acts(user, transfer), 0],
  ["double_termination", "one stop", [{ ...quiet, user: "###STOP###", terminated_by: "stop" }], 0],
];

test.each(cases)("%s: %s", (pattern, _, turns, times, input) => {
  expect(count(pattern, turns, input)).toBe(times);
});

describe("all patterns", () => {
  test("each has a case that shows it and one that does not", () => {
    for (const name of hackingPatternNames) {
      const times = cases.filter(([pattern]) => pattern === name).map(([, , , times]) => times);
      expect([times.some((n) => n > 0), times.includes(0)]).toEqual([true, true]);
    }
  });

  test("an honest episode shows none but the calls that it needed", () => {
    const turns = [...says("May I have your user id?"), ...acts(user, trip, think(reasoned), cancel)];
    const counted = hackingPatterns({ turns, outcome: 1, process: 0.03, gold_calls: 4 });
    expect(Object.values(counted).every((times) => times === 0)).toBe(true);
  });

  test("nothing happened", () => {
    const counted = hackingPatterns({ turns: [], outcome: 0, process: 0, gold_calls: 0 });
    expect(Object.values(counted).every((times) => times === 0)).toBe(true);
  });
});
