import { z } from "zod";
import type { ConfigValues, Preset } from "../config.ts";
import { TINY_MODEL } from "./shared.ts";

// `--debug`: does a config run at all? Two steps with the tiny model, whatever the config is for (search.md 7).

const DEBUG: ConfigValues = {
  name: null, // not the folder of the run that the config is for
  model: TINY_MODEL,
  max_turn_tokens: 64,
  max_episode_tokens: 256,
  max_context_tokens: null, // what the tiny model can take
  allow_zero_variance: true,
  verify: false,
  resume: false,
  trainer: {
    num_generations: 2,
    per_device_train_batch_size: 2,
    gradient_accumulation_steps: 1,
    max_steps: 2,
    save_strategy: "no",
  },
};

export const debugKeys = {
  debug: z
    .boolean()
    .default(false)
    .describe(
      `Two steps with groups of 2 and 64 new tokens on ${TINY_MODEL}, to see that a config runs. Flags win; worked ` +
        "solutions are not held against the budgets.",
    ),
};

/** An adapter stays one, so that the same loss and reference are tried; 4 bits are of no use to the tiny model. */
export function debugPreset(values: ConfigValues): Preset[] {
  if (values.debug !== true) return [];
  const adapter = values.qlora === true ? { qlora: false, lora: true } : {};
  return [{ switch: "debug", values: { ...DEBUG, ...adapter } }];
}
