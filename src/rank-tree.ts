import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, constants, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { type Interpreter, projectRoot } from "./bridge/interpreter.ts";
import { LAUNCHED, type RankNote, rankOutput, readNote, writeCommand } from "./rank-process.ts";

// `--nproc N` (launch.ts) starts a training N times under torch's own launcher. Here is what it is to the person: one
// thing to stop, one message where a rank dies, one exit code.

export interface Ranks {
  interpreter: Interpreter;
  /** Processes on this machine. */
  processes: number;
  /** The command line of each rank, without node and script. */
  argv: readonly string[];
  /** What the user typed, for the run's record. */
  command: string;
}

/** From the moment that one rank has died until those that are left are killed; they use it to write what they know. */
const GRACE_MS = 6_000;
const POLL_MS = 100;
/** tsx and npm pass on a Ctrl-C that the terminal has already sent us. Within this time it is the same one. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Runs all ranks to their end; their output is ours. The first SIGINT or SIGTERM asks them to save and stop, the second
 * kills them; where we are killed they end too.
 * @returns the exit code of the run: rank 0's, or that of the rank which failed first
 */
export async function runRanks({ interpreter, processes, argv, command }: Ranks): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "trestle-ranks-"));
  writeCommand(folder, command);
  const ranks = Array.from({ length: processes }, (_, rank) => rank);
  const agent = startAgent({ interpreter, processes, argv, folder });
  let stopReason: NodeJS.Signals | null = null;
  let stopAsked_ms = 0;

  const notes = () => ranks.map((rank) => readNote(folder, rank));
  function signalRanks(signal: NodeJS.Signals): void {
    for (const note of notes()) if (note && !note.end) signalProcess(note.pid, signal);
  }
  function killAll(): void {
    // Each rank's Python dies with it. The launcher goes first: it would start its own, slower ending of them.
    if (agent.pid !== undefined) signalProcess(agent.pid, "SIGKILL");
    signalRanks("SIGKILL");
  }
  function onSignal(signal: NodeJS.Signals): void {
    if (stopReason && performance.now() - stopAsked_ms < SAME_SIGNAL_MS) return;
    if (stopReason || notes().some((note) => note === null)) {
      killAll();
      process.exit(128 + constants.signals[signal]);
    }
    stopReason = signal;
    stopAsked_ms = performance.now();
    process.stderr.write(`${signal}: all ranks are asked to save and stop. Once more: stop at once.\n`);
    signalRanks(signal);
  }

  const onExit = () => {
    killAll();
    rmSync(folder, { recursive: true, force: true });
  };
  process.on("exit", onExit).on("SIGINT", onSignal).on("SIGTERM", onSignal);
  const watch = setInterval(onPoll, POLL_MS);
  let deadline_ms = Number.POSITIVE_INFINITY;
  function onPoll(): void {
    if (performance.now() > deadline_ms) killAll();
    else if (deadline_ms === Number.POSITIVE_INFINITY && notes().some(hasFailed))
      deadline_ms = performance.now() + GRACE_MS;
  }

  try {
    const exit = await new Promise<AgentExit>((resolve) => {
      agent.once("error", (error) => resolve({ code: null, signal: null, error }));
      agent.once("exit", (code, signal) => resolve({ code, signal, error: null }));
    });
    signalRanks("SIGKILL"); // where the launcher itself was killed
    const outcome = outcomeOf(notes(), readFailures(folder), exit, stopReason);
    const output = outcome.rank === null ? "" : lastLines(rankOutput(outcome.rank, folder)!);
    const shown = outcome.killed && output ? `${outcome.text} Its last lines:\n${output}` : outcome.text;
    if (shown) process.stderr.write(`${shown}\n`);
    return outcome.code;
  } finally {
    clearInterval(watch);
    process.off("exit", onExit).off("SIGINT", onSignal).off("SIGTERM", onSignal);
    rmSync(folder, { recursive: true, force: true });
  }
}

