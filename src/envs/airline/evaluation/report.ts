import { UserError } from "../../../core/errors.ts";
import { passAt, passHat } from "../../../core/pass.ts";
import type { Trajectory } from "../../../core/trajectory.ts";
import { summariseEpisode } from "./episode.ts";
import {
  type ErrorRateKind,
  type EvalReport,
  type EvalSummary,
  type EvalTask,
  type EvalTrajectory,
  type GroupName,
  groupNames,
  type ReportRun,
  type SplitEvalReport,
  type TaskGroups,
} from "./schema.ts";
import { mean, meanError, medianError, quantile, ratio, ratioError } from "./statistics.ts";

// One policy's trajectories as the two report files (airline.md 5, 10.5).
//
// Episodes that the environment or an endpoint failed are never scored as 0: they leave n, and count in the error rate by
// trajectory alone. Every ± is one standard error over tasks.

/** What a report is made of besides trajectories. */
export interface ReportSettings {
  run: ReportRun;
  groups: TaskGroups;
  error_rate_kind?: ErrorRateKind;
  turn_token_limit?: number | null;
  /** For each trajectory, in order, the tokens of each of its messages; a text says why they were not counted. */
  turn_tokens: readonly (readonly number[])[] | string;
}

/**
 * The report of one policy's trajectories, N of a task.
 * @throws UserError where a (task, trial) is there twice or a trajectory is of another family
 */
export function evalReport(trajectories: readonly Trajectory[], settings: ReportSettings): EvalReport {
  const { run, groups, turn_tokens, error_rate_kind = "trajectory", turn_token_limit = null } = settings;
  const counts = typeof turn_tokens === "string" ? null : turn_tokens;
  const groupOf = new Map(
    groupNames.flatMap((name) => (groups[name] ?? []).map((id): [string, GroupName] => [id, name])),
  );
  const byTask = new Map<string, { trajectory: Trajectory; summary: EvalTrajectory }[]>();
  for (const [index, trajectory] of trajectories.entries()) {
    const own = byTask.get(trajectory.task_id) ?? [];
    if (own.some(({ summary }) => summary.trial === trajectory.trial))
      throw new UserError(`The log has task '${trajectory.task_id}', trial ${trajectory.trial} more than once.`);
    own.push({ trajectory, summary: summariseEpisode(trajectory, counts && counts[index]!) });
    byTask.set(trajectory.task_id, own);
  }
  const tasks = [...byTask].map(([task_id, own]): EvalTask => {
    const all = own.map(({ summary }) => summary).sort((a, b) => a.trial - b.trial);
    const judged = all.filter(isJudged);
    const [n, c] = [judged.length, judged.filter(({ success }) => success).length];
    const needs = own.map(({ trajectory }) => trajectory.metrics.needs_action).find((it) => typeof it === "boolean");
    return {
      task_id,
      group: groupOf.get(task_id) ?? null,
      n,
      c,
      pass_hat_1: passHat(n, c, 1),
      avg_turns: mean(judged.map(({ turns }) => turns)),
      avg_tool_calls: mean(judged.map(({ tool_calls }) => tool_calls)),
      needs_action: typeof needs === "boolean" ? needs : null,
      trajectories: all,
    };
  });
  const header = { run, error_rate_kind, turn_token_limit };
  const missing = typeof turn_tokens === "string" ? turn_tokens : null;
  return { ...header, overall: summarise(tasks, { error_rate_kind, turn_token_limit, missing }), tasks };
}

/** The same by groups of tasks, with the generalisation pass^1. */
export function splitEvalReport(report: EvalReport, groups: TaskGroups): SplitEvalReport {
  const { run, error_rate_kind, turn_token_limit, overall, tasks } = report;
  const rules = { error_rate_kind, turn_token_limit, missing: overall.turn_tokens.missing };
  const of = (name: GroupName) =>
    summarise(
      tasks.filter(({ group }) => group === name),
      rules,
    );
  const summaries = { covered_seen: of("covered_seen"), uncovered_seen: of("uncovered_seen"), unseen: of("unseen") };
  return {
    ...{ run, error_rate_kind, turn_token_limit },
    ...summaries,
    overall,
    generalisation: generalisation([
      { size: groups.uncovered_seen?.length ?? null, ...summaries.uncovered_seen },
      { size: groups.unseen?.length ?? null, ...summaries.unseen },
    ]),
  };
}

interface WeightedGroup {
  /** Tasks of the group, played or not; null: not known. */
  size: number | null;
  pass_hat_1: number | null;
  pass_hat_1_se: number | null;
}

/**
 * pass^1 on what no demonstration covers: (uncovered_seen × its size + unseen × its size) / both sizes. null where a group
 * that has tasks was not played, or a group is not known.
 */
