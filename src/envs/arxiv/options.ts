import { z } from "zod";
import { weightProblem } from "./rewards.ts";
import { sftOptions } from "./sft-options.ts";

export const DEFAULT_SNAPSHOT = "data/arxiv/snapshot.json";

/** What a user may set under `env_options`. */
export const arxivOptions = z.strictObject({
  profile: z
    .enum(["project", "reference"])
    .default("project")
    .describe("How rewards read a trajectory: from structured outcomes, or as the reference implementation did."),
  prompt: z
    .enum(["full", "compact", "minimal"])
    .default("full")
    .describe(
      "compact: one-line tool signatures and short rules, for small models. minimal: the task and the state alone, " +
        "for models that know the tools from SFT.",
    ),
  protocol: z
    .strictObject({
      style: z
        .enum(["chat", "continuation"])
        .default("chat")
        .describe("continuation: observations go on inside the assistant's message, for checkpoints trained so."),
    })
    .prefault({})
    .describe("How a dialogue goes on."),
  parser: z
    .enum(["strict", "lenient"])
    .default("strict")
    .describe("lenient: reads what can't be read as FINISH. Only to compare with published benchmark numbers."),
  snapshot: z.string().default(DEFAULT_SNAPSHOT).describe("Recorded tool results, a JSON file."),
  reward_weights: z
    .record(z.string(), z.number().nonnegative())
    .superRefine((weights, { addIssue }) => {
      const problem = weightProblem(weights);
      if (problem) addIssue(problem); // else every episode would tell it
    })
    .default({})
    .describe("Weights by reward component; those left out keep their defaults."),
  curriculum_steps: z
    .int()
    .nonnegative()
    .optional()
    .describe(
      "Until this optimizer step the tool, argument and outcome weights are scaled down. Left out: 0 for episodes, " +
        "30 for stored histories that name their training step.",
    ),
  curriculum_scale: z
    .number()
    .min(0)
    .max(1)
    .default(1 / 3)
    .describe("By how much they are scaled."),
  sft: sftOptions.prefault({}).describe("Which expert rows are made."),
});

export type ArxivOptions = z.output<typeof arxivOptions>;
