import type { KeywordMode } from "./placeholders.ts";
import { scoreSteps } from "./process-score.ts";
import { type PrmWeights, prmWeights } from "./rules.ts";
import type { PrmSample } from "./samples.ts";
import { readSteps } from "./steps.ts";
import { behavesBadly, groupStd, isLongFailure, isShortSuccess, mean } from "./validate.ts";

// The search that chose the weights, over stored trajectories (airline.md 8.7): a grid, and a finer one around its best.

type Grid = Partial<Record<keyof PrmWeights, readonly number[]>>;

/** All combinations are tried. */
const firstGrid: Grid = {
  think: [0.05, 0.03, 0.02, 0.01],
  implicit_medium: [0.03, 0.02, 0.01, 0],
  implicit_long: [0.01, 0],
  length_free: [Number.POSITIVE_INFINITY, 12, 10, 8], // the first: off
  length: [0, -0.005, -0.01],
};

/** All combinations are tried with each of the best of the first grid. */
const secondGrid: Grid = {
  chain_write: [0.08, 0.06, 0.04],
  recovery: [0.05, 0.04, 0.03],
  read_diversity: [0.03, 0.02, 0.01],
  no_reasoning: [-0.03, -0.05],
};

const BEST = 3;

/** One choice of weights and what it is worth. */
export interface PrmCandidate {
  weights: PrmWeights;
  objective: number;
  /** The objective's four terms before their factors; 0 where no trajectory is of the kind. */
  terms: { group_std: number; bad_behaviour: number; short_over_long: number; short_success: number };
}

export interface PrmSearch {
  tried: number;
  best: PrmCandidate[];
  /** What the weights in use are worth on the same trajectories. */
  current: PrmCandidate;
}

/**
 * Searches for weights whose scores differ within a task, are low for bad behaviour, and put a short success over a long
 * failure. Deterministic: of equal candidates the one tried first wins.
 */
export function searchPrm(samples: readonly PrmSample[], options: { keyword_mode?: KeywordMode } = {}): PrmSearch {
  const mode = options.keyword_mode ?? "substring";
  const read = samples.map((sample) => ({
    task_id: sample.task_id,
    steps: readSteps(sample.actions, mode),
    bad: behavesBadly(sample.actions, mode),
    short: isShortSuccess(sample),
    long: isLongFailure(sample),
  }));

  function judge(weights: PrmWeights): PrmCandidate {
    const scored = read.map((sample) => ({ ...sample, score: scoreSteps(sample.steps, weights).score }));
    const meanOf = (fits: (sample: (typeof scored)[number]) => boolean) =>
      mean(scored.filter(fits).map(({ score }) => score)) ?? 0;
    const short_success = meanOf(({ short }) => short);
    const terms = {
      group_std: groupStd(scored) ?? 0,
      bad_behaviour: meanOf(({ bad }) => bad),
      short_over_long: short_success - meanOf(({ long }) => long),
      short_success,
    };
    const objective =
      2 * terms.group_std - 1.5 * terms.bad_behaviour + terms.short_over_long + 0.5 * terms.short_success;
    return { weights, objective, terms };
  }

  const first = combinations(firstGrid).map((changes) => judge({ ...prmWeights, ...changes }));
  const around = best(first).flatMap(({ weights }) =>
    combinations(secondGrid).map((changes) => judge({ ...weights, ...changes })),
  );
  return { tried: first.length + around.length, best: best(around), current: judge(prmWeights) };
}

/** The best few, the best first; sorting is stable. */
function best(candidates: readonly PrmCandidate[]): PrmCandidate[] {
  return [...candidates].sort((a, b) => b.objective - a.objective).slice(0, BEST);
}

function combinations(grid: Grid): Partial<PrmWeights>[] {
  return Object.entries(grid).reduce<Partial<PrmWeights>[]>(
    (found, [name, values]) => found.flatMap((chosen) => values.map((value) => ({ ...chosen, [name]: value }))),
    [{}],
  );
}
