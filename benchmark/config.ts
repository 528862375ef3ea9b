import { join } from "node:path";
import { z } from "zod";
import { UserError } from "../src/core/errors.ts";
import type { Progress } from "../src/metrics.ts";
import { chatKeys, envKeys, episodeKeys, readRunConfig, runKeys, samplingKeys } from "../src/recipes/shared.ts";
import { apiKeys, isApi } from "./api.ts";
import { modelOf } from "./play.ts";

// The config keys of `bench` and `rollout`.

/** All episodes are planned at the start, in memory. */
const MOST_TRIALS = 10_000;

const playKeys = {
  ...runKeys,
  ...envKeys,
  split: z
    .union([z.array(z.string()).min(1), z.string().transform((text) => text.split(",").map((name) => name.trim()))])
    .nullable()
    .default(null)
    .describe("Splits to play; left out: the environment's first."),
  task_ids: z.array(z.string()).default([]).describe("Only these tasks."),
  categories: z.array(z.string()).default([]).describe("Only tasks of these categories."),
  policy: z
    .string()
    .default("gold")
    .describe("model:<folder or hub id>, api:<model>, gold, or a baseline of the environment."),
  repeat: z.int().positive().max(MOST_TRIALS).default(3).describe("Trials of each task."),
  ...samplingKeys,
  batch_size: z.int().positive().default(32).describe("Episodes that a model plays at a time."),
  ...episodeKeys,
  ...chatKeys,
  thinking: z
    .boolean()
    .default(true)
    .describe("off: chat_template_kwargs gets enable_thinking false, which Qwen3's and like templates read."),
  ...apiKeys,
};

export const benchConfig = z.object({
  ...playKeys,
  seed: runKeys.seed.default(45),
  resume: z
    .boolean()
    .default(false)
    .describe("Go on with the benchmark that --name names: plays what is missing or failed, under its own settings."),
});
export const rolloutConfig = z.object({
  ...playKeys,
  repeat: playKeys.repeat.unwrap().default(1).describe("Trials of each task."),
});
export type PlayConfig = z.output<typeof rolloutConfig> & { resume?: boolean };

/** Keys that not every kind of policy reads. */
const SAMPLED_KEYS = [...Object.keys(samplingKeys), "chat_template_kwargs", "thinking"];
const LOCAL_KEYS = ["batch_size", "python", "chat_template"];
const API_KEYS = Object.keys(apiKeys);

/** @throws UserError for a key that this policy would ignore */
export function refuseIgnored(policy: string, given: ReadonlySet<string>): void {
  const [is, ignored] = isApi(policy)
    ? ["not a local model", LOCAL_KEYS]
    : modelOf(policy) !== null
      ? ["not behind an API", API_KEYS]
      : ["not a model", [...SAMPLED_KEYS, ...LOCAL_KEYS, ...API_KEYS]];
  const key = ignored.find((name) => given.has(name));
  if (key) throw new UserError(`${key} is set, but the policy '${policy}' is ${is}. Leave it out.`);
}

/** A model of one of our runs is played in the environment and under the options of that run, unless others are given. */
export function withModelsOptions(config: PlayConfig, given: ReadonlySet<string>, progress: Progress): PlayConfig {
  const model = modelOf(config.policy);
  const trained = model === null ? null : readRunConfig(join(model, ".."));
  if (typeof trained?.env !== "string") return config;
  const taken: Partial<PlayConfig> = {};
  if (trained.env !== config.env) {
    if (given.has("env")) return config;
    taken.env = trained.env;
    progress.line(`env as in the model's own run: ${trained.env}`);
  }
  for (const key of ["env_options", "chat_template_kwargs"] as const) {
    const value = trained[key];
    if (given.has(key) || typeof value !== "object" || value === null) continue;
    taken[key] = value as Record<string, unknown>;
  }
  const options = { ...taken.env_options };
  delete options.sft; // about SFT rows, not about play
  if (taken.env_options) taken.env_options = options;
  if (Object.keys(options).length > 0)
    progress.line(`env_options as in the model's own run: ${JSON.stringify(options)}`);
  return { ...config, ...taken };
}
