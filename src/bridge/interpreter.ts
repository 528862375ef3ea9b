// Which Python runs the trainers. The first of these that is given: --python, TRESTLE_PYTHON, PYTHON_BIN, an active
// virtual environment, the project's .venv, python3.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { UserError } from "../core/errors.ts";

/** The folder that holds package.json, .venv and py/. */
export const projectRoot = fileURLToPath(new URL("../../", import.meta.url));

export const MINIMUM_PYTHON = [3, 10] as const;

export interface Interpreter {
  /** As it is started: a path, or a name to find on the PATH. Links are kept: a venv lives by its link. */
  path: string;
  /** Why this one, for people: "TRESTLE_PYTHON", "the project's .venv". */
  why: string;
  /** As "3.11.7". */
  version: string;
  /** The folder of the environment, `sys.prefix`. */
  prefix: string;
  /** True in a virtual environment, where installing packages disturbs nobody. */
  venv: boolean;
}

/**
 * The interpreter to run, started once to make sure that it works (about 50 ms).
 * @param options python: the value of --python; root: the folder of `.venv`; env: stands in for process.env
 * @throws UserError, one line that names the variable or flag and the path
 */
export async function findInterpreter(
  options: { python?: string; root?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<Interpreter> {
  const { path, why } = chooseInterpreter(options);
  return inspectInterpreter(path, why);
}

/** The choice alone: nothing is started, nothing has to exist. An empty variable counts as not set. */
export function chooseInterpreter({
  python,
  root = projectRoot,
  env = process.env,
}: {
  python?: string;
  root?: string;
  env?: NodeJS.ProcessEnv;
}): { path: string; why: string } {
  if (python) return { path: python, why: "--python" };
  if (env.TRESTLE_PYTHON) return { path: env.TRESTLE_PYTHON, why: "TRESTLE_PYTHON" };
  if (env.PYTHON_BIN) return { path: env.PYTHON_BIN, why: "PYTHON_BIN" };
  if (env.VIRTUAL_ENV) return { path: venvPython(env.VIRTUAL_ENV), why: "VIRTUAL_ENV, the active virtual environment" };
  const own = venvPython(join(root, ".venv"));
  if (existsSync(own)) return { path: own, why: "the project's .venv" };
  return { path: "python3", why: "python3 on the PATH" };
}

export function venvPython(folder: string): string {
  return process.platform === "win32" ? join(folder, "Scripts", "python.exe") : join(folder, "bin", "python");
}

/**
 * Starts the interpreter and asks what it is.
 * @param why where the path comes from; errors begin with it
 * @throws UserError where it cannot be started, is no Python, or is too old
 */
export async function inspectInterpreter(path: string, why: string): Promise<Interpreter> {
  const script =
    "import sys, json; print(json.dumps([list(sys.version_info[:3]), sys.prefix, sys.prefix != sys.base_prefix]))";
  let output: string;
  try {
    output = (await promisify(execFile)(path, ["-c", script], { timeout: 60_000, encoding: "utf8" })).stdout;
  } catch (error) {
    throw new UserError(`${why}: ${path} ${whyNotStarted(path, error)}. ${remedy(why)}`);
  }
  let found: [number[], string, boolean];
  try {
    found = JSON.parse(output.trim().split("\n").at(-1)!) as typeof found;
  } catch {
    throw new UserError(`${why}: ${path} is not a Python 3 interpreter. ${remedy(why)}`);
  }
  const [version, prefix, venv] = found;
  const [major = 0, minor = 0] = version;
  if (major < MINIMUM_PYTHON[0] || (major === MINIMUM_PYTHON[0] && minor < MINIMUM_PYTHON[1]))
    throw new UserError(
      `${why}: ${path} is Python ${version.join(".")}; Trestle needs ${MINIMUM_PYTHON.join(".")} or newer. ${remedy(why)}`,
    );
  return { path, why, version: version.join("."), prefix, venv };
}

function whyNotStarted(path: string, error: unknown): string {
  const { code, killed, stderr } = error as { code?: unknown; killed?: boolean; stderr?: string };
  if (code === "ENOENT") return path.includes("/") ? "does not exist" : "is not on the PATH";
  if (code === "EACCES") return "may not be executed";
  if (killed) return "did not start within 60 s";
  const lastLine = stderr?.trim().split("\n").at(-1);
  return lastLine ? `does not work as a Python interpreter (${lastLine})` : "does not work as a Python interpreter";
}

function remedy(why: string): string {
  if (why === "python3 on the PATH")
    return `Install Python ${MINIMUM_PYTHON.join(".")} or newer, or name one with --python or TRESTLE_PYTHON.`;
  if (why === "the project's .venv") return "Mend it with: trestle setup";
  return "Correct it, or leave it out to use the project's .venv.";
}
