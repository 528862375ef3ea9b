// Judges stored trajectories again, without a model: `score FILE --env airline`.
import { z } from "zod";
import { UserError } from "../../core/errors.ts";
import { messageSchema } from "../../core/message.ts";
import { describeIssues } from "../../core/tool.ts";
import type { EndedBy } from "../../core/trajectory.ts";
import { findAirlineTask } from "./known-tasks.ts";
import type { AirlineOptions } from "./options.ts";
import { type ProcessScore, processScore } from "./prm/process-score.ts";
import { PROCESS_WEIGHT } from "./prm/rewards.ts";
import { readSample } from "./prm/samples.ts";
import { replayEpisode, type StoredEpisode } from "./replay.ts";
import { ruleMetrics, scoreEpisode } from "./score-episode.ts";

/** A judged line. */
export interface RescoredLine {
  id: string | number | null;
  task_id: string | null;
  /** null: the line does not say how the episode came out, or it failed in the environment. */
  reward: number | null;
  parts: Record<"outcome" | "process", number | null>;
  metrics: Record<string, number | boolean | string | null>;
  /** How the process score came about; absent where there is none. */
  process?: Omit<ProcessScore, "perStep"> & { per_step: number[] };
  /** Why there is nothing to judge: nobody knows the task. */
  skipped?: string;
}

const outcome = z.union([z.literal(0), z.literal(1), z.boolean().transform(Number)]).nullish();

const storedSchema = z.looseObject({
  id: z.union([z.string(), z.number()]).nullish(),
  task_id: z.union([z.string(), z.number()]).nullish(),
  task: z.union([z.string(), z.number(), z.looseObject({ id: z.string() })]).nullish(),
  actions: z.array(z.unknown()).optional(),
  history: z.array(z.unknown()).optional(),
  outcome,
  success: outcome,
});

const turnSchema = z.looseObject({
  reply: z.string(),
  outcome: z.looseObject({ payload: z.looseObject({ user: z.string().nullish() }).nullish() }),
});

const logSchema = z.looseObject({
  id: z.union([z.string(), z.number()]).nullish(),
  task_id: z.string(),
  messages: z.array(messageSchema),
  turns: z.array(turnSchema),
  ended_by: z.enum(["terminated", "truncated", "error", "timeout"]),
  ended_why: z.string().nullish(),
});

/**
 * `line`: `{id?, task_id | task?, actions | history: [{tool, parameters, observation, content?}], outcome?}`, whose
 * outcome is taken as it stands; or a line of a trajectory log, whose replies are played again on fresh data, with the
 * user's answers as they were.
 * @throws UserError for a line that is neither
 */
export async function rescoreLine(line: unknown, options: AirlineOptions): Promise<RescoredLine> {
  const isLog = typeof line === "object" && line !== null && "turns" in line;
  const parsed = (isLog ? logSchema : storedSchema).safeParse(line);
  if (!parsed.success)
    throw new UserError(
      `not a line to score: ${describeIssues(parsed.error)}. Expected ${FORMAT}, or a line of this environment's trajectory log.`,
    );
  return isLog
    ? rescoreLog(parsed.data as z.output<typeof logSchema>, options)
    : rescoreStored(parsed.data as z.output<typeof storedSchema>, options);
}

const FORMAT = "{id?, task_id?, actions: [{tool, parameters, observation, content?}], outcome?}";

function rescoreStored(line: z.output<typeof storedSchema>, options: AirlineOptions): RescoredLine {
  const { id = null, task, actions = line.history } = line;
  if (!actions || (line.actions && line.history))
    throw new UserError(`a line to score has either 'actions' or 'history'. Expected ${FORMAT}.`);
  const task_id = line.task_id ?? (typeof task === "object" ? task?.id : task) ?? null;
  const sample = readSample({ task_id: task_id ?? "", success: false, actions }, "this line");
  const process = processScore(sample.actions, options.prm);
  const paid = line.outcome ?? line.success ?? null;
  return {
    id,
    task_id: task_id === null ? null : String(task_id),
    reward: paid === null ? null : paid + (options.reward.mode === "prm_lite" ? PROCESS_WEIGHT * process.score : 0),
    parts: { outcome: paid, process: process.score },
    metrics: {
      process_mean: process.mean,
      process_adjustments: process.adjustments,
      ...ruleMetrics(process),
    },
    process: stored(process),
  };
}

const stored = ({ perStep: per_step, ...process }: ProcessScore) => ({ ...process, per_step });

async function rescoreLog(line: z.output<typeof logSchema>, options: AirlineOptions): Promise<RescoredLine> {
  const { id = null, task_id, ended_by, ended_why = null } = line;
  const nothing = { id, task_id, reward: null, parts: { outcome: null, process: null }, metrics: {} };
  if (ended_by === "error" || ended_by === "timeout") return nothing;
  const task = findAirlineTask(task_id, options);
  if (!task) return { ...nothing, skipped: `no airline task '${task_id}'` };
  const { state, turns } = await replayEpisode(task, line as StoredEpisode, options);
  const last = turns.at(-1);
  const again: EndedBy = last?.outcome.kind === "terminal" ? "terminated" : "truncated";
  const { reward, parts, metrics } = scoreEpisode(
    { turns, final_state: state, ended_by: again, ended_why, training_step: null },
    task,
    options,
  );
  const { outcome: paid = null, process: played = null } = parts;
  return {
    ...{ id, task_id, reward, parts: { outcome: paid, process: played }, metrics },
    process: stored(processScore(state.log.records, options.prm)),
  };
}
