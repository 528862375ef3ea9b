import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { execa } from "execa";
import { afterAll, describe, expect, test } from "vitest";
import { UserError } from "./core/errors.ts";
import { createRandom } from "./core/random.ts";
import { card, trip } from "./envs/airline/fixtures/hand-written.ts";
import { hasOriginals, originalsFolder } from "./envs/airline/fixtures/originals.ts";
import { envs } from "./envs/index.ts";
import { type PlayFlags, runPlay } from "./play.ts";

const folder = mkdtempSync(join(tmpdir(), "trestle-play-"));
afterAll(() => rmSync(folder, { recursive: true }));

function streams(typed: string) {
  const input = new PassThrough();
  input.end(typed);
  const texts = { out: "", err: "" };
  const keep = (name: keyof typeof texts) =>
    new PassThrough().on("data", (chunk: Buffer) => {
      texts[name] += chunk.toString();
    });
  const [output, errors] = [keep("out"), keep("err")];
  return { input, output, errors, texts };
}

const standard = { env: "airline", as: "agent", policy: "gold", seed: 0, envOptions: {} } as const;

async function run(flags: Partial<PlayFlags>, typed = "") {
  const { texts, ...given } = streams(typed);
  const code = await runPlay({ ...standard, ...flags }, given);
  await new Promise((resolve) => setImmediate(resolve));
  return { code, ...texts };
}

