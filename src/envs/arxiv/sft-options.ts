import { z } from "zod";

/** What a user may set under `env_options.sft`: which expert rows `data arxiv sft` and the sft recipe make. */
export const sftOptions = z.strictObject({
  gold: z.boolean().default(true).describe("Whether the train tasks themselves give rows."),
  derivations: z
    .enum(["none", "v2", "v5", "t5"])
    .default("t5")
    .describe(
      "Parametric tasks derived from train tasks: v2 65 tasks, v5 80 (with reading, summaries, figures), t5 86.",
    ),
  only_parents: z.array(z.string()).default([]).describe("Derive from these train tasks alone; empty: from all."),
  variations: z
    .int()
    .nonnegative()
    .default(0)
    .describe("Further seeded tasks with other parameters, for each train task."),
  refusal_share: z
    .number()
    .min(0)
    .max(0.5)
    .default(0.2)
    .describe("Least share of tasks that cannot be done; reached by varying the train tasks of that kind."),
  views: z
    .int()
    .min(1)
    .max(12)
    .default(12)
    .describe("Wordings of each task: 6 frames around its sentence times 2 ways to think."),
  seed: z.int().default(42).describe("Of the variations."),
});
