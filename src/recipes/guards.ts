import { z } from "zod";
import type { Guards } from "../bridge/protocol.ts";
import type { Env, TaskSet } from "../core/env.ts";
import { UserError } from "../core/errors.ts";
import { turnProblems } from "./shared.ts";

// When a run that learns from rollouts ends because nothing is learnt any more (arxiv.md 10.6). docs/guards.md has the
// table: rule, default, exit code, what is saved.

export const guardKeys = {
  allow_zero_variance: z
    .boolean()
    .default(false)
    .describe("Go on where no group of 5 steps in a row has any difference in reward."),
  canary_steps: z
    .int()
    .positive()
    .default(50)
    .describe("Play the canary tasks every so many steps, once min_canary_reward turns the canary on."),
  min_canary_reward: z
    .number()
    .min(-1)
    .default(-1)
    .describe("Stop where the canary tasks earn less, canary_patience times in a row. -1: no canary."),
  canary_patience: z.int().positive().default(3),
  canary_generations: z.int().positive().default(4).describe("Episodes of each canary task."),
  canary_tasks: z
    .array(z.string())
    .min(1)
    .nullable()
    .default(null)
    .describe("Ids of the canary tasks; left out: the environment's."),
  canary_split: z
    .string()
    .nullable()
    .default(null)
    .describe("Where the canary tasks are; left out: the environment's canary split, else the one trained on."),
  min_entropy_share: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .default(0.01)
    .describe("Least entropy of the policy, as a share of the first step's; none: no such guard."),
  max_repetition: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .default(0.8)
    .describe("Most of the replies' 4-grams that may repeat earlier ones of the same reply; none: no such guard."),
  max_clipped_share: z
    .number()
    .min(0)
    .max(1)
    .nullable()
    .default(0.95)
    .describe("Most of a step's episodes that may run out of tokens; none: no such guard."),
  collapse_patience: z
    .int()
    .positive()
    .default(10)
    .describe("Steps in a row that one of the last three limits has to be passed before the run stops."),
};

export type GuardConfig = z.output<z.ZodObject<typeof guardKeys>>;

/** Canary off: what is never played is refused where it was set. */
const CANARY_KEYS = ["canary_steps", "canary_patience", "canary_generations", "canary_tasks", "canary_split"] as const;

/**
 * What Python gets, and the canary's tasks to be served beside training's; null: no canary.
 * @param given Keys that the user set.
 * @param trained The split that is trained on.
 * @throws UserError for a key that would be ignored, and for canary tasks that are not there.
 */
export async function guardsOf(
  config: GuardConfig & { env_options: Record<string, unknown>; max_turns: number | null },
  given: ReadonlySet<string>,
  env: Env,
  trained: TaskSet,
): Promise<{ guards: Guards; canary: TaskSet | null }> {
  const { allow_zero_variance, min_entropy_share, max_repetition, max_clipped_share, collapse_patience } = config;
  if (min_entropy_share === null && max_repetition === null && max_clipped_share === null)
    refuseGiven(["collapse_patience"], given, "min_entropy_share, max_repetition and max_clipped_share are all off");
  const collapse = { allow_zero_variance, min_entropy_share, max_repetition, max_clipped_share, collapse_patience };
  if (config.min_canary_reward === -1) {
    refuseGiven(CANARY_KEYS, given, "the canary is off. Set --min-canary-reward above -1");
    return { guards: { ...collapse, canary: null }, canary: null };
  }
  const { tasks, task_ids } = await canaryTasks(config, env, trained);
  const short = turnProblems({ ...tasks, ids: task_ids }, config.max_turns);
  if (short.length > 0) throw new UserError(`canary_tasks: ${short[0]}`);
  const canary = {
    task_ids,
    generations: config.canary_generations,
    steps: config.canary_steps,
    min_reward: config.min_canary_reward,
    patience: config.canary_patience,
  };
  return { guards: { ...collapse, canary }, canary: { ...tasks, ids: task_ids } };
}

function refuseGiven(keys: readonly string[], given: ReadonlySet<string>, why: string): void {
  const ignored = keys.find((key) => given.has(key));
  if (ignored) throw new UserError(`${ignored} is set, but ${why}; or leave it out.`);
}

/** The first split that holds them all: the one named, or the environment's for canaries, then the one trained on. */
async function canaryTasks(
  { canary_tasks, canary_split, env_options }: Parameters<typeof guardsOf>[0],
  env: Env,
  trained: TaskSet,
): Promise<{ tasks: TaskSet; task_ids: string[] }> {
  const task_ids = canary_tasks ?? env.canary?.task_ids;
  if (!task_ids)
    throw new UserError(
      `min_canary_reward is set, but ${env.name} names no canary tasks. Set --canary-tasks, as ` +
        `${trained.ids.slice(0, 2).join(",")}.`,
    );
  const splits = canary_split
    ? [canary_split]
    : [...new Set([...(env.canary ? [env.canary.split] : []), trained.split])];
  const missing: string[] = [];
  for (const split of splits) {
    const tasks = split === trained.split ? trained : await env.load(split, env_options);
    const lacks = task_ids.find((id) => !tasks.ids.includes(id));
    if (lacks === undefined) return { tasks, task_ids: [...task_ids] };
    missing.push(`${split} has no '${lacks}'`);
  }
  throw new UserError(`canary_tasks: ${missing.join(", ")}. Name a split that has them all with --canary-split.`);
}
