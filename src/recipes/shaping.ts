import { z } from "zod";
import type { ShapingRequest } from "../bridge/protocol.ts";
import { SHAPERS } from "../core/shaping.ts";

// Advantages a token and the KL estimator, as config keys. What excludes what stands in grpo-options.ts.

export const shapingKeys = {
  advantage: z
    .enum(SHAPERS)
    .default("none")
    .describe(
      "How a rollout's advantage is spread over its tokens: the same for all; turn_discount, most for the first; " +
        "lata, that divided by the length's root; turn_scores, plus the environment's score of the token's turn.",
    ),
  advantage_alpha: z
    .number()
    .positive()
    .default(1.05)
    .describe("turn_discount and lata: how much less every later token or turn counts; 1: no less."),
  advantage_alpha_unit: z
    .enum(["token", "turn"])
    .default("token")
    .describe("What alpha is a step of; a token's place counts the environment's tokens too."),
  advantage_length_norm: z
    .enum(["none", "sqrt"])
    .nullable()
    .default(null)
    .describe("Divide by the length's root; left out: sqrt for lata, none for the others."),
  advantage_length_base: z
    .enum(["tokens", "turns"])
    .default("tokens")
    .describe("The length that is meant: the policy's tokens, or its turns."),
  kl_estimator: z
    .enum(["k3", "squared"])
    .default("k3")
    .describe("The KL of a token to the reference: TRL's k3, or the squared difference of the log-probabilities."),
};

export type ShapingConfig = z.output<z.ZodObject<typeof shapingKeys>>;

/** Whether tokens of one rollout may get different advantages, or other ones than the rollout's. */
export function widens({ advantage, advantage_length_norm }: ShapingConfig): boolean {
  return advantage !== "none" || advantage_length_norm === "sqrt";
}

/** What Python gets; null: TRL's own advantages and KL. */
export function shapingOf(config: ShapingConfig): ShapingRequest {
  if (!widens(config) && config.kl_estimator === "k3") return null;
  return {
    advantage: config.advantage,
    alpha: config.advantage_alpha,
    alpha_unit: config.advantage_alpha_unit,
    length_norm: config.advantage_length_norm,
    length_base: config.advantage_length_base,
    kl_estimator: config.kl_estimator,
  };
}
