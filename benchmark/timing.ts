import { existsSync } from "node:fs";
import { writeJson, writeWhole } from "../src/run-folder.ts";
import { readWholeLines } from "../src/trajectory-log.ts";
import type { EpisodeTimes } from "./play.ts";
import { keyOf } from "./resume.ts";

// Wall-clock times of a benchmark. They lie apart from its report: no two plays have the same.

export const TIMES_FILE = "timing.jsonl";

/** A line of it. */
export interface TimedEpisode extends EpisodeTimes {
  task_id: string;
  trial: number;
}

/** What one sitting took: a benchmark that was resumed has several. Only those that ended are told. */
export interface Sitting {
  command: string;
  started: string;
  wall_s: number;
  episodes: number;
  /** The policy's own account, as tokens, cost, latency. */
  [key: string]: unknown;
}

/** Means an episode in milliseconds; null: not known, as of a local model, which plays a whole batch at a time. */
export interface Timing {
  episodes: number;
  avg_total_ms: number | null;
  avg_policy_ms: number | null;
  avg_env_ms: number | null;
  /** What is neither the policy's nor the environment's. */
  avg_overhead_ms: number | null;
  /** Of all sittings, for each success: failures cost too. null: no success. */
  wall_ms_per_success: number | null;
  sittings: readonly Sitting[];
}

/** The lines of the file, the last one of each episode. */
export function readTimes(path: string): Map<string, TimedEpisode> {
  const rows = readWholeLines(path).map(({ value }) => value as TimedEpisode);
  return new Map(rows.map((row) => [keyOf(row), row]));
}

/** Leaves the file with whole lines of the episodes that are kept. */
export function healTimes(path: string, kept: ReadonlyMap<string, unknown>): void {
  if (!existsSync(path)) return;
  const rows = [...readTimes(path)].filter(([key]) => kept.has(key));
  writeWhole(path, rows.map(([, row]) => `${JSON.stringify(row)}\n`).join(""));
}

/** Adds up and writes timing.json. */
export function writeTiming(
  path: string,
  times: readonly TimedEpisode[],
  sittings: readonly Sitting[],
  successes: number,
): Timing {
  const average = (of: (row: TimedEpisode) => number | null) => {
    const values = times.flatMap((row) => of(row) ?? []);
    return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
  };
  const wall_ms = 1000 * sittings.reduce((sum, { wall_s }) => sum + wall_s, 0);
  const timing: Timing = {
    episodes: times.length,
    avg_total_ms: average(({ total_ms }) => total_ms),
    avg_policy_ms: average(({ policy_ms }) => policy_ms),
    avg_env_ms: average(({ env_ms }) => env_ms),
    avg_overhead_ms: average(({ total_ms, policy_ms, env_ms }) =>
      total_ms === null || policy_ms === null || env_ms === null ? null : Math.max(0, total_ms - policy_ms - env_ms),
    ),
    wall_ms_per_success: successes === 0 ? null : wall_ms / successes,
    sittings,
  };
  writeJson(path, timing);
  return timing;
}
