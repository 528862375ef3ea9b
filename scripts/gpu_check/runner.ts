// Runs checks, each with a time limit of its own, and makes a table of what they found.

import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";

/** A check: `run` resolves to its figure, and throws where it failed. */
export interface Check {
  name: string;
  /** Why it cannot run here; null: it can. */
  skip: string | null;
  limit_s: number;
  /** Measures, or takes most of the GPU: nothing runs beside it. Comes after those that share. */
  alone?: boolean;
  /** Skipped, and not failed, where the time is over. */
  optional?: boolean;
  run(signal: AbortSignal): Promise<string>;
}

export interface Outcome {
  name: string;
  result: "passed" | "failed" | "skipped";
  seconds: number;
  /** What was measured, or why not. */
  figure: string;
}

/** Runs all checks, `together` at a time where they share; none begins after `total_s`. In the order given. */
export async function runChecks(
  checks: readonly Check[],
  options: { together: number; total_s: number; onOutcome?: (outcome: Outcome) => void },
): Promise<Outcome[]> {
  const begun = performance.now();
  const elapsed_s = () => (performance.now() - begun) / 1000;
  const outcomes = new Map<Check, Outcome>();
  const note = (check: Check, result: Outcome["result"], seconds: number, figure: string) => {
    const outcome = { name: check.name, result, seconds, figure };
    outcomes.set(check, outcome);
    options.onOutcome?.(outcome);
  };
  const runOne = async (check: Check) => {
    const left_s = options.total_s - elapsed_s();
    if (left_s <= 0)
      return note(check, check.optional ? "skipped" : "failed", 0, `not begun: ${options.total_s} s are over`);
    const started = performance.now();
    const limit_s = Math.min(check.limit_s, left_s);
    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(), 1000 * limit_s);
    try {
      note(check, "passed", 0, await check.run(controller.signal));
    } catch (error) {
      const reason = controller.signal.aborted
        ? `not done after ${Math.round(limit_s)} s: stopped`
        : error instanceof Error
          ? error.message
          : String(error);
      note(check, "failed", 0, reason);
    } finally {
      clearTimeout(timer);
      outcomes.get(check)!.seconds = (performance.now() - started) / 1000;
    }
  };

  for (const check of checks) if (check.skip !== null) note(check, "skipped", 0, check.skip);
  const left = checks.filter(({ skip }) => skip === null);
  const shared = left.filter(({ alone }) => !alone);
  await Promise.all(
    Array.from({ length: options.together }, async () => {
      for (let check = shared.shift(); check; check = shared.shift()) await runOne(check);
    }),
  );
  for (const check of left) if (check.alone) await runOne(check);
  return checks.map((check) => outcomes.get(check)!);
}

/** The table, and one last line that says it all. */
export function formatOutcomes(outcomes: readonly Outcome[]): string {
  const width = Math.max(...outcomes.map(({ name }) => name.length), "check".length);
  const row = (name: string, result: string, seconds: string, figure: string) =>
    `${name.padEnd(width)}  ${result.padEnd(7)}  ${seconds.padStart(7)}  ${figure}`.trimEnd();
  const rows = outcomes.map(({ name, result, seconds, figure }) =>
    row(name, result, result === "skipped" ? "" : seconds.toFixed(1), figure),
  );
  const count = (result: Outcome["result"]) => outcomes.filter((outcome) => outcome.result === result).length;
  const failed = outcomes.filter(({ result }) => result === "failed").map(({ name }) => name);
  const last =
    `gpu-check: ${count("passed")} passed, ${count("failed")} failed, ${count("skipped")} skipped` +
    (failed.length > 0 ? `: ${failed.join(", ")} failed.` : ".");
  return [row("check", "result", "seconds", "figure"), ...rows, last].join("\n");
}

export interface Finished {
  stdout: string;
  /** The last of what it wrote to stdout and stderr, as it came. */
  tail: string;
  code: number | null;
}

/** A process of a check, in a group of its own, so that what it started ends with it. */
export interface Started {
  child: ChildProcess;
  done: Promise<Finished>;
  /** Ends the whole group; resolves when the process is gone. */
  kill(): Promise<void>;
}

/** Starts a command; its output goes to the file `log` too, its lines are kept. Aborting `signal` ends the group. */
export function start(
  command: string,
  args: readonly string[],
  options: { log: string; env?: NodeJS.ProcessEnv; cwd?: string; signal?: AbortSignal },
): Started {
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const file = createWriteStream(options.log, { flags: "a" });
  file.write(`$ ${[command, ...args].join(" ")}\n`);
  let stdout = "";
  let all = "";
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      file.write(text);
      if (stream === child.stdout) stdout += text;
      all = (all + text).slice(-20_000);
    });
  }
  const endGroup = () => {
    try {
      if (child.pid) process.kill(-child.pid, "SIGKILL");
    } catch {
      // all of it is gone already
    }
  };
  options.signal?.addEventListener("abort", endGroup, { once: true });
  process.once("exit", endGroup);
  const done = new Promise<Finished>((resolve) => {
    const end = (code: number | null) => {
      options.signal?.removeEventListener("abort", endGroup);
      process.removeListener("exit", endGroup);
      endGroup(); // what it left behind, as an engine's workers
      file.end(() => resolve({ stdout, tail: all, code }));
    };
    child.once("error", (error) => {
      all += error.message;
      end(null);
    });
    child.once("close", end);
  });
  return {
    child,
    done,
    async kill() {
      endGroup();
      await done;
    },
  };
}

/** The last lines that say what went wrong. */
export function lastLines(text: string, count = 3): string {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !/^(at |File "|\^+$)/.test(line));
  return lines.slice(-count).join(" | ").slice(-600);
}
