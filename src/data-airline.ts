import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { kebab } from "./config.ts";
import { UserError } from "./core/errors.ts";
import { writeWhole } from "./core/whole-file.ts";
import { convertTasks, ORIGINAL_COUNTS } from "./data-airline-convert.ts";
import { airlineDbFiles, SHIPPED_SEED, synthAirlineDb, writeAirlineDb } from "./envs/airline/data/synth.ts";
import { databaseOf } from "./envs/airline/database.ts";
import { splitFileText, strideSplit, withCoverage } from "./envs/airline/split-file.ts";
import { splitOf } from "./envs/airline/splits.ts";
import { databaseProblems, goldCounts, taskFindings } from "./envs/airline/tasks/check-data.ts";
import { loadTasks, placeOf, SHIPPED_TASKS } from "./envs/airline/tasks/load.ts";
import { proveTask } from "./envs/airline/tasks/proof.ts";
import { teacherSolves } from "./envs/airline/tasks/solved.ts";
import { synthTasks } from "./envs/airline/tasks/synth.ts";
import { taskFileText } from "./envs/airline/tasks/task-file.ts";
import type { RunResult } from "./recipes/recipe.ts";

// `data airline db|tasks|convert|split|check`: the family's database, tasks and splits.

/** Flags of these actions alone. */
export interface AirlineDataFlags {
  /** db: above 0, at most 2. */
  scale?: number;
  /** convert: a module of τ-bench's. */
  tasks_py?: string;
  /** convert: the interpreter. */
  python?: string;
  /** split: how many tasks are unseen. */
  holdout?: number;
}

export interface AirlineDataOptions {
  files: readonly string[];
  output?: string;
  seed?: number;
  check?: boolean;
  flags: AirlineDataFlags;
}

type Option = "files" | "output" | "seed" | "check" | keyof AirlineDataFlags;

interface Action {
  takes: readonly Option[];
  run(options: AirlineDataOptions): RunResult | Promise<RunResult>;
}

const ACTIONS: Record<string, Action> = {
  db: { takes: ["output", "seed", "scale", "check"], run: makeDatabase },
  tasks: { takes: ["output", "seed", "check"], run: makeTasks },
  convert: { takes: ["output", "tasks_py", "python"], run: convert },
  split: { takes: ["files", "output", "holdout"], run: makeSplit },
  check: { takes: ["files"], run: check },
};

export const airlineDataActions: readonly string[] = Object.keys(ACTIONS);

/** @throws UserError for an option that the action would ignore, and for what it can't read or write */
export async function airlineAction(name: string, options: AirlineDataOptions): Promise<RunResult> {
  const action = ACTIONS[name]!;
  const { files, flags, ...rest } = options;
  const given = { ...rest, ...flags, files: files.length > 0 ? files : undefined };
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === false || (action.takes as readonly string[]).includes(key)) continue;
    throw new UserError(
      key === "files"
        ? `data airline ${name} takes no files; got ${files[0]}.`
        : `data airline ${name} takes no --${kebab(key)}.`,
    );
  }
  return action.run(options);
}

const seedOf = ({ seed }: AirlineDataOptions): string => (seed === undefined ? SHIPPED_SEED : String(seed));

function outputOf({ output }: AirlineDataOptions, name: string, like: string): string {
  if (output === undefined) throw new UserError(`data airline ${name}: name where to write, as --output ${like}.`);
  return output;
}

/** The synthetic database as a folder, or whether a folder is it. */
function makeDatabase(options: AirlineDataOptions): RunResult {
  const output = outputOf(options, "db", "airline-data");
  const db = synthAirlineDb(seedOf(options), options.flags.scale);
  if (options.check) return checked(output, differences(output, airlineDbFiles(db)));
  writeAirlineDb(output, db);
  const counts = { flights: db.flights.size, reservations: db.reservations.size, users: db.users.size };
  const { flights, reservations, users } = counts;
  return {
    text: `${output}: ${flights} flights, ${reservations} reservations, ${users} users`,
    json: [{ output, ...counts }],
  };
}

/** The synthetic suite as a file, or whether a file is it. */
function makeTasks(options: AirlineDataOptions): RunResult {
  const { output = SHIPPED_TASKS, seed, check: only_check } = options;
  if (output === SHIPPED_TASKS && seed !== undefined && !only_check)
    throw new UserError(`${SHIPPED_TASKS} is what the default seed gives. Name another file with --output.`);
  const tasks = synthTasks(seedOf(options));
  const text = taskFileText(tasks);
  if (only_check) return checked(output, differences(".", { [placeOf(output)]: text }));
  writeWhole(placeOf(output), text);
  return { text: `${output}: ${tasks.length} tasks`, json: [{ output, ...goldCounts(tasks) }] };
}

