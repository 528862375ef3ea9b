import type { TaskSet } from "../src/core/env.ts";
import type { BenchmarkRules } from "../src/core/measure.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { textTable } from "../src/report.ts";
import { type Judgement, judge } from "./run.ts";

// How judgements are shown: a table for people, a line for machines.

export interface Labelled {
  label: string;
  judged: Judgement;
}

export const number = (value: number | null, digits = 3): string => (value === null ? "n/a" : value.toFixed(digits));
export const interval = (range: readonly (number | null)[] | null, digits = 3): string =>
  range ? `[${range.map((end) => (end === null ? "∞" : end.toFixed(digits))).join(", ")}]` : "n/a";

/** One row a judgement: pass^1 with its interval, pass^k, pass@k, reward. */
export function judgementTable(rows: readonly Labelled[]): string {
  const ks = Object.keys(rows[0]!.judged.pass_hat).filter((k) => k !== "1");
  return textTable([
    [
      "split",
      "tasks",
      "trials",
      "pass^1",
      "95 %",
      ...ks.map((k) => `pass^${k}`),
      ...ks.map((k) => `pass@${k}`),
      "reward",
      "turns",
    ],
    ...rows.map(({ label, judged }) => [
      label,
      String(judged.tasks),
      String(judged.trials),
      number(judged.pass_hat["1"] ?? null),
      interval(judged.pass_hat_1_interval),
      ...ks.map((k) => number(judged.pass_hat[k] ?? null)),
      ...ks.map((k) => number(judged.pass_at[k] ?? null)),
      number(judged.mean_reward),
      number(judged.mean_turns, 1),
    ]),
  ]);
}

/** One row a measure of the family, a column a judgement, each with its denominator. "" where it has none. */
export function measureTable(rows: readonly Labelled[], rules: BenchmarkRules | null): string {
  const names = rules?.measures.map(({ name }) => name) ?? [];
  if (names.length === 0) return "";
  return textTable([
    ["measure", ...rows.flatMap(({ label }) => [label, "episodes"])],
    ...names.map((name) => [
      name,
      ...rows.flatMap(({ judged }) => {
        const { value, episodes } = judged.measures[name]!;
        return [number(value), String(episodes)];
      }),
    ]),
  ]);
}

/** The line that machines read: design's fields first, then all that was judged. */
export function judgementLine(split: string, { by_task: _, ...judged }: Judgement): Record<string, unknown> {
  const { policy, env, tasks, trials, pass_hat, pass_at, ...rest } = judged;
  return { policy, env, split, tasks, trials, pass_hat, pass_at, ...rest };
}

/** Judges a log split by split. */
export function judgeSplits(
  sets: readonly TaskSet[],
  trajectories: readonly Trajectory[],
  trials: number,
  rules: BenchmarkRules | null = null,
): Labelled[] {
  return sets
    .filter(({ ids }) => ids.length > 0)
    .map((set) => {
      const ids = new Set(set.ids);
      const judged = judge(
        trajectories.filter(({ task_id }) => ids.has(task_id)),
        {
          expected: { task_ids: set.ids, trials },
          category: set.category,
          ks: [...new Set([1, 2, 3, trials])].sort((a, b) => a - b),
          rules,
        },
      );
      return { label: set.split, judged };
    });
}