export function generalisation(
  groups: readonly [uncovered_seen: WeightedGroup, unseen: WeightedGroup],
): SplitEvalReport["generalisation"] {
  const weights = { uncovered_seen: groups[0].size, unseen: groups[1].size };
  const there = groups.flatMap(({ size, ...figures }) => (size === 0 ? [] : [{ size, ...figures }]));
  const total = there.reduce((sum, { size }) => sum + (size ?? 0), 0);
  const parts = there.flatMap(({ size, pass_hat_1: value, pass_hat_1_se: se }) =>
    size === null || value === null ? [] : [{ share: size / total, value, se }],
  );
  if (parts.length === 0 || parts.length < there.length) return { pass_hat_1: null, pass_hat_1_se: null, weights };
  const errors = parts.flatMap(({ share, se }) => (se === null ? [] : [share * se]));
  return {
    pass_hat_1: parts.reduce((sum, { share, value }) => sum + share * value, 0),
    pass_hat_1_se: errors.length < parts.length ? null : Math.hypot(...errors),
    weights,
  };
}

// ----------------------------------------------------------------------------------------------------------- figures

const isJudged = ({ reward }: EvalTrajectory): boolean => reward !== null;

interface SummaryRules {
  error_rate_kind: ErrorRateKind;
  turn_token_limit: number | null;
  missing: string | null;
}

function summarise(
  tasks: readonly EvalTask[],
  { error_rate_kind, turn_token_limit, missing }: SummaryRules,
): EvalSummary {
  const played = tasks.filter(({ n }) => n > 0);
  const all = tasks.flatMap(({ trajectories }) => trajectories);
  const judged = all.filter(isJudged);
  const rates = played.map(({ n, c }) => c / n);
  const over = (chance: typeof passHat, k: number) => mean(played.flatMap(({ n, c }) => chance(n, c, k) ?? []));
  const byTrajectory = tasks.map(({ trajectories }) => ({
    sum: trajectories.filter(({ error }) => error !== null).length,
    count: trajectories.length,
  }));
  const byCall = tasks.map(({ trajectories }) => ({
    sum: trajectories.reduce((sum, { call_errors }) => sum + call_errors, 0),
    count: trajectories.reduce((sum, { tool_calls }) => sum + tool_calls, 0),
  }));
  const chosen = error_rate_kind === "call" ? byCall : byTrajectory;
  const told = tasks.flatMap(({ needs_action }) => needs_action ?? []);
  const acting = played.filter(({ needs_action }) => needs_action === true);
  const strict = played.flatMap(
    ({ trajectories }) =>
      mean(
        trajectories
          .filter(isJudged)
          .flatMap((item) => item.strict ?? [])
          .map(Number),
      ) ?? [],
  );
  return {
    tasks: tasks.length,
    episodes: judged.length,
    invalid: all.length - judged.length,
    pass_hat_1: over(passHat, 1),
    pass_hat_1_se: meanError(rates),
    pass_hat_2: over(passHat, 2),
    pass_hat_4: over(passHat, 4),
    pass_at_1: over(passAt, 1),
    pass_at_2: over(passAt, 2),
    pass_at_4: over(passAt, 4),
    any_success: mean(played.map(({ c }) => (c > 0 ? 1 : 0))),
    error_rate: ratio(chosen),
    error_rate_se: ratioError(chosen),
    error_rate_trajectory: ratio(byTrajectory),
    error_rate_call: ratio(byCall),
    turn_tokens: tokensPerTurn(tasks, turn_token_limit, missing),
    avg_turns: mean(judged.map(({ turns }) => turns)),
    avg_tool_calls: mean(judged.map(({ tool_calls }) => tool_calls)),
    avg_process: mean(judged.flatMap(({ process }) => process ?? [])),
    baseline_do_nothing: mean(told.map((needs) => (needs ? 0 : 1))),
    pass_hat_1_need_action: mean(acting.map(({ n, c }) => c / n)),
    tasks_need_action: acting.length,
    pass_hat_1_strict: mean(strict),
    failures: countClasses(all),
  };
}

function tokensPerTurn(
  tasks: readonly EvalTask[],
  limit: number | null,
  missing: string | null,
): EvalSummary["turn_tokens"] {
  const byTask = tasks.map(({ trajectories }) => trajectories.flatMap(({ turn_tokens }) => turn_tokens ?? []));
  const all = byTask.flat();
  return {
    p50: quantile(all, 0.5),
    p50_se: medianError(byTask),
    mean: mean(all),
    p95: quantile(all, 0.95),
    share_at_limit: limit === null ? null : mean(all.map((tokens) => (tokens >= limit ? 1 : 0))),
    messages: all.length,
    missing: missing ?? (all.length === 0 ? "there are no messages" : null),
  };
}

function countClasses(all: readonly EvalTrajectory[]): EvalSummary["failures"] {
  const counts: EvalSummary["failures"] = {};
  for (const { failure } of all) if (failure) counts[failure] = (counts[failure] ?? 0) + 1;
  return counts;
}

/** Δstability: pass^1 at one step minus that at an earlier one; null where one of the two is not there (airline.md 10.5). */
export function stabilityDelta(
  points: readonly { step: number | null; pass_hat_1: number | null }[],
  [from, to]: readonly [from: number, to: number] = [150, 300],
): number | null {
  const at = (step: number) => points.find((point) => point.step === step)?.pass_hat_1 ?? null;
  const [before, after] = [at(from), at(to)];
  return before === null || after === null ? null : after - before;
}
