import { createHash, randomUUID } from "node:crypto";
import { existsSync, linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { cpus, hostname, totalmem } from "node:os";
import { join, relative } from "node:path";
import { execaSync } from "execa";
import { z } from "zod";
import { canonicalJson } from "./core/canonical-json.ts";
import { UserError } from "./core/errors.ts";
import { writeWhole } from "./core/whole-file.ts";

export { writeWhole } from "./core/whole-file.ts";

/** What a run was: enough to tell two runs apart, and to run one again. */
export interface Manifest {
  recipe: string;
  name: string;
  /** The command line that started it. */
  command: string;
  seed: number;
  /** Hash of the resolved config: equal hashes, equal work. */
  config_sha256: string;
  status: "running" | "completed" | "stopped" | "failed";
  started: string;
  finished: string | null;
  git: { commit: string; changed_files: number } | null;
  versions: Record<string, string>;
  hardware: { cpu: string; cores: number; memory_gib: number; gpu: string | null };
  /** SHA-256 by path of every data file read. */
  data: Record<string, string>;
  /** The recipe's own account: algorithm flags before, results after. */
  details: Record<string, unknown>;
}

export interface RunFolder {
  readonly dir: string;
  path(...parts: string[]): string;
  readonly manifest: Readonly<Manifest>;
  /** Changes the manifest and writes it. */
  update(changes: Partial<Manifest>): void;
  /** Gives the folder back. */
  close(): void;
}

export interface OpenRun {
  dir: string;
  recipe: string;
  config: Record<string, unknown>;
  command: string;
  seed: number;
  versions: Record<string, string>;
  gpu?: string | null;
  data: Record<string, string>;
  details?: Record<string, unknown>;
}

/**
 * Makes the folder of a new run and holds it until `close`.
 * @throws UserError where another process holds it, or it already has a run.
 */
export function openRun(options: OpenRun): RunFolder {
  const { dir, config } = options;
  const unlock = lockFolder(dir);
  const path = (...parts: string[]) => join(dir, ...parts);
  if (existsSync(path("manifest.json"))) {
    unlock();
    throw new UserError(`${dir} already holds a run. Choose another --name, or remove that folder.`);
  }
  const manifest: Manifest = {
    recipe: options.recipe,
    name: dir.split("/").at(-1)!,
    command: options.command,
    seed: options.seed,
    config_sha256: configHash(config),
    status: "running",
    started: new Date().toISOString(),
    finished: null,
    git: gitState(),
    versions: { trestle: packageVersion(), node: process.versions.node, ...options.versions },
    hardware: {
      cpu: cpus()[0]?.model ?? "unknown",
      cores: cpus().length,
      memory_gib: Math.round(totalmem() / 2 ** 30),
      gpu: options.gpu ?? null,
    },
    data: options.data,
    details: options.details ?? {},
  };
  writeJson(path("config.json"), config);
  writeJson(path("manifest.json"), manifest);
  return folderOf(dir, manifest, unlock);
}

/**
 * Holds the folder of a run that is to go on. Its config and versions stay as they are.
 * @throws UserError where another process holds it, or it has no run
 */
export function reopenRun(dir: string): RunFolder {
  const unlock = lockFolder(dir);
  const manifest = readManifest(dir);
  if (!manifest) {
    unlock();
    throw new UserError(`${dir} holds no run that could go on.`);
  }
  const run = folderOf(dir, manifest, unlock);
  run.update({ status: "running", finished: null });
  return run;
}

function folderOf(dir: string, opened: Manifest, close: () => void): RunFolder {
  let manifest = opened;
  const path = (...parts: string[]) => join(dir, ...parts);
  return {
    dir,
    path,
    get manifest() {
      return manifest;
    },
    update(changes) {
      manifest = { ...manifest, ...changes };
      writeJson(path("manifest.json"), manifest);
    },
    close,
  };
}

/** What of a manifest its readers rely on. */
const readable = z.looseObject({
  recipe: z.string(),
  name: z.string(),
  status: z.enum(["running", "completed", "stopped", "failed"]),
  started: z.string(),
  versions: z.record(z.string(), z.string()),
  data: z.record(z.string(), z.string()),
  details: z.record(z.string(), z.unknown()),
});

/** null: the folder holds no run, or one whose manifest can't be read. */
export function readManifest(dir: string): Manifest | null {
  try {
    const manifest: unknown = JSON.parse(readFileSync(join(dir, "manifest.json"), "utf8"));
    return readable.safeParse(manifest).success ? (manifest as Manifest) : null;
  } catch {
    return null;
  }
}

/** The first of `<stem>`, `<stem>-2`, `<stem>-3` … that no run has. */
export function freeName(runsDir: string, stem: string): string {
  for (let number = 1; ; number++) {
    const name = number === 1 ? stem : `${stem}-${number}`;
    if (!existsSync(join(runsDir, name))) return name;
  }
}

/** The runs in a folder, the newest first. */
export function listRuns(runsDir: string): { dir: string; manifest: Manifest }[] {
  if (!existsSync(runsDir)) return [];
  return readdirSync(runsDir)
    .map((name) => join(runsDir, name))
    .flatMap((dir) => {
      const manifest = readManifest(dir);
      return manifest ? [{ dir, manifest }] : [];
    })
    .sort((a, b) => b.manifest.started.localeCompare(a.manifest.started));
}

/** SHA-256 of a config, whatever the order of its keys. */
export function configHash(config: unknown): string {
  return createHash("sha256").update(canonicalJson(config)).digest("hex");
}

export function writeJson(path: string, value: unknown): void {
  writeWhole(path, `${JSON.stringify(value, null, 2)}\n`);
}

// ---------------------------------------------------------------------------------------------------- the lock

interface Holder {
  pid: number;
  host: string;
  /** When the process started, so that a process id used again is not taken for the holder; null: not known. */
  process_start: string | null;
}

/**
 * Holds `dir` for this process. A lock whose process is dead is taken over.
 * @throws UserError naming the process that holds it.
 */
export function lockFolder(dir: string): () => void {
  mkdirSync(dir, { recursive: true });
  const lock = join(dir, "lock");
  const own: Holder = { pid: process.pid, host: hostname(), process_start: processStat(process.pid).start };
  const temporary = join(dir, `lock.${process.pid}.${randomUUID().slice(0, 8)}.tmp`);
  writeWhole(temporary, JSON.stringify(own));
  try {
    // Twice: after a dead holder's lock is gone, somebody else may be quicker.
    for (let attempt = 0; attempt < 3; attempt++) {
      if (tryLink(temporary, lock)) return () => rmSync(lock, { force: true });
      const text = readOrNull(lock);
      if (text === null) continue;
      const holder = parseHolder(text);
      if (holder && isAlive(holder))
        throw new UserError(
          `${dir} is in use by process ${holder.pid}${holder.host === hostname() ? "" : ` on ${holder.host}`}. ` +
            `Choose another --name, or wait for it${holder.host === hostname() ? "" : `; if it is gone, remove ${lock}`}.`,
        );
      takeAway(lock, text);
    }
    throw new UserError(`${dir} is being taken by several processes at once. Try again, or choose another --name.`);
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Makes `lock` with its whole content, or not at all where there is one. */
function tryLink(from: string, lock: string): boolean {
  try {
    linkSync(from, lock);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Removes a dead holder's lock, unless it is no longer that one. */
function takeAway(lock: string, text: string): void {
  const aside = `${lock}.${randomUUID().slice(0, 8)}.tmp`;
  try {
    renameSync(lock, aside);
  } catch {
    return; // somebody else was quicker
  }
  if (readOrNull(aside) !== text) tryLink(aside, lock); // a living one: back with it
  rmSync(aside, { force: true });
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return null;
  }
}

function parseHolder(text: string): Holder | null {
  try {
    const holder = JSON.parse(text) as Partial<Holder>;
    return Number.isInteger(holder.pid)
      ? { pid: holder.pid!, host: holder.host ?? "", process_start: holder.process_start ?? null }
      : null;
  } catch {
    return null; // cut off: its writer died
  }
}

function isAlive({ pid, host, process_start }: Holder): boolean {
  if (host !== hostname()) return true; // can't be told from here
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
  }
  const { state, start } = processStat(pid);
  if (state === "Z") return false; // ended; only nobody has asked for its exit code yet
  return process_start === null || start === null || start === process_start;
}

/** State (field 3 of /proc/PID/stat) and start (field 22, clock ticks since boot); null where there is no /proc. */
function processStat(pid: number): { state: string | null; start: string | null } {
  const stat = readOrNull(`/proc/${pid}/stat`);
  const fields = stat?.slice(stat.lastIndexOf(")") + 2).split(" ") ?? [];
  return { state: fields[0] ?? null, start: fields[19] ?? null };
}

// ---------------------------------------------------------------------------------------------- what ran it

function gitState(): Manifest["git"] {
  const options = { cwd: import.meta.dirname, reject: false, timeout: 5000 } as const;
  const head = execaSync("git", ["rev-parse", "HEAD"], options);
  if (head.exitCode !== 0) return null;
  const status = execaSync("git", ["status", "--porcelain"], options);
  return { commit: head.stdout, changed_files: status.stdout.split("\n").filter(Boolean).length };
}

function packageVersion(): string {
  const file = join(import.meta.dirname, "..", "package.json");
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}

/** A path as messages show it: from the current folder where it is inside. */
export function shownPath(path: string): string {
  const short = relative(process.cwd(), path);
  return short === "" ? "." : short.startsWith("..") ? path : short;
}
