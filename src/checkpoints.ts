import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { UserError } from "./core/errors.ts";

// The twin of py/trainers/checkpoints.py, which writes what is read here.

const COMPLETE = "complete.json";

const count = z.int().nonnegative();
const mark = z.object({ step: count, ranks: z.int().positive(), files: z.record(z.string(), count) });
const rankState = z.object({
  step: count,
  /** Bytes of each log of this process, by its path in the run folder. */
  logs: z.record(z.string(), count),
  counters: z.record(z.string(), z.unknown()),
});
export type RankState = z.infer<typeof rankState>;

export interface Checkpoint {
  dir: string;
  /** Optimizer steps taken. */
  step: number;
  /** Processes that wrote it. */
  ranks: number;
}

/**
 * The newest whole checkpoint of a run folder, by step; null: it has none. `skipped`: newer ones that are not whole, with
 * what is wrong.
 */
export function newestCheckpoint(dir: string): { checkpoint: Checkpoint | null; skipped: string[] } {
  const names = existsSync(dir) ? readdirSync(dir) : [];
  const numbered = names
    .flatMap((name) => {
      const [, number] = /^checkpoint-(\d+)$/.exec(name) ?? [];
      return number ? [{ name, step: Number(number) }] : [];
    })
    .sort((a, b) => b.step - a.step);
  const skipped: string[] = [];
  for (const { name, step } of numbered) {
    const folder = join(dir, name);
    const read = readMark(folder);
    if (typeof read !== "string" && read.step === step)
      return { checkpoint: { dir: folder, step, ranks: read.ranks }, skipped };
    skipped.push(`${name} is not whole: ${typeof read === "string" ? read : `it says it is of step ${read.step}`}`);
  }
  return { checkpoint: null, skipped };
}

/** The mark of a whole checkpoint, or what is wrong with it. */
function readMark(folder: string): z.infer<typeof mark> | string {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(join(folder, COMPLETE), "utf8"));
  } catch {
    return `${COMPLETE}, which is written last, is missing`;
  }
  const parsed = mark.safeParse(value);
  if (!parsed.success) return `${COMPLETE} can't be read`;
  for (const [name, bytes] of Object.entries(parsed.data.files)) {
    const path = join(folder, name);
    if (!existsSync(path)) return `${name} is missing`;
    const { size } = statSync(path);
    if (size !== bytes) return `${name} has ${size} bytes instead of ${bytes}`;
  }
  return parsed.data;
}

/** Where the logs of one process ended when the checkpoint was written. @throws UserError where it can't be read */
export function readRankState(checkpoint: Checkpoint, rank: number): RankState {
  const path = join(checkpoint.dir, `rank-${rank}.json`);
  try {
    return rankState.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    throw new UserError(`${path} can't be read. Remove ${checkpoint.dir} to go on from an older checkpoint.`);
  }
}
