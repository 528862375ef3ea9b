import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { summarizeRewards, writeRewardSummary } from "./reward-summary.ts";

const folder = mkdtempSync(join(tmpdir(), "reward-summary-"));
let files = 0;

type Row = [task_id: string, policy_step: number, seed: number, reward: number | null];

const lineOf = ([task_id, policy_step, seed, reward]: Row) =>
  `${JSON.stringify({ task_id, policy_step, seed, reward, turns: [] })}\n`;

function logOf(...rows: Row[]): string {
  const path = join(folder, `${files++}.jsonl`);
  writeFileSync(path, rows.map(lineOf).join(""));
  return path;
}

test("per task: samples, groups, rewards, spread within groups", async () => {
  const log = logOf(
    ["a", 0, 1, 0],
    ["a", 0, 1, 1],
    ["a", 0, 2, 0.5],
    ["a", 0, 2, 0.5],
    ["a", 1, 1, 0.25], // the same seed at another step: another group
    ["a", 1, 1, null],
    ["b", 1, 3, 0.3],
    ["b", 1, 3, 0.1 + 0.2], // float noise
    ["c", 1, 4, null],
    ["c", 1, 4, null],
  );
  const { tasks, ...totals } = await summarizeRewards([log]);
  expect(totals).toEqual({ samples: 10, groups: 5, informative_groups: 1, unreadable_lines: 0 });
  expect(Object.keys(tasks)).toEqual(["a", "b", "c"]);
  expect(tasks.a).toEqual({
    sample_count: 6,
    invalid_count: 1,
    group_count: 3,
    mean_reward: 0.45,
    min_reward: 0,
    max_reward: 1,
    mean_group_std: expect.closeTo(Math.SQRT1_2 / 3, 12),
    zero_std_fraction: expect.closeTo(2 / 3, 12),
    informative_count: 1,
    informative_fraction: expect.closeTo(1 / 3, 12),
  });
  expect(tasks.b).toMatchObject({ zero_std_fraction: 1, informative_count: 0, group_count: 1 });
  expect(tasks.c).toMatchObject({ invalid_count: 2, mean_reward: null, min_reward: null, mean_group_std: 0 });
});

test("a group may lie in the logs of two processes, in any order", async () => {
  const rows = fc.array(
    fc.tuple(
      fc.constantFrom("a", "b"),
      fc.integer({ min: 0, max: 2 }),
      fc.integer({ min: 0, max: 2 }),
      fc.option(fc.constantFrom(0, 0.5, 1)),
    ),
    { maxLength: 30 },
  );
  await fc.assert(
    fc.asyncProperty(rows, fc.nat(30), async (all, cut) => {
      const whole = await summarizeRewards([logOf(...all)]);
      expect(await summarizeRewards([logOf(...all.slice(cut)), logOf(...all.slice(0, cut))])).toEqual({
        ...whole,
        tasks: Object.fromEntries(
          Object.entries(whole.tasks).map(([id, task]) => [
            id,
            {
              ...task,
              mean_reward: task.mean_reward === null ? null : expect.closeTo(task.mean_reward, 9),
              mean_group_std: expect.closeTo(task.mean_group_std, 9),
            },
          ]),
        ),
      });
    }),
    { numRuns: 25 },
  );
});

test("a log whose writer was killed is read as far as it goes; a run without any has an empty summary", async () => {
  const dir = join(folder, "killed");
  mkdirSync(join(dir, "trajectories"), { recursive: true });
  writeFileSync(join(dir, "trajectories", "rank-0.jsonl"), `${lineOf(["a", 0, 1, 1])}{"task_id": "a", "se`);
  writeFileSync(join(dir, "trajectories", "rank-1.jsonl"), lineOf(["a", 0, 1, 0]));
  await writeRewardSummary(dir);
  expect(JSON.parse(readFileSync(join(dir, "reward_probe_summary.json"), "utf8"))).toMatchObject({
    samples: 2,
    unreadable_lines: 1,
    tasks: { a: { group_count: 1, informative_count: 1 } },
  });
  expect(await writeRewardSummary(join(folder, "none"))).toMatchObject({ samples: 0, groups: 0, tasks: {} });
});
