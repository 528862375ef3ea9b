import { existsSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { type Checkpoint, newestCheckpoint, type RankState, readRankState } from "../checkpoints.ts";
import { UserError } from "../core/errors.ts";
import type { Trajectory } from "../core/trajectory.ts";
import { type MetricsLog, openMetrics } from "../metrics.ts";
import {
  freeName,
  listRuns,
  type Manifest,
  type OpenRun,
  openRun,
  type RunFolder,
  readManifest,
  reopenRun,
  writeJson,
} from "../run-folder.ts";
import { type JsonLines, openTrajectoryLog } from "../trajectory-log.ts";
import { guestOf, nameForAll, noMetrics } from "../world.ts";
import type { RunContext, RunResult } from "./recipe.ts";
import { envStem, localPath, readRunConfig, requireFree, requireWritable } from "./shared.ts";

// A run of training: new, or gone on with where it was interrupted. All training recipes begin and end here.

export const resumeKeys = {
  resume: z
    .boolean()
    .default(false)
    .describe("Go on with this run from its newest whole checkpoint; left out settings are the run's own."),
  resume_anyway: z
    .boolean()
    .default(false)
    .describe("Go on although settings or data have changed: the result is no longer that of one unbroken run."),
};

/** Keys that say which run and how to go on with it, not what it does. */
const NOT_SETTINGS = new Set(["name", "runs_dir", "python", ...Object.keys(resumeKeys)]);
/** Keys of TRL's config that say what is kept, not what is computed. */
const NOT_COMPUTED = new Set(["save_steps", "save_strategy", "save_total_limit", "report_to"]);

/** Whether flags mean a run that has begun already, and so has settings of its own. */
export function goesOn({ resume, name, runs_dir }: Record<string, unknown>): boolean {
  if (resume !== true) return false;
  return name === undefined || existsSync(join(String(runs_dir ?? "runs"), String(name), "manifest.json"));
}

interface RunChoice {
  name: string | null;
  runs_dir: string;
  env: string;
  resume: boolean;
  resume_anyway: boolean;
}

export interface PlannedRun<Config> {
  dir: string;
  /** The run's settings: those given, or where it goes on those it began with. */
  config: Config;
  /** Keys that were set, now or when the run began: what a path would ignore is refused only then. */
  given: ReadonlySet<string>;
  /** The run that goes on; null: it is new. */
  manifest: Manifest | null;
  /** Set where there is nothing left to do: the run is complete. */
  done: RunResult | null;
}

/**
 * Which run a command means, and with which settings.
 * @throws UserError where the folder is taken or can't be made, there is no such run to go on with, or settings were
 *   given that it does not have
 */
export function planRun<Config extends RunChoice>(
  recipe: string,
  config: Config,
  { given, progress, world }: RunContext,
  schema: z.ZodType,
): PlannedRun<Config> {
  const { runs_dir, resume, resume_anyway } = config;
  if (resume_anyway && !resume) throw new UserError("resume_anyway is set without resume. Add --resume.");
  const name = nameForAll(config.name, world, () => madeName(recipe, config));
  const dir = join(runs_dir, name);
  const fresh = { dir, config, given, manifest: null, done: null };
  if (!resume) {
    if (world.rank === 0) requireFree(dir); // the others may come when it has made the folder
    return fresh;
  }
  requireWritable(dir);
  if (!existsSync(dir)) {
    progress.line(`There is no run ${dir} yet: it begins.`);
    return fresh;
  }
  const manifest = readManifest(dir);
  const stored = readRunConfig(dir);
  if (!manifest || !stored)
    throw new UserError(`${dir} holds no run that could go on. Choose another --name, or remove that folder.`);
  if (manifest.recipe !== recipe)
    throw new UserError(`${dir} is a run of '${manifest.recipe}', not of '${recipe}'. Choose another --name.`);
  const processes = (manifest.details.processes as number | undefined) ?? 1;
  if (processes !== world.size)
    throw new UserError(
      `${dir} was trained by ${processes} ${processes === 1 ? "process" : "processes"}, not by ${world.size}. ` +
        (processes === 1 ? "Leave out --nproc, or the launcher." : `Go on with --nproc ${processes}.`),
    );
  const changes = changedSettings(config as Record<string, unknown>, stored, given);
  if (changes.length > 0 && !resume_anyway)
    throw new UserError(
      [
        `${dir} has other settings than the ones given:`,
        ...changes.map(
          ({ key, was, is }) =>
            `  ${key}: ${was === undefined ? "not set" : JSON.stringify(was)} in the run, now ${JSON.stringify(is)}`,
        ),
        "Leave them out to go on with the run's own, or say --resume-anyway.",
      ].join("\n"),
    );
  const settings = {
    ...stored,
    ...Object.fromEntries(Object.keys(resumeKeys).map((key) => [key, config[key as keyof Config]])),
  };
  for (const { path, is } of changes) assign(settings, path, is);
  const text = `${dir} is complete (${manifest.finished}): nothing is left to do.`;
  return {
    dir,
    config: { ...(schema.parse(settings) as Config), runs_dir, name: config.name },
    given: new Set([...((manifest.details.given as string[] | undefined) ?? []), ...given]),
    manifest,
    done:
      manifest.status === "completed" && changes.length === 0
        ? { text, json: [{ recipe, dir, model: join(dir, "final"), ...(manifest.details.result as object) }] }
        : null,
  };
}

/** The name of a run that was given none: of the one that goes on, or a free one as "grpo-arxiv-2". */
export function madeName(recipe: string, { runs_dir, resume, env }: Omit<RunChoice, "name" | "resume_anyway">): string {
  return resume ? newestUnfinished(runs_dir, recipe) : freeName(runs_dir, `${recipe}-${envStem(env)}`);
}

function newestUnfinished(runsDir: string, recipe: string): string {
  const found = listRuns(runsDir).find(({ manifest }) => manifest.recipe === recipe && manifest.status !== "completed");
  if (!found) throw new UserError(`${runsDir} has no run of '${recipe}' that could go on. Name one with --name.`);
  return found.manifest.name;
}

interface Change {
  key: string;
  path: string[];
  was: unknown;
  is: unknown;
}

/** What was given and differs from what the run has; mappings key by key. */
function changedSettings(
  config: Record<string, unknown>,
  stored: Record<string, unknown>,
  given: ReadonlySet<string>,
): Change[] {
  return [...given]
    .filter((key) => !NOT_SETTINGS.has(key))
    .flatMap((key) => {
      const is = key === "model" && typeof config.model === "string" ? localPath(config.model) : config[key];
      const was = stored[key];
      if (!isRecord(is) || !isRecord(was)) return [{ key, path: [key], was, is }];
      return Object.keys(is)
        .filter((inner) => key !== "trainer" || !NOT_COMPUTED.has(inner))
        .map((inner) => ({ key: `${key}.${inner}`, path: [key, inner], was: was[inner], is: is[inner] }));
    })
    .filter(({ was, is }) => !isDeepStrictEqual(was, is));
}

function assign(settings: Record<string, unknown>, [key, inner]: string[], value: unknown): void {
  settings[key!] = inner === undefined ? value : { ...(settings[key!] as object), [inner]: value };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export interface TrainingRun {
  run: RunFolder;
  metrics: MetricsLog;
  /** Opens this process's log of trajectories in a folder of the run: "trajectories". */
  log(folder: LogFolder): JsonLines<Trajectory>;
  /** All logs that were opened, to be closed at the end. */
  logs: { close(): void }[];
  /** The checkpoint that the run goes on from; null: from the start. */
  checkpoint: Checkpoint | null;
  /** What had been counted by then. */
  counters: Record<string, unknown>;
  /** Brings the logs to the disk. Their sizes, bytes, by their path in the run folder. */
  onCheckpoint(): Record<string, number>;
}

const LOG_FOLDERS = ["trajectories", "canary", "validation", "verification"] as const;
type LogFolder = (typeof LOG_FOLDERS)[number];
const METRICS = "metrics.jsonl";

/**
 * Opens the folder of a planned run and its logs. Where the run goes on, its logs are cut to where they were at the
 * checkpoint, so that no step stands there twice; without a whole checkpoint it begins again. Of several processes the
 * first alone keeps the records; the others only add logs of their own.
 * @throws UserError where another process holds the folder, or data or the number of processes have changed since
 */
export function openTrainingRun(
  planned: PlannedRun<RunChoice>,
  options: Omit<OpenRun, "dir" | "config">,
  context: RunContext,
): TrainingRun {
  const { dir, manifest } = planned;
  const { rank } = context.world;
  const found = manifest ? findCheckpoint(dir, context) : { checkpoint: null, state: null };
  const run = rank > 0 ? guestOf(options.recipe, dir, options.details) : openRecords(planned, options, found, context);
  const logNames = [...LOG_FOLDERS.map((folder) => `${folder}/rank-${rank}.jsonl`), ...(rank === 0 ? [METRICS] : [])];
  if (manifest) for (const name of logNames) cutTo(run.path(name), found.state?.logs[name] ?? 0);

  const logs: Record<string, { sync(): number; close(): void }> = {};
  function open<Log extends { sync(): number; close(): void }>(name: string, make: (path: string) => Log): Log {
    const log = make(run.path(name));
    logs[name] = log;
    return log;
  }
  return {
    run,
    metrics: rank > 0 ? noMetrics : open(METRICS, openMetrics),
    log: (folder) => {
      const name = `${folder}/rank-${rank}.jsonl`;
      // Others' files appear with the first trajectory: by then rank 0 has found that the folder is free.
      return rank > 0 ? openLater(() => open(name, openTrajectoryLog)) : open(name, openTrajectoryLog);
    },
    get logs() {
      return Object.values(logs);
    },
    checkpoint: found.checkpoint,
    counters: found.state?.counters ?? {},
    onCheckpoint: () => ({
      ...found.state?.logs,
      ...Object.fromEntries(Object.entries(logs).map(([name, log]) => [name, log.sync()])),
    }),
  };
}

interface Found {
  checkpoint: Checkpoint | null;
  state: RankState | null;
}

function findCheckpoint(dir: string, { progress, world }: RunContext): Found {
  const { checkpoint, skipped } = newestCheckpoint(dir);
  for (const text of skipped) progress.line(`${text}: skipped.`);
  progress.line(
    checkpoint
      ? `${dir} goes on from step ${checkpoint.step}.`
      : `${dir} has no whole checkpoint: it begins again at step 0.`,
  );
  return { checkpoint, state: checkpoint && readRankState(checkpoint, world.rank) };
}

/** The folder of a run with its config and manifest: new ones, or those of the run that goes on. */
function openRecords(
  { dir, config, given, manifest }: PlannedRun<RunChoice>,
  options: Omit<OpenRun, "dir" | "config">,
  { checkpoint }: Found,
  { progress, command, world }: RunContext,
): RunFolder {
  const settings = Object.fromEntries(Object.entries(config).filter(([key]) => !(key in resumeKeys)));
  if (!manifest)
    return openRun({
      dir,
      config: settings,
      ...options,
      details: { ...options.details, processes: world.size, given: [...given] },
    });
  if (!config.resume_anyway) refuseChangedData(manifest, options.data);
  const run = reopenRun(dir);
  for (const [name, version] of Object.entries(options.versions))
    if (manifest.versions[name] !== version)
      progress.line(`warning: ${name} is ${version}; the run began with ${manifest.versions[name] ?? "none"}.`);
  writeJson(run.path("config.json"), settings);
  const resumed = (manifest.details.resumed as object[] | undefined) ?? [];
  const entry = { from_step: checkpoint?.step ?? 0, time: new Date().toISOString(), command };
  run.update({ details: { ...manifest.details, resumed: [...resumed, entry] } });
  return run;
}

/** A log that is opened with its first line. */
function openLater(open: () => JsonLines<Trajectory>): JsonLines<Trajectory> {
  let log: JsonLines<Trajectory> | null = null;
  return {
    get path() {
      return log?.path ?? "";
    },
    get cleaned() {
      return log?.cleaned ?? 0;
    },
    write(trajectory) {
      log ??= open();
      log.write(trajectory);
    },
    sync: () => log?.sync() ?? 0,
    close: () => log?.close(),
  };
}

/** @throws UserError where lines are missing that the checkpoint has seen */
function cutTo(path: string, bytes: number): void {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size < bytes)
    throw new UserError(
      `${path} has ${size} bytes, and had ${bytes} when the checkpoint was written: lines are missing. ` +
        `Bring the file back; without it the run can't go on.`,
    );
  if (size > bytes) truncateSync(path, bytes);
}

function refuseChangedData(manifest: Manifest, data: Record<string, string>): void {
  const changed = Object.keys({ ...manifest.data, ...data }).filter((name) => manifest.data[name] !== data[name]);
  if (changed.length > 0)
    throw new UserError(
      `${changed.join(", ")}: other data than the run began with. Bring them back, or say --resume-anyway.`,
    );
}
