import { PUBLISHED_TRIALS, type PublishedRun, publishedRuns, publishedSizes } from "./published.ts";
import { generalisation } from "./report.ts";
import { type EvalSummary, type GroupName, groupNames, type SplitEvalReport } from "./schema.ts";
import { binomialError } from "./statistics.ts";

// What follows from the published numbers, and how a report of ours stands beside them.

/** Half of the last digit that was printed. */
const ROUNDING = 0.0005;

/** Successes by group, recovered from the rounded shares; null: they are shares of no whole number of successes. */
export function recoveredCounts(run: PublishedRun): Record<GroupName, number> | null {
  const counts = groupNames.map((name): [GroupName, number, boolean] => {
    const trials = publishedSizes[name] * PUBLISHED_TRIALS;
    const successes = Math.round(run[name] * trials);
    return [name, successes, successes >= 0 && Math.abs(successes / trials - run[name]) <= ROUNDING + 1e-9];
  });
  if (!counts.every(([, , fits]) => fits)) return null;
  return Object.fromEntries(counts.map(([name, successes]) => [name, successes])) as Record<GroupName, number>;
}

/**
 * Generalisation pass^1 by the formula; null where a run's group values are of no evaluation.
 * @param from `printed`: the group values as they were published. `counts`: the whole numbers behind them, which two runs
 *   are compared by, since three digits are too few for a ratio.
 */
export function recomputedGeneralisation(run: PublishedRun, from: "printed" | "counts" = "printed"): number | null {
  const counts = recoveredCounts(run);
  if (run.kind !== "evaluation" || !counts) return null;
  const of = (name: "uncovered_seen" | "unseen") => ({
    size: publishedSizes[name],
    pass_hat_1: from === "printed" ? run[name] : counts[name] / (publishedSizes[name] * PUBLISHED_TRIALS),
    pass_hat_1_se: null,
  });
  return generalisation([of("uncovered_seen"), of("unseen")]).pass_hat_1;
}

/** Episodes behind a published overall value. */
export const PUBLISHED_EPISODES =
  PUBLISHED_TRIALS * Object.values(publishedSizes).reduce((sum, tasks) => sum + tasks, 0);

/** What a run's groups give for all tasks together; null where they are of no evaluation. */
export function overallOfGroups(run: PublishedRun): number | null {
  const counts = run.kind === "evaluation" ? recoveredCounts(run) : null;
  return counts && Object.values(counts).reduce((sum, count) => sum + count, 0) / PUBLISHED_EPISODES;
}

/** How far two published overall values lie apart, in standard errors of their difference. */
export function publishedZ(one: PublishedRun, other: PublishedRun): number {
  const errors = [one, other].map(({ overall }) => binomialError(overall, PUBLISHED_EPISODES));
  return (one.overall - other.overall) / Math.hypot(...errors);
}

/** @throws Error where nothing of the kind was published */
export function publishedRun(variant: PublishedRun["variant"], step: number | null): PublishedRun {
  const found = publishedRuns.find((run) => run.variant === variant && run.step === step);
  if (!found) throw new Error(`no published run of ${variant} at step ${step}`);
  return found;
}

/** Experiments of ours by the published name. */
const aliases: Record<string, PublishedRun["variant"]> = { prm_lite_lata: "joint" };

/** The published evaluation of the same experiment and step; null: there is none. */
export function publishedCounterpart(variant: string | null, step: number | null): PublishedRun | null {
  const name = variant === null ? null : (aliases[variant] ?? variant);
  return publishedRuns.find((run) => run.variant === name && run.step === step && run.kind === "evaluation") ?? null;
}

/** A report beside what was published: a line each, numbers of ours first. */
export function compareWithPublished(report: SplitEvalReport, name: string): string[] {
  const { overall, generalisation: gained, run } = report;
  const base = publishedRun("base", null);
  const counterpart = publishedCounterpart(run.variant ?? name, run.step);
  const lines = [
    `${name}: overall ${shown(overall)}, any ${figure(overall.any_success)}, turns ${figure(overall.avg_turns, 2)}; ` +
      `base 7B as published ${figure(base.overall)}, any ${figure(base.any_success ?? null)}, turns ${figure(base.turns, 2)}.`,
    `${name}: doing nothing scores ${figure(overall.baseline_do_nothing)} on these tasks; ` +
      `pass^1 on the ${overall.tasks_need_action} that need an action ${figure(overall.pass_hat_1_need_action)}.`,
  ];
  if (counterpart)
    lines.push(
      `${name}: published ${counterpart.variant} at step ${counterpart.step}: overall ${figure(counterpart.overall)}, ` +
        `generalisation ${figure(recomputedGeneralisation(counterpart))} by the formula (ours ${figure(gained.pass_hat_1)}), ` +
        `errors ${figure(counterpart.error_rate)} (ours ${figure(overall.error_rate_trajectory)}).`,
    );
  return lines;
}

function shown({ pass_hat_1, pass_hat_1_se }: EvalSummary): string {
  return pass_hat_1_se === null ? figure(pass_hat_1) : `${figure(pass_hat_1)} ± ${figure(pass_hat_1_se)}`;
}

/** A number for people; n/a where there is none. */
export function figure(value: number | null, digits = 3): string {
  return value === null ? "n/a" : value.toFixed(digits);
}
