import { z } from "zod";
import type { Continuation, EnvSpec, StartResult, StepResult } from "./env.ts";
import { errorText, UserError } from "./errors.ts";
import { messageSchema } from "./message.ts";
import type { Score } from "./reward.ts";
import { expertRowSchema, type LoadedTasks, type TaskBase } from "./task.ts";
import { describeIssues } from "./tool.ts";

// What an environment declares and gives back, checked: a user's file runs without its types having been. Nothing is
// parsed anew: what fits goes on as it is.

const hook = z.custom((value) => typeof value === "function", "expected a function");
const turnLimit = z.int().positive();

const specSchema = z.object({
  id: z.string().min(1),
  summary: z.string(),
  options: z.custom(
    (value) => typeof (value as z.ZodType | undefined)?.safeParse === "function",
    "expected a zod schema, as z.strictObject({})",
  ),
  max_turns: z.union([turnLimit, hook], "expected a whole number of 1 or more, or a function of a task"),
  gold_is_shortest: z.literal(false).optional(),
  tools: z.array(z.object({ name: z.string(), description: z.string(), parameters: z.object({}) })),
  stop: z.array(z.string().min(1)).optional(),
  continuation: hook.optional(),
  template_tools: hook.optional(),
  group_rewards: hook.optional(),
  components: z.array(z.object({ name: z.string(), range: z.tuple([z.number(), z.number()]) })),
  splits: z.array(z.string()).min(1),
  eval_split: z.string().optional(),
  load: hook,
  reset: hook,
  step: hook,
  score: hook,
  close: hook.optional(),
  policies: z.looseObject({ gold: hook }).catchall(hook),
  baselines: z
    .object({
      split: z.string().optional(),
      random: z.array(z.string()).optional(),
      bounds: z.object({ aggregate: z.number(), category: z.number() }).optional(),
      play: hook.optional(),
    })
    .optional(),
  expert: hook.optional(),
  category: hook.optional(),
  rescore: hook.optional(),
  bad_cases: z
    .object({
      figures: z.record(z.string(), z.union([z.enum(["number", "boolean"]), z.array(z.string()).min(1)])),
      eligible: z.record(z.string(), z.unknown()),
      capture: z.array(z.record(z.string(), z.unknown())),
      history: hook,
    })
    .optional(),
  benchmark: z
    .object({
      criteria: z.array(z.string()).min(1),
      measures: z.array(z.object({ name: z.string().min(1), over: z.string().min(1), of: hook })),
      failure: hook.optional(),
      unit: hook.optional(),
      reports: hook.optional(),
    })
    .optional(),
  collection: z
    .object({
      split: z.string().min(1),
      train: z.string().min(1),
      holdout: z.string().min(1).nullable(),
      env_options: z.record(z.string(), z.unknown()).optional(),
      contaminated: hook.optional(),
      conversation: hook.optional(),
      counts: hook.optional(),
      files: hook.optional(),
    })
    .optional(),
  canary: z.object({ split: z.string().min(1), task_ids: z.array(z.string()).min(1) }).optional(),
});

/** @throws UserError naming everything in the declaration that does not fit */
export function checkSpec(spec: { id: string }): void {
  const parsed = specSchema.safeParse(spec);
  if (!parsed.success) throw new UserError(`defineEnv (${String(spec.id)}): ${describeIssues(parsed.error)}`);
  const { baselines, policies, bad_cases, benchmark, rescore } = parsed.data;
  if (bad_cases && !rescore)
    throw new UserError(`defineEnv (${String(spec.id)}): bad_cases needs rescore to judge them`);
  const measures = benchmark?.measures.map(({ name }) => name) ?? [];
  const twice = measures.find((name, index) => measures.indexOf(name) !== index);
  if (twice !== undefined)
    throw new UserError(`defineEnv (${String(spec.id)}): benchmark.measures has '${twice}' twice`);
  const unknown = baselines?.random?.find((policy) => !Object.hasOwn(policies, policy));
  if (unknown !== undefined)
    throw new UserError(`defineEnv (${String(spec.id)}): baselines.random: there is no policy '${unknown}'`);
}

const continuationSchema = z.strictObject({
  separator: z.string(),
  opening: z.string().min(1),
  stop: z.string().min(1),
});

/** @throws UserError where the style's texts are no texts, or could not be told from a reply */
export function checkContinuation(env_id: string, style: Continuation | null): Continuation | null {
  if (style === null) return null;
  const parsed = continuationSchema.safeParse(style);
  if (!parsed.success) throw new UserError(`${env_id}: continuation: ${describeIssues(parsed.error)}`);
  if (style.opening.includes(style.stop))
    throw new UserError(`${env_id}: continuation: the opening '${style.opening}' holds the stop '${style.stop}'`);
  return style;
}

const tasksSchema = z.object({
  tasks: z.array(z.looseObject({ id: z.string().min(1) })).min(1, "a split has at least one task"),
  sources: z.record(z.string(), z.string()),
  rates: z
    .object({
      strict: z.record(z.string(), z.number().min(0).max(1)),
      selected: z.boolean(),
      env: z.string().nullable(),
      model_sha256: z.string().nullable(),
      stale: z.array(z.string()),
    })
    .nullish(),
});

