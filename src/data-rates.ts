import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { z } from "zod";
import { benchConfig, type PlayConfig } from "../benchmark/config.ts";
import { modelOf } from "../benchmark/play.ts";
import { modelFiles } from "../benchmark/resume.ts";
import { judge } from "../eval/run.ts";
import { errorText, UserError } from "./core/errors.ts";
import { BANDS, band } from "./core/rates.ts";
import { writeNew } from "./core/whole-file.ts";
import { arxiv } from "./envs/arxiv/env.ts";
import type { ArxivOptions } from "./envs/arxiv/options.ts";
import { measuredGroup, ratesSplit, refuseHeldOut, type SelectBy } from "./envs/arxiv/rates.ts";
import { type RatesMetadata, worldMetadata } from "./envs/arxiv/rates-world.ts";
import { resolveDataFile } from "./envs/arxiv/snapshot.ts";
import type { SplitFile } from "./envs/arxiv/split-file.ts";
import { modelHash } from "./recipes/model-hash.ts";
import type { RunResult } from "./recipes/recipe.ts";
import { fileHash } from "./recipes/shared.ts";
import { type Manifest, readManifest } from "./run-folder.ts";
import { readTrajectories } from "./trajectory-log.ts";

// `data arxiv rates`: a finished benchmark of a train group becomes a new split version.

export interface RatesOptions {
  by?: SelectBy;
  /** Rollouts of a group of the probe. */
  group_size?: number;
}

/** The group size of the frozen-policy probe behind v6. */
const GROUP_SIZE = 4;

/**
 * Writes the version at `output`, a path that ends in .json and does not exist.
 * @throws UserError where the benchmark is not finished, is of held-out tasks, was made with other data or other weights
 *   than are here now, or leaves no task to train on. Then nothing is written.
 */
export function ratesAction(files: readonly string[], output: string | undefined, options: RatesOptions): RunResult {
  const [dir, another] = files;
  if (dir === undefined || another !== undefined) {
    throw new UserError("data arxiv rates takes one folder of a benchmark, as runs/bench-a.");
  }
  if (!output?.endsWith(".json")) {
    throw new UserError(
      `data arxiv rates: --output is ${output ? `'${output}'` : "missing"}; expected a new file that ends in .json, ` +
        "as splits/mine.json.",
    );
  }
  if (existsSync(output))
    throw new UserError(`${output} is there already: a version stays as it is. Name another one.`);
  const { by = "probe", group_size } = options;
  if (by === "bands" && group_size !== undefined)
    throw new UserError("--group-size is of the probe; --by bands does not take it.");

  const { manifest, config } = readBench(dir);
  const told = <Result>(make: () => Result): Result => {
    try {
      return make();
    } catch (error) {
      throw error instanceof UserError ? new UserError(`${dir}: ${error.message}`) : error;
    }
  };
  const group = told(() => measuredGroup(splitsOf(manifest)));
  refuseChangedData(dir, manifest);
  const { temperature, greedy } = sampling(config);
  if (by === "probe" && greedy)
    throw new UserError(`${dir}: its temperature is 0, so all rollouts of a group are the same. Play it above 0.`);
  const log = join(dir, "trajectories", "rank-0.jsonl");
  const trajectories = readTrajectories(log);
  const file = told(() => {
    refuseHeldOut(group, trajectories);
    const judged = judge(trajectories, { expected: { task_ids: group.ids, trials: config.repeat } });
    if (judged.policy !== config.policy)
      throw new UserError(`its log is of ${judged.policy}, its config of ${config.policy}.`);
    if (!judged.complete) {
      const [first, ...more] = judged.missing;
      throw new UserError(
        `it lacks ${judged.missing.length} of ${judged.tasks * judged.trials} episodes (${first}${more.length > 0 ? ", …" : ""}). ` +
          "All tasks of the group are played, without --task-ids and --categories; bench --resume plays what failed.",
      );
    }
    return ratesSplit(group, trajectories, {
      by,
      group_size: group_size ?? GROUP_SIZE,
      version: basename(output, ".json"),
      path: output,
      metadata: metadataOf(dir, manifest, config, log, temperature),
    });
  });
  writeNew(output, `${JSON.stringify(file, null, 2)}\n`);
  return { text: textOf(output, file), json: [{ output, sha256: fileHash(output), ...countsOf(file) }] };
}

