import type { TaskSet } from "./env.ts";
import { nearest, UserError } from "./errors.ts";

/** Only the tasks named; none named: all. @throws UserError for one that is not there */
export function pickTasks(tasks: TaskSet, ids: readonly string[]): TaskSet {
  if (ids.length === 0) return tasks;
  for (const [index, id] of ids.entries()) {
    if (ids.indexOf(id) !== index) throw new UserError(`task_ids names '${id}' twice.`);
    if (tasks.ids.includes(id)) continue;
    const near = nearest(id, tasks.ids);
    throw new UserError(`task_ids: ${tasks.split} has no task '${id}'${near ? `; did you mean '${near}'?` : "."}`);
  }
  return { ...tasks, ids };
}
