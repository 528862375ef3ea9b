import { z } from "zod";
import type { DynamicSampling, EntryResult } from "../bridge/protocol.ts";
import { UserError } from "../core/errors.ts";

// DAPO's dynamic sampling (arXiv:2503.14476): groups that teach nothing give way to groups of other tasks.

export const dynamicSamplingKeys = {
  dynamic_sampling: z
    .boolean()
    .nullable()
    .default(null)
    .describe("Replace groups without a difference by groups of other tasks; left out: follows dapo."),
  dynamic_sampling_metric: z
    .enum(["reward", "success"])
    .default("reward")
    .describe("What must differ within a group to be learnt from."),
  dynamic_sampling_std_threshold: z
    .number()
    .nonnegative()
    .default(0)
    .describe("Standard deviation of a group's rewards above which it is learnt from."),
  dynamic_sampling_max_resamples: z
    .int()
    .positive()
    .default(32)
    .describe("Groups played beside a batch's own, at most."),
  dynamic_sampling_on_exhausted: z
    .enum(["fail", "fill_with_best_std"])
    .default("fill_with_best_std")
    .describe("Where too few groups differ: stop, or take the rejected ones of greatest spread, if any has one."),
};

interface DynamicSamplingConfig {
  dapo: boolean;
  dynamic_sampling: boolean | null;
  dynamic_sampling_metric: "reward" | "success";
  dynamic_sampling_std_threshold: number;
  dynamic_sampling_max_resamples: number;
  dynamic_sampling_on_exhausted: "fail" | "fill_with_best_std";
}

/**
 * What Python gets; null: off. It is part of DAPO and follows it, unless it was set itself (arxiv.md 10.4).
 * @throws UserError where a key is set that would be ignored
 */
export function dynamicSamplingOf(config: DynamicSamplingConfig, given: ReadonlySet<string>): DynamicSampling {
  if (!(config.dynamic_sampling ?? config.dapo)) {
    const ignored = Object.keys(dynamicSamplingKeys).find((key) => key !== "dynamic_sampling" && given.has(key));
    if (ignored)
      throw new UserError(`${ignored} is set, but dynamic sampling is off. Add --dynamic-sampling, or leave it out.`);
    return null;
  }
  if (config.dynamic_sampling_metric === "success" && given.has("dynamic_sampling_std_threshold"))
    throw new UserError(
      "dynamic_sampling_std_threshold is of rewards, but dynamic_sampling_metric is 'success': a group is learnt from " +
        "where not all its members agree. Leave one of the two out.",
    );
  return {
    metric: config.dynamic_sampling_metric,
    std_threshold: config.dynamic_sampling_std_threshold,
    max_resamples: config.dynamic_sampling_max_resamples,
    on_exhausted: config.dynamic_sampling_on_exhausted,
  };
}

/** What a run's summary says of it, a line; [] where it was off. */
export function resampledText(resampled: EntryResult<"grpo">["dynamic_sampling"]): string[] {
  if (!resampled) return [];
  const { accepted_groups, rejected_groups, attempts, filled_groups } = resampled;
  return [
    `dynamic sampling: ${accepted_groups} groups accepted, ${rejected_groups} rejected, ${attempts} played in the place ` +
      `of others, ${filled_groups} filled in`,
  ];
}