/** @param files texts by path below the folder */
function differences(folder: string, files: Record<string, string>): string[] {
  return Object.entries(files).flatMap(([name, text]) => {
    const path = folder === "." ? name : join(folder, name);
    if (!existsSync(path)) return [`${name}: it is not there`];
    const lines = text.split("\n");
    const own = readFileSync(path, "utf8").split("\n");
    const at = lines.findIndex((line, i) => line !== own[i]);
    if (at < 0 && own.length === lines.length) return [];
    return [`${name}: line ${(at < 0 ? lines.length : at) + 1} is not what the seed gives`];
  });
}

async function convert(options: AirlineDataOptions): Promise<RunResult> {
  const { tasks_py, python } = options.flags;
  if (tasks_py === undefined)
    throw new UserError("data airline convert: name the module, as --tasks-py tasks_test.py.");
  const converted = await convertTasks(tasks_py, outputOf(options, "convert", "tasks.json"), { python });
  const { output, tasks, actions, writes, as_original } = converted;
  const { tasks: t, actions: a, writes: w } = ORIGINAL_COUNTS;
  const like = as_original ? "as the originals have" : `the originals have ${t} tasks, ${a} gold actions, ${w} writes`;
  return {
    text: `${output}: ${tasks} tasks, ${actions} gold actions, ${writes} writes; ${like}`,
    json: [converted],
  };
}

/** A folder with a database and tasks, or the data that the project ships. */
function folderOf(files: readonly string[], name: string): { data_dir: string | null; tasks: null } {
  const [data_dir = null, ...rest] = files;
  if (rest.length > 0) throw new UserError(`data airline ${name} takes one folder; got ${files.join(", ")}.`);
  return { data_dir, tasks: null };
}

/** A split.json, with what is covered where the scripted teacher can tell. */
function makeSplit(options: AirlineDataOptions): RunResult {
  const output = outputOf(options, "split", "split.json");
  const from = folderOf(options.files, "split");
  const { tasks } = loadTasks(from);
  const { holdout } = options.flags;
  const plain = holdout === undefined ? splitOf(tasks, null) : strideSplit(tasks.length, holdout);
  const scripted = tasks.every(({ script }) => script !== null);
  const db = databaseOf(from);
  const split = scripted
    ? withCoverage(plain, (id) => tasks.some((task) => task.task_index === id && teacherSolves(task, db)))
    : plain;
  writeWhole(output, splitFileText(split));
  const covered = split.covered_seen ? `, of which ${split.covered_seen.length} are covered` : "";
  return {
    text: `${output}: ${split.seen_task_ids.length} seen${covered}, ${split.unseen_task_ids.length} unseen`,
    json: [{ output, ...split }],
  };
}

/** Whether records point to each other, gold runs and, of our own tasks, is proven; what it breaks is a note. */
function check({ files }: AirlineDataOptions): RunResult {
  const from = folderOf(files, "check");
  const db = databaseOf(from);
  const { tasks, path } = loadTasks(from);
  const { problems: failing, notes } = taskFindings(tasks, db);
  const unproven = tasks
    .filter(({ proof }) => proof)
    .flatMap((task) => proveTask(task, db).map((why) => `${task.id}: ${why}`));
  const problems = [...databaseProblems(db), ...failing, ...unproven];
  const { actions, writes } = goldCounts(tasks);
  const summary = `${path}: ${tasks.length} tasks, ${actions} gold actions, ${writes} writes`;
  const lines = [
    ...notes.map((note) => `note: ${note}`),
    ...problems.map((problem) => `problem: ${problem}`),
    problems.length === 0 ? `${summary}: good` : `${summary}: ${problems.length} problems`,
  ];
  return {
    text: lines.join("\n"),
    json: [{ path, ok: problems.length === 0, ...goldCounts(tasks), problems, notes }],
    exit_code: problems.length === 0 ? 0 : 1,
  };
}

function checked(path: string, problems: readonly string[]): RunResult {
  return {
    text: problems.length === 0 ? `${path}: good` : problems.map((problem) => `${path}: ${problem}`).join("\n"),
    json: [{ path, ok: problems.length === 0, problems }],
    exit_code: problems.length === 0 ? 0 : 1,
  };
}
