import { z } from "zod";
import type { ValidationRequest } from "../bridge/protocol.ts";
import { mergeValues } from "../config.ts";
import type { Env, TaskSet } from "../core/env.ts";
import { UserError } from "../core/errors.ts";

// Validation in the middle of a run, in the environment of an evaluation (airline.md 11.6): what training's own rollouts
// earn says little where training has other limits, cuts or rewards.

export const validationKeys = {
  validate_steps: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("Play the validation tasks every so many steps; left out: never."),
  validate_split: z
    .string()
    .nullable()
    .default(null)
    .describe("Whose tasks they are; left out: the split that is trained on."),
  validate_samples: z.int().positive().default(1).describe("Episodes of each validation task."),
  validate_max_turns: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("Replies of a validation episode at most; left out: the environment's, whatever max_turns says."),
  validate_env_options: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Put over env_options for validation: what an evaluation has otherwise than training."),
};

type ValidationConfig = z.output<z.ZodObject<typeof validationKeys>> & { env_options: Record<string, unknown> };

export interface PlannedValidation {
  tasks: TaskSet;
  max_turns: number | null;
  request: Omit<NonNullable<ValidationRequest>, "sampling">;
  /** For the manifest. */
  about: Record<string, unknown>;
}

const IDLE_KEYS = ["validate_split", "validate_samples", "validate_max_turns", "validate_env_options"] as const;

/**
 * The validation that a config asks for; null: none.
 * @param keys those that the user set, and of them those by flag
 * @param trained The split that is trained on.
 * @throws UserError for a key that would be ignored, and for a split or options that do not fit.
 */
export async function validationOf(
  config: ValidationConfig,
  { given, flags }: Record<"given" | "flags", ReadonlySet<string>>,
  env: Env,
  trained: TaskSet,
): Promise<PlannedValidation | null> {
  const { validate_steps: steps, validate_samples: samples, validate_max_turns: max_turns } = config;
  if (steps === null) {
    // Over a config that has it validation can be switched off, as --mock does, and the config's other keys stay.
    const heard = given.has("validate_steps") ? flags : given;
    const idle = IDLE_KEYS.find((key) => heard.has(key));
    if (idle) throw new UserError(`${idle} is set, but nothing is validated. Set --validate-steps, or leave it out.`);
    return null;
  }
  const split = config.validate_split ?? trained.split;
  const tasks = await env.load(split, mergeValues(config.env_options, config.validate_env_options));
  return {
    tasks,
    max_turns,
    request: { task_ids: [...tasks.ids], samples, steps },
    about: { split, tasks: tasks.ids.length, samples, steps, max_turns, env_options: config.validate_env_options },
  };
}

/** Below this share of successes training is too near to nothing for a ratio to say something. */
const WORTH_COMPARING = 0.1;
/** How much better training may look than the evaluation's environment. */
const MOST = 2;

/** What a person should know where training looks far better than validation, on the points where both are known. */
export function gapAlarm(step: number, values: Readonly<Record<string, number>>): string | null {
  const { "validation/success": validated, "validation/training_success": trained } = values;
  if (validated === undefined || trained === undefined) return null;
  if (trained < WORTH_COMPARING || trained <= MOST * validated) return null;
  return (
    `warning: step ${step}: training's rollouts succeed ${trained.toFixed(3)} of the time, validation's ` +
    `${validated.toFixed(3)}. The two environments differ, or the reward is had without the task being done.`
  );
}