/** @throws UserError where `load` gives no tasks, an id twice, or a task whose turns have no limit */
export function checkTasks<Task extends TaskBase, State, Options>(
  spec: EnvSpec<Task, State, Options>,
  split: string,
  loaded: LoadedTasks<Task>,
): void {
  const where = `${spec.id}: load('${split}')`;
  const parsed = tasksSchema.safeParse(loaded);
  if (!parsed.success) throw new UserError(`${where} gives something else than tasks: ${describeIssues(parsed.error)}`);
  const ids = new Set<string>();
  for (const task of loaded.tasks) {
    if (ids.has(task.id)) throw new UserError(`${where} gives task '${task.id}' twice.`);
    ids.add(task.id);
    if (typeof spec.max_turns === "number") continue;
    const limit = turnLimit.safeParse(spec.max_turns(task));
    if (!limit.success)
      throw new UserError(`${spec.id}: max_turns of task '${task.id}': ${describeIssues(limit.error)}`);
  }
}

const startSchema = z.object({ messages: z.array(messageSchema) });

/** @throws Error saying what does not fit */
export function checkStart<State>(result: StartResult<State>): StartResult<State> {
  return fitting(startSchema, result);
}

const stepSchema = z.object({
  thought: z.string(),
  action: z.object({ name: z.string(), args: z.record(z.string(), z.unknown()) }).nullable(),
  outcome: z.object({ kind: z.enum(["ok", "tool_error", "parse_error", "fallback", "terminal"]), text: z.string() }),
  observations: z.array(messageSchema),
  terminated: z.boolean(),
});

/** @throws Error saying what does not fit, or cannot stand in a log */
export function checkStep<State>(result: StepResult<State>): StepResult<State> {
  fitting(stepSchema, result);
  try {
    JSON.stringify([result.action?.args, result.outcome.payload]);
  } catch (error) {
    throw new Error(`action or outcome can't be written as JSON (${errorText(error).split("\n")[0]})`);
  }
  return result;
}

const scoreSchema = z.object({
  reward: z.number(),
  parts: z.record(z.string(), z.number().nullable()),
  metrics: z.record(z.string(), z.union([z.number(), z.boolean(), z.string(), z.null()])),
  success: z.boolean(),
  turn_scores: z.array(z.number()).optional(),
});

/** @throws Error saying what does not fit: every component has its part, every number is finite, and a turn score a reply */
export function checkScore(score: Score, components: readonly { name: string }[], replies?: number): Score {
  if (typeof (score as unknown as Promise<Score> | undefined)?.then === "function")
    throw new Error("it gives a promise; expected the score itself, from a function that is not async");
  for (const [name, value] of Object.entries({ ...score?.metrics, ...score?.parts, reward: score?.reward }))
    if (typeof value === "number" && !Number.isFinite(value)) throw new Error(`${name} is ${value}`);
  fitting(scoreSchema, score);
  const expected = components.map(({ name }) => name).sort();
  const parts = Object.keys(score.parts).sort();
  if (expected.join() !== parts.join())
    throw new Error(
      `parts are ${parts.join(", ") || "none"}; expected the components: ${expected.join(", ") || "none"}`,
    );
  if (score.turn_scores && replies !== undefined && score.turn_scores.length !== replies)
    throw new Error(`turn_scores has ${score.turn_scores.length} entries; expected ${replies}, one a reply`);
  return score;
}

/** @throws UserError where a policy gives anything but texts */
export function checkReplies(policy: string, task_id: string, replies: unknown): string[] {
  const parsed = z.array(z.string()).safeParse(replies);
  if (!parsed.success)
    throw new UserError(
      `policy '${policy}' of task '${task_id}' gives something else than a list of texts: ${describeIssues(parsed.error)}`,
    );
  return replies as string[];
}

/** Names that a benchmark's folder has already. */
const TAKEN = new Set(["config.json", "manifest.json", "summary.json", "timing.json"]);

/** @throws UserError where `benchmark.reports` gives anything but files of JSON with names of their own */
export function checkReports(env_id: string, reports: Record<string, unknown>): Record<string, unknown> {
  for (const [name, content] of Object.entries(reports)) {
    if (!/^[\w-]+\.json$/.test(name) || TAKEN.has(name))
      throw new UserError(
        `${env_id}: benchmark.reports names a file '${name}'; expected a new name that ends in .json.`,
      );
    if (JSON.stringify(content) === undefined)
      throw new UserError(`${env_id}: benchmark.reports gives nothing for '${name}'; expected what can be JSON.`);
  }
  return reports;
}

const expertSchema = z.object({
  rows: z.array(expertRowSchema).min(1, "a split has at least one row"),
  manifest: z.record(z.string(), z.unknown()),
});

/** @throws UserError where `expert` gives anything but rows that can be written */
export function checkExpert<Expert>(env_id: string, split: string, expert: Expert): Expert {
  const where = `${env_id}: expert('${split}')`;
  const parsed = expertSchema.safeParse(expert);
  if (!parsed.success) throw new UserError(`${where} gives something else than rows: ${describeIssues(parsed.error)}`);
  try {
    JSON.stringify(expert);
  } catch (error) {
    throw new UserError(`${where} gives what can't be written as JSON (${errorText(error).split("\n")[0]}).`);
  }
  return expert;
}

function fitting<Value>(schema: z.ZodType, value: Value): Value {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Error(`what it gives does not fit: ${describeIssues(parsed.error)}`);
  return value;
}
