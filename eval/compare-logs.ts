import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Env } from "../src/core/env.ts";
import { UserError } from "../src/core/errors.ts";
import { envs, loadEnv } from "../src/envs/index.ts";
import type { RunResult } from "../src/recipes/recipe.ts";
import { textTable } from "../src/report.ts";
import { readTrajectories } from "../src/trajectory-log.ts";
import { compare, judge } from "./run.ts";
import { interval, judgementLine, judgementTable, type Labelled, measureTable, number } from "./tables.ts";
import { type Versions, versionDifferences, versionsOf } from "./versions.ts";

export interface CompareOptions {
  /** The environment, for its own measures; left out: the one that the logs name, where it is one of ours. */
  env?: string;
  /** Compare what was made with different snapshots, splits, scorers or environments too. */
  across_versions?: boolean;
}

/** A log file, or the log of a run's folder. */
function logOf(path: string): string {
  if (!existsSync(path)) throw new UserError(`${path}: there is no such log or run folder.`);
  if (!statSync(path).isDirectory()) return path;
  const log = join(path, "trajectories", "rank-0.jsonl");
  if (!existsSync(log)) throw new UserError(`${path}: this folder has no trajectories/rank-0.jsonl.`);
  return log;
}

/**
 * Judges trajectory logs, each as a whole, and compares every one with the first, task by task.
 * @throws UserError for logs that were made with different versions, unless that is asked for
 */
export async function compareLogs(paths: readonly string[], options: CompareOptions = {}): Promise<RunResult> {
  const logs = paths.map((path) => {
    const trajectories = readTrajectories(logOf(path));
    if (trajectories.length === 0) throw new UserError(`${path}: no trajectories.`);
    return { path, trajectories, env_id: trajectories[0]!.env, versions: versionsOf(path) };
  });
  const [head] = logs;
  if (!head) throw new UserError("Name one log or more.");
  const notes = logs.slice(1).flatMap((log) => checkVersions(head, log, options.across_versions ?? false));
  const env = options.env ? await loadEnv(options.env) : envNamed(head.env_id);
  const rules = logs.every(({ env_id }) => env && nameOf(env_id) === env.name) ? env!.benchmark : null;
  if (options.env && !logs.every(({ env_id }) => nameOf(env_id) === env!.name))
    throw new UserError(`--env is '${env!.name}', but the logs are of ${logs.map(({ env_id }) => env_id).join(", ")}.`);

  const rows: Labelled[] = logs.map(({ path, trajectories }) => ({
    label: path,
    judged: judge(trajectories, { rules }),
  }));
  const [first, ...others] = rows as [Labelled, ...Labelled[]];
  const comparisons = others.map(({ label, judged }) => ({
    log: label,
    against: first.label,
    ...compare(first.judged, judged),
  }));
  const measures = measureTable(rows, rules);
  const text = [judgementTable(rows).replace(/^split/, "log  "), ...(measures === "" ? [] : ["", measures])];
  if (comparisons.length > 0)
    text.push(
      "",
      `pass^1 against ${first.label}, on the tasks that both played (95 %: paired bootstrap over tasks):`,
      textTable([
        ["log", "tasks", "difference", "95 %"],
        ...comparisons.map(({ log, tasks, difference, interval: range }) => [
          log,
          String(tasks),
          number(difference),
          interval(range),
        ]),
      ]),
    );
  for (const { label, judged } of rows)
    if (!judged.complete)
      text.push(
        `INCOMPLETE: ${label} lacks ${judged.missing.slice(0, 10).join(", ")}${judged.missing.length > 10 ? " …" : ""}`,
      );
  return {
    text: [...text, ...notes].join("\n"),
    json: [
      ...rows.map(({ label, judged }, index) => ({
        log: label,
        ...judgementLine("all", judged),
        versions: logs[index]!.versions,
      })),
      ...comparisons,
    ],
    exit_code: rows.some(({ judged }) => !judged.complete) ? 1 : 0,
  };
}

const nameOf = (env_id: string): string => env_id.split("@")[0]!;

function envNamed(env_id: string): Env | null {
  return Object.hasOwn(envs, nameOf(env_id)) ? envs[nameOf(env_id)]! : null;
}

interface Log {
  path: string;
  env_id: string;
  versions: Versions | null;
}

/** What the reader should know, where too little is known to tell. @throws UserError where versions differ */
function checkVersions(first: Log, second: Log, across: boolean): string[] {
  const known = first.versions && second.versions;
  const differences = known
    ? versionDifferences(first.versions!, second.versions!)
    : first.env_id === second.env_id
      ? []
      : [`environment ${first.env_id} and ${second.env_id}`];
  if (differences.length > 0) {
    const told = `${first.path} and ${second.path} were made with different versions: ${differences.join("; ")}.`;
    if (across) return [`NOTE: ${told}`];
    throw new UserError(`${told} Their numbers do not compare; --across-versions compares them all the same.`);
  }
  const bare = [first, second].filter(({ versions }) => versions === null).map(({ path }) => path);
  return known
    ? []
    : [
        `note: ${bare.join(", ")} without a benchmark's summary.json beside it: only the environment's id was compared.`,
      ];
}