async function actions(lines: readonly (object | string)[], flags: Partial<PlayFlags> = {}) {
  const file = join(folder, "actions.jsonl");
  writeFileSync(file, lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n"));
  const { code, out, err } = await run({ actions: file, json: true, ...flags });
  const rows = out
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { code, rows, err };
}

const transfer = { name: "transfer_to_human_agents", kwargs: { summary: "help" } };
const lookUp = (user_id: unknown) => ({ name: "get_user_details", kwargs: { user_id } });
const respond = (content: string, user?: string) => ({
  name: "respond",
  kwargs: { content },
  ...(user ? { user } : {}),
});

describe("a list of actions", () => {
  test("each from fresh data, a line an action, with the text, the hash, and no reward without a task", async () => {
    const send = { name: "send_certificate", kwargs: { user_id: "none", amount: 1 } };
    const { code, rows } = await actions([
      { id: "a", actions: [lookUp("none"), { name: "fly", kwargs: {} }, send] },
      { id: 2, actions: [{ name: "list_all_airports" }] },
      { actions: [] },
    ]);
    expect(code).toBe(0);
    expect(rows.map(({ id, index, name, done, reward }) => [id, index, name, done, reward])).toEqual([
      ["a", 0, "get_user_details", false, null],
      ["a", 1, "fly", false, null],
      ["a", 2, "send_certificate", false, null],
      [2, 0, "list_all_airports", false, null],
    ]);
    expect(Object.keys(rows[0]!)).toEqual(["id", "index", "name", "observation", "state_sha256", "done", "reward"]);
    expect(rows.slice(0, 3).map(({ observation }) => observation)).toEqual([
      "Error: user not found",
      "Unknown action fly",
      "Error: user not found",
    ]);
    expect(new Set(rows.map(({ state_sha256 }) => state_sha256)).size).toBe(1);
  });

  test("50 and 50.0 are two values, in texts and in hashes", async () => {
    const bags = (total: string) =>
      `{"id": 1, "actions": [{"name": "update_reservation_baggages", "kwargs": {"reservation_id": ` +
      `"${trip.reservation_id}", "total_baggages": ${total}, "nonfree_baggages": 0, "payment_id": "${card}"}}]}`;
    const { rows } = await actions([bags("5"), bags("5.0"), bags("5")]);
    expect(rows.map(({ observation }) => /"total_baggages": ([\d.]+)/.exec(String(observation))?.[1])).toEqual([
      ...["5", "5.0", "5"],
    ]);
    const [one, float, again] = rows.map(({ state_sha256 }) => state_sha256);
    expect([one === again, one === float]).toEqual([true, false]);
  });

  test("after the end nothing is run and nothing is paid, and the first end's reward stays", async () => {
    const { rows } = await actions([{ id: 1, task_id: "synth-00", actions: [transfer, transfer, lookUp("x")] }]);
    expect(rows.map(({ observation, done }) => [observation, done])).toEqual([
      ["Transfer successful", true],
      ["Error: the episode has ended", true],
      ["Error: the episode has ended", true],
    ]);
    expect(rows[0]!.reward).toBeTypeOf("number");
    expect(rows.slice(1).map(({ reward }) => reward)).toEqual([0, 0]);
  });

  test("what the agent says is answered by the script, by the text given, or by nobody", async () => {
    const { rows } = await actions([
      { id: 1, task_id: "synth-00", actions: [respond("What is your user id?"), respond("Bye.", "Bye. ###STOP###")] },
      { id: 2, actions: [respond("Hello?"), respond("Hello?", "Hi.")] },
    ]);
    expect(rows.map(({ observation, done }) => [observation, done])).toEqual([
      [expect.stringMatching(/_\d{4}/), false],
      ["Bye. ###STOP###", true],
      ["", false],
      ["Hi.", false],
    ]);
  });

  test("the gold calls of a task, and what the teacher says, earn its reward", async () => {
    const tasks = await envs.airline!.load("test");
    const replies = tasks.replies("gold", "synth-00", createRandom(0));
    const list = replies.map((reply) => {
      const call = /^<tool_call>\n(.*)\n<\/tool_call>$/s.exec(reply)?.[1];
      const { name, arguments: kwargs } = call ? JSON.parse(call) : { name: "respond", arguments: { content: reply } };
      return { name, kwargs };
    });
    const { rows } = await actions([{ id: 1, task_id: 0, actions: list }]);
    expect(rows.at(-1)).toMatchObject({ done: true, reward: 1 });
    expect(rows.slice(0, -1).every(({ done, reward }) => !done && reward === 0)).toBe(true);
  });

  test("lines that can't be played are named by their number, and the rest goes on", async () => {
    const { code, rows, err } = await actions([
      "not json",
      { id: 1, actions: [lookUp("x")] },
      { id: 2, task_id: "synth-99", actions: [] },
      { id: 3 },
      { id: 4, actions: [{ kwargs: {} }] },
      { id: 5, actions: [lookUp("x")] },
    ]);
    expect(code).toBe(1);
    expect(rows.map(({ id }) => id)).toEqual([1, 5]);
    const lines = err.trim().split("\n");
    expect(lines.map((line) => /line (\d)/.exec(line)?.[1])).toEqual(["1", "3", "4", "5"]);
    expect(lines[1]).toContain("no task 'synth-99'");
  });

  test.skipIf(!hasOriginals)("on a user's own data, with its tasks and without a user", async () => {
    const { rows } = await actions([{ id: 1, task_id: "tau-12", actions: [respond("Hello?"), transfer] }], {
      dataDir: originalsFolder,
    });
    expect(rows.map(({ observation, done, reward }) => [observation, done, reward])).toEqual([
      ["", false, 0],
      ["Transfer successful", true, 1],
    ]);
  });

  test("without data nothing is played, and that is said once", async () => {
    await expect(actions([{ actions: [lookUp("x")] }, { actions: [] }], { dataDir: folder })).rejects.toThrow(
      /flights\.json: there is no such file/,
    );
  });

  test("is nothing that other environments have", async () => {
    const file = join(folder, "none.jsonl");
    await expect(run({ env: "arxiv", actions: file })).rejects.toThrow(/arxiv has no lists of actions/);
  });
});

describe("a person", () => {
  test("as the user, in a process of its own: the agent's words are shown, and the input's end is the dialogue's", async () => {
    const args = ["--import", "tsx", "src/cli.ts", "play", "--task-id", "synth-00", "--as", "user", "--json"];
    const { stdout, stderr } = await execa("node", args, { input: "Hi, I need help.\n" });
    expect(stderr).toMatch(/Your part:.*you> .*agent> /s);
    expect(JSON.parse(stdout)).toMatchObject({ task_id: "synth-00", ended_by: "terminated", reward: 0 });
  });

  test("as the agent: calls, wrong calls and words, to the end of the input", async () => {
    const typed = ['get_user_details {"user_id": "x"}', "get_user_details {", "", "What is your user id?"].join("\n");
    const { out, err, code } = await run({ taskId: "synth-00" }, typed);
    expect(code).toBe(0);
    expect(out).toMatch(/^system: .*\nuser: .*\ntool: Error: user not found\nuser: .*_\d{4}/s);
    expect(out).toMatch(
      /ended_by: truncated\nended_why: the input is over\nreward: 0\n.*state_sha256: [0-9a-f]{64}\n$/s,
    );
    expect(err).toContain("The arguments of get_user_details are no JSON object: {");
  });

  test("as the agent, with JSON lines alone on stdout; the end of the episode ends it", async () => {
    const { out } = await run({ taskId: "synth-00", json: true }, "transfer_to_human_agents\nnever read\n");
    const lines = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.map(({ role }) => role)).toEqual(["system", "user", undefined]);
    expect(lines.at(-1)).toMatchObject({ task_id: "synth-00", ended_by: "terminated" });
  });

  test("in an environment whose replies are texts", async () => {
    const { out } = await run({ env: "arxiv", taskId: "search_01" }, "Thought: done\n");
    expect(out).toMatch(/ended_by: terminated/);
  });

  test("needs a task that there is, and a part that can be taken", async () => {
    await expect(run({})).rejects.toThrow(/needs --task-id/);
    await expect(run({ taskId: "synth-99" })).rejects.toThrow(/no task 'synth-99'/);
    await expect(run({ env: "arxiv", taskId: "search_01", as: "user" })).rejects.toThrow(/arxiv has no user/);
    await expect(run({ taskId: "synth-00", as: "user", policy: "model:x" })).rejects.toThrow(/serve it.*api:/);
    await expect(run({ taskId: "synth-00", as: "user", policy: "silver" })).rejects.toThrow(UserError);
  });
});
