import { UserError } from "./core/errors.ts";
import type { MetricsLog, Progress } from "./metrics.ts";
import { rankOutput } from "./rank-process.ts";
import type { Manifest, RunFolder } from "./run-folder.ts";

// Training in several processes, "ranks", each a Node and its Python (docs/several-processes.md). A launcher tells each
// of them its place by environment variables. Rank 0 alone writes the run's records and prints results.

/** This process's place among those of the run. */
export interface World {
  /** From 0. */
  rank: number;
  size: number;
  /** From 0 on this machine; the GPU that this rank takes. */
  local_rank: number;
  /** Ranks on this machine. */
  local_size: number;
}

/** No launcher: one process does all. */
export const alone: World = { rank: 0, size: 1, local_rank: 0, local_size: 1 };

/**
 * The place that a launcher (torchrun, accelerate launch) gave this process; `alone` without one.
 * @throws UserError naming the variable that is missing or makes no sense
 */
export function readWorld(env: NodeJS.ProcessEnv = process.env): World {
  const set = ["RANK", "WORLD_SIZE", "LOCAL_RANK"].filter((name) => env[name] !== undefined);
  if (set.length === 0 || (set.length === 1 && env.WORLD_SIZE === "1")) return alone;
  const size = readNumber(env, "WORLD_SIZE", 1);
  const rank = readNumber(env, "RANK", 0, size - 1);
  const local_size = env.LOCAL_WORLD_SIZE === undefined ? null : readNumber(env, "LOCAL_WORLD_SIZE", 1, size);
  const local_rank = readNumber(env, "LOCAL_RANK", 0, (local_size ?? size) - 1);
  if (size > 1) {
    if (!env.MASTER_ADDR) throw new UserError(`MASTER_ADDR is not set; expected rank 0's machine. ${REMEDY}`);
    readNumber(env, "MASTER_PORT", 1, 65_535);
  }
  return { rank, size, local_rank, local_size: local_size ?? size };
}

const REMEDY =
  "Start with --nproc, torchrun or accelerate launch, which set it; or unset RANK, WORLD_SIZE, LOCAL_RANK.";

function readNumber(env: NodeJS.ProcessEnv, name: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
  const text = env[name];
  const expected = `expected a whole number from ${least}${most === Number.MAX_SAFE_INTEGER ? "" : ` to ${most}`}`;
  if (text === undefined) throw new UserError(`${name} is not set; ${expected}. ${REMEDY}`);
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  throw new UserError(`${name} is '${text}'; ${expected}. ${REMEDY}`);
}

/**
 * The run's name, equal on every rank. `made` makes one up where there is one process: several would not agree on it.
 * @throws UserError where several ranks have no name
 */
export function nameForAll(name: string | null, world: World, made: () => string): string {
  if (name !== null) return name;
  if (world.size === 1) return made();
  throw new UserError(`name is not set, and ${world.size} processes have to agree on it. Set --name.`);
}

export const silent: Progress = { line() {}, status() {}, end() {} };

/** Nothing but errors comes from other ranks. */
export const progressOf = (world: World, progress: Progress): Progress => (world.rank === 0 ? progress : silent);

/** Where Python's output goes: rank 0's to stderr; of the others' only the last lines are kept, for errors. */
export const outputOf = ({ rank }: World): string => (rank === 0 ? "inherit" : (rankOutput(rank) ?? "pipe"));

/** The run's folder as other ranks have it: rank 0 made it and keeps its records. */
export function guestOf(recipe: string, dir: string, details: Record<string, unknown> = {}): RunFolder {
  return {
    dir,
    path: (...parts) => [dir, ...parts].join("/"),
    manifest: { recipe, details } as unknown as Manifest,
    update() {},
    close() {},
  };
}

export const noMetrics: MetricsLog = { write() {}, sync: () => 0, close() {} };
