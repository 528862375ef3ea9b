import { existsSync } from "node:fs";
import { z } from "zod";
import type { ConfigValues, Preset } from "../config.ts";
import { localPath, TINY_MODEL } from "./shared.ts";

// Named experiments: the five of the airline family (airline.md 10.4), each a config file, found by name from this list.

const EXPERIMENTS = {
  vanilla: "configs/airline/vanilla.yaml",
  turn_discount: "configs/airline/turn_discount.yaml",
  lata: "configs/airline/lata.yaml",
  prm_lite: "configs/airline/prm_lite.yaml",
  prm_lite_lata: "configs/airline/prm_lite_lata.yaml",
} as const;
type Experiment = keyof typeof EXPERIMENTS;
export const experimentNames = Object.keys(EXPERIMENTS) as [Experiment, ...Experiment[]];

/** The environment that the experiments are of. */
const ENV = "airline";

/**
 * What `--mock` puts over an experiment: the same path, small enough for the tiny model on a CPU. The prompt is short and
 * tool results are cut, as 4,096 tokens hold no more; the tasks are short ones, and nothing is validated or kept between steps.
 */
export const MOCK: ConfigValues = {
  model: null,
  chat_template: "hermes",
  env_options: { prompt: { mode: "date-only", tools: false }, protocol: { tool_response_max_chars: 256 } },
  task_ids: ["synth-16", "synth-31", "synth-38", "synth-44"], // a certificate, a cancellation, a transfer, a question
  max_turns: 12,
  max_turn_tokens: 128,
  max_episode_tokens: 1024,
  max_context_tokens: 4096,
  validate_steps: null,
  verify: false,
  trainer: {
    num_generations: 4,
    per_device_train_batch_size: 4,
    gradient_accumulation_steps: 2,
    learning_rate: 1e-4,
    max_steps: 3,
    save_strategy: "no",
  },
};

export const experimentKeys = {
  exp: z
    .enum(experimentNames)
    .nullable()
    .default(null)
    .describe("An experiment of the airline environment: its config file, found by name."),
  mock: z
    .boolean()
    .default(false)
    .describe(`With --exp: the same on ${TINY_MODEL}, a few steps on a CPU. Explicit flags win.`),
};

/** The config file of the experiment that is asked for; null: none is. */
export function experimentFile({ exp }: ConfigValues): string | null {
  return typeof exp === "string" && Object.hasOwn(EXPERIMENTS, exp) ? localPath(EXPERIMENTS[exp as Experiment]) : null;
}

/** What the experiments' config files start from. */
export const EXPERIMENT_START = "merged/airline-sft";

/** The model that an experiment starts from is not there: it has to be made first. */
export function startProblems({ exp, model }: { exp: Experiment | null; model: string | null }): string[] {
  if (exp === null || model !== EXPERIMENT_START || existsSync(localPath(model))) return [];
  return [
    `model is '${model}', and there is no such folder. It is SFT's result, merged: sft configs/airline/sft.yaml, then merge, ` +
      "and rename what that made (see the file); or name your own with --model, or try the path with --mock.",
  ];
}

export function mockPreset(values: ConfigValues): Preset[] {
  return values.mock === true ? [{ switch: "mock", values: MOCK }] : [];
}

/** What is wrong with the choice of an experiment. */
export function experimentProblems({
  exp,
  mock,
  env,
}: {
  exp: Experiment | null;
  mock: boolean;
  env: string;
}): string[] {
  if (exp === null) return mock ? ["mock is set without exp. Name an experiment: --exp vanilla."] : [];
  return env === ENV ? [] : [`exp '${exp}' is of the environment ${ENV}, and env is '${env}'. Leave one of them out.`];
}
