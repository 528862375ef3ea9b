// Whether a reward tells trying from not trying: gates on the means of policies that don't, against those of `gold`.
import { type BaselineRow, type GateBounds, REFERENCE_POLICY } from "../src/core/baselines.ts";
import { mean } from "./pass.ts";

export interface PolicySummary {
  policy: string;
  /** Plays; a policy that draws has several of each task. */
  samples: number;
  tasks: number;
  mean: number;
  /** Of the population, over all plays. */
  std: number;
  min: number;
  max: number;
  /** Share of the plays that ended by the task's own rules. */
  finish_rate: number;
  /** Means of the family's figures over the plays that have them; null: none has. */
  figures: Record<string, number | null>;
  /** Mean of `gold` less this mean; null for `gold` itself. */
  gap: number | null;
  /** By category. */
  categories: Record<string, CategorySummary>;
}

export interface CategorySummary {
  /** Plays that count; those that did what `gold` does are left out. */
  samples: number;
  excluded: number;
  /** Over the plays that count; null where none does: there is nothing to hold against the policy. */
  mean: number | null;
  gap: number | null;
}

export interface Breach {
  gate: "aggregate" | "category";
  policy: string;
  /** null: the gate over all tasks. */
  category: string | null;
  /** null: there is no figure to hold against the bound, which is a breach too. */
  gap: number | null;
  bound: number;
  /** A sentence with the figures. */
  message: string;
}

export interface GateResult {
  passed: boolean;
  breaches: Breach[];
  /** `gold` first. */
  policies: PolicySummary[];
  categories: string[];
}

/** 1 - 0.7 is not 0.3 in floats. */
const TOLERANCE = 1e-9;

/**
 * Sums the plays up and holds them against the bounds. A figure that is missing or no number is a breach, never a pass.
 * All figures are rounded to 6 decimals; gates compare before that.
 */
export function judgeBaselines(rows: readonly BaselineRow[], bounds: GateBounds): GateResult {
  const categories = [...new Set(rows.map(({ category }) => category))];
  const names = [...new Set([REFERENCE_POLICY, ...rows.map(({ policy }) => policy)])];
  const own = new Map(names.map((name) => [name, rows.filter(({ policy }) => policy === name)]));
  const reference = own.get(REFERENCE_POLICY)!;
  const breaches: Breach[] = [];

  /** The gap, held against its bound. */
  function gapOf(policy: string, category: string | null, weak: readonly BaselineRow[]): number | null {
    const good = reference.filter((row) => category === null || row.category === category);
    const goodMean = mean(good.map(({ reward }) => reward)) ?? Number.NaN;
    const weakMean = mean(weak.map(({ reward }) => reward)) ?? Number.NaN;
    const difference = goodMean - weakMean;
    const gap = Number.isFinite(difference) ? round(difference) : null;
    const bound = category === null ? bounds.aggregate : bounds.category;
    if (!(difference >= bound - TOLERANCE) || gap === null) {
      const where = category === null ? "over all tasks" : `in category ${category}`;
      const message =
        gap === null
          ? `${policy} ${where}: no gap to ${REFERENCE_POLICY} to hold against ${figure(bound)} ` +
            `(${REFERENCE_POLICY}: ${told(good, goodMean)}; ${policy}: ${told(weak, weakMean)}).`
          : `${policy} ${where}: ${figure(weakMean)} is ${figure(difference)} below the ${figure(goodMean)} of ` +
            `${REFERENCE_POLICY}; expected at least ${figure(bound)}.`;
      breaches.push({ gate: category === null ? "aggregate" : "category", policy, category, gap, bound, message });
    }
    return gap;
  }

  const policies = names.map((policy): PolicySummary => {
    const plays = own.get(policy)!;
    const isReference = policy === REFERENCE_POLICY;
    const rewards = plays.map(({ reward }) => reward);
    const average = mean(rewards) ?? Number.NaN;
    const summary = {
      policy,
      samples: plays.length,
      tasks: new Set(plays.map(({ task_id }) => task_id)).size,
      mean: round(average),
      std: round(Math.sqrt(mean(rewards.map((reward) => (reward - average) ** 2)) ?? Number.NaN)),
      min: round(Math.min(...rewards)),
      max: round(Math.max(...rewards)),
      finish_rate: round(mean(plays.map(({ finished }) => Number(finished))) ?? Number.NaN),
      figures: figuresOf(plays),
      gap: isReference ? null : gapOf(policy, null, plays),
    };
    const byCategory = categories.map((category): [string, CategorySummary] => {
      const all = plays.filter((row) => row.category === category);
      const counted = isReference ? all : all.filter(({ exact_reference }) => !exact_reference);
      const average = mean(counted.map(({ reward }) => reward));
      return [
        category,
        {
          samples: counted.length,
          excluded: all.length - counted.length,
          mean: average === null ? null : round(average),
          gap: isReference || counted.length === 0 ? null : gapOf(policy, category, counted),
        },
      ];
    });
    return { ...summary, categories: Object.fromEntries(byCategory) };
  });
  if (policies.length === 1) {
    const message = `No policy besides ${REFERENCE_POLICY} was played: there is nothing to tell it from.`;
    breaches.push({
      gate: "aggregate",
      policy: REFERENCE_POLICY,
      category: null,
      gap: null,
      bound: bounds.aggregate,
      message,
    });
  }
  return { passed: breaches.length === 0, breaches, policies, categories };
}

/** The plays of each weak policy that earn most: by reward, then by task id. */
export function topPlays(rows: readonly BaselineRow[], count: number): Record<string, BaselineRow[]> {
  const names = [...new Set(rows.map(({ policy }) => policy))].filter((policy) => policy !== REFERENCE_POLICY);
  return Object.fromEntries(
    names.map((name) => [
      name,
      rows
        .filter(({ policy, exact_reference }) => policy === name && !exact_reference)
        .sort((a, b) => b.reward - a.reward || (a.task_id < b.task_id ? -1 : 1))
        .filter((row, index, all) => all.findIndex(({ task_id }) => task_id === row.task_id) === index)
        .slice(0, count),
    ]),
  );
}

function figuresOf(plays: readonly BaselineRow[]): Record<string, number | null> {
  const names = new Set(plays.flatMap(({ figures }) => Object.keys(figures)));
  return Object.fromEntries(
    [...names].map((name) => {
      const average = mean(plays.flatMap(({ figures }) => (figures[name] == null ? [] : [Number(figures[name])])));
      return [name, average === null ? null : round(average)];
    }),
  );
}

function told(plays: readonly BaselineRow[], average: number): string {
  return plays.length === 0 ? "no plays" : `${plays.length} plays, mean ${average}`;
}

/** At least 4 decimals, as the tables have them, and more where a bound was missed by less. */
const figure = (value: number): string => {
  const [whole, decimals = ""] = String(round(value)).split(".");
  return `${whole}.${decimals.padEnd(4, "0")}`;
};

/** To 6 decimals, and never -0. */
const round = (value: number): number => Math.round(value * 1e6) / 1e6 + 0;
