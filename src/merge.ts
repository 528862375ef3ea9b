import { existsSync, readdirSync, rmdirSync, rmSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { type EntryRequest, type EntryResult, entries, type storedPrecisions } from "./bridge/protocol.ts";
import { startPython } from "./bridge/python.ts";
import { UserError } from "./core/errors.ts";
import { readObject } from "./json-object.ts";
import type { Progress } from "./metrics.ts";
import type { RunResult } from "./recipes/recipe.ts";
import { fileHash, localPath, modelProblems, refuse, requireWritable } from "./recipes/shared.ts";
import { lockFolder, readManifest } from "./run-folder.ts";

// `trestle merge`: which adapters become which folders is decided here, the merging and its proof are Python's
// (search.md 9).

export interface MergeOptions {
  /** A run's folder: all whole adapters in it. */
  run?: string;
  /** Folders of adapters, instead of a run. */
  adapters: readonly string[];
  /** A folder or a hub id; left out: the base that each adapter names. */
  base?: string;
  out?: string;
  /** Left out: as the base is stored. */
  dtype?: (typeof storedPrecisions)[number];
  force?: boolean;
  python?: string;
}

interface Adapter {
  dir: string;
  base: string;
  recipe: string;
  /** Optimizer steps it has taken; null: not known. */
  step: number | null;
  run: string | null;
}

export interface Merge {
  adapter: Adapter;
  output: string;
}

const CONFIG = "adapter_config.json";
const CHECKPOINT = /^checkpoint-(\d+)$/;

/**
 * Merges every adapter that was named into its base, one after the other.
 * @throws UserError where nothing can be merged, an output is there, or a merged model answers otherwise (PythonError)
 */
export async function runMerge(options: MergeOptions, progress: Progress): Promise<RunResult> {
  const { out } = options;
  if (out === undefined) throw new UserError("--out is missing; expected the folder that the merged models go to.");
  const merges = planMerges({ ...options, out }, progress.line);
  requireWritable(join(out, "."), "--out");
  const made = !existsSync(out);
  const unlock = lockFolder(out);
  try {
    const todo = options.force ? merges : missing(merges, options.dtype, progress.line);
    const python = await startPython({ interpreter: options.python });
    try {
      const results: EntryResult<"merge">[] = [];
      for (const { adapter, output } of todo) {
        progress.line(`merge: ${adapter.dir} into ${adapter.base}, on the CPU`);
        const { recipe, step, run } = adapter;
        const request: EntryRequest<"merge"> = entries.merge.request.parse({
          adapter: adapter.dir,
          base: adapter.base,
          output,
          dtype: options.dtype ?? null,
          force: options.force ?? false,
          facts: { recipe, step, run },
        });
        try {
          results.push(entries.merge.result.parse(await python.call("merge", request)));
        } finally {
          rmSync(`${output}.tmp`, { recursive: true, force: true }); // Python's own, where it was killed
        }
      }
      return { text: results.map(describeMerge).join("\n"), json: results };
    } finally {
      await python.close();
    }
  } finally {
    unlock();
    if (made && readdirSync(out).length === 0) rmdirSync(out);
  }
}

/**
 * Which adapter becomes which folder: `{out}/{base}-{recipe}-step{N}`.
 * @throws UserError where there is no adapter, no base, or two adapters would become one folder
 */
export function planMerges(options: MergeOptions & { out: string }, note: (text: string) => void): Merge[] {
  const { run, out } = options;
  if (run !== undefined && options.adapters.length > 0)
    throw new UserError("A run's folder and --adapter are both given; adapters come from one of them.");
  if (run === undefined && options.adapters.length === 0)
    throw new UserError("Nothing to merge: name a run's folder, or adapters with --adapter DIR.");
  const dirs = run === undefined ? options.adapters : adaptersOfRun(run, note);
  const merges = dirs.map((dir) => {
    const adapter = describeAdapter(dir, options.base);
    return { adapter, output: join(out, outputName(adapter)) };
  });
  for (const [index, { adapter, output }] of merges.entries()) {
    const other = merges.slice(0, index).find((merge) => merge.output === output);
    if (other)
      throw new UserError(
        `${other.adapter.dir} and ${adapter.dir} would both become ${output}. Merge them into different --out folders.`,
      );
  }
  return merges;
}

/**
 * The whole adapters of a run, in the order of their steps. A checkpoint that was not written to its end is left out
 * by name; the last checkpoint where `final` is of the same step, too.
 */
function adaptersOfRun(run: string, note: (text: string) => void): string[] {
  if (existsSync(join(run, CONFIG))) return [run]; // an adapter itself
  if (!existsSync(run) || !statSync(run).isDirectory())
    throw new UserError(`${run}: there is no such folder; expected a run's, as runs/my-grpo.`);
  const checkpoints = readdirSync(run)
    .filter((name) => CHECKPOINT.test(name))
    .sort((a, b) => stepOf(a)! - stepOf(b)!)
    .map((name) => join(run, name));
  const final = join(run, "final");
  const all = [...checkpoints, final].filter(existsSync);
  if (all.length === 0)
    throw new UserError(`${run} holds no checkpoint and no final model; expected a run's folder, or --adapter DIR.`);
  const whole = all.find((dir) => existsSync(join(dir, "config.json")));
  if (whole)
    throw new UserError(`${run} trained all parameters, no adapter: ${whole} is a whole model, with nothing to merge.`);
  const marked = checkpoints.some((dir) => existsSync(join(dir, "complete.json")));
  const complete = all.filter((dir) => {
    const good = isAdapter(dir) && (!marked || dir === final || existsSync(join(dir, "complete.json")));
    if (!good) note(`${dir} is not whole: left out.`);
    return good;
  });
  if (complete.length === 0) throw new UserError(`${run} holds no whole adapter.`);
  if (complete.at(-1) !== final) return complete;
  const last = adapterStep(final);
  return complete.filter((dir) => dir === final || stepOf(basename(dir)) !== last);
}

const stepOf = (name: string): number | null => {
  const step = CHECKPOINT.exec(name)?.[1];
  return step === undefined ? null : Number(step);
};

function isAdapter(dir: string): boolean {
  return (
    existsSync(join(dir, CONFIG)) &&
    ["safetensors", "bin"].some((kind) => existsSync(join(dir, `adapter_model.${kind}`)))
  );
}

/** By its folder's name, its run's result, or the trainer's own record. */
function adapterStep(dir: string): number | null {
  const result = readManifest(dirname(resolve(dir)))?.details.result as { steps?: unknown } | undefined;
  const recorded = [
    stepOf(basename(resolve(dir))),
    basename(resolve(dir)) === "final" ? result?.steps : null,
    readObject(join(dir, "trainer_state.json"))?.global_step,
  ];
  return recorded.find((step): step is number => typeof step === "number") ?? null;
}

function describeAdapter(dir: string, base: string | undefined): Adapter {
  if (!existsSync(dir)) throw new UserError(`--adapter ${dir}: there is no such folder.`);
  if (!isAdapter(dir))
    throw new UserError(
      existsSync(join(dir, "config.json"))
        ? `${dir} is a whole model, no adapter: there is nothing to merge.`
        : `${dir} holds no whole adapter; expected ${CONFIG} and adapter_model.safetensors in it.`,
    );
  const named = base ?? readObject(join(dir, CONFIG))?.base_model_name_or_path;
  if (typeof named !== "string" || named === "")
    throw new UserError(`${dir}/${CONFIG} names no base model (base_model_name_or_path). Name it: --base MODEL.`);
  const found = localPath(named);
  const problems = modelProblems(found);
  const origin = base === undefined ? `${dir} names its base: ` : "--base: ";
  refuse(problems.map((problem) => `${origin}${problem}${base === undefined ? " Name it: --base MODEL." : ""}`));
  const run = dirname(resolve(dir));
  const manifest = readManifest(run);
  return { dir, base: found, recipe: manifest?.recipe ?? "grpo", step: adapterStep(dir), run: manifest && run };
}

/** "Qwen3-8B-grpo-step60". A base that a run made goes by the run's name. */
function outputName({ dir, base, recipe, step }: Adapter): string {
  const path = existsSync(base) ? resolve(base) : base;
  const name = /^(final|checkpoint-\d+)$/.test(basename(path)) ? basename(dirname(path)) : basename(path);
  return `${name}-${recipe}-${step === null ? basename(resolve(dir)) : `step${step}`}`;
}

/**
 * The merges whose outputs are not there yet. Where some are, what an earlier call made of the same adapters is kept.
 * @throws UserError where an output is there that is not one of those, or where all are there
 */
function missing(merges: readonly Merge[], dtype: string | undefined, note: (text: string) => void): Merge[] {
  const there = merges.filter(({ output }) => existsSync(output) && readdirSync(output).length > 0);
  const same = there.filter(({ adapter, output }) => {
    const facts = readObject(join(output, "merge.json"));
    const weights = join(adapter.dir, "adapter_model.safetensors");
    return (
      facts?.base === adapter.base &&
      (dtype === undefined || facts.dtype === dtype) &&
      existsSync(weights) &&
      facts.adapter_sha256 === fileHash(weights)
    );
  });
  const other = there.find((merge) => there.length === merges.length || !same.includes(merge));
  if (other) throw new UserError(`${other.output} is there already. Choose another --out, or replace it with --force.`);
  for (const { output } of same) note(`${output} is there, made of the same adapter: kept.`);
  return merges.filter((merge) => !there.includes(merge));
}

function describeMerge(result: EntryResult<"merge">): string {
  const { output, dtype, largest_logit_difference: difference, tolerance, adapter_effect: effect, prompts } = result;
  return [
    `${output}: ${dtype}, largest logit difference ${shown(difference)} of ${shown(tolerance)} allowed on ${prompts} ` +
      `prompts; the adapter moves logits by ${shown(effect)}`,
    ...(effect <= difference ? ["  Rounding changes more than the adapter does: it has learnt next to nothing."] : []),
    ...(result.untied_embeddings
      ? ["  Its output head has a matrix of its own now: the adapter changed one of two."]
      : []),
    ...(result.trained_on?.quantization
      ? [
          `  The adapter was trained on a base in 4 bits (${result.trained_on.quantization}), and is merged into the whole one.`,
        ]
      : []),
  ].join("\n");
}

const shown = (value: number): string => value.toPrecision(3);
