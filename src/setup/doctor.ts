// `trestle doctor`: what training would run on, and whether it works. Checks are data; the CLI prints them.

import { existsSync, readFileSync, statfsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { findInterpreter, type Interpreter, projectRoot } from "../bridge/interpreter.ts";
import { PythonError, startPython } from "../bridge/python.ts";
import { errorText } from "../core/errors.ts";
import { fileHash, readPins } from "./requirements.ts";
import { installedSetup } from "./setup.ts";

export interface Check {
  name: string;
  status: "ok" | "warn" | "fail";
  text: string;
  /** What to do about it; only where the status is not ok. */
  fix?: string;
}

export interface DoctorOptions {
  /** --python */
  python?: string;
  root?: string;
  env?: NodeJS.ProcessEnv;
  /** Called with each check as soon as it is made. */
  onCheck?: (check: Check) => void;
}

const GB = 1e9;

/** What py/trainers/doctor.py returns. */
interface PythonFacts {
  packages: Record<string, string | null>;
  torch: { error: string } | { cuda_build: string | null; devices: Device[]; threads: number };
  nvidia_driver: boolean;
  ping_us: number;
  features: { problems: string[]; warnings: string[] };
}

interface Device {
  name: string;
  memory_bytes: number | null;
}

/**
 * Makes every check that can be made; never throws for what it finds.
 * For the CLI: print `formatCheck` of each through `onCheck` (or the checks with --json); exit with 1 unless `ok`.
 */
export async function runDoctor(options: DoctorOptions = {}): Promise<{ checks: Check[]; ok: boolean }> {
  const { root = projectRoot, env = process.env } = options;
  const checks: Check[] = [];
  function add(...found: Check[]): void {
    for (const check of found) {
      checks.push(check);
      options.onCheck?.(check);
    }
  }

  add(checkNode(process.versions.node), checkSqlite());
  let interpreter: Interpreter | null = null;
  try {
    interpreter = await findInterpreter({ python: options.python, root, env });
    add({ name: "python", status: "ok", text: `${interpreter.version}, ${interpreter.path} (${interpreter.why})` });
  } catch (error) {
    add({ name: "python", status: "fail", text: errorText(error), fix: "trestle setup" });
  }
  add(await checkSetup(root));
  if (interpreter) add(...(await checkPython(interpreter, root)));
  add(checkDisk(root), ...checkData(root));
  return { checks, ok: checks.every((check) => check.status !== "fail") };
}

/** "ok    torch  2.13.0", with what to do in a line of its own. */
export function formatCheck({ name, status, text, fix }: Check): string {
  const line = `${status.padEnd(4)}  ${name.padEnd(14)}  ${text}`;
  return fix ? `${line}\n      ${" ".repeat(14)}  -> ${fix}` : line;
}

export function checkNode(version: string): Check {
  const old = Number(version.split(".")[0]) < 20;
  if (old)
    return { name: "node", status: "fail", text: `${version}; expected 20 or newer`, fix: "install Node 20 or newer" };
  return { name: "node", status: "ok", text: version };
}

/** The one native package; only the search environment needs it. @param load how it is loaded: for tests */
export function checkSqlite(load: (name: string) => unknown = createRequire(import.meta.url)): Check {
  try {
    const Database = load("better-sqlite3") as new (path: string) => { close(): void };
    new Database(":memory:").close(); // its native part is loaded with the first database
    return { name: "sqlite", status: "ok", text: "better-sqlite3 loads" };
  } catch (error) {
    return {
      name: "sqlite",
      status: "warn",
      text: `better-sqlite3 does not load, so there is no search environment: ${errorText(error).split("\n")[0]}`,
      fix: "npm rebuild better-sqlite3; it takes a C++ compiler and make where no ready-made build fits",
    };
  }
}

async function checkSetup(root: string): Promise<Check> {
  if (await installedSetup(root))
    return { name: "setup", status: "ok", text: ".venv holds what requirements.txt names" };
  const text = existsSync(join(root, ".venv"))
    ? ".venv was not made by a complete set-up, or requirements.txt has changed since"
    : "there is no .venv yet";
  return { name: "setup", status: "warn", text, fix: "trestle setup" };
}

async function checkPython(interpreter: Interpreter, root: string): Promise<Check[]> {
  const pins = readPins(root);
  let facts: PythonFacts;
  try {
    const python = await startPython({ interpreter, stderr: "pipe" });
    try {
      const request = { packages: Object.keys(pins), features: true };
      facts = await python.call("doctor", request, { answer: async () => ({}), deadline_ms: 180_000 });
    } finally {
      await python.close();
    }
  } catch (error) {
    const text = error instanceof PythonError ? `${error.message}\n${error.traceback}` : errorText(error);
    return [{ name: "bridge", status: "fail", text, fix: "trestle setup --force" }];
  }
  const bridge: Check = {
    name: "bridge",
    status: "ok",
    text: `an empty round trip takes ${Math.round(facts.ping_us)} µs`,
  };
  return [bridge, ...checkPackages(pins, facts.packages, interpreter), checkFeatures(facts), checkDevice(facts)];
}

/** Versions outside the pins may work, but nobody has tried them; a missing package cannot. */
export function checkPackages(
  pins: Record<string, string>,
  installed: Record<string, string | null>,
  interpreter: Pick<Interpreter, "path" | "why">,
): Check[] {
  const ours = interpreter.why === "the project's .venv";
  return Object.entries(pins).map(([name, pin]) => {
    const version = installed[name] ?? null;
    const fix = ours ? "trestle setup --force" : `${interpreter.path} -m pip install ${name}==${pin}`;
    if (version === null) return { name, status: "fail", text: `not installed; expected ${pin}`, fix };
    // "2.13.0+cpu" is a build of 2.13.0.
    if (version.split("+")[0] !== pin) return { name, status: "warn", text: `${version}; tested with ${pin}`, fix };
    return { name, status: "ok", text: version };
  });
}

/** What training needs of the packages, whatever their versions are. */
export function checkFeatures({ features }: Pick<PythonFacts, "features">): Check {
  const name = "features";
  const { problems, warnings } = features;
  const fix = "trestle setup --force";
  if (problems.length > 0) return { name, status: "fail", text: problems.join(" "), fix };
  if (warnings.length > 0) return { name, status: "warn", text: warnings.join(" "), fix };
  return { name, status: "ok", text: "the installed packages have all that training uses" };
}

export function checkDevice({ torch, nvidia_driver }: Pick<PythonFacts, "torch" | "nvidia_driver">): Check {
  const name = "device";
  if ("error" in torch)
    return { name, status: "fail", text: `torch cannot be imported: ${torch.error}`, fix: "trestle setup --force" };
  if (torch.devices.length > 0) {
    const text = torch.devices
      .map(({ name, memory_bytes }) => (memory_bytes ? `${name}, ${Math.round(memory_bytes / GB)} GB` : name))
      .join("; ");
    return { name, status: "ok", text };
  }
  if (nvidia_driver)
    return {
      name,
      status: "warn",
      text: torch.cuda_build
        ? "torch sees no GPU, though a driver is here"
        : "torch is a CPU build, though a GPU is here",
      fix: torch.cuda_build
        ? "check nvidia-smi and CUDA_VISIBLE_DEVICES"
        : "unset PIP_EXTRA_INDEX_URL, then: trestle setup --force",
    };
  return { name, status: "ok", text: `CPU, ${torch.threads} threads; no GPU` };
}

/** Checkpoints are written whole beside the old ones, so a full disk ends a run. */
export function checkDisk(folder: string, free_bytes = freeBytes(folder)): Check {
  const text = `${(free_bytes / GB).toFixed(1)} GB free`;
  const fix = "free some space; checkpoints of a large model need several GB each";
  if (free_bytes < 1 * GB) return { name: "disk", status: "fail", text, fix };
  if (free_bytes < 5 * GB) return { name: "disk", status: "warn", text, fix };
  return { name: "disk", status: "ok", text };
}

function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

/** data/SHA256SUMS, in the format of `sha256sum`, names every data file; none where there is no such list. */
export function checkData(root: string): Check[] {
  const list = join(root, "data", "SHA256SUMS");
  if (!existsSync(list)) return [];
  const lines = readFileSync(list, "utf8")
    .split("\n")
    .filter((line) => line !== "");
  const changed = lines.flatMap((line) => {
    const [, expected, file] = /^([0-9a-f]{64}) [ *](.+)$/.exec(line) ?? [];
    if (!file) return [`a line of data/SHA256SUMS that cannot be read: ${line}`];
    const path = join(root, "data", file);
    if (!existsSync(path)) return [`data/${file} is missing`];
    return fileHash(path) === expected ? [] : [`data/${file} has changed`];
  });
  if (changed.length === 0) return [{ name: "data", status: "ok", text: `${lines.length} files are as published` }];
  const text = `${changed.slice(0, 3).join("; ")}${changed.length > 3 ? `; and ${changed.length - 3} more` : ""}`;
  return [{ name: "data", status: "warn", text, fix: "git checkout data, or, where it was meant, make the list anew" }];
}
