import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { main } from "../../src/cli.ts";
import { createRandom } from "../../src/core/random.ts";
import type { Trajectory } from "../../src/core/trajectory.ts";
import { arxivBadCases } from "../../src/envs/arxiv/bad-cases.ts";
import { arxiv } from "../../src/envs/arxiv/env.ts";
import { openTrajectoryLog } from "../../src/trajectory-log.ts";
import { type BadCaseFlags, runBadCases } from "./command.ts";
import { readLibrary } from "./library.ts";
import { judgeHistory, replayCases } from "./replay.ts";

const folder = mkdtempSync(join(tmpdir(), "capture-"));
const run = join(folder, "bench-tried");
const log = join(run, "trajectories", "rank-0.jsonl");
let played: Trajectory[] = [];

/** Every policy's play of every task, as a benchmark of them would store it. */
beforeAll(async () => {
  const tasks = await arxiv.load("all");
  const file = openTrajectoryLog(log);
  for (const [trial, policy] of arxiv.policies.entries()) {
    for (const task_id of tasks.ids) {
      const episode = await tasks.start(task_id, { seed: 1, trial, policy });
      for (const reply of tasks.replies(policy, task_id, createRandom(`${task_id}/${policy}`))) {
        if (episode.ended_by) break;
        await episode.reply(reply);
      }
      file.write(await episode.finish());
    }
  }
  file.close();
  played = readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Trajectory);
});

let libraries = 0;
const library = () => join(folder, `library-${++libraries}.jsonl`);
const capture = (flags: Partial<BadCaseFlags>, path = run) =>
  runBadCases("capture", path, { env: "arxiv", env_options: {}, ...flags });
const trialOf = (policy: string) => arxiv.policies.indexOf(policy);

test("a trajectory's history is judged as the trajectory was, whoever played it", async () => {
  for (const trajectory of played) {
    const { task_id, reward, metrics } = trajectory;
    // A judgement of a history is made with the weights of its options, and does not repeat them.
    const figures = Object.fromEntries(Object.entries(metrics).filter(([name]) => !name.startsWith("reward_weights/")));
    const history = arxivBadCases.history(trajectory);
    const verdict = await judgeHistory(arxiv, { task_id, history: JSON.parse(JSON.stringify(history)) }, {});
    expect([task_id, trajectory.policy, verdict]).toEqual([
      task_id,
      trajectory.policy,
      expect.objectContaining(figures),
    ]);
    expect(verdict.reward).toBe(reward);
  }
});

test("what finished and went wrong becomes an open case, which replay then finds still open", async () => {
  const path = library();
  const { json, exit_code } = await capture({ library: path });
  expect(exit_code ?? 0).toBe(0);
  const cases = readLibrary(path, arxivBadCases);
  expect(json.at(-1)).toMatchObject({ added: cases.length, dry_run: false });
  const replayed = await replayCases(arxiv, cases, {});
  expect(new Set(replayed.map(({ result, reward_drift }) => `${result} ${reward_drift}`))).toEqual(
    new Set(["still_open 0"]),
  );

  const wrong = played.filter(
    ({ metrics }) =>
      metrics.finished === true &&
      (metrics.false_finish === true ||
        Number(metrics.ref_score) < 1 ||
        metrics.accurate === false ||
        Number(metrics.arg_score) < 1 ||
        metrics.terminal_semantics === "ambiguous"),
  );
  const known = new Set(wrong.map(({ task_id, turns }) => JSON.stringify([task_id, turns.map(({ reply }) => reply)])));
  expect(cases.length).toBe(known.size); // two policies that did the same make one case
  expect(cases.some(({ case_id }) => case_id.endsWith(`#${trialOf("gold")}`))).toBe(false);
});

test.each([
  ["always_finish", "search_AI_1d_3", { false_finish: true }],
  ["always_finish", "infeasible_zero_index", { terminal_semantics: "ambiguous" }],
  ["wrong_args", "search_kw_llm", { arg_score: { lt: 1 } }],
  ["repeat_last_call", "search_AI_1d_3", { task_completed: true, tool_call_accurate: false }],
  ["wrong_args", "multi_cv3_dl1", { ref_score: { lt: 1 } }],
])("%s on %s is known by the first rule that holds", async (policy, task_id, condition) => {
  const { json } = await capture({ library: library(), task_id, trial: trialOf(policy), dry_run: true });
  expect(json[0]).toMatchObject({
    case_id: `${task_id}#${trialOf(policy)}`,
    status: "open",
    reproduces_when: condition,
    source: expect.stringMatching(new RegExp(`^bench-tried/trajectories/rank-0.jsonl, line \\d+, policy ${policy}$`)),
    captured: { termination_type: "FINISH" },
  });
});

test("--dry-run tells the same cases and writes nothing", async () => {
  const path = library();
  const dry = await capture({ library: path, dry_run: true });
  expect(existsSync(path)).toBe(false);
  expect(dry.text).toMatch(/would be added to .*; nothing was written/);
  expect((await capture({ library: path })).json.slice(0, -1)).toEqual(dry.json.slice(0, -1));
});

