import { z } from "zod";
import { probeSchema } from "./probe.ts";
import type { ArxivTask } from "./types.ts";

// What a split file holds.

const rate = z.number().min(0).max(1);

export const splitFileSchema = z.strictObject({
  version: z.string().min(1),
  task_set: z.literal("expanded"),
  task_count: z.int().positive(),
  /** The split file, or FILE:GROUP, that this one was made from; null: the task set itself. */
  derived_from: z.string().nullable(),
  split: z.record(z.string(), z.array(z.string())),
  /** Template keys (template or category, number of calls) that only ood_test may have. */
  ood_keys: z.array(z.tuple([z.string(), z.int().nonnegative()])),
  /** Tasks that were looked at while the protocol was made: never called held-out. */
  pilot_dev_ids: z.array(z.string()),
  /** Strict success rate by task id, of the model that `rates_metadata` names. */
  rates: z.record(z.string(), rate).optional(),
  rates_metadata: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
  /** Which groups of a frozen policy's rollouts differed in reward, by task. */
  probe: probeSchema.optional(),
  policy: z.record(z.string(), z.string()),
});

export type SplitFile = z.output<typeof splitFileSchema>;

export type TemplateKey = readonly [template: string, calls: number];

/** What a split keeps together: the template (or category) and how many calls the gold solution has. */
export function templateKey(task: Pick<ArxivTask, "template" | "category" | "steps">): TemplateKey {
  return [task.template ?? task.category, task.steps.length];
}
