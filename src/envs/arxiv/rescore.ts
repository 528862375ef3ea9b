// Judges stored trajectories again, without a model: `score FILE --env arxiv`.
import { z } from "zod";
import { UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";
import type { Outcome, Turn } from "../../core/trajectory.ts";
import { importHistory } from "./import-history.ts";
import { DEFAULT_SNAPSHOT } from "./options.ts";
import {
  arxivComponents,
  type Expectation,
  expectationOf,
  type ScoredStep,
  type ScoringOptions,
  scoreSteps,
  stepOfTurn,
} from "./rewards.ts";
import { withOracle } from "./splits.ts";
import { findArxivTask } from "./tasks.ts";

/** A judged line. `parts` are null where the task gives them nothing to judge. */
export interface RescoredLine {
  id: string | number | null;
  task_id: string | null;
  /** null: the rollout was invalid (its environment failed), as in the log it comes from. */
  reward: number | null;
  parts: Record<string, number | null>;
  metrics: Record<string, number | boolean | string | null>;
  /** What the reader should know about this judgement; absent where there is nothing. */
  warning?: string;
  /** Why there is nothing to judge: nobody knows the task. */
  skipped?: string;
}

/** Stored histories come with their training step, and the reward they belong to has this curriculum by default. */
const HISTORY_CURRICULUM_STEPS = 30;

const outcomeSchema = z.looseObject({
  kind: z.enum(["ok", "tool_error", "parse_error", "fallback", "terminal"]),
  payload: z.unknown().optional(),
  text: z.string().default(""),
});

const historySchema = z.array(
  z.looseObject({
    thought: z.string().nullish(),
    action: z.unknown(),
    observation: z.unknown().optional(),
    parse_failed: z.boolean().nullish(),
    forced_finish: z.boolean().nullish(),
    outcome: outcomeSchema.optional(),
  }),
);

const turnSchema = z.looseObject({
  thought: z.string(),
  action: z.looseObject({ name: z.string(), args: z.record(z.string(), z.unknown()) }).nullable(),
  outcome: outcomeSchema,
});

const expectationSchema = z.looseObject({
  id: z.string().optional(),
  task_id: z.string().optional(),
  expected_tools: z.array(z.string()),
  expected_tool_args: z.array(z.record(z.string(), z.unknown()).nullable()).nullish(),
  expected_paper_ids: z.array(z.string().nullable()).nullish(),
  expected_paper: z.string().nullish(),
  expected_terminal_mode: z.enum(["completed", "blocked"]).default("completed"),
  expected_terminal_reason: z
    .enum(["missing_context", "invalid_reference", "paper_not_found", "unsupported_capability"])
    .nullish(),
});

const lineSchema = z.looseObject({
  id: z.union([z.string(), z.number()]).nullish(),
  task_id: z.string().nullish(),
  task: z.unknown().optional(),
  history: historySchema.optional(),
  forced_finish: z.boolean().nullish(),
  training_step: z.number().nullish(),
  // A line of a trajectory log.
  turns: z.array(turnSchema).optional(),
  policy_step: z.number().nullish(),
  ended_by: z.string().nullish(),
});

type Line = z.output<typeof lineSchema>;

type RescoreOptions = Omit<ScoringOptions, "training_step"> & {
  /** Where the papers of our own trajectories come from. */
  snapshot?: string;
};

interface FoundTask {
  task_id: string | null;
  /** null: nobody knows the task. */
  expected: Expectation | null;
  warning: string | null;
}

/**
 * `line`: the score format, `{id?, task_id | task, history: [{thought, action, observation, parse_failed?,
 * forced_finish?}], training_step?}`, `task` being an inline record of what is expected; or a line of a trajectory log.
 * A task id that nobody knows earns 0.0, and is skipped where a file is scored.
 * @throws UserError for a line that is neither.
 */
export async function rescoreLine(line: unknown, options: RescoreOptions): Promise<RescoredLine> {
  const parsed = lineSchema.safeParse(line);
  if (!parsed.success)
    throw new UserError(
      `not a line to score: ${describeIssues(parsed.error)}. Expected ${FORMAT}; got ${brief(line)}.`,
    );
  const record = parsed.data;
  if (!record.history === !record.turns)
    throw new UserError(`a line to score has either 'history' or 'turns'. Expected ${FORMAT}; got ${brief(line)}.`);

  const { task_id, expected, warning } = await findTask(record, options.snapshot ?? DEFAULT_SNAPSHOT);
  const head = { id: record.id ?? null, task_id };
  const noParts = Object.fromEntries(arxivComponents.map(({ name }) => [name, null]));
  const tail = warning === null ? {} : { warning };
  if (!expected) {
    const metrics = { profile: options.profile, unknown_task: true };
    return { ...head, reward: 0, parts: noParts, metrics, skipped: `no arXiv task '${task_id}'` };
  }
  if (record.ended_by === "error" || record.ended_by === "timeout")
    return { ...head, reward: null, parts: noParts, metrics: { profile: options.profile }, ...tail };

  const { reward, parts, metrics } = scoreSteps(stepsOf(record, options), expected, scoring(record, options));
  return {
    ...head,
    reward,
    parts,
    // by the names that bad cases are written in, too
    metrics: { ...metrics, task_completed: metrics.finished!, tool_call_accurate: metrics.accurate! },
    ...tail,
  };
}

function stepsOf(record: Line, { profile }: ScoringOptions): ScoredStep[] {
  if (record.turns) return record.turns.map((turn) => stepOfTurn(turn as Pick<Turn, "thought" | "action" | "outcome">));
  const history = record.history!.map((step) => ({ ...step, outcome: step.outcome as Outcome | undefined }));
  return importHistory(history, profile, record.forced_finish ?? false);
}

function scoring(record: Line, options: ScoringOptions): ScoringOptions {
  const own = record.turns !== undefined;
  return {
    ...options,
    curriculum_steps: options.curriculum_steps ?? (own ? 0 : HISTORY_CURRICULUM_STEPS),
    training_step: record.training_step ?? (own ? record.policy_step : null) ?? null,
  };
}

async function findTask(record: Line, snapshot: string): Promise<FoundTask> {
  const { task_id } = record;
  if (typeof record.task === "object" && record.task !== null) return inlineTask(record.task, task_id ?? null);
  if (!task_id)
    throw new UserError(
      `a line to score names its task by 'task_id', or brings it as the object 'task'. Expected ${FORMAT}.`,
    );
  const task = findArxivTask(task_id);
  if (!task) return { task_id, expected: null, warning: null };
  // Texts may come from another snapshot, where the same position is another paper: they are judged by arguments alone.
  const own = record.turns !== undefined || record.history!.some(({ outcome }) => outcome !== undefined);
  const expected = expectationOf(own ? await withOracle(task, snapshot) : { ...task, expected_paper_ids: null });
  return { task_id, expected, warning: null };
}

function inlineTask(task: object, task_id: string | null): FoundTask {
  const parsed = expectationSchema.safeParse(task);
  if (!parsed.success)
    throw new UserError(
      `task: ${describeIssues(parsed.error)}. Expected an object with expected_tools, …; got ${brief(task)}.`,
    );
  const {
    id,
    task_id: own_id,
    expected_tools,
    expected_tool_args,
    expected_paper_ids,
    expected_paper,
    ...terminal
  } = parsed.data;
  for (const [key, list] of Object.entries({ expected_tool_args, expected_paper_ids })) {
    if (list && list.length > 0 && list.length !== expected_tools.length)
      throw new UserError(
        `task: ${key} has ${list.length} entries, expected_tools has ${expected_tools.length}; they must be aligned.`,
      );
  }
  const { expected_terminal_mode, expected_terminal_reason = null } = terminal;
  if ((expected_terminal_mode === "blocked") !== (expected_terminal_reason !== null))
    throw new UserError(
      `task: expected_terminal_mode is '${expected_terminal_mode}' and expected_terminal_reason is ` +
        `${JSON.stringify(expected_terminal_reason)}; a blocked task has a reason, a completed one has none.`,
    );
  // Left out is not the same as null, which says that any arguments will do.
  const forgotten = expected_tool_args === undefined && expected_tools.length > 0;
  return {
    task_id: task_id ?? own_id ?? id ?? null,
    expected: {
      expected_tools,
      expected_tool_args:
        expected_tool_args === undefined && expected_tools.length === 0 ? [] : (expected_tool_args ?? null),
      expected_paper_ids: expected_paper_ids?.length ? expected_paper_ids : null,
      expected_paper: expected_paper ?? null,
      expected_terminal_mode,
      expected_terminal_reason,
    },
    warning: forgotten ? "the task has no expected_tool_args, so no argument is judged; null would say so" : null,
  };
}

const FORMAT =
  "{id?, task_id | task, history: [{thought, action, observation, parse_failed?, forced_finish?}], training_step?}";

function brief(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= 120 ? text : `${text.slice(0, 120)}…`;
}
