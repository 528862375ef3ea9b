import { hasPlaceholder, type KeywordMode } from "./placeholders.ts";
import { type PrmOptions, type ProcessScore, processScore, SCORE_BOUND } from "./process-score.ts";
import { type ActionRecord, THINK_TOOLS } from "./records.ts";
import type { PrmSample } from "./samples.ts";

// Whether process scores say something about stored trajectories: the measures of airline.md 8.7.

/** Least spread of the scores within a task that a group can learn from. */
export const MIN_GROUP_STD = 0.02;
/** Most of the scores that may lie at the bounds of the clip. */
export const MAX_CLIPPED_SHARE = 0.05;
/** Records from which on a trajectory counts as long. */
export const LONG = 15;
/** Records of the shortest success there is. */
const SHORT = 2;

/** Means are null where no trajectory is of the kind. */
export interface PrmReport {
  trajectories: number;
  tasks: number;
  /** Mean score of successes minus that of failures. */
  separation: number | null;
  success_mean: number | null;
  failure_mean: number | null;
  /** Mean over the tasks of the population standard deviation of their scores. */
  intra_group_std: number | null;
  /** Mean score of trajectories with a placeholder or an immediate repeat. */
  bad_behaviour_mean: number | null;
  bad_behaviour: number;
  /** Mean scores by the number of records: "1", "2", "3-14", "15+". */
  by_records: Record<string, number | null>;
  /** Mean score of successes of two records, and of failures of 15 or more. */
  short_success_mean: number | null;
  long_failure_mean: number | null;
  /** Share of the scores at a bound of the clip. */
  clipped_share: number | null;
  /** How often each rule fired, and what it added up to. */
  rules: Record<string, { fired: number; total: number }>;
  /** What an acceptable scorer has, and whether these scores do; null: nothing to judge it by. */
  accepted: { separates: boolean | null; spreads: boolean | null; rarely_clips: boolean | null };
}

/** The measures of process scores over stored trajectories, of any number of tasks. */
export function validatePrm(samples: readonly PrmSample[], options: PrmOptions = {}): PrmReport {
  const mode = options.keyword_mode ?? "substring";
  const scored = samples.map((sample) => ({ ...sample, ...processScore(sample.actions, options) }));
  const scoresOf = (fits: (sample: (typeof scored)[number]) => boolean) =>
    mean(scored.filter(fits).map((s) => s.score));
  const count = ({ actions }: PrmSample) => actions.length;
  const success_mean = scoresOf(({ success }) => success);
  const failure_mean = scoresOf(({ success }) => !success);
  const separation = success_mean === null || failure_mean === null ? null : success_mean - failure_mean;
  const bad = scored.filter(({ actions }) => behavesBadly(actions, mode));
  const intra_group_std = groupStd(scored);
  const clipped_share = mean(scored.map(({ score }) => (Math.abs(score) >= SCORE_BOUND ? 1 : 0)));
  return {
    trajectories: samples.length,
    tasks: new Set(samples.map(({ task_id }) => task_id)).size,
    separation,
    success_mean,
    failure_mean,
    intra_group_std,
    bad_behaviour_mean: mean(bad.map(({ score }) => score)),
    bad_behaviour: bad.length,
    by_records: {
      "1": scoresOf((sample) => count(sample) === 1),
      "2": scoresOf((sample) => count(sample) === 2),
      [`3-${LONG - 1}`]: scoresOf((sample) => count(sample) > 2 && count(sample) < LONG),
      [`${LONG}+`]: scoresOf((sample) => count(sample) >= LONG),
    },
    short_success_mean: scoresOf((sample) => isShortSuccess(sample)),
    long_failure_mean: scoresOf((sample) => isLongFailure(sample)),
    clipped_share,
    rules: ruleCounts(scored),
    accepted: {
      separates: separation === null ? null : separation > 0,
      spreads: intra_group_std === null ? null : intra_group_std >= MIN_GROUP_STD,
      rarely_clips: clipped_share === null ? null : clipped_share < MAX_CLIPPED_SHARE,
    },
  };
}

export const isShortSuccess = ({ success, actions }: PrmSample): boolean => success && actions.length === SHORT;
export const isLongFailure = ({ success, actions }: PrmSample): boolean => !success && actions.length >= LONG;

/** A made-up argument, or the very call that was just made. */
export function behavesBadly(actions: readonly ActionRecord[], mode: KeywordMode = "substring"): boolean {
  return actions.some((action, index) => {
    if (THINK_TOOLS.has(action.tool)) return false;
    const previous = actions[index - 1];
    const repeats = previous?.tool === action.tool && previous.param_str === action.param_str;
    return repeats || hasPlaceholder(action.parameters, mode);
  });
}

/** Mean over tasks of the population standard deviation of their scores; a task played once has 0. null: no task. */
export function groupStd(scored: readonly { task_id: string; score: number }[]): number | null {
  const groups = new Map<string, number[]>();
  for (const { task_id, score } of scored) groups.set(task_id, [...(groups.get(task_id) ?? []), score]);
  return mean([...groups.values()].map(populationStd));
}

function populationStd(scores: readonly number[]): number {
  const middle = mean(scores) ?? 0;
  return Math.sqrt(mean(scores.map((score) => (score - middle) ** 2)) ?? 0);
}

/** null: of nothing. */
export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function ruleCounts(scored: readonly ProcessScore[]): PrmReport["rules"] {
  const rules: PrmReport["rules"] = {};
  for (const { fired } of scored)
    for (const { id, score } of fired) {
      const { fired: times, total } = rules[id] ?? { fired: 0, total: 0 };
      rules[id] = { fired: times + 1, total: total + score };
    }
  return Object.fromEntries(Object.entries(rules).sort(([a], [b]) => (a < b ? -1 : 1)));
}