test("the library only grows: what is known is left out, an id that is taken gets a suffix", async () => {
  const path = library();
  const one = { library: path, task_id: "search_AI_1d_3", trial: trialOf("always_finish") };
  await capture(one);
  const before = readFileSync(path, "utf8");
  const again = await capture(one);
  expect(again.text).toMatch(
    /^0 cases added .*\nLeft out: 1 known already\.\n.*line \d+: known already: {"reward":-0.75/,
  );
  expect(readFileSync(path, "utf8")).toBe(before);

  const other = played.find(({ task_id, policy }) => task_id === one.task_id && policy === "download_everything")!;
  const copy = join(folder, "other.jsonl");
  writeFileSync(copy, `${JSON.stringify({ ...other, trial: one.trial })}\n`);
  writeFileSync(path, before.trimEnd()); // a hand left no line end
  const added = await capture({ ...one, note: "five downloads" }, copy);
  expect(added.json[0]).toMatchObject({ case_id: `search_AI_1d_3#${one.trial}+1`, note: "five downloads" });
  expect(readFileSync(path, "utf8").startsWith(before)).toBe(true);
  expect(readLibrary(path, arxivBadCases).length).toBe(2);
});

test("--when takes what the rules would not, and what it does not hold for is told", async () => {
  const path = library();
  const one = { library: path, task_id: "opt_force_dl", trial: trialOf("gold") };
  const none = await capture(one);
  expect(none.text).toMatch(/^0 cases added.*\nLeft out: 1 nothing wrong\.\n.*nothing wrong: {"reward":1,/);
  const poor = await capture({ ...one, when: { reward: { lt: 0 } } });
  expect(poor.text).toMatch(/Left out: 1 the condition does not hold\.\n.*: {"reward":1,/);
  const paid = await capture({ ...one, when: { reward: { ge: 0.9 } } });
  expect(paid.json[0]).toMatchObject({ reproduces_when: { reward: { ge: 0.9 } }, captured: { reward: 1 } });
});

test("a case captured under options of its own is judged under them again", async () => {
  const path = library();
  const one = { library: path, task_id: "search_AI_1d_3", trial: trialOf("always_finish") };
  await capture({ ...one, profile: "reference" });
  expect(readLibrary(path, arxivBadCases)[0]!.env_options).toEqual({ profile: "reference" });
});

test("traces of another runner are taken as they are", async () => {
  const trace = join(folder, "traces.jsonl");
  const history = [{ thought: "t", action: "FINISH", observation: "任务完成" }];
  writeFileSync(
    trace,
    `${JSON.stringify({ task_id: "search_CL_7d_5", agent_type: "regex", trial: 2, session_id: "s", history })}\n`,
  );
  const { json } = await capture({ library: library() }, trace);
  expect(json[0]).toMatchObject({
    case_id: "search_CL_7d_5#2",
    history,
    source: "traces.jsonl, line 1, policy regex",
    reproduces_when: { false_finish: true },
  });
});

test("episodes that the environment failed are never cases, and the half line of a killed run is passed over", async () => {
  const path = join(folder, "killed.jsonl");
  const failed = { ...played[0]!, ended_by: "error", ended_why: "step: down", reward: null, success: false };
  writeFileSync(path, `${JSON.stringify(failed)}\n${JSON.stringify(played[1]).slice(0, 80)}`);
  const { json } = await capture({ library: library() }, path);
  expect(json).toEqual([
    expect.objectContaining({ added: 0, left_out: expect.objectContaining({ "failed in the environment": 1 }) }),
  ]);
});

describe("what can't be captured is told with its place, and nothing is written", () => {
  const bad = (text: string) => {
    const path = join(folder, `bad-${++libraries}.jsonl`);
    writeFileSync(path, text);
    return path;
  };
  const cases = (): [string, string, Partial<BadCaseFlags>, RegExp][] => [
    [
      "a task that is not in the log",
      run,
      { task_id: "search_AI_1d_4" },
      /no trajectory of task 'search_AI_1d_4'; did you mean 'search_AI_1d_3'/,
    ],
    [
      "a trial that is not",
      run,
      { task_id: "search_AI_1d_3", trial: 99 },
      /no trial 99 of search_AI_1d_3; it has 0, 1, 2/,
    ],
    ["a folder that is no run", folder, {}, /this folder has no trajectories/],
    ["an empty log", bad(""), {}, /holds no trajectories/],
    ["a line that is neither", bad('{"a": 1}\n'), {}, /line 1: neither a line of a trajectory log nor a trace/],
    ["a trajectory that does not fit", bad('{"turns": []}\n'), {}, /line 1: .*task_id/],
    [
      "another environment's",
      bad(`${JSON.stringify({ ...played[0], env: "airline@1" })}\n`),
      {},
      /a trajectory of airline@1, not of arxiv/,
    ],
    [
      "a task that is none any more",
      bad(`${JSON.stringify({ ...played[0], task_id: "gone" })}\n`),
      {},
      /line 1: arxiv has no task 'gone'/,
    ],
  ];
  test("an output that is a folder", async () => {
    const output = mkdtempSync(join(folder, "output-"));
    await expect(capture({ library: library(), output }, run)).rejects.toThrow(/it is a folder; expected a file/);
  });
  test("each", async () => {
    for (const [what, path, flags, message] of cases()) {
      const output = library();
      await expect(capture({ library: output, ...flags }, path), what).rejects.toThrow(message);
      expect([what, existsSync(output)]).toEqual([what, false]);
    }
  });
});

test("the command line: capture, then replay, with exit codes", async () => {
  const spies = (["stdout", "stderr"] as const).map((name) => vi.spyOn(process[name], "write").mockReturnValue(true));
  const path = library();
  expect(await main(["badcases", "capture", run, "--library", path, "--task-id", "search_AI_1d_3", "--json"])).toBe(0);
  expect(await main(["badcases", "--library", path, "--json"])).toBe(0);
  writeFileSync(path, readFileSync(path, "utf8").replaceAll('"status":"open"', '"status":"fixed"')); // a hand
  expect(await main(["badcases", "replay", "--library", path])).toBe(1);
  expect(await main(["badcases", "capture", run, "--trial", "one"])).toBe(2);
  for (const spy of spies) spy.mockRestore();
});
