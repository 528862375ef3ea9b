import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { main } from "../src/cli.ts";
import { type RescoredLine, rescoreLine } from "../src/envs/arxiv/rescore.ts";
import { runCommand } from "../src/fixtures/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "score-"));
let count = 0;
const file = (...lines: (string | object)[]): string => {
  const path = join(folder, `${++count}.jsonl`);
  writeFileSync(path, lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n"));
  return path;
};

async function score(path: string, ...argv: string[]) {
  const { code, stdout, stderr } = await runCommand("score", path, "--env", "arxiv", "--json", ...argv);
  const rows = stdout === "" ? [] : stdout.trim().split("\n");
  return { code, rows: rows.map((row) => JSON.parse(row) as RescoredLine), stderr };
}

const history = [
  {
    thought: "t",
    action: { name: "get_recently_submitted_cs_papers", args: { aspect: "CL", days: 7, max_results: 5 } },
    observation: "成功获取 5 篇论文",
  },
  { thought: "done", action: "FINISH", observation: "任务完成" },
];
const good = { id: "good", task_id: "search_CL_7d_5", history, training_step: 100 };
const gone = { id: "gone", task_id: "search_CL_7d_6", history };

test("a line in, a line out, in order, the same as the scorer's own word, under both profiles", async () => {
  const other = { ...good, id: 2, history: [history[1]] };
  for (const profile of ["reference", "project"] as const) {
    const { code, rows, stderr } = await score(file(good, other, good), "--profile", profile);
    expect([code, stderr]).toEqual([0, ""]);
    expect(rows).toEqual([
      await rescoreLine(good, { profile }),
      await rescoreLine(other, { profile }),
      await rescoreLine(good, { profile }),
    ]);
    expect(rows.map(({ id, reward }) => [id, reward])).toEqual([
      ["good", 1],
      [2, -0.75],
      ["good", 1],
    ]);
  }
});

test("malformed lines are named by number, the rest is scored", async () => {
  const path = file(
    good,
    "not json",
    "",
    { id: 1 },
    '{"id": 2, "history": 7}',
    good,
    `${JSON.stringify(good).slice(0, 60)}`,
  );
  const { code, rows, stderr } = await score(path);
  expect(code).toBe(1);
  expect(rows).toHaveLength(2);
  expect(stderr).toMatch(/^malformed lines, not scored: 4\n {2}line 2: not JSON/);
  for (const line of [4, 5, 7]) expect(stderr).toContain(`  line ${line}: `);
  expect(stderr).toMatch(/line 7: the last line is cut off/);
  expect(stderr).not.toMatch(/line [136]:/);
});

test("unknown tasks are listed and skipped; that alone is no mistake", async () => {
  const { code, rows, stderr } = await score(file(gone, good, gone));
  expect([code, rows.map(({ id }) => id)]).toEqual([0, ["good"]]);
  expect(stderr).toBe(
    "lines skipped: 2\n  line 1: no arXiv task 'search_CL_7d_6'\n  line 3: no arXiv task 'search_CL_7d_6'\n",
  );
});

test.each([
  ["only unknown tasks", () => file(gone, gone), /nothing to score.\nlines skipped: 2\n {2}line 1: no arXiv task/],
  [
    "only malformed lines",
    () => file("x"),
    /nothing to score.\nmalformed lines, not scored: 1\n {2}line 1: the last line/,
  ],
  ["an empty file", () => file(), /nothing to score\.$/m],
  [
    "a log of another environment",
    () => file(good, { env: "airline@3", task_id: "search_CL_7d_5", turns: [] }),
    /line 2: a trajectory of 'airline@3', not of 'arxiv'. Name its environment with --env\./,
  ],
])("%s: exit 2, and no line out", async (_, path, message) => {
  const { code, rows, stderr } = await score(path());
  expect(stderr).toMatch(message);
  expect([code, rows]).toEqual([2, []]);
});

test("of many bad lines ten are told whole, the others by number", async () => {
  const { stderr } = await score(file(good, ...Array(13).fill("?"), good));
  expect(stderr.split("\n")).toHaveLength(13);
  expect(stderr).toContain("malformed lines, not scored: 13\n");
  expect(stderr).toContain("  and lines 12, 13, 14\n");
});

test("a benchmark's log of 10,000 trajectories is scored in less than 5 s", async () => {
  const runs = join(folder, "runs");
  const quiet = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const quieter = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const played = ["bench", "--policy", "gold", "--split", "all", "--repeat", "5", "--runs-dir", runs, "--name", "gold"];
  expect(await main(played)).toBe(0);
  quiet.mockRestore();
  quieter.mockRestore();
  const lines = readFileSync(join(runs, "gold", "trajectories", "rank-0.jsonl"), "utf8")
    .trim()
    .split("\n");
  const many = file(...Array.from({ length: 10_000 }, (_, index) => lines[index % lines.length]!));
  const begin = process.cpuUsage();
  const { code, rows } = await score(many);
  const { user, system } = process.cpuUsage(begin);
  console.log(`10,000 trajectories scored in ${Math.round((user + system) / 1000)} ms of processor time`);
  expect([code, rows.length, new Set(rows.map(({ reward }) => reward))]).toEqual([0, 10_000, new Set([1])]);
  expect((user + system) / 1e6).toBeLessThan(5); // processor time: others may be at work on the machine
}, 120_000);
