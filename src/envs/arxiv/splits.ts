import { existsSync, readdirSync } from "node:fs";
import { basename } from "node:path";
import { UserError } from "../../core/errors.ts";
import { createRandom } from "../../core/random.ts";
import { band, joinRates, type MeasuredRates } from "../../core/rates.ts";
import type { LoadedTasks } from "../../core/task.ts";
import { describeIssues } from "../../core/tool.ts";
import type { ArxivOptions } from "./options.ts";
import { attachExpectedPaperIds } from "./oracle.ts";
import { measuredRates } from "./rates-world.ts";
import { loadSnapshot, resolveDataFile } from "./snapshot.ts";
import { type SplitFile, splitFileSchema, type TemplateKey, templateKey } from "./split-file.ts";
import { checkSplitFile } from "./split-guards.ts";
import { fileHash, readJsonFile, readTaskFile, SMOKE_TASKS_FILE, TASKS_FILE } from "./tasks.ts";
import type { ArxivTask } from "./types.ts";

// A split is a list of task ids in a file; `FILE:GROUP` names one. The files are frozen: they are the contract, and a
// new way to divide the tasks is a new file.

const SPLITS_FOLDER = "data/arxiv/splits";
const DEFAULT_FILE = "v3_81";

/** Made from train tasks when loaded, not stored: see `loadRlVariations`. */
export const RL_VARIATIONS_SPLIT = "rl_variations";

/** Names for --help. The first is what training uses. */
export const arxivSplits = [
  "v6:rl_train",
  "v3_81:train",
  "dev",
  "iid_test",
  "ood_test",
  "v3_81:rl_train",
  "v6:ceiling_control",
  "v6:dropped",
  "smoke",
  "all",
] as const;

/**
 * A split file by its name in data/arxiv/splits or by a path that ends in .json.
 * @throws UserError for a file that is missing or broken, or that breaks a guard of `checkSplitFile`.
 */
export function readSplitFile(name: string): { file: SplitFile; path: string; sha256: string } {
  return readVersion(name, []);
}

/** @param above The files that were made from this one, each from the next. */
function readVersion(name: string, above: readonly string[]): { file: SplitFile; path: string; sha256: string } {
  const path = splitPath(name);
  if (above.includes(path)) throw new UserError(`${path}: it was made from itself (derived_from).`);
  if (!existsSync(resolveDataFile(path))) {
    throw new UserError(
      `no split file '${name}'; there are ${splitFileNames().join(", ")}, or a path that ends in .json.`,
    );
  }
  const { value, sha256 } = readJsonFile(path);
  return { file: parseSplitFile(value, path, above), path, sha256 };
}

const splitPath = (name: string): string => (name.endsWith(".json") ? name : `${SPLITS_FOLDER}/${name}.json`);

/**
 * @param path Where it stands, or will stand.
 * @throws UserError naming the path, for what is no split file, and for one that breaks a guard of `checkSplitFile`.
 */
export function parseSplitFile(value: unknown, path: string, above: readonly string[] = []): SplitFile {
  const parsed = splitFileSchema.safeParse(value);
  if (!parsed.success) throw new UserError(`${path}: ${describeIssues(parsed.error)}.`);
  checkSplitFile(parsed.data, readTaskFile(TASKS_FILE).tasks, path, (derived_from) => {
    const { file: name, group } = derived_from.includes(":")
      ? parseSplitName(derived_from)
      : { file: derived_from, group: null };
    const isThere = existsSync(resolveDataFile(splitPath(name ?? DEFAULT_FILE)));
    return { group, file: isThere ? readVersion(name ?? DEFAULT_FILE, [...above, path]).file : null };
  });
  return parsed.data;
}

function splitFileNames(): string[] {
  const names = readdirSync(resolveDataFile(SPLITS_FOLDER)).filter((name) => name.endsWith(".json"));
  return names.map((name) => basename(name, ".json")).sort();
}

/** The task ids of a group. `rl_train`, where it is not stored, is train ∩ middle band. */
function groupIds({ file, path }: { file: SplitFile; path: string }, group: string): readonly string[] {
  const stored = Object.hasOwn(file.split, group) ? file.split[group] : undefined;
  if (!stored && group === "rl_train") return middleBand(file, path);
  if (!stored) {
    throw new UserError(`${path}: no group '${group}'; expected one of ${Object.keys(file.split).join(", ")}.`);
  }
  if (stored.length === 0) throw new UserError(`${path}: group '${group}' is empty.`);
  return stored;
}

function middleBand(file: SplitFile, path: string): string[] {
  const { rates = {}, split } = file;
  const train = new Set(split.train ?? []);
  if (train.size === 0) throw new UserError(`${path}: rl_train is computed from train, which it lacks.`);
  if (Object.keys(rates).length === 0) {
    throw new UserError(
      `${path}: rl_train is train ∩ middle band, but the file has no rates. Measure them, or use v6:rl_train.`,
    );
  }
  const ids = [...train].filter((id) => rates[id] !== undefined && band(rates[id]) === "middle");
  if (ids.length === 0) throw new UserError(`${path}: rl_train is empty: no rate lies in [0.2, 0.8].`);
  return ids;
}

/** `FILE:GROUP` apart; the file is null where only a group is named. */
export function parseSplitName(name: string): { file: string | null; group: string } {
  const colon = name.lastIndexOf(":");
  const [file, group] = colon < 0 ? [null, name] : [name.slice(0, colon), name.slice(colon + 1)];
  if (group === "" || file === "") {
    throw new UserError(`split '${name}': expected [FILE:]GROUP, as ${arxivSplits.slice(0, 4).join(", ")}.`);
  }
  return { file, group };
}

