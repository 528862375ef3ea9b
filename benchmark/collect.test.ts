import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runCommand } from "../src/fixtures/run-command.ts";
import { readJsonLines } from "../src/trajectory-log.ts";
import { pickRange } from "./collect.ts";

const folder = mkdtempSync(join(tmpdir(), "collect-"));
const LONG = 120_000;
const env = ["--env", "./examples/guess-the-number.ts"];
const read = (...path: string[]) => JSON.parse(readFileSync(join(folder, ...path), "utf8")) as Record<string, unknown>;
const rows = (...path: string[]) => readJsonLines(join(folder, ...path)).map(({ value }) => value as { id: string });

describe("task_range", () => {
  const ids = ["a", "b", "c", "d"];
  test.each([
    ["0:2", ["a", "b"]],
    ["2:", ["c", "d"]],
    [":1", ["a"]],
    ["1:99", ["b", "c", "d"]],
    ["3, 0", ["d", "a"]],
    ["1,1", ["b"]],
  ])("%s", (range, expected) => {
    expect(pickRange(ids, range)).toEqual(expected);
  });
  test.each(["2:2", "4:", "4", "a", "-1", "", "1;2"])("'%s' is refused", (range) => {
    expect(() => pickRange(ids, range)).toThrow(/task_range is .*expected 0:10 or 5,8,11, with places from 0 to 3/);
  });
});

test("clean successes become rows, task by task; again is the same", { timeout: LONG }, async () => {
  const argv = ["collect", ...env, "--policy", "gold", "--runs-dir", folder, "--name", "gold", "--task-range", "0:3"];
  const first = await runCommand(...argv, "--json");
  expect([first.code, first.stderr.includes("Error")]).toEqual([0, false]);
  expect(JSON.parse(first.stdout)).toMatchObject({ tasks: 3, covered: 3, attempts: 3, successes: 3, train_rows: 3 });
  expect(rows("gold", "train.jsonl").map(({ id }) => id)).toEqual(["n2/0", "n4/0", "n6/0"]);
  expect(rows("gold", "task_0001.jsonl")).toEqual([
    expect.objectContaining({ task_id: "n4", sample_idx: 0, temperature: null, success: true, reward: 1 }),
  ]);
  const before = readFileSync(join(folder, "gold", "train.jsonl"), "utf8");
  const again = await runCommand(...argv);
  expect([again.code, readFileSync(join(folder, "gold", "train.jsonl"), "utf8")]).toEqual([0, before]);
});

test("what failed is in no row, and a collection without a success exits with 1", { timeout: LONG }, async () => {
  const argv = ["collect", ...env, "--policy", "always_fifty", "--runs-dir", folder, "--name", "fifty"];
  const { code, stdout } = await runCommand(...argv, "--task-ids", "n2,n4", "--repeat", "2");
  expect([code, stdout]).toEqual([1, expect.stringMatching(/0 clean successes of 4 attempts; 0 of 2 tasks/)]);
  expect(readFileSync(join(folder, "fifty", "train.jsonl"), "utf8")).toBe("");
  expect(readFileSync(join(folder, "fifty", "task_0000.jsonl"), "utf8")).toBe("");
  expect(read("fifty", "task_0001.meta.json")).toMatchObject({
    task_id: "n4",
    attempts: [
      { sample_idx: 0, success: false },
      { sample_idx: 1, success: false },
    ],
  });
});

test("a collection that was broken off plays what is missing", { timeout: LONG }, async () => {
  const argv = ["collect", ...env, "--runs-dir", folder, "--name", "broken", "--task-range", "0:4"];
  await runCommand(...argv);
  const log = join(folder, "broken", "attempts", "attempts", "trajectories", "rank-0.jsonl");
  const lines = readFileSync(log, "utf8").split("\n");
  writeFileSync(log, `${lines.slice(0, 2).join("\n")}\n${lines[2]!.slice(0, 40)}`);
  const { code, stderr } = await runCommand(...argv);
  expect([code, stderr]).toEqual([0, expect.stringMatching(/goes on: 2 of 4 episodes are there, 2 are played/)]);
  expect(rows("broken", "train.jsonl")).toHaveLength(4);
});

test("settings that would be ignored or changed are refused", { timeout: LONG }, async () => {
  const base = ["collect", ...env, "--runs-dir", folder];
  const hot = await runCommand(...base, "--policy", "gold", "--temperatures", "0,1");
  expect([hot.code, hot.stderr]).toEqual([2, expect.stringMatching(/temperatures is set, but the policy 'gold'/)]);
  const changed = await runCommand(...base, "--name", "gold", "--task-range", "0:3", "--seed", "7");
  expect([changed.code, changed.stderr]).toEqual([2, expect.stringMatching(/seed is 7, was /)]);
  const checked = await runCommand(...base, "--name", "dry", "--dry-run");
  expect([checked.code, existsSync(join(folder, "dry"))]).toEqual([0, false]);
  expect(readdirSync(folder)).not.toContain("dry");
});

test("'data FAMILY collect' is the same command", { timeout: LONG }, async () => {
  const { code, stderr } = await runCommand("data", "arxiv", "collect", "--policy", "golden", "--runs-dir", folder);
  expect([code, stderr]).toEqual([2, expect.stringMatching(/policy is 'golden'; did you mean 'gold'/)]);
});
