import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { UserError } from "../src/core/errors.ts";
import type { RunResult } from "../src/recipes/recipe.ts";
import { textTable } from "../src/report.ts";
import { readTrajectories } from "../src/trajectory-log.ts";
import { compare, judge } from "./run.ts";
import { judgementLine, judgementTable } from "./tables.ts";

/** A log file, or the log of a run's folder. */
function logOf(path: string): string {
  if (!existsSync(path)) throw new UserError(`${path}: there is no such log or run folder.`);
  if (!statSync(path).isDirectory()) return path;
  const log = join(path, "trajectories", "rank-0.jsonl");
  if (!existsSync(log)) throw new UserError(`${path}: this folder has no trajectories/rank-0.jsonl.`);
  return log;
}

/** Judges trajectory logs, each as a whole, and compares every one with the first, task by task. */
export function compareLogs(paths: readonly string[]): RunResult {
  const rows = paths.map((path) => {
    const trajectories = readTrajectories(logOf(path));
    if (trajectories.length === 0) throw new UserError(`${path}: no trajectories.`);
    return { label: path, judged: judge(trajectories) };
  });
  const [first, ...others] = rows;
  if (!first) throw new UserError("Name one log or more.");
  const comparisons = others.map(({ label, judged }) => ({
    log: label,
    against: first.label,
    ...compare(first.judged, judged),
  }));
  const text = [judgementTable(rows).replace(/^split/, "log  ")];
  if (comparisons.length > 0)
    text.push(
      "",
      `pass^1 against ${first.label}, on the tasks that both played (95 %: paired bootstrap over tasks):`,
      textTable([
        ["log", "tasks", "difference", "95 %"],
        ...comparisons.map(({ log, tasks, difference, interval }) => [
          log,
          String(tasks),
          difference === null ? "n/a" : difference.toFixed(3),
          interval ? `[${interval.map((end) => end.toFixed(3)).join(", ")}]` : "n/a",
        ]),
      ]),
    );
  for (const { label, judged } of rows)
    if (!judged.complete)
      text.push(
        `INCOMPLETE: ${label} lacks ${judged.missing.slice(0, 10).join(", ")}${judged.missing.length > 10 ? " …" : ""}`,
      );
  return {
    text: text.join("\n"),
    json: [...rows.map(({ label, judged }) => ({ log: label, ...judgementLine("all", judged) })), ...comparisons],
    exit_code: rows.some(({ judged }) => !judged.complete) ? 1 : 0,
  };
}