/**
 * A group by its name, of v3_81 where no file is named. `from`: the file's name, as it was given.
 * @throws UserError for a file or group that does not exist, an empty group, an `rl_train` that cannot be computed.
 */
export function readGroup(name: string): { file: SplitFile; from: string; group: string; ids: readonly string[] } {
  const { file, group } = parseSplitName(name);
  const from = file ?? DEFAULT_FILE;
  const split = readSplitFile(from);
  return { file: split.file, from, group, ids: groupIds(split, group) };
}

/**
 * The tasks of `[FILE:]GROUP`, or of several joined by commas, with the paper of each gold step attached. FILE defaults
 * to v3_81. `all` are the 81 tasks, `smoke` the 8.
 * @throws UserError for a name, file or group that does not exist, an empty group, an `rl_train` that cannot be
 * computed, a gold step that the snapshot cannot replay.
 */
export async function loadArxivSplit(name: string, options: ArxivOptions): Promise<LoadedTasks<ArxivTask>> {
  const sources: Record<string, string> = { [options.snapshot]: fileHash(options.snapshot) };
  const tasks = new Map<string, ArxivTask>();
  let rates: MeasuredRates | null = null;
  for (const part of name.split(",")) {
    const { file, group } = parseSplitName(part.trim());
    const smoke = file === null && group === "smoke";
    const taskFile = smoke ? SMOKE_TASKS_FILE : TASKS_FILE;
    const set = readTaskFile(taskFile);
    sources[taskFile] = set.sha256;
    let ids: readonly string[] = set.tasks.map(({ id }) => id);
    if (file !== null || !(smoke || group === "all")) {
      const split = readSplitFile(file ?? DEFAULT_FILE);
      sources[split.path] = split.sha256;
      ids = groupIds(split, group);
      rates = joinRates(rates, measuredRates(split.file, group, options));
    }
    const byId = new Map(set.tasks.map((task) => [task.id, task]));
    for (const id of ids) tasks.set(id, await withOracle(byId.get(id)!, options.snapshot));
  }
  return { tasks: [...tasks.values()], sources, rates };
}

/** By snapshot path: what the oracle found for each task, asked once a process. */
const attached = new Map<string, WeakMap<ArxivTask, Promise<ArxivTask>>>();

export function withOracle(task: ArxivTask, snapshotPath: string): Promise<ArxivTask> {
  const known = attached.get(snapshotPath) ?? new WeakMap<ArxivTask, Promise<ArxivTask>>();
  attached.set(snapshotPath, known);
  const found = known.get(task) ?? attachExpectedPaperIds(task, loadSnapshot(snapshotPath));
  known.set(task, found);
  return found;
}

export interface SplitPlan {
  ood_keys: readonly TemplateKey[];
  /** Share of each stratum that is held out. */
  iid_ratio?: number;
  seed?: number;
  /** Strict success rates by id: where known, bands are divided evenly. */
  rates?: Readonly<Record<string, number>>;
}

/**
 * Divides tasks into train, iid_test and ood_test. Whole templates go to ood_test; of the others a share of each
 * stratum (template × band) is held out, and never all of it: a template without train tasks would be another ood_test.
 * The shuffle is this project's generator, so frozen files of other origin stay as they are.
 * @throws UserError for an ood key that no task has.
 */
export function makeSplit(
  tasks: readonly ArxivTask[],
  { ood_keys, iid_ratio = 0.25, seed = 0, rates = {} }: SplitPlan,
): { train: string[]; iid_test: string[]; ood_test: string[] } {
  const keyText = (key: TemplateKey) => `${key[0]}/${key[1]}`;
  const strata = new Map<string, Map<string, string[]>>();
  for (const task of tasks) {
    const key = keyText(templateKey(task));
    const stratum = rates[task.id] === undefined ? "_" : band(rates[task.id]!);
    const bands = strata.get(key) ?? new Map<string, string[]>();
    strata.set(key, bands.set(stratum, [...(bands.get(stratum) ?? []), task.id]));
  }
  const ood = new Set(ood_keys.map(keyText));
  for (const key of ood) {
    if (!strata.has(key)) {
      throw new UserError(`makeSplit: no task has the key ${key}; there are ${[...strata.keys()].sort().join(", ")}.`);
    }
  }
  const random = createRandom(seed);
  const split = { train: [] as string[], iid_test: [] as string[], ood_test: [] as string[] };
  for (const key of [...strata.keys()].sort()) {
    for (const [, ids] of [...strata.get(key)!].sort(([a], [b]) => (a < b ? -1 : 1))) {
      if (ood.has(key)) {
        split.ood_test.push(...ids);
        continue;
      }
      const shuffled = random.shuffle(ids);
      const held =
        ids.length > 1 && iid_ratio > 0
          ? Math.min(ids.length - 1, Math.max(1, roundHalfEven(ids.length * iid_ratio)))
          : 0;
      split.iid_test.push(...shuffled.slice(0, held));
      split.train.push(...shuffled.slice(held));
    }
  }
  return { train: split.train.sort(), iid_test: split.iid_test.sort(), ood_test: split.ood_test.sort() };
}

/** 0.5 → 0, 1.5 → 2, 2.5 → 2. */
function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}
