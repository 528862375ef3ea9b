// The one file that imports pythonia: start Python, call it, notice its death, stop it. Texts cross, never proxies.
// What pythonia 1.2.6 does on its own, and why each line here is needed, is in docs/decisions and the tests beside.

import { AsyncLocalStorage } from "node:async_hooks";
import type { ChildProcess, spawn as nodeSpawn, SpawnOptions } from "node:child_process";
import { closeSync, openSync, readFileSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import type { Socket } from "node:net";
import { constants } from "node:os";
import { delimiter, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { errorText, UserError } from "../core/errors.ts";
import { decode, encode, kindOf, replacedSurrogates } from "./codec.ts";
import { findInterpreter, type Interpreter, projectRoot } from "./interpreter.ts";

export interface StartOptions {
  /** Where it is left out: `findInterpreter()` chooses. A path counts as given by --python. */
  interpreter?: Interpreter | string;
  /**
   * Where Python's stdout and stderr go: our stderr ("inherit", the default), nowhere ("pipe": only the last lines are
   * kept for errors), or the file of this path, appended to. Never our stdout.
   */
  stderr?: "inherit" | "pipe" | (string & {});
  /** Folders to search for modules before all others; for tests and users' own entries ("module:function"). */
  python_path?: string[];
  /** Set for Python alone, over our own environment. */
  env?: Record<string, string | undefined>;
  /**
   * False: SIGINT and SIGTERM are the caller's business. By default the first asks the running call to save and
   * return, and a second, or one while no call runs, ends Python and this process.
   */
  handle_signals?: boolean;
}

export interface CallOptions {
  /**
   * Answers `host.ask(op, payload)` with a plain object. Whatever it throws ends the call with that very error, unless
   * Python catches it. It cannot itself call Python.
   */
  answer?: (op: string, payload: unknown) => Promise<unknown>;
  /** Aborting asks the running call to save and return (see `requestStop`); a call that still waits is not made. */
  signal?: AbortSignal;
  /** Milliseconds from the moment Python begins with this call; then it rejects with DeadlineError. Default: none. */
  deadline_ms?: number;
}

export interface PythonInfo extends Interpreter {
  pid: number;
}

export interface BridgeStats {
  calls: number;
  callbacks: number;
  /** All of Python's time in calls, milliseconds. */
  call_ms: number;
  /** Python's waiting for answers, coding on both sides included. */
  round_trip_ms: number;
  /** The part of it spent in `answer`. */
  handler_ms: number;
  /** The bridge's own part: round trips without the handlers. Over `call_ms`, it is the bridge's share of a run. */
  crossing_ms: number;
  /** Characters of JSON. */
  chars_to_python: number;
  chars_from_python: number;
  /** Lone surrogates replaced by U+FFFD, on both sides. */
  replaced_surrogates: number;
}

export interface Python {
  info: PythonInfo;
  /**
   * Runs `run(request, host)` of `py/trainers/<entry>.py`, or of "module:function". One call at a time: more of them
   * wait for their turn, and their deadline begins with it.
   * @throws PythonError, PythonDied, DeadlineError, Stopped, UserError (a package is missing), or what `answer` threw
   */
  call<Result>(entry: string, request: object, options?: CallOptions): Promise<Result>;
  /**
   * Asks the running call to save and return: `host.stop_requested` becomes true at once and in every answer. An entry
   * that does not look at it is ended. From then on no new call is made. The running call still settles with its
   * result.
   */
  requestStop(reason?: string): void;
  /** Why a stop was asked for, as "SIGINT"; null: it was not. */
  stopReason(): string | null;
  stats(): BridgeStats;
  /** Lets Python end, kills it after 3 s, and waits until it is gone. A call that still runs is killed at once. */
  close(): Promise<void>;
}

/** Python raised. `message` is "ValueError: bad value". */
export class PythonError extends Error {
  override name = "PythonError";
  /** The exception's class, as "ValueError". */
  readonly type: string;
  /** Python's own traceback. */
  readonly traceback: string;
  constructor(type: string, message: string, traceback: string) {
    super(message ? `${type}: ${message}` : type);
    this.type = type;
    this.traceback = traceback;
  }
}

/** The Python process is gone without having answered. */
export class PythonDied extends Error {
  override name = "PythonDied";
  /** null where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The end of what it printed. */
  readonly last_lines: string;
  constructor(message: string, code: number | null, signal: NodeJS.Signals | null, lastLines: string) {
    super(message);
    this.code = code;
    this.signal = signal;
    this.last_lines = lastLines;
  }
}

/** Another process of the run ended, and Python with it: `message` says which, and why. */
export class RankLost extends Error {
  override name = "RankLost";
}

/** The caller's own clock ran out. Python works on: it cannot be interrupted, and later calls wait for it. */
export class DeadlineError extends Error {
  override name = "DeadlineError";
}

/** A stop was asked for, and there was nothing to save or nothing more to start. */
export class Stopped extends Error {
  override name = "Stopped";
  readonly reason: string;
  constructor(reason: string, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** Every `$timeout` is a fresh object: pythonia changes the one it gets. Its own 100 s would end a healthy training. */
const noTimeout = () => ({ $timeout: Number.POSITIVE_INFINITY });
const START_LIMIT_MS = 120_000;
const CLOSE_LIMIT_MS = 3_000;
/** tsx and npm pass on a Ctrl-C that the terminal has already sent us. Within this time it is the same one. */
const SAME_SIGNAL_MS = 1_000;
/** wire.py ends with it where a stop was asked for and its entry does not look at `stop_requested`. */
const STOPPED_EXIT_CODE = 130;
/** ranks.py ends with it where another process of the run is gone. */
const RANK_LOST_EXIT_CODE = 131;
/** Begins the line in which ranks.py says which, and why; for us alone. */
const REASON_MARK = "\x1e";

interface Wire {
  connect$(callback: Crossing, text: string, options: { $timeout: number }): Promise<string>;
  handle$(text: string, options: { $timeout: number }): Promise<string>;
}

interface Pythonia {
  builtins: { python$(module: string, options: { $timeout: number }): Promise<Wire> };
  com: { write(...request: unknown[]): void; writeRaw(...request: unknown[]): void };
}

type Crossing = (op: string, text: string, round_trip_ms: number) => Promise<string>;

/** What `handle` in wire.py returns. */
type Envelope = { stats: { callbacks: number; round_trip_ms: number; replaced_surrogates: number } } & (
  | { ok: true; result: unknown }
  | { ok: false; error: { type: string; message: string; traceback: string; missing?: string | null } }
);

interface RunningCall {
  entry: string;
  answer: CallOptions["answer"];
  /** Set once nobody waits for it any more; its next question is answered with this. */
  abandoned: Error | null;
  /** The last failure of `answer`. */
  failure: { error: unknown } | null;
  round_trip_ms: number;
}

const insideAnswer = new AsyncLocalStorage<true>();

/**
 * Starts a Python of its own process group, ready for calls.
 * @throws UserError where no usable interpreter is found; PythonDied or PythonError where it does not come up
 */
export async function startPython(options: StartOptions = {}): Promise<Python> {
  if (process.platform === "win32")
    throw new UserError("Training needs Linux or macOS. On Windows, run Trestle in WSL.");
  const interpreter =
    typeof options.interpreter === "object"
      ? options.interpreter
      : await findInterpreter({ python: options.interpreter });
  const output = openOutput(options.stderr ?? "inherit");
  const search = [join(projectRoot, "py"), ...(process.env.PYTHONPATH ? [process.env.PYTHONPATH] : [])];
  const { pythonia, child } = loadPythonia(interpreter.path, {
    // Threads that wait spin for microseconds, then sleep. GNU OpenMP's default spins for milliseconds: with anything
    // else running, two threads are then slower than one.
    ...(process.env.OMP_WAIT_POLICY ? {} : { GOMP_SPINCOUNT: "20000" }),
    ...process.env,
    PYTHONPATH: search.join(delimiter),
    ...options.env,
  });

  const totals = { calls: 0, callbacks: 0, call_ms: 0, round_trip_ms: 0, handler_ms: 0, to: 0, from: 0, replaced: 0 };
  let running: RunningCall | null = null;
  let queue: Promise<unknown> = Promise.resolve();
  let gone: Error | null = null;
  let closing = false;
  let stopReason: string | null = null;
  let stopAsked_ms = 0;

  const { promise: death, reject: die } = deferred<never>();
  death.catch(() => {});
  const { promise: exited, resolve: resolveExited } = deferred<void>();

  child.stdout!.setEncoding("utf8").on("data", output.write);
  child.stderr!.setEncoding("utf8").on("data", output.write);
  // A failed start is reported here; so is every write to a process that has just gone. The exit says all we need.
  child.on("error", (error) => {
    if (child.pid === undefined)
      ended(`${interpreter.why}: ${interpreter.path} could not be started: ${error.message}`);
  });
  child.once("exit", (code, signal) => {
    killGroup(); // what it started goes with it
    // Its last words may still be on their way; a grandchild that holds the pipe must not keep us waiting for them.
    const timer = setTimeout(report, 300);
    child.once("close", report);
    function report() {
      clearTimeout(timer);
      const how = signal ? `was killed by ${signal}${hint(signal)}` : `ended with exit code ${code}`;
      const doing = running ? ` while '${running.entry}' ran` : "";
      const lastLines = output.lastLines();
      ended(
        `Python ${how}${doing}.${lastLines ? ` Its last lines:\n${lastLines}` : " It printed nothing."}`,
        code,
        signal,
        lastLines,
      );
    }
  });

  function ended(message: string, code: number | null = null, signal: NodeJS.Signals | null = null, lastLines = "") {
    if (gone) return;
    if (closing) gone = new Error("Python was closed.");
    else if (stopReason && code === STOPPED_EXIT_CODE)
      gone = new Stopped(stopReason, `Stopped by ${stopReason}; there was nothing to save.`);
    else if (code === RANK_LOST_EXIT_CODE) gone = new RankLost(lastLines.slice(lastLines.lastIndexOf(REASON_MARK) + 1));
    else gone = new PythonDied(message, code, signal, lastLines);
    // pythonia would go on writing to the process that is gone, and bring this one down with it.
    pythonia.com.write = pythonia.com.writeRaw = () => {};
    process.off("exit", killGroup);
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
    clearInterval(parentWatch);
    output.close();
    die(gone);
    resolveExited();
  }

  function killGroup() {
    if (child.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // Nobody of the group is left.
    }
  }

  function onSignal(signal: NodeJS.Signals) {
    if (stopReason && performance.now() - stopAsked_ms < SAME_SIGNAL_MS) return;
    if (child.exitCode !== null || child.signalCode !== null) return; // its end is about to be told
    if (!running || stopReason) {
      killGroup();
      process.exit(128 + constants.signals[signal]);
    }
    const told = process.env.TRESTLE_LAUNCHED !== undefined; // by --nproc, once for all ranks
    if (!told && (options.stderr ?? "inherit") === "inherit")
      process.stderr.write(`${signal}: '${running.entry}' is asked to save and stop. Once more: stop at once.\n`);
    requestStop(signal);
  }

  // The `tsx` command, scripts/with-setup.mjs and torch's launcher run us as their child and pass signals on. When such
  // a parent is killed, nobody is left to stop us.
  const parent = process.ppid;
  const underTsx = process.execArgv.some((argument) => argument.includes(join("tsx", "dist", "preflight")));
  const underOurs = process.env.TRESTLE_LAUNCHER === String(parent);
  const underTorch = process.env.TORCHELASTIC_RUN_ID !== undefined; // torchrun, accelerate launch
  const parentWatch = underTsx || underOurs || underTorch ? setInterval(onParentGone, 1_000).unref() : undefined;
  function onParentGone() {
    if (process.ppid === parent) return;
    killGroup();
    process.exit(128 + constants.signals.SIGKILL);
  }

  process.on("exit", killGroup);
  if (options.handle_signals ?? true) {
    process.on("SIGINT", onSignal);
    process.on("SIGTERM", onSignal);
  }

  function requestStop(reason = "request") {
    if (stopReason) return;
    stopReason = reason;
    stopAsked_ms = performance.now();
    if (running) child.kill("SIGUSR1");
  }

  const cross: Crossing = async (op, text, round_trip_ms) => {
    const call = running;
    totals.callbacks++;
    totals.from += text.length;
    let reply: string;
    try {
      if (!call) throw new Error(`'${op}' was asked while no call runs.`);
      if (call.abandoned) throw call.abandoned;
      call.round_trip_ms = round_trip_ms;
      if (!call.answer) throw new Error(`'${call.entry}' asked '${op}', but its caller answers no questions.`);
      const payload = decode(text);
      const started = performance.now();
      const result = await insideAnswer.run(true, () => call.answer!(op, payload));
      const handler_ms = performance.now() - started;
      totals.handler_ms += handler_ms;
      if (typeof result !== "object" || result === null || Array.isArray(result))
        throw new Error(`The answer to '${op}' is ${kindOf(result)}; expected an object.`);
      reply = encode({ ok: true, result, handler_ms, stop: stopReason !== null }, `answer to '${op}'`);
    } catch (error) {
      if (call) call.failure = { error };
      reply = encode({ ok: false, error: { message: errorText(error) }, stop: stopReason !== null });
    }
    totals.to += reply.length;
    return reply;
  };

  async function call<Result>(entry: string, request: object, callOptions: CallOptions = {}): Promise<Result> {
    if (insideAnswer.getStore())
      throw new Error(`'${entry}' was called from within an answer to Python, which waits for that answer.`);
    const text = encode({ entry, request }, entry);
    const turn = queue;
    const { promise: released, resolve: release } = deferred<void>();
    queue = released;
    try {
      await Promise.race([turn, death]);
    } catch (error) {
      release();
      throw error;
    }
    return serve<Result>(entry, text, callOptions, release);
  }

  async function serve<Result>(
    entry: string,
    text: string,
    { answer, signal, deadline_ms }: CallOptions,
    release: () => void,
  ): Promise<Result> {
    if (gone || stopReason || signal?.aborted) {
      release();
      throw gone ?? new Stopped(stopReason ?? "abort", `'${entry}' was not started: ${stopReason ?? "abort"}.`);
    }
    const call: RunningCall = { entry, answer, abandoned: null, failure: null, round_trip_ms: 0 };
    running = call;
    totals.calls++;
    totals.to += text.length;
    const started = performance.now();
    hold(child, true);
    const onAbort = () => requestStop("abort");
    signal?.addEventListener("abort", onAbort, { once: true });

    const served = (async () => {
      try {
        const replyText = await Promise.race([wire.handle$(text, noTimeout()), death]);
        totals.from += replyText.length;
        const envelope = decode(replyText) as Envelope;
        call.round_trip_ms = envelope.stats.round_trip_ms;
        totals.replaced = envelope.stats.replaced_surrogates;
        return envelope;
      } finally {
        totals.call_ms += performance.now() - started;
        totals.round_trip_ms += call.round_trip_ms;
        running = null;
        signal?.removeEventListener("abort", onAbort);
        if (!gone) hold(child, false);
        release();
      }
    })();
    const envelope = await (deadline_ms === undefined ? served : withDeadline(served, deadline_ms, onDeadline));
    if (envelope.ok) return envelope.result as Result;
    const { type, message, traceback, missing } = envelope.error;
    if (type === "HostError" && call.failure) throw call.failure.error;
    if (missing) throw missingPackage(missing, entry, interpreter);
    throw new PythonError(type, message, traceback);

    function onDeadline(): Error {
      call.abandoned = new DeadlineError(
        `'${entry}' did not return within ${deadline_ms} ms. Its work may still be running; later calls wait for it.`,
      );
      return call.abandoned;
    }
  }

  async function close(): Promise<void> {
    if (gone) return;
    closing = true;
    hold(child, true);
    if (running) killGroup();
    else if (child.connected) child.disconnect(); // Python's reader sees the end of the channel and returns
    const timer = setTimeout(killGroup, CLOSE_LIMIT_MS);
    await exited;
    clearTimeout(timer);
  }

  let wire: Wire;
  let pid: number;
  try {
    const connecting = (async () => {
      wire = await pythonia.builtins.python$("trainers.wire", noTimeout());
      const hello = encode({ parent_pid: process.pid, python_path: options.python_path ?? [] });
      return decode(await wire.connect$(cross, hello, noTimeout())) as { pid: number };
    })();
    connecting.catch(() => {});
    ({ pid } = await withDeadline(
      Promise.race([connecting, death]),
      START_LIMIT_MS,
      () => new Error(`Python did not come up within ${START_LIMIT_MS / 1000} s (${interpreter.path}).`),
    ));
  } catch (error) {
    await close();
    // pythonia puts a Python traceback into `stack` alone, coloured.
    if (error instanceof Error && error.message === "")
      throw new PythonError(
        "StartError",
        "py/trainers/wire.py did not load",
        stripVTControlCharacters(error.stack ?? ""),
      );
    throw error;
  }
  hold(child, false);

  return {
    info: { ...interpreter, pid },
    call,
    requestStop,
    stopReason: () => stopReason,
    stats() {
      const round_trip_ms = totals.round_trip_ms + (running?.round_trip_ms ?? 0);
      return {
        calls: totals.calls,
        callbacks: totals.callbacks,
        call_ms: totals.call_ms,
        round_trip_ms,
        handler_ms: totals.handler_ms,
        crossing_ms: Math.max(0, round_trip_ms - totals.handler_ms),
        chars_to_python: totals.to,
        chars_from_python: totals.from,
        replaced_surrogates: totals.replaced + replacedSurrogates(),
      };
    },
    close,
  };
}

/**
 * pythonia starts Python while it is being loaded, with PYTHON_BIN, its own choice of stdio, and one process for good.
 * So it is loaded anew for each Python, and its `spawn` is ours for that moment: no shared stdout or stdin, and a group
 * of its own, which Ctrl-C does not reach and which can be killed as a whole.
 */
function loadPythonia(interpreter: string, env: NodeJS.ProcessEnv): { pythonia: Pythonia; child: ChildProcess } {
  const require = createRequire(import.meta.url);
  for (const file of Object.keys(require.cache))
    if (file.includes(join("pythonia", "src", "pythonia"))) delete require.cache[file];
  const childProcess = require("node:child_process") as { spawn: typeof nodeSpawn };
  const { spawn } = childProcess;
  let child: ChildProcess | undefined;
  childProcess.spawn = ((_command: string, args: string[]) => {
    const stdio: SpawnOptions["stdio"] = ["ignore", "pipe", "pipe", "ipc"];
    child = spawn(interpreter, args, { env, detached: true, stdio });
    return child;
  }) as typeof nodeSpawn;
  // It reads both on loading: one prints all that crosses to our stdout, the other, when empty, fails every call.
  const { DEBUG, REQ_TIMEOUT } = process.env;
  delete process.env.DEBUG;
  delete process.env.REQ_TIMEOUT;
  try {
    const pythonia = require("pythonia") as Pythonia;
    // Once a second it would send Python what Node has collected, from a timer that keeps this process alive. We hold
    // the few proxies there are for good.
    clearInterval((globalThis as unknown as { __pythonBridge: { loop: NodeJS.Timeout } }).__pythonBridge.loop);
    return { pythonia, child: child! };
  } finally {
    childProcess.spawn = spawn;
    if (DEBUG !== undefined) process.env.DEBUG = DEBUG;
    if (REQ_TIMEOUT !== undefined) process.env.REQ_TIMEOUT = REQ_TIMEOUT;
  }
}

/** Whether Python keeps this process alive: only while a call runs, so that a program that is done just ends. */
function hold(child: ChildProcess, on: boolean): void {
  const sockets = [child.stdout as Socket, child.stderr as Socket].filter((socket) => !socket.destroyed);
  for (const handle of [child, child.channel, ...sockets]) {
    if (on) handle?.ref();
    else handle?.unref();
  }
}

/** Writes on what Python prints, and remembers the end of it. */
function openOutput(target: string): { write(text: string): void; lastLines(): string; close(): void } {
  const file = target === "inherit" || target === "pipe" ? null : openSync(target, "a");
  let tail = "";
  const reason = new RegExp(`${REASON_MARK}.*\n?`, "g");
  return {
    write(output) {
      tail = (tail + output).slice(-8192);
      const text = output.replace(reason, "");
      if (file !== null) writeSync(file, text);
      else if (target === "inherit") process.stderr.write(text);
    },
    lastLines() {
      const lines = stripVTControlCharacters(tail).split("\n");
      const shown = lines.map((line) => line.trimEnd().split("\r").at(-1)!); // a progress bar draws over itself
      return shown
        .filter((line) => line !== "")
        .slice(-15)
        .join("\n");
    },
    close() {
      if (file !== null) closeSync(file);
    },
  };
}

function missingPackage(name: string, entry: string, interpreter: Interpreter): Error {
  const [top] = name.split(".");
  if (top === "trainers" || name === entry.split(":")[0]) return new UserError(`Python has no module '${name}'.`);
  const pinned = readFileSync(join(projectRoot, "requirements.txt"), "utf8").split("\n");
  const ours = interpreter.why === "the project's .venv" && pinned.some((line) => line.split(/[=<>~ ]/)[0] === top);
  const remedy = ours ? "trestle setup" : `${interpreter.path} -m pip install ${top}`;
  return new UserError(
    `'${entry}' needs the Python package '${top}', which ${interpreter.path} (${interpreter.why}) does not have. Install it with: ${remedy}`,
  );
}

function hint(signal: NodeJS.Signals): string {
  return signal === "SIGKILL" ? " (by hand, or by the system because memory ran out)" : "";
}

async function withDeadline<T>(work: Promise<T>, limit_ms: number, onDeadline: () => Error): Promise<T> {
  const { promise: late, reject } = deferred<never>();
  const timer = setTimeout(() => reject(onDeadline()), limit_ms);
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function deferred<T>(): { promise: Promise<T>; resolve(value: T): void; reject(error: unknown): void } {
  let settle!: { resolve(value: T): void; reject(error: unknown): void };
  const promise = new Promise<T>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { promise, ...settle };
}
