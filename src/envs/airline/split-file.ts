import { readFileSync } from "node:fs";
import { z } from "zod";
import { errorText, pathProblem, UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";

// split.json (airline.md section 5): which tasks are trained on, by their `task_index`.

const ids = z.array(z.int().nonnegative());

const splitFileSchema = z
  .strictObject({
    seen_task_ids: ids,
    unseen_task_ids: ids,
    split_strategy: z.literal("stratified_by_stride"),
    total_tasks: z.int().positive(),
    /** Seen tasks with a clean successful trajectory in the collection. */
    covered_seen: ids.optional(),
    uncovered_seen: ids.optional(),
  })
  .superRefine((file, context) => {
    const problem = (path: string, message: string) => context.addIssue({ code: "custom", path: [path], message });
    const { seen_task_ids: seen, unseen_task_ids: unseen, covered_seen, uncovered_seen, total_tasks } = file;
    const all = [...seen, ...unseen];
    if (new Set(all).size < all.length) problem("seen_task_ids", "a task stands twice, or is unseen too");
    if (all.length !== total_tasks) problem("total_tasks", `it is ${total_tasks}, but ${all.length} tasks are listed`);
    if (!covered_seen !== !uncovered_seen) problem("covered_seen", "it goes with uncovered_seen, or neither is there");
    else if (covered_seen && uncovered_seen) {
      const parts = [...covered_seen, ...uncovered_seen].toSorted((a, b) => a - b);
      if (JSON.stringify(parts) !== JSON.stringify(seen.toSorted((a, b) => a - b)))
        problem("covered_seen", "with uncovered_seen it must list each seen task once");
    }
  });

export type SplitFile = z.output<typeof splitFileSchema>;

/**
 * Holds out every (total / holdout)-th task, beginning with the one at 0. Where rounding gives a task twice, tasks from
 * the end fill up.
 * @throws UserError unless 1 ≤ holdout < total
 */
export function strideSplit(total: number, holdout: number): SplitFile {
  if (!(Number.isInteger(total) && Number.isInteger(holdout) && holdout >= 1 && holdout < total))
    throw new UserError(
      `Of ${total} tasks ${holdout} cannot be held out; expected at least 1, and fewer than there are.`,
    );
  const unseen = new Set(Array.from({ length: holdout }, (_, i) => Math.floor(i * (total / holdout))));
  for (let id = total - 1; unseen.size < holdout; id--) unseen.add(id);
  const all = Array.from({ length: total }, (_, id) => id);
  return {
    seen_task_ids: all.filter((id) => !unseen.has(id)),
    unseen_task_ids: all.filter((id) => unseen.has(id)),
    split_strategy: "stratified_by_stride",
    total_tasks: total,
  };
}

/** The split with its seen tasks divided by whether a clean success of theirs is known. */
export function withCoverage(split: SplitFile, covers: (id: number) => boolean): SplitFile {
  const { seen_task_ids: seen } = split;
  return { ...split, covered_seen: seen.filter(covers), uncovered_seen: seen.filter((id) => !covers(id)) };
}

/** @throws UserError for a file that is missing, or no split.json */
export function readSplitFile(path: string): SplitFile {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8").replace(/^\ufeff/, ""));
  } catch (error) {
    throw pathProblem(error, path) ?? new UserError(`${path}: it is no JSON: ${errorText(error)}.`);
  }
  const parsed = splitFileSchema.safeParse(value);
  if (!parsed.success) throw new UserError(`${path}: ${describeIssues(parsed.error)}.`);
  return parsed.data;
}

export function splitFileText(split: SplitFile): string {
  return `${JSON.stringify(split)}\n`;
}
