import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { EpisodeRequest } from "../src/bridge/protocol.ts";
import { UserError } from "../src/core/errors.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { type Manifest, readManifest, writeWhole } from "../src/run-folder.ts";
import { asTrajectory, readWholeLines } from "../src/trajectory-log.ts";
import { benchConfig, type PlayConfig } from "./config.ts";
import { inBatches } from "./play.ts";

// A benchmark that was broken off goes on: what is there and valid stays, the rest is played. In the end the log is the
// one of an unbroken benchmark, byte for byte, wherever the same play gives the same trajectory.

/** What a resumed benchmark may be given anew: none of these moves a number. */
const FREE_KEYS = new Set([
  ...["name", "runs_dir", "resume", "python", "dotenv", "parallel", "requests_per_minute", "tokens_per_minute"],
  ...["max_retries", "connect_timeout_ms", "answer_timeout_ms", "prompt_price", "completion_price"],
]);

export interface Resumed {
  dir: string;
  manifest: Manifest;
  config: PlayConfig;
}

/**
 * The benchmark in the folder that the config names, under its own settings.
 * @throws UserError where there is none, or a setting was given that is not its own
 */
export function readResumed(config: PlayConfig, given: ReadonlySet<string>): Resumed {
  if (config.name === null)
    throw new UserError("resume is set without a name: say which benchmark is to go on, with --name.");
  const dir = join(config.runs_dir, config.name);
  const manifest = readManifest(dir);
  if (manifest?.recipe !== "bench")
    throw new UserError(
      `${dir} holds ${manifest ? `a run of ${manifest.recipe}` : "no run, or a broken manifest.json"}; only a benchmark can go on. Leave out --resume to start one.`,
    );
  const stored = readStored(join(dir, "config.json"));
  const changed = [...given].filter((key) => !FREE_KEYS.has(key) && !(key === "policy" && config.policy === "api:"));
  const differences = changed.flatMap((key) => {
    const [is, was] = [config, stored].map((values) => JSON.stringify((values as Record<string, unknown>)[key]));
    return is === was ? [] : [`${key} is ${is}, was ${was}`];
  });
  refuseDifferences(dir, differences);
  const free = Object.fromEntries(
    [...given].filter((key) => FREE_KEYS.has(key)).map((key) => [key, config[key as keyof PlayConfig]]),
  );
  return { dir, manifest, config: { ...stored, ...free, name: config.name, runs_dir: config.runs_dir } };
}

function readStored(path: string): PlayConfig {
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  try {
    return benchConfig.parse(JSON.parse(text));
  } catch {
    throw new UserError(`${path} is not the config of a benchmark of this version; it can't go on. Start a new one.`);
  }
}

/** What must be as it was. */
export interface Identity {
  policy: string;
  env: string;
  /** SHA-256 by path. */
  data: Record<string, string>;
  /** Of a local model: size and time of its weights. */
  model_files: Record<string, string>;
}

/** @throws UserError with all that has changed since the benchmark began */
export function refuseChanged({ dir, manifest, config }: Resumed, now: Identity): void {
  const { env, model_files } = manifest.details as { env?: unknown; model_files?: Record<string, string> };
  const differences: string[] = [];
  if (now.policy !== config.policy) differences.push(`policy is '${now.policy}', was '${config.policy}'`);
  if (now.env !== env) differences.push(`environment is ${now.env}, was ${String(env)}`);
  for (const path of new Set([...Object.keys(now.data), ...Object.keys(manifest.data)]))
    if (now.data[path] !== manifest.data[path]) differences.push(`${path} has changed`);
  if (JSON.stringify(now.model_files) !== JSON.stringify(model_files ?? {}))
    differences.push("the model's files have changed");
  refuseDifferences(dir, differences);
}

function refuseDifferences(dir: string, differences: readonly string[]): void {
  if (differences.length > 0)
    throw new UserError(
      `${dir} can't go on under other settings: ${differences.join("; ")}. Leave them out, or start a new benchmark with another --name (compare: another --output).`,
    );
}

/** Weights of a model's folder, each with size and time of change; {} for one on a hub. */
export function modelFiles(model: string | null): Record<string, string> {
  if (model === null || !existsSync(model)) return {};
  const weights = readdirSync(model).filter((name) => /\.(safetensors|bin)$/.test(name));
  return Object.fromEntries(
    weights.sort().map((name) => {
      const { size, mtimeMs } = statSync(join(model, name));
      return [name, `${size} bytes, ${new Date(mtimeMs).toISOString()}`];
    }),
  );
}

// ------------------------------------------------------------------------------------------------------- the log

export const keyOf = ({ task_id, trial }: { task_id: string; trial: number }): string => `${task_id}/${trial}`;

export interface LogState {
  /** Valid lines by key, as they stand in the log. */
  kept: ReadonlyMap<string, string>;
  /** Keys of lines whose rollout failed. */
  failed: ReadonlySet<string>;
}

/**
 * What a log holds of a plan. A half line at its end is left out; of two lines of one episode the first valid one counts.
 * @throws UserError for a broken line elsewhere, and for an episode that the plan does not have
 */
export function readLog(path: string, plan: readonly EpisodeRequest[]): LogState {
  const seeds = new Map(plan.map((request) => [keyOf(request), request.seed]));
  const kept = new Map<string, string>();
  const failed = new Set<string>();
  for (const { text, line, value } of readWholeLines(path)) {
    const trajectory: Trajectory = asTrajectory(value, `${path}, line ${line}`);
    const key = keyOf(trajectory);
    if (seeds.get(key) !== trajectory.seed)
      throw new UserError(
        `${path}, line ${line}: ${key} with seed ${trajectory.seed} is no episode of this benchmark.`,
      );
    if (trajectory.reward === null) failed.add(key);
    else if (!kept.has(key)) kept.set(key, text);
  }
  return { kept, failed };
}

/** What is left to play, in batches. */
export interface Rest {
  episodes: EpisodeRequest[];
  batches: EpisodeRequest[][];
}

/**
 * What is missing or failed. A local model's batch of which lines are missing was killed while it was written; it is
 * played again as a whole, since the last bit of a logit depends on what else is in the batch.
 */
export function restOf(plan: readonly EpisodeRequest[], { kept, failed }: LogState, batch_size: number | null): Rest {
  const isLeft = (request: EpisodeRequest) => !kept.has(keyOf(request));
  if (batch_size === null) {
    const episodes = plan.filter(isLeft);
    return { episodes, batches: [episodes] };
  }
  const batches = inBatches(plan, batch_size).flatMap((batch) => {
    const left = batch.filter(isLeft);
    if (left.length === 0) return [];
    return left.every((request) => failed.has(keyOf(request))) ? [left] : [batch];
  });
  return { episodes: batches.flat(), batches };
}

/** Leaves the log with the lines that are kept, whole. */
export function healLog(path: string, { kept }: LogState): void {
  if (existsSync(path)) writeWhole(path, [...kept.values()].map((text) => `${text}\n`).join(""));
}

/** Puts the lines of JSON that name an episode into the plan's order. */
export function orderLines(path: string, plan: readonly EpisodeRequest[]): void {
  const place = new Map(plan.map((request, index) => [keyOf(request), index]));
  const lines = readWholeLines(path).map(({ text, value }) => ({
    text,
    at: place.get(keyOf(value as { task_id: string; trial: number })) ?? plan.length,
  }));
  lines.sort((a, b) => a.at - b.at);
  writeWhole(path, lines.map(({ text }) => `${text}\n`).join(""));
}
