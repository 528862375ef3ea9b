import { z } from "zod";

// The two files that a benchmark of this family leaves beside its log (airline.md 10.5). They are read back for ablation
// tables and plots, so everything shown there stands in them.

export const EVAL_REPORT = "eval_report.json";
export const SPLIT_EVAL_REPORT = "split_eval_report.json";

const rate = z.number().min(0).max(1);
const count = z.int().nonnegative();

/** First match of 10.5 decides. */
export const failureClasses = [
  ...["EXCEPTION", "TIMEOUT_OR_LOOP", "NO_ASSISTANT_RESPONSE", "MODEL_REFUSED_OR_GAVEUP", "TOOL_CALL_ERROR"],
  ...["LONG_HORIZON_DRIFT", "UNKNOWN_FAILURE"],
] as const;

export const groupNames = ["covered_seen", "uncovered_seen", "unseen"] as const;
export type GroupName = (typeof groupNames)[number];
/** Task ids by group (airline.md 5), each in one at most; null: nobody knows which tasks a demonstration covers. */
export type TaskGroups = Record<GroupName, readonly string[] | null>;

const run = z.strictObject({
  env: z.string(),
  policy: z.string(),
  /** What the ablation calls it: "vanilla", "joint"; null: nobody said. */
  variant: z.string().nullable(),
  /** Optimizer steps that the policy had taken; null: not known, or no policy that was trained. */
  step: count.nullable(),
  /** Trials of each task that were asked for. */
  trials: z.int().positive(),
  seed: z.int().nullable(),
});

const errorRateKinds = ["trajectory", "call"] as const;
export type ErrorRateKind = (typeof errorRateKinds)[number];

/** Of the policy's tokenizer, in the text of a message without its calls. */
const turnTokens = z.strictObject({
  p50: z.number().nullable(),
  p50_se: z.number().nullable(),
  mean: z.number().nullable(),
  p95: z.number().nullable(),
  /** Share of the messages with as many tokens as a reply may have, or more; null without such a limit. */
  share_at_limit: rate.nullable(),
  messages: count,
  /** Why there are no figures; null: there are. */
  missing: z.string().nullable(),
});

const summary = z.strictObject({
  tasks: count,
  /** Trajectories that were judged; those that the environment or an endpoint failed are in `invalid`. */
  episodes: count,
  invalid: count,
  /** pass_hat_k: mean over tasks of C(c,k)/C(n,k); null where no task has k trials. */
  pass_hat_1: rate.nullable(),
  pass_hat_1_se: z.number().nullable(),
  pass_hat_2: rate.nullable(),
  pass_hat_4: rate.nullable(),
  /** pass_at_k: mean over tasks of 1 − C(n−c,k)/C(n,k). */
  pass_at_1: rate.nullable(),
  pass_at_2: rate.nullable(),
  pass_at_4: rate.nullable(),
  any_success: rate.nullable(),
  /** The one of the two below that `error_rate_kind` names. */
  error_rate: rate.nullable(),
  error_rate_se: z.number().nullable(),
  error_rate_trajectory: rate.nullable(),
  error_rate_call: rate.nullable(),
  turn_tokens: turnTokens,
  avg_turns: z.number().nullable(),
  avg_tool_calls: z.number().nullable(),
  avg_process: z.number().nullable(),
  /** What doing nothing scores: the share of tasks that need no action; null where no task says. */
  baseline_do_nothing: rate.nullable(),
  /** pass^1 on the other tasks, and how many they are. */
  pass_hat_1_need_action: rate.nullable(),
  tasks_need_action: count,
  /** pass^1 under scoring.strict_refusal. */
  pass_hat_1_strict: rate.nullable(),
  failures: z.partialRecord(z.enum(failureClasses), count),
});
export type EvalSummary = z.output<typeof summary>;

const trajectory = z.strictObject({
  trial: count,
  seed: z.int(),
  success: z.boolean(),
  /** null: not judged. */
  outcome: z.number().nullable(),
  process: z.number().nullable(),
  reward: z.number().nullable(),
  /** Messages of the agent. */
  turns: count,
  /** Calls that were executed, those of unknown tools included. */
  tool_calls: count,
  /** Of them those answered by `Error…` or `Unknown action …`. */
  call_errors: count,
  terminated_by: z.string().nullable(),
  error: z.string().nullable(),
  /** null: a success. */
  failure: z.enum(failureClasses).nullable(),
  /** null: not counted. */
  turn_tokens: z.array(count).nullable(),
  strict: z.boolean().nullable(),
});
export type EvalTrajectory = z.output<typeof trajectory>;

const task = z.strictObject({
  task_id: z.string(),
  group: z.enum(groupNames).nullable(),
  n: count,
  c: count,
  pass_hat_1: rate.nullable(),
  avg_turns: z.number().nullable(),
  avg_tool_calls: z.number().nullable(),
  needs_action: z.boolean().nullable(),
  trajectories: z.array(trajectory),
});
export type EvalTask = z.output<typeof task>;

const header = {
  run,
  error_rate_kind: z.enum(errorRateKinds),
  /** Tokens that a reply may have; null: not known. */
  turn_token_limit: z.int().positive().nullable(),
};

export const evalReportSchema = z.strictObject({ ...header, overall: summary, tasks: z.array(task) });
export type EvalReport = z.output<typeof evalReportSchema>;

export const splitEvalReportSchema = z.strictObject({
  ...header,
  covered_seen: summary,
  uncovered_seen: summary,
  unseen: summary,
  overall: summary,
  /**
   * pass^1 on tasks that no demonstration covers, groups weighted by their sizes. null where one of them was not played, or
   * is not known; its weight is then null too.
   */
  generalisation: z.strictObject({
    pass_hat_1: rate.nullable(),
    pass_hat_1_se: z.number().nullable(),
    weights: z.strictObject({ uncovered_seen: count.nullable(), unseen: count.nullable() }),
  }),
});
export type SplitEvalReport = z.output<typeof splitEvalReportSchema>;

export type ReportRun = z.output<typeof run>;
