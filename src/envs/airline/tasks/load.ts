import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pathProblem, UserError } from "../../../core/errors.ts";
import type { AirlineDb } from "../data/db.ts";
import { JsonError, lineAndColumn, parseJson } from "../data/python-json.ts";
import { isList, type PyValue } from "../data/python-values.ts";
import { utf8 } from "../data/utf8.ts";
import { databaseOf } from "../database.ts";
import type { AirlineOptions } from "../options.ts";
import { airlineToolNamed, airlineTools } from "../tools/index.ts";
import { type AirlineTask, readTask } from "./task.ts";

/** Tasks, and the file that they come from. */
export interface TaskSet {
  tasks: readonly AirlineTask[];
  /** As the user named it, or relative to the project. */
  path: string;
}

/** The synthetic suite as the project ships it: what `synthTasks()` makes, byte for byte. */
export const SHIPPED_TASKS = "data/airline/tasks.json";

/** Where a path of `TaskSet` lies. */
export const placeOf = (path: string): string =>
  path === SHIPPED_TASKS ? fileURLToPath(new URL(`../../../../${SHIPPED_TASKS}`, import.meta.url)) : path;

let shipped: readonly AirlineTask[] | null = null;

/**
 * The tasks that the options name: a file, or tasks.json in the database's folder, or the synthetic suite.
 * @throws UserError for a file that is missing or broken, or whose tasks don't fit the database
 */
export function loadTasks({ data_dir, tasks: file }: Pick<AirlineOptions, "data_dir" | "tasks">): TaskSet {
  if (file === null && data_dir === null) {
    shipped ??= readTaskFile(placeOf(SHIPPED_TASKS), databaseOf({ data_dir }));
    return { tasks: shipped, path: SHIPPED_TASKS };
  }
  const path = file ?? join(data_dir!, "tasks.json");
  if (file === null && !existsSync(path))
    throw new UserError(
      `${path}: there is no such file. Convert the original tasks with data airline convert, or name a file with tasks.`,
    );
  return { tasks: readTaskFile(path, databaseOf({ data_dir })), path };
}

/**
 * Reads a file of tasks: a JSON list of task records.
 * @throws UserError naming the file, the task and the fault: no JSON, a field that doesn't fit, an id or index that
 * stands twice, a user that the database lacks, a gold call of a tool that there is not
 */
export function readTaskFile(path: string, db: AirlineDb): AirlineTask[] {
  const records = readJsonList(path);
  const tasks: AirlineTask[] = [];
  for (const [at, record] of records.entries()) {
    const task = readTask(record, `${path}: task ${at}`);
    const where = `${path}: task '${task.id}'`;
    if (tasks.some(({ id }) => id === task.id))
      throw new UserError(`${where}: the id stands twice; ids must be unique.`);
    if (tasks.some(({ task_index }) => task_index === task.task_index))
      throw new UserError(`${where}: task_index ${task.task_index} stands twice.`);
    if (!db.users.has(task.user_id))
      throw new UserError(
        `${where}: the database has no user '${task.user_id}'. Is it the one that the tasks are for?`,
      );
    for (const { name } of task.actions)
      if (!airlineToolNamed(name))
        throw new UserError(
          `${where}: no tool '${name}'; expected one of ${airlineTools.map((tool) => tool.name).join(", ")}.`,
        );
    tasks.push(task);
  }
  return tasks;
}

function readJsonList(path: string): readonly PyValue[] {
  const text = utf8(readBytes(path), path);
  try {
    const value = parseJson(text);
    if (isList(value) && value.length > 0) return value;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new UserError(`${path}: no JSON at ${lineAndColumn(text, error.offset)}: ${error.message}.`);
  }
  throw new UserError(`${path}: expected a list of tasks, with at least one.`);
}

function readBytes(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw pathProblem(error, path) ?? error;
  }
}

/** The SHA-256 of a file, hex. @throws UserError for one that can't be read */
export function fileSha256(path: string): string {
  return createHash("sha256")
    .update(readBytes(placeOf(path)))
    .digest("hex");
}