function readBench(dir: string): { manifest: Manifest; config: PlayConfig } {
  const manifest = readManifest(dir);
  if (manifest?.recipe !== "bench")
    throw new UserError(
      `${dir} holds ${manifest ? `a run of ${manifest.recipe}` : "no run, or a broken manifest.json"}; rates come from a benchmark.`,
    );
  if (manifest.status !== "completed")
    throw new UserError(`${dir}: the benchmark is ${manifest.status}, not completed. Go on with bench --resume.`);
  let config: PlayConfig;
  try {
    config = benchConfig.parse(JSON.parse(readFileSync(join(dir, "config.json"), "utf8")));
  } catch (error) {
    throw new UserError(`${dir}: config.json is not that of a benchmark: ${errorText(error)}`);
  }
  if (manifest.details.env !== arxiv.id)
    throw new UserError(`${dir}: played in ${String(manifest.details.env)}, not in ${arxiv.id}. Measure again.`);
  return { manifest, config };
}

function splitsOf({ details }: Manifest): string[] {
  const parsed = z.array(z.string()).min(1).safeParse(details.splits);
  if (!parsed.success) throw new UserError("its manifest does not say which split was played. Measure again.");
  return parsed.data;
}

/** Rates of another snapshot, or of other tasks, are no rates of these. */
function refuseChangedData(dir: string, { data }: Manifest): void {
  for (const [path, sha256] of Object.entries(data)) {
    if (!existsSync(resolveDataFile(path)) || fileHash(resolveDataFile(path)) !== sha256)
      throw new UserError(`${dir}: ${path} is no longer the file that was played with. Measure again.`);
  }
}

/** A policy without a model samples nothing, and so is never greedy. */
function sampling({ policy, temperature }: PlayConfig): { temperature: number | null; greedy: boolean } {
  const sampled = modelOf(policy) !== null || policy.startsWith("api:");
  return { temperature: sampled ? temperature : null, greedy: sampled && temperature === 0 };
}

function metadataOf(
  dir: string,
  { details, versions, git, finished }: Manifest,
  config: PlayConfig,
  log: string,
  temperature: number | null,
): RatesMetadata {
  const model = modelOf(config.policy);
  const files = modelFiles(model);
  const before = (details.model_files ?? {}) as Record<string, string>;
  if (Object.keys(files).length > 0 && JSON.stringify(files) !== JSON.stringify(before)) {
    throw new UserError(`the weights of ${config.policy} are no longer those that played. Measure again.`);
  }
  const model_sha256 = model === null ? null : modelHash(model);
  const options = arxiv.parseOptions(config.env_options) as ArxivOptions;
  const { top_p, top_k, min_p, max_turn_tokens, max_episode_tokens, max_context_tokens, max_turns } = config;
  const budgets: RatesMetadata =
    temperature === null ? {} : { top_p, top_k, min_p, max_turn_tokens, max_episode_tokens };
  return {
    policy: config.policy,
    ...(model_sha256 === null ? {} : { model_sha256 }),
    trials: config.repeat,
    seed: config.seed,
    ...(temperature === null ? {} : { temperature }),
    ...budgets,
    ...(temperature === null || max_context_tokens === null ? {} : { max_context_tokens }),
    ...(max_turns === null ? {} : { max_turns }),
    env: arxiv.id,
    ...worldMetadata(options),
    ...Object.fromEntries(Object.entries(versions).map(([name, version]) => [`version_${name}`, version])),
    ...(git ? { commit: git.commit } : {}),
    run: basename(dir),
    measured: finished ?? "unknown",
    log_sha256: fileHash(log),
  };
}

function countsOf({ split, rates = {}, probe }: SplitFile) {
  const bands = Object.values(rates).map(band);
  return {
    groups: Object.fromEntries(Object.entries(split).map(([group, ids]) => [group, ids.length])),
    bands: Object.fromEntries(BANDS.map((name) => [name, bands.filter((own) => own === name).length])),
    ...(probe && {
      probe_groups: probe.groups * Object.keys(probe.tasks).length,
      informative: Object.values(probe.tasks).reduce((sum, { informative_count }) => sum + informative_count, 0),
    }),
  };
}

function textOf(output: string, file: SplitFile): string {
  const { groups, bands, probe_groups, informative } = countsOf(file);
  const list = (counts: Record<string, number>) =>
    Object.entries(counts)
      .map(([name, count]) => `${count} ${name}`)
      .join(", ");
  return [
    `${output}: ${list(groups)}`,
    `strict success rates: ${list(bands)}`,
    ...(probe_groups === undefined ? [] : [`informative groups: ${informative} of ${probe_groups}`]),
    `To train on them: npx tsx src/cli.ts grpo --split ${output}:rl_train`,
  ].join("\n");
}
