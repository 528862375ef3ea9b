import type { BenchmarkRules } from "../src/core/measure.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { textTable } from "../src/report.ts";
import { bootstrap95, type Interval, mean } from "./pass.ts";
import { judge } from "./run.ts";
import { interval, number } from "./tables.ts";

// Several policies on the same tasks: means of each, and the difference from the first, unit by unit. A unit is what
// belongs together, as all rounds of a question; the bootstrap draws units.

export interface ComparedPolicy {
  label: string;
  model: string;
  trajectories: readonly Trajectory[];
}

export interface PolicyFigures {
  label: string;
  model: string;
  episodes: number;
  /** Failed in the environment: they count nowhere. */
  invalid: number;
  /** Mean over units. */
  mean_reward: number | null;
  success: number | null;
  /** Mean over the policy's tokens of log π − log π_ref, nats; null: there is no second model. */
  kl: number | null;
  /** The family's own, by name. */
  measures: Record<string, number | null>;
}

export interface UnitRow {
  unit: string;
  /** Mean reward of each policy, in their order; null: none of its episodes is valid. */
  rewards: (number | null)[];
  /** From the first policy. */
  differences: (number | null)[];
}

export interface PolicyDifference {
  label: string;
  against: string;
  /** Both have valid episodes of them. */
  units: number;
  difference: number | null;
  /** 95 %, paired bootstrap over units. */
  interval: Interval | null;
}

export interface PolicyComparison {
  policies: PolicyFigures[];
  units: UnitRow[];
  differences: PolicyDifference[];
}

interface Settings {
  rules: BenchmarkRules | null;
  /** By label. */
  kls: ReadonlyMap<string, number>;
  seed: number;
}

/** Compares every policy with the first. The same logs and seed give the same numbers. */
export function comparePolicies(policies: readonly ComparedPolicy[], { rules, kls, seed }: Settings): PolicyComparison {
  const unitOf = rules?.unit ?? ((task_id: string) => task_id);
  const byUnit = policies.map(({ trajectories }) => rewardsByUnit(trajectories, unitOf));
  const names = [
    ...new Set(policies.flatMap(({ trajectories }) => trajectories.map(({ task_id }) => unitOf(task_id)))),
  ];
  const units = names.sort().map((unit) => {
    const rewards = byUnit.map((rewards) => mean(rewards.get(unit) ?? []));
    return { unit, rewards, differences: rewards.map((reward) => less(reward, rewards[0] ?? null)) };
  });
  const [first] = policies;
  return {
    policies: policies.map(({ label, model, trajectories }, place) => {
      const valid = trajectories.filter(({ reward }) => reward !== null);
      const { measures } = judge(trajectories, { rules });
      return {
        label,
        model,
        episodes: valid.length,
        invalid: trajectories.length - valid.length,
        mean_reward: mean(units.flatMap(({ rewards }) => rewards[place] ?? [])),
        success: mean(valid.map(({ success }) => Number(success))),
        kl: kls.get(label) ?? null,
        measures: Object.fromEntries((rules?.measures ?? []).map(({ name }) => [name, measures[name]?.value ?? null])),
      };
    }),
    units,
    differences: policies.slice(1).map(({ label }, index) => {
      const found = units.flatMap(({ differences }) => differences[index + 1] ?? []);
      return {
        label,
        against: first!.label,
        units: found.length,
        difference: mean(found),
        interval: bootstrap95(found, seed),
      };
    }),
  };
}

function rewardsByUnit(trajectories: readonly Trajectory[], unitOf: (task_id: string) => string) {
  const rewards = new Map<string, number[]>();
  for (const { task_id, reward } of trajectories) {
    if (reward === null) continue;
    const unit = unitOf(task_id);
    rewards.set(unit, [...(rewards.get(unit) ?? []), reward]);
  }
  return rewards;
}

const less = (value: number | null, other: number | null): number | null =>
  value === null || other === null ? null : value - other;

interface Shown extends PolicyComparison {
  env: string;
  split: string;
  temperature: number;
  repeat: number;
  seed: number;
}

/** The same tables for a terminal and as Markdown. */
export function comparisonTables(shown: Shown): { text: string; markdown: string } {
  const { env, split, temperature, repeat, seed, policies, units, differences } = shown;
  const names = Object.keys(policies[0]?.measures ?? {});
  const overall = [
    ["policy", "reward", "success", "KL", ...names, "episodes", "failed"],
    ...policies.map(({ label, mean_reward, success, kl, measures, episodes, invalid }) => [
      label,
      number(mean_reward),
      number(success),
      number(kl),
      ...names.map((name) => number(measures[name] ?? null)),
      String(episodes),
      String(invalid),
    ]),
  ];
  const gains = [
    ["policy", "against", "units", "difference", "95 %"],
    ...differences.map(({ label, against, units, difference, interval: range }) => [
      label,
      against,
      String(units),
      number(difference),
      interval(range),
    ]),
  ];
  const rows = [
    ["unit", ...policies.map(({ label }) => label), ...policies.slice(1).map(({ label }) => `${label} − first`)],
    ...units.map(({ unit, rewards, differences }) => [
      unit,
      ...rewards.map((reward) => number(reward)),
      ...differences.slice(1).map((difference) => number(difference)),
    ]),
  ];
  const head = `${env}, ${split}: temperature ${temperature}, ${repeat} trial${repeat === 1 ? "" : "s"} a task, seed ${seed}`;
  const tables = differences.length > 0 ? [overall, gains, rows] : [overall, rows];
  return {
    text: [head, ...tables.map(textTable)].join("\n\n"),
    markdown: `${[`# ${head}`, ...tables.map(markdownTable)].join("\n\n")}\n`,
  };
}

function markdownTable(rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const [head = [], ...body] = rows;
  return [line(head), line(head.map((_, column) => (column === 0 ? "---" : "---:"))), ...body.map(line)].join("\n");
}
