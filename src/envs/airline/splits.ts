import { join } from "node:path";
import { UserError } from "../../core/errors.ts";
import type { LoadedTasks } from "../../core/task.ts";
import { TABLES } from "./data/db.ts";
import { databaseOf } from "./database.ts";
import type { TaskGroups } from "./evaluation/schema.ts";
import type { AirlineOptions } from "./options.ts";
import { readSplitFile, type SplitFile, strideSplit, withCoverage } from "./split-file.ts";
import { fileSha256, loadTasks } from "./tasks/load.ts";
import { teacherSolves } from "./tasks/solved.ts";
import { extraTasks } from "./tasks/synth.ts";
import type { AirlineTask } from "./tasks/task.ts";

// Splits (airline.md section 5): groups of one list of tasks, and the extra pool.

/** Names for --help. The first is what training uses. */
export const airlineSplits = ["seen", "unseen", "test", "extra", "covered_seen", "uncovered_seen"] as const;
export type AirlineSplit = (typeof airlineSplits)[number];

/**
 * The tasks of a split. `test` are all tasks, as in τ-bench; `extra` is the pool beside the synthetic suite.
 * @throws UserError for a name that there is not, a file that is missing or broken, a split that is empty
 */
export function loadAirlineSplit(split: string, options: AirlineOptions): LoadedTasks<AirlineTask> {
  if (!(airlineSplits as readonly string[]).includes(split))
    throw new UserError(`split is '${split}'; expected one of ${airlineSplits.join(", ")}.`);
  const { data_dir, split_file } = options;
  const tables = data_dir === null ? [] : TABLES.map((table) => join(data_dir, `${table}.json`));
  if (split === "extra") {
    if (data_dir !== null)
      throw new UserError("split is 'extra', whose tasks are of the synthetic database: leave data_dir out.");
    return { tasks: extraTasks(), sources: {} };
  }
  const { tasks, path } = loadTasks(options);
  const usesFile = split_file !== null && split !== "test";
  const files = [...tables, path, ...(usesFile ? [split_file] : [])];
  const sources = Object.fromEntries(files.map((file) => [file, fileSha256(file)]));
  if (split === "test") return { tasks, sources };
  const where = usesFile ? split_file : path;
  const byIndex = new Map(tasks.map((task) => [task.task_index, task]));
  const groups = splitOf(tasks, split_file);
  const missing = [...groups.seen_task_ids, ...groups.unseen_task_ids].find((id) => !byIndex.has(id));
  if (missing !== undefined) throw new UserError(`${where}: there is no task ${missing}: the split is of other tasks.`);
  const needsCoverage = split.endsWith("covered_seen") && !groups.covered_seen;
  const ids = groupOf(split as AirlineSplit, needsCoverage ? coveredByTeacher(groups, byIndex, options) : groups);
  if (ids.length === 0) throw new UserError(`${where}: '${split}' is empty.`);
  return { tasks: ids.map((id) => byIndex.get(id)!), sources };
}

function groupOf(split: AirlineSplit, groups: SplitFile): readonly number[] {
  switch (split) {
    case "seen":
      return groups.seen_task_ids;
    case "unseen":
      return groups.unseen_task_ids;
    case "covered_seen":
      return groups.covered_seen!;
    case "uncovered_seen":
      return groups.uncovered_seen!;
    default:
      throw new Error(`'${split}' is no group of a split file`);
  }
}

/** A split.json, or the rule of strides with a fifth held out, as 10 of 50. */
export function splitOf(tasks: readonly AirlineTask[], split_file: string | null): SplitFile {
  return split_file === null
    ? strideSplit(tasks.length, Math.max(1, Math.floor(tasks.length / 5)))
    : readSplitFile(split_file);
}

/** The groups that a report tells apart, by task id. Without a collection, tasks without a script leave the seen ones unknown. */
export function taskGroups(options: AirlineOptions): TaskGroups {
  const { tasks } = loadTasks(options);
  const byIndex = new Map(tasks.map((task) => [task.task_index, task]));
  const idsOf = (indices: readonly number[]) => indices.flatMap((index) => byIndex.get(index)?.id ?? []);
  const groups = splitOf(tasks, options.split_file);
  const unseen = idsOf(groups.unseen_task_ids);
  const decided = groups.covered_seen !== undefined;
  if (!decided && tasks.some(({ script }) => script === null))
    return { covered_seen: null, uncovered_seen: null, unseen };
  const known = decided ? groups : coveredByTeacher(groups, byIndex, options);
  return { covered_seen: idsOf(known.covered_seen!), uncovered_seen: idsOf(known.uncovered_seen!), unseen };
}

const covered = new WeakMap<AirlineTask, boolean>();

/** Without a collection it is the scripted teacher that decides; each task is played once a process. */
function coveredByTeacher(
  groups: SplitFile,
  byIndex: ReadonlyMap<number, AirlineTask>,
  options: AirlineOptions,
): SplitFile {
  const db = databaseOf(options);
  return withCoverage(groups, (id) => {
    const task = byIndex.get(id)!;
    if (task.script === null)
      throw new UserError(
        `task '${task.id}' has no script, so what is covered must come from a collection: name its split_file.`,
      );
    const known = covered.get(task) ?? teacherSolves(task, db);
    covered.set(task, known);
    return known;
  });
}
