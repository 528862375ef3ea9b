import { z } from "zod";
import { type Lora, type Precision, precisions } from "../bridge/protocol.ts";
import { UserError } from "../core/errors.ts";

// Config keys of adapters and precision, shared by all recipes that train. Python decides by hardware what they become.

export const loraKeys = {
  lora: z.boolean().default(false).describe("Train a LoRA adapter instead of all parameters."),
  lora_r: z.int().positive().default(16),
  lora_alpha: z.number().positive().default(32),
  lora_dropout: z.number().min(0).lt(1).default(0.05),
  lora_target_modules: z
    .array(z.string())
    .min(1)
    .default(["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    .describe("Modules that get an adapter, or all-linear."),
};

export const adapterKeys = {
  ...loraKeys,
  qlora: z
    .boolean()
    .default(false)
    .describe(
      "LoRA on a base in 4 bits (NF4); plain LoRA, and a word about it, where there is no CUDA or bitsandbytes.",
    ),
  precision: z
    .enum(precisions)
    .default("auto")
    .describe("Of frozen weights and of all computations; auto: bf16 on CUDA, fp16 on older CUDA, fp32 elsewhere."),
};

interface LoraConfig {
  lora: boolean;
  lora_r: number;
  lora_alpha: number;
  lora_dropout: number;
  lora_target_modules: string[];
}

interface AdapterConfig extends LoraConfig {
  qlora: boolean;
  precision: Precision;
}

/** What every training entry and `preflight` get of these keys. */
export interface AdapterRequest {
  lora: Lora;
  qlora: boolean;
  precision: Precision;
}

/**
 * The adapter's part of a request. `qlora` turns LoRA on by itself.
 * @throws UserError where a lora_… key is set and LoRA is off: it would be ignored; and where qlora is on with `lora: false`
 */
export function adapterOf(config: AdapterConfig, given: ReadonlySet<string>): AdapterRequest {
  if (config.qlora && given.has("lora") && !config.lora)
    throw new UserError("qlora is set, but lora is off. Leave out one of them: qlora trains a LoRA adapter.");
  const lora = loraOf({ ...config, lora: config.lora || config.qlora }, given);
  return { lora, qlora: config.qlora, precision: config.precision };
}

/**
 * LoRA's settings that the user set; null: all parameters are trained. Python fills in the others, which are the
 * defaults above for a new adapter, and an adapter's own where training goes on with one.
 * @throws UserError where a lora_… key is set and LoRA is off
 */
export function loraOf(config: LoraConfig, given: ReadonlySet<string>): Lora {
  if (!config.lora) {
    const ignored = Object.keys(loraKeys).find((key) => key !== "lora" && given.has(key));
    if (ignored) throw new UserError(`${ignored} is set, but LoRA is off. Add --lora, or leave it out.`);
    return null;
  }
  const modules = config.lora_target_modules;
  return {
    ...(given.has("lora_r") && { r: config.lora_r }),
    ...(given.has("lora_alpha") && { lora_alpha: config.lora_alpha }),
    ...(given.has("lora_dropout") && { lora_dropout: config.lora_dropout }),
    ...(given.has("lora_target_modules") && {
      target_modules: modules.length === 1 && modules[0] === "all-linear" ? ("all-linear" as const) : modules,
    }),
  };
}
