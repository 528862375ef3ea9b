import { expect, test } from "vitest";
import { readProcesses, withoutProcesses } from "./launch.ts";
import type { RankNote } from "./rank-process.ts";
import { outcomeOf } from "./rank-tree.ts";

// What the person is told, from what the ranks left behind. Real processes are in several-processes.test.ts.

const ended = (code: number, text = "", more: Partial<NonNullable<RankNote["end"]>> = {}): RankNote => ({
  pid: 1,
  end: { time_ms: 5, code, text, with_another: false, stopped: false, ...more },
});
const silent: RankNote = { pid: 1, end: null };
const gone = ended(3, "Rank 1 of 2 is gone: killed.", { with_another: true });
const stopped = ended(1, "Stopped by SIGINT; there was nothing to save.", { stopped: true });
const agent = (code: number | null, signal: NodeJS.Signals | null = null) => ({ code, signal, error: null });

test.each<[string, (RankNote | null)[], Record<string, number>, NodeJS.Signals | null, number, string | RegExp]>([
  ["all ended well", [ended(0), ended(0)], {}, null, 0, ""],
  ["a guard stopped it, which rank 0 has told", [ended(1), ended(0)], { 0: 1 }, null, 1, ""],
  ["the user's mistake, found by all, is told once", [ended(2, "bad"), ended(2, "bad")], { 0: 2 }, null, 2, "bad"],
  [
    "a rank failed, the other ended with it",
    [gone, ended(1, "too many invalid", { time_ms: 9 })],
    { 0: 3 },
    null,
    1,
    "Rank 1 of 2: too many invalid",
  ],
  ["the first of two failures", [ended(3, "b", { time_ms: 9 }), ended(3, "a")], {}, null, 3, "Rank 1 of 2: a"],
  [
    "killed",
    [gone, silent],
    { 1: -9 },
    null,
    3,
    "Rank 1 of 2 was killed by SIGKILL (by hand, or by the system because memory ran out); the others were ended.",
  ],
  ["crashed", [gone, silent], { 1: -11 }, null, 3, /^Rank 1 of 2 was killed by SIGSEGV; /],
  ["before any rank was there", [null, null], {}, null, 3, /^torch's launcher ended with exit code 1; /],
  ["stopped before there was anything to save", [stopped, stopped], { 0: 1 }, "SIGINT", 1, /^Stopped by SIGINT; there/],
  ["stopped before Python was there", [silent, silent], { 0: -2 }, "SIGINT", 130, "Stopped by SIGINT."],
  ["stopped and saved", [ended(1), ended(0)], { 0: 1 }, "SIGINT", 1, ""],
])("%s", (_, notes, exits, stopReason, code, text) => {
  const failures = Object.fromEntries(Object.entries(exits).map(([rank, exitcode]) => [rank, { pid: 1, exitcode }]));
  const outcome = outcomeOf(
    notes,
    failures,
    agent(Object.keys(exits).length > 0 || notes[0] === null ? 1 : 0),
    stopReason,
  );
  expect(outcome.code).toBe(code);
  expect(outcome.text).toEqual(typeof text === "string" ? text : expect.stringMatching(text));
});

test("the launcher itself was killed", () => {
  expect(outcomeOf([silent, silent], {}, agent(null, "SIGKILL"), null)).toMatchObject({
    code: 3,
    text: "torch's launcher was killed by SIGKILL; all ranks were ended.",
  });
});

test("--nproc", () => {
  expect(readProcesses("2", {})).toBe(2);
  for (const text of ["0", "-1", "two", "1.5", ""])
    expect(() => readProcesses(text, {})).toThrow(`--nproc is '${text}'; expected a whole number from 1 to 9999.`);
  const env = { RANK: "0", WORLD_SIZE: "2", LOCAL_RANK: "0", MASTER_ADDR: "a", MASTER_PORT: "1" };
  expect(() => readProcesses("2", env)).toThrow(/starts the processes itself; under torchrun .* leave it out/);
  expect(withoutProcesses(["grpo", "--nproc", "2", "--name", "x"])).toEqual(["grpo", "--name", "x"]);
  expect(withoutProcesses(["grpo", "--nproc=2", "a.yaml"])).toEqual(["grpo", "a.yaml"]);
});
