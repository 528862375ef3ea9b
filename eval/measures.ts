import { type BenchmarkRules, failureOf, type Measure } from "../src/core/measure.ts";
import { type Band, band } from "../src/core/rates.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { bootstrapMedian95, bootstrapRatio95, type Interval, median, type Ratio } from "./pass.ts";

// Everything that is told of a policy beside pass^k and reward: each figure with its denominator and a 95 % interval,
// the bootstrap over tasks. Episodes that failed in the environment count nowhere but in the failure shapes.

/** A mean over episodes. */
export interface Measured {
  /** null where the denominator is 0. */
  value: number | null;
  /** The denominator in words. */
  over: string;
  episodes: number;
  interval: Interval | null;
}

/** What all episodes took, failures too, for each one that succeeded. */
export interface CostPerSuccess {
  /** null: nothing succeeded, so no success has a price. */
  value: number | null;
  total: number;
  successes: number;
  /** The end above is null where it has no bound: too many resamples without a success. */
  interval: [low: number, high: number | null] | null;
}

export interface Median {
  value: number | null;
  episodes: number;
  interval: Interval | null;
}

export interface FailureShape {
  episodes: number;
  /** Of all episodes that did not succeed, those that failed in the environment too. */
  share: number;
  interval: Interval | null;
}

/** Tasks by success rate: floor below 0.2, ceiling above 0.8 (arxiv.md 6.1). */

export interface Measurements {
  /** By name: those that every environment has, then the family's own. */
  measures: Record<string, Measured>;
  cost_per_success: Record<"policy_tokens" | "tokens" | "turns" | "calls", CostPerSuccess>;
  /** Of turns. */
  median_turns: { of_successes: Median; of_failures: Median };
  /** How many did not succeed, and in what way. */
  failures: { episodes: number; shapes: Record<string, FailureShape> };
  /** How many tasks are in each; those without a valid trial are in none. */
  bands: Record<Band, number> & { tasks: number };
}

const EVERYWHERE: readonly Measure[] = [
  { name: "turns", over: "episodes", of: ({ turns }) => turns.length },
  { name: "calls", over: "episodes", of: callsOf },
  { name: "parse_error_rate", over: "episodes with a turn", of: shareOfTurns("parse_error") },
  { name: "tool_error_rate", over: "episodes with a turn", of: shareOfTurns("tool_error") },
  { name: "truncation_rate", over: "episodes", of: ({ ended_by }) => ended_by === "truncated" },
  { name: "prompt_tokens", over: "episodes", of: ({ tokens }) => tokens.prompt },
  { name: "policy_tokens", over: "episodes", of: ({ tokens }) => tokens.policy },
  { name: "observation_tokens", over: "episodes", of: ({ tokens }) => tokens.observation },
];

function callsOf({ turns }: Trajectory): number {
  return turns.filter(({ action }) => action !== null).length;
}

function shareOfTurns(kind: string): Measure["of"] {
  return ({ turns }) =>
    turns.length === 0 ? null : turns.filter(({ outcome }) => outcome.kind === kind).length / turns.length;
}

const COSTS: Record<keyof Measurements["cost_per_success"], (episode: Trajectory) => number> = {
  policy_tokens: ({ tokens }) => tokens.policy,
  tokens: ({ tokens }) => tokens.prompt + tokens.policy + tokens.observation,
  turns: ({ turns }) => turns.length,
  calls: callsOf,
};

/** @param byTask every trajectory of each task, those that failed in the environment too */
export function measureAll(byTask: readonly (readonly Trajectory[])[], rules: BenchmarkRules | null): Measurements {
  const valid = byTask.map((own) => own.filter(({ reward }) => reward !== null));
  const failed = byTask.map((own) => own.filter(({ success }) => !success));
  const turns = (success: boolean) =>
    medianOf(valid.map((own) => own.filter((episode) => episode.success === success).map((item) => item.turns.length)));
  return {
    measures: Object.fromEntries(
      [...EVERYWHERE, ...(rules?.measures ?? [])].map((measure) => [measure.name, meanOf(measure, valid)]),
    ),
    cost_per_success: Object.fromEntries(
      Object.entries(COSTS).map(([name, cost]) => [name, costOf(cost, valid)]),
    ) as Measurements["cost_per_success"],
    median_turns: { of_successes: turns(true), of_failures: turns(false) },
    failures: { episodes: failed.flat().length, shapes: shapesOf(failed, rules?.failure ?? failureOf) },
    bands: bandsOf(valid),
  };
}

function meanOf({ over, of }: Measure, byTask: readonly (readonly Trajectory[])[]): Measured {
  const parts = byTask.map((own) => ratio(own.flatMap((episode) => of(episode) ?? []).map(Number)));
  const { sum, count } = total(parts);
  return { value: count === 0 ? null : sum / count, over, episodes: count, interval: bootstrapRatio95(parts) };
}

function costOf(cost: (episode: Trajectory) => number, byTask: readonly (readonly Trajectory[])[]): CostPerSuccess {
  const parts = byTask.map((own) => ({
    sum: ratio(own.map(cost)).sum,
    count: own.filter(({ success }) => success).length,
  }));
  const { sum, count } = total(parts);
  const range = bootstrapRatio95(parts);
  return {
    value: count === 0 ? null : sum / count,
    total: sum,
    successes: count,
    interval: range && Number.isFinite(range[0]) ? [range[0], Number.isFinite(range[1]) ? range[1] : null] : null,
  };
}

function medianOf(byTask: readonly (readonly number[])[]): Median {
  const all = byTask.flat();
  return { value: median(all), episodes: all.length, interval: bootstrapMedian95(byTask) };
}

function shapesOf(
  failed: readonly (readonly Trajectory[])[],
  shape: (episode: Trajectory) => string,
): Record<string, FailureShape> {
  const named = failed.map((own) => own.map(shape));
  const all = named.flat();
  return Object.fromEntries(
    [...new Set(all)].sort().map((name) => {
      const parts = named.map((own) => ratio(own.map((item) => Number(item === name))));
      const episodes = total(parts).sum;
      return [name, { episodes, share: episodes / all.length, interval: bootstrapRatio95(parts) }];
    }),
  );
}

function bandsOf(valid: readonly (readonly Trajectory[])[]): Measurements["bands"] {
  const bands = { floor: 0, middle: 0, ceiling: 0, tasks: 0 };
  for (const own of valid) {
    if (own.length === 0) continue;
    bands[band(own.filter(({ success }) => success).length / own.length)]++;
    bands.tasks++;
  }
  return bands;
}

const ratio = (values: readonly number[]): Ratio => ({
  sum: values.reduce((sum, value) => sum + value, 0),
  count: values.length,
});

const total = (parts: readonly Ratio[]): Ratio => ({
  sum: parts.reduce((sum, part) => sum + part.sum, 0),
  count: parts.reduce((sum, part) => sum + part.count, 0),
});