function startAgent({ interpreter, processes, argv, folder }: Omit<Ranks, "command"> & { folder: string }) {
  const { NODE_CHANNEL_FD, NODE_CHANNEL_SERIALIZATION_MODE, ...env } = process.env;
  const search = [join(projectRoot, "py"), ...(env.PYTHONPATH ? [env.PYTHONPATH] : [])];
  const torchrun = ["--no-python", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", String(processes)];
  const rank = [process.execPath, join(projectRoot, "bin", "trestle.mjs"), ...argv];
  return spawn(
    interpreter.path,
    ["-m", "trainers.torchrun", "--failures", join(folder, FAILURES), ...torchrun, ...rank],
    {
      // A group of its own, which a terminal's Ctrl-C does not reach: torchrun would kill the ranks after 30 s.
      detached: true,
      // The ranks get them all. What we hold of stdin closes with us, and they notice (rank-process.ts).
      stdio: ["pipe", "inherit", "inherit"],
      env: {
        ...env,
        PYTHONPATH: search.join(delimiter),
        // torchrun's own choice is 1
        OMP_NUM_THREADS: env.OMP_NUM_THREADS ?? String(Math.max(1, Math.floor(availableParallelism() / processes))),
        [LAUNCHED]: folder,
      },
    },
  ) as ChildProcess;
}

interface AgentExit {
  code: number | null;
  signal: NodeJS.Signals | null;
  error: Error | null;
}

const FAILURES = "failures.json";

/** Exit codes by rank, as torchrun saw them; below 0: killed by that signal. */
type Failures = Record<string, { pid: number; exitcode: number }>;

function readFailures(folder: string): Failures {
  try {
    return JSON.parse(readFileSync(join(folder, FAILURES), "utf8")) as Failures;
  } catch {
    return {};
  }
}

interface LaunchOutcome {
  code: number;
  /** For the person; "": rank 0 has told all. */
  text: string;
  /** The rank that ended the run before its time; null: none did. */
  rank: number | null;
  /** Whether it was killed, and so could say nothing itself. */
  killed: boolean;
}

/** What became of a run, from what its ranks left, what torchrun saw of them, and its own end. */
export function outcomeOf(
  notes: readonly (RankNote | null)[],
  failures: Failures,
  exit: AgentExit,
  stopReason: NodeJS.Signals | null,
): LaunchOutcome {
  const of = (rank: number) => `Rank ${rank} of ${notes.length}`;
  const none = { rank: null, killed: false };
  const ends = notes.flatMap((note, rank) => (note?.end ? [{ rank, ...note.end }] : []));
  const told = ends
    .filter((end) => end.code !== 0 && end.text !== "" && !end.with_another)
    .sort((a, b) => a.time_ms - b.time_ms);
  const own = told.find(({ stopped }) => !stopped);
  if (own) {
    const text = own.code === 2 ? own.text : `${of(own.rank)}: ${own.text}`;
    return { code: own.code, text, rank: own.rank, killed: false };
  }
  if (stopReason && told[0]) return { ...none, code: told[0].code, text: told[0].text };

  const [first] = Object.entries(failures)
    .map(([rank, { exitcode }]) => ({ rank: Number(rank), exitcode }))
    .filter(({ rank }) => !notes[rank]?.end);
  if (first) {
    const { rank, exitcode } = first;
    const how = exitcode < 0 ? `was killed by ${signalName(-exitcode)}` : `ended with exit code ${exitcode}`;
    const hint = exitcode === -9 ? " (by hand, or by the system because memory ran out)" : "";
    if (stopReason) return { ...none, code: 128 + constants.signals[stopReason], text: `Stopped by ${stopReason}.` };
    return { code: 3, text: `${of(rank)} ${how}${hint}; the others were ended.`, rank, killed: true };
  }
  if (exit.error) return { ...none, code: 3, text: `torch's launcher could not be started: ${exit.error.message}` };
  const silent = notes.findIndex((note) => !note?.end);
  if (exit.signal || silent >= 0) {
    const how = exit.signal ? `was killed by ${exit.signal}` : `ended with exit code ${exit.code}`;
    return { ...none, code: 3, text: `torch's launcher ${how}; all ranks were ended.` };
  }
  return { ...none, code: notes[0]!.end!.code, text: "" };
}

/** A rank that ended the run for all: with an error, or without a word. */
function hasFailed(note: RankNote | null): boolean {
  if (!note) return false;
  if (note.end) return note.end.text !== "";
  try {
    process.kill(note.pid, 0);
    return false;
  } catch {
    return true;
  }
}

function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It is gone.
  }
}

function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `signal ${number}`;
}

function lastLines(path: string): string {
  try {
    return readFileSync(path, "utf8").trimEnd().split("\n").slice(-15).join("\n");
  } catch {
    return ""; // rank 0's: it stands on stderr already
  }
}
