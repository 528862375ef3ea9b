import { z } from "zod";
import { rewardModes } from "./prm/rewards.ts";
import { userOptions } from "./users/index.ts";

/**
 * What a user may set under `env_options`. Where a default differs from what the reference does, the description says
 * so (airline.md 0.1).
 */
export const airlineOptions = z.strictObject({
  data_dir: z
    .string()
    .nullable()
    .default(null)
    .describe("A folder with flights.json, reservations.json and users.json; left out: the synthetic database."),
  tasks: z
    .string()
    .nullable()
    .default(null)
    .describe("A file of tasks; left out: tasks.json in data_dir, or the synthetic suite where that is left out."),
  split_file: z
    .string()
    .nullable()
    .default(null)
    .describe("A split.json, as a collection writes it; left out: what the rule of strides gives."),
  prompt: z
    .strictObject({
      mode: z
        .enum(["policy", "date-only"])
        .default("policy")
        .describe("date-only: the agent never sees the airline's policy, as in the reference."),
      tools: z.boolean().default(true).describe("Whether the prompt lists the tools; false as in the reference's SFT."),
    })
    .prefault({}),
  done_latch: z
    .boolean()
    .default(true)
    .describe("false: nothing stops actions after the end, and a second end pays on nearly every task (reference)."),
  scoring: z
    .strictObject({
      number_mode: z
        .enum(["python", "normalized"])
        .default("python")
        .describe("python: 50 and 50.0 are two values; normalized, for training: they are one."),
      strict_refusal: z
        .boolean()
        .default(false)
        .describe("A task without writes asks for a look at the data, and a transfer exactly where the gold has one."),
    })
    .prefault({}),
  tools: z
    .strictObject({
      fix_onestop: z.boolean().default(false).describe("The one-stop search shows the second leg's own day."),
    })
    .prefault({}),
  protocol: z
    .strictObject({
      max_calls_per_message: z.int().min(1).default(1),
      tool_response_max_chars: z
        .int()
        .min(2)
        .nullable()
        .default(null)
        .describe("Cuts the middle out of longer results: 256 in the reference's training."),
      max_context_chars: z.int().min(1).nullable().default(null),
      drop_first_user_message: z
        .boolean()
        .default(false)
        .describe("The agent speaks first and never reads the user's opening, as in the reference's training."),
    })
    .prefault({}),
  user: userOptions.prefault({}).describe("Who plays the customer."),
  reward: z
    .strictObject({
      mode: z.enum(rewardModes).default("binary"),
      only_saturated: z
        .boolean()
        .default(false)
        .describe("prm_lite: process scores count only in groups whose outcomes are all the same."),
    })
    .refine(({ mode, only_saturated }) => !only_saturated || mode === "prm_lite", {
      path: ["only_saturated"],
      error: "only mode prm_lite has process scores in its rewards: set it, or leave this out",
    })
    .prefault({}),
  prm: z
    .strictObject({
      keyword_mode: z.enum(["substring", "token"]).default("substring"),
      cheap_reasoning: z.enum(["off", "on"]).default("off"),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      error_rate: z
        .enum(["trajectory", "call"])
        .default("trajectory")
        .describe("Which error rate heads a report; both are told. trajectory: as in all published numbers."),
    })
    .prefault({}),
});

export type AirlineOptions = z.output<typeof airlineOptions>;
