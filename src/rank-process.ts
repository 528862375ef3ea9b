import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { writeWhole } from "./core/whole-file.ts";
import type { World } from "./world.ts";

// How a process ends, so that several of them tell the person what happened once. Under `--nproc` each rank leaves a
// note, with its process id while it runs and then with how it ended; rank-tree.ts reads it, which is not its parent
// (torch's launcher is). Under a launcher that the user started, rank 0 speaks, and others where only they know.

/** Names the folder of the notes; set by `--nproc` for the ranks that it starts. */
export const LAUNCHED = "TRESTLE_LAUNCHED";

export interface RankNote {
  pid: number;
  /** null: it still runs, or was killed. */
  end: RankEnd | null;
}

export interface RankEnd extends Failure {
  time_ms: number;
}

export interface Failure {
  code: number;
  /** For the person; "": nothing failed, or it has been told already. */
  text: string;
  /** It ended because another rank did. */
  with_another: boolean;
  /** It was asked to stop, and had nothing to save. */
  stopped: boolean;
}

export const notePath = (folder: string, rank: number): string => join(folder, `rank-${rank}.json`);

/** null: that rank has not started. */
export function readNote(folder: string, rank: number): RankNote | null {
  try {
    return JSON.parse(readFileSync(notePath(folder, rank), "utf8")) as RankNote;
  } catch {
    return null;
  }
}

/** The command line that the user typed, kept for the run's record; null: `--nproc` did not start this process. */
export function launchedCommand(folder = process.env[LAUNCHED]): string | null {
  return folder ? readFileSync(join(folder, COMMAND), "utf8") : null;
}

export const writeCommand = (folder: string, command: string): void => writeWhole(join(folder, COMMAND), command);

const COMMAND = "command.txt";

/** A file for the output of a rank's Python, of which `--nproc` tells the last lines where the rank is killed. */
export function rankOutput(rank: number, folder = process.env[LAUNCHED]): string | null {
  return folder ? join(folder, `rank-${rank}.log`) : null;
}

/** How long a rank waits for rank 0 to tell the mistake that both have found, before it tells it itself. */
const TELL_MS = 15_000;
/** How long a rank that ends because of another one waits for that one's own end: the first ends all. */
const OTHER_ENDS_MS = 5_000;

/** The end of this process's command. */
export interface Ending {
  /** To be called once the rank is known. */
  join(world: World): void;
  /** The command did its work. @returns the exit code */
  done(code: number): number;
  /** Tells why the command failed, unless that is another rank's to tell. @returns the exit code */
  failed(failure: Failure): Promise<number>;
}

export function createEnding(): Ending {
  let rank = 0;
  let note: ((end: Failure) => void) | null = null;
  let terminated = false;
  let onTerminated: (() => void) | null = null;
  function onSignal(): void {
    terminated = true;
    if (process.listenerCount("SIGTERM") > 1) return; // a call of Python's runs, and is asked to save first
    if (onTerminated) onTerminated();
    else process.exit(128 + constants.signals.SIGTERM);
  }
  /** Whether the launcher ends this process within `limit_ms`, as it does once another rank has ended in failure. */
  function isEnded(limit_ms: number): Promise<boolean> {
    if (terminated) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, limit_ms, false);
      onTerminated = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });
  }
  return {
    join(world) {
      rank = world.rank;
      note = joinLaunch(rank);
      if (world.size > 1) process.on("SIGTERM", onSignal);
    },
    done(code) {
      note?.({ code, text: "", with_another: false, stopped: false });
      return rank === 0 ? code : 0; // a launcher would kill the others while rank 0 still writes
    },
    async failed(failure) {
      const { code, text, with_another, stopped } = failure;
      note?.(failure);
      if (with_another) await isEnded(OTHER_ENDS_MS);
      if (note) return code;
      if (rank > 0) {
        const first = rank === 1 && text.startsWith("Rank 0 "); // of those that are left
        if (stopped || (with_another && !first)) return code;
        if (code === 2 && (await isEnded(TELL_MS))) return code;
      }
      const prefix = rank > 0 ? `[rank ${rank}] ` : "";
      if (text) process.stderr.write(`${text.replace(/^/gm, prefix)}\n`);
      return code;
    },
  };
}

/**
 * Tells `--nproc` that this rank is there, and ends it with `--nproc`, of whose death its own parent would not know.
 * @returns tells how it ended; null: `--nproc` did not start this process
 */
function joinLaunch(rank: number): ((end: Failure) => void) | null {
  const folder = process.env[LAUNCHED];
  if (!folder) return null;
  const write = (end: RankEnd | null) =>
    writeWhole(notePath(folder, rank), JSON.stringify({ pid: process.pid, end } satisfies RankNote));
  write(null);
  // The other end of our stdin is held by --nproc alone.
  const onClosed = () => process.exit(128 + 9);
  process.stdin.on("end", onClosed).on("error", onClosed).resume();
  (process.stdin as NodeJS.ReadStream & { unref?(): void }).unref?.();
  return (end) => write({ time_ms: Date.now(), ...end });
}
