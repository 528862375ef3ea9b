// `trestle setup`: the project's .venv with the packages of requirements.txt. Does nothing, and needs no network, where
// all is in place; starts over where an earlier set-up was interrupted.

import { execFileSync } from "node:child_process";
import { existsSync, linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import {
  chooseInterpreter,
  type Interpreter,
  inspectInterpreter,
  projectRoot,
  venvPython,
} from "../bridge/interpreter.ts";
import { errorText, UserError } from "../core/errors.ts";
import { fileHash } from "./requirements.ts";

export interface SetupOptions {
  /** The Python (3.10 or newer) to build the environment with; --python. Default: as for training, then python3. */
  python?: string;
  /** Installs again even where all is in place. */
  force?: boolean;
  /** The folder of requirements.txt and .venv. */
  root?: string;
  /** A line for the person watching. Default: to stderr. */
  say?: (line: string) => void;
  /** Stands in for process.env. */
  env?: NodeJS.ProcessEnv;
}

export interface SetupResult {
  /** The interpreter of the environment. */
  python: string;
  version: string;
  /** False where nothing had to be done. */
  changed: boolean;
  seconds: number;
}

/** What `.venv/trestle-setup.json` holds once an installation is complete. */
interface Stamp {
  requirements_sha256: string;
  python_version: string;
}

/**
 * Makes `.venv` and installs the pinned packages.
 * For the CLI: flags --python and --force; print the result with --json, else nothing more (`say` has said it all).
 * @throws UserError where Python is missing or too old, or pip fails: its last lines are in the message
 */
export async function runSetup(options: SetupOptions = {}): Promise<SetupResult> {
  const { root = projectRoot, force = false, env = process.env } = options;
  const say = options.say ?? ((line: string) => process.stderr.write(`${line}\n`));
  const started = performance.now();
  const done = (found: Interpreter, changed: boolean): SetupResult => ({
    python: found.path,
    version: found.version,
    changed,
    seconds: (performance.now() - started) / 1000,
  });

  const wanted = options.python ? await inspectInterpreter(options.python, "--python") : null;
  const upToDate = async () => {
    const current = force ? null : await installedSetup(root);
    return current && (!wanted || wanted.version === current.version) ? current : null;
  };

  let venv = await upToDate();
  if (venv) {
    say(`.venv is up to date (Python ${venv.version}).`);
    noteOtherInterpreter(root, env, say);
    return done(venv, false);
  }
  const held = await lock(root, say);
  try {
    venv = await upToDate(); // the set-up that we waited for may have done it
    if (venv) return done(venv, false);
    venv = await prepareVenv(root, wanted, force, env, say);
    const terminal = options.say === undefined && process.stderr.isTTY;
    await installPackages(root, venv, { terminal, env, say, onStart: held.also });
    writeStamp(root, { requirements_sha256: requirementsHash(root), python_version: venv.version });
    rmSync(pipLog(root), { force: true });
    say(`.venv is ready (Python ${venv.version}).`);
    noteOtherInterpreter(root, env, say);
    return done(venv, true);
  } finally {
    held.release();
  }
}

/** The interpreter of a complete, current `.venv`; null where there is something to do. No network, 50 ms. */
export async function installedSetup(root = projectRoot): Promise<Interpreter | null> {
  let stamp: Stamp;
  try {
    stamp = JSON.parse(readFileSync(stampFile(root), "utf8")) as Stamp;
  } catch {
    return null;
  }
  if (stamp.requirements_sha256 !== requirementsHash(root)) return null;
  const venv = await inspectInterpreter(venvPython(join(root, ".venv")), "the project's .venv").catch(() => null);
  return venv?.version === stamp.python_version ? venv : null;
}

const stampFile = (root: string) => join(root, ".venv", "trestle-setup.json");
/** There while packages are being installed, and after an installation that failed or was interrupted. */
const pipLog = (root: string) => join(root, ".venv", "trestle-pip.log");
const requirementsHash = (root: string) => fileHash(join(root, "requirements.txt"));

/** Whether a set-up was cut off after pip had begun to put packages in place: any of them may be half there. */
function wasInterrupted(root: string): boolean {
  return existsSync(pipLog(root)) && readFileSync(pipLog(root), "utf8").includes("Installing collected packages");
}

function writeStamp(root: string, stamp: Stamp): void {
  writeFileSync(`${stampFile(root)}.tmp`, `${JSON.stringify(stamp, null, 2)}\n`);
  renameSync(`${stampFile(root)}.tmp`, stampFile(root));
}

/** A working `.venv`: the one there is where it is whole, otherwise a new one. */
async function prepareVenv(
  root: string,
  wanted: Interpreter | null,
  force: boolean,
  env: NodeJS.ProcessEnv,
  say: (line: string) => void,
): Promise<Interpreter> {
  const folder = join(root, ".venv");
  const inspectOwn = () => inspectInterpreter(venvPython(folder), "the project's .venv");
  const existing = existsSync(folder) ? await inspectOwn().catch(() => null) : null;
  const interrupted = wasInterrupted(root);
  const fits = existing && (!wanted || wanted.version === existing.version);
  if (fits && !interrupted && !force && (await hasPip(existing.path))) return existing;

  const base = await findBase(root, wanted, env);
  const why = interrupted
    ? ", anew: the last set-up was interrupted"
    : existsSync(folder)
      ? ", anew in place of the old one"
      : "";
  say(`[1/2] Making .venv with Python ${base.version} (${base.path}, ${base.why})${why}.`);
  rmSync(folder, { recursive: true, force: true });
  try {
    await execa(base.path, ["-m", "venv", folder], { stdin: "ignore", all: true });
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw new UserError(
      `${base.path} -m venv failed: ${lastLines(error)}\nOn Debian and Ubuntu, install the package python3-venv; or name another Python with --python.`,
    );
  }
  return inspectOwn();
}

/** The Python that a new environment is built from. Never the one that is about to be replaced: its base instead. */
async function findBase(root: string, wanted: Interpreter | null, env: NodeJS.ProcessEnv): Promise<Interpreter> {
  const folder = join(root, ".venv");
  const chosen = wanted ?? chooseInterpreter({ root: join(root, "no-venv-yet"), env });
  const found = wanted ?? (await inspectInterpreter(chosen.path, chosen.why));
  if (found.prefix !== folder) return found;
  const base = execFileSync(found.path, ["-c", "import sys; print(sys._base_executable)"], { encoding: "utf8" }).trim();
  return inspectInterpreter(base, `the base of ${found.why}`);
}

async function hasPip(python: string): Promise<boolean> {
  return (await execa(python, ["-m", "pip", "--version"], { reject: false, stdin: "ignore" })).exitCode === 0;
}

async function installPackages(
  root: string,
  venv: Interpreter,
  {
    terminal,
    env,
    say,
    onStart,
  }: {
    terminal: boolean;
    env: NodeJS.ProcessEnv;
    say: (line: string) => void;
    onStart: (pid: number) => void;
  },
): Promise<void> {
  say("[2/2] Installing the packages of requirements.txt (PyTorch is large: the first time takes minutes).");
  if (process.platform === "linux" && !existsSync("/proc/driver/nvidia/version") && !env.PIP_EXTRA_INDEX_URL)
    say(
      "      No NVIDIA GPU here. PyTorch's CPU build is much smaller: PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu",
    );
  rmSync(stampFile(root), { force: true });
  rmSync(pipLog(root), { force: true });
  const flags = ["--disable-pip-version-check", "--no-input", "--log", pipLog(root)];
  const child = execa(venv.path, ["-m", "pip", "install", ...flags, "-r", "requirements.txt"], {
    cwd: root,
    env: { ...env, PIP_USER: "0", PYTHONNOUSERSITE: "1" }, // into .venv, whatever else is active
    extendEnv: false,
    stdin: "ignore",
    stdout: terminal ? process.stderr : "pipe", // on a terminal pip draws its own progress bars
    stderr: terminal ? process.stderr : "pipe",
    reject: false,
  });
  if (child.pid) onStart(child.pid);
  let rest = "";
  child.stdout?.on("data", (chunk: Buffer) => {
    const lines = (rest + chunk.toString("utf8")).split(/[\r\n]+/);
    rest = lines.pop()!;
    for (const line of lines)
      if (/^\s*(Collecting|Downloading|Using cached|Processing|Installing) /.test(line))
        say(`      ${shorten(line.trim())}`);
  });
  const { exitCode, stderr } = await child;
  if (exitCode === 0) return;
  const reason = stderr ? `:\n${stderr.trim().split("\n").slice(-6).join("\n")}` : "; its own words are above.";
  throw new UserError(`pip could not install requirements.txt${reason}\nOnce the cause is mended, run: trestle setup`);
}

/** An interpreter that comes before .venv makes a set-up look as if it had no effect. */
function noteOtherInterpreter(root: string, env: NodeJS.ProcessEnv, say: (line: string) => void): void {
  const { path, why } = chooseInterpreter({ root, env });
  if (path !== venvPython(join(root, ".venv"))) say(`Note: training uses ${path} (${why}), which comes before .venv.`);
}

/** "Collecting numpy (from a->b->c)" without its ancestry, and no longer than a line. */
function shorten(line: string): string {
  const plain = line.replace(/ \(from .*\)$/, "");
  return plain.length <= 100 ? plain : `${plain.slice(0, 99)}…`;
}

let lockCount = 0;

/**
 * One set-up at a time. The lock holds our process id and pip's, which goes on for a while where we are killed; a lock
 * whose processes are all gone counts for nothing.
 */
async function lock(root: string, say: (line: string) => void): Promise<{ also(pid: number): void; release(): void }> {
  const file = join(root, "node_modules", ".trestle-setup.lock");
  const own = `${file}.${process.pid}-${lockCount++}`;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(own, String(process.pid));
  for (let waited = 0; ; waited++) {
    try {
      linkSync(own, file); // fails where there is one; the id is in it from the first moment
      rmSync(own);
      return {
        also: (pid) => {
          writeFileSync(own, `${process.pid} ${pid}`);
          renameSync(own, file);
        },
        release: () => rmSync(file, { force: true }),
      };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const holders = holdersOf(file);
    if (!holders.some(isAlive)) rmSync(file, { force: true });
    else if (waited === 0) say(`Another set-up runs (process ${holders.join(", ")}); waiting for it.`);
    await sleep(500);
  }
}

function holdersOf(file: string): number[] {
  try {
    return readFileSync(file, "utf8").split(" ").map(Number);
  } catch {
    return []; // released in this moment
  }
}

function isAlive(pid: number): boolean {
  if (!pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

function lastLines(error: unknown): string {
  const { all } = error as { all?: string };
  return (all?.trim() || errorText(error)).split("\n").slice(-4).join("\n");
}
