import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type ComparedPolicy, comparePolicies, comparisonTables } from "../eval/policies.ts";
import { policyKls } from "../eval/policy-kl.ts";
import type { Env } from "../src/core/env.ts";
import { UserError } from "../src/core/errors.ts";
import { writeWhole } from "../src/core/whole-file.ts";
import { loadEnv } from "../src/envs/index.ts";
import { readObject } from "../src/json-object.ts";
import { defineRecipe, type Recipe, type RunContext, type RunResult } from "../src/recipes/recipe.ts";
import { localPath, modelProblems, readRunConfig, refuse } from "../src/recipes/shared.ts";
import { writeJson } from "../src/run-folder.ts";
import { readTrajectories } from "../src/trajectory-log.ts";
import { rolloutConfig } from "./config.ts";
import { playPart } from "./part.ts";

// Plays a base and any number of checkpoints on the same tasks, and compares them. Each is a benchmark of its own under
// the output folder, so a comparison that was cut short plays only what is missing.

const { policy: _policy, name: _name, runs_dir: _runs_dir, split: _split, ...playKeys } = rolloutConfig.shape;

const compareConfig = z.object({
  ...playKeys,
  baseline: z.boolean().default(false).describe("Play the base too: --base, or what the first checkpoint came from."),
  base: z
    .string()
    .nullable()
    .default(null)
    .describe("The base, a folder or a hub id; left out: as an adapter names it."),
  checkpoint: z.array(z.string()).default([]).describe("Folders of models: checkpoints, final/ of a run, adapters."),
  split: z.string().nullable().default(null).describe("Tasks to play; left out: the environment's for evaluations."),
  repeat: playKeys.repeat.unwrap().default(1).describe("Trials of each task."),
  temperature: playKeys.temperature.unwrap().default(0).describe("0: greedy."),
  output: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("The folder for plays and results; left out: runs/compare-ENV."),
});
type CompareConfig = z.output<typeof compareConfig>;

export const compare: Recipe = defineRecipe({
  name: "compare",
  summary: "Play models on the same tasks and compare them: a base, any number of checkpoints, or both",
  examples: [
    "compare --env search --baseline --checkpoint runs/search/checkpoint-10,runs/search/final",
    "eval --env search --baseline --checkpoint runs/search/checkpoint-10 runs/search/final",
    "compare --env search --baseline --base models/tiny --temperature 0.7 --repeat 8",
  ],
  config: compareConfig,
  async run(given, context) {
    const env = await loadEnv(given.env);
    const models = modelsOf(given);
    const output = given.output ?? join("runs", `compare-${env.name}`);
    const split = given.split ?? env.eval_split;
    const policies: ComparedPolicy[] = [];
    for (const { label, model } of models) {
      const played = await playModel(label, model, { config: given, split, output }, context);
      if ("text" in played) return played; // it was only to be checked
      policies.push({ label, model, trajectories: readTrajectories(played.logPath) });
    }
    const reference = given.baseline ? policies[0]! : null;
    const kls = await policyKls(env, policies, reference?.model ?? null, given, context.progress);
    return writeComparison(output, { env, split, policies, kls, config: given });
  },
});

interface Named {
  label: string;
  model: string;
}

/** The models to be played, the base first. @throws UserError where there is none, one is not there, or two are one */
function modelsOf({ baseline, base, checkpoint }: CompareConfig): Named[] {
  if (!baseline && base !== null) throw new UserError("base is set without baseline. Add --baseline, or leave it out.");
  if (!baseline && checkpoint.length === 0)
    throw new UserError("Nothing to play: give --baseline, --checkpoint DIR, or both.");
  const named = checkpoint
    .map((dir) => dir.replace(/(.)\/+$/, "$1"))
    .map((dir) => ({ label: dir, model: modelIn(localPath(dir)) }));
  const twice = named.find(({ model }, index) => named.findIndex((other) => other.model === model) < index);
  if (twice) throw new UserError(`checkpoint names ${twice.label} twice.`);
  const models = baseline ? [{ label: BASELINE, model: baseOf(base, named) }, ...named] : named;
  const one = models.find(
    ({ label }, place) => models.findIndex((each) => playsOf(each.label) === playsOf(label)) < place,
  );
  if (one) throw new UserError(`${one.label} would have the same folder of plays as another model. Copy or rename it.`);
  refuse(models.flatMap(({ model }) => modelProblems(model)));
  return models;
}

const BASELINE = "baseline";

/** The folder of a model's plays, by what the model is called. */
const playsOf = (label: string): string => label.replaceAll(/[^\w.-]+/g, "-").replace(/^\.+$/, "here$&");

/** A run's folder means what it trained. */
function modelIn(dir: string): string {
  const final = join(dir, "final");
  const isModel = ["config.json", "adapter_config.json"].some(
    (name) => existsSync(join(dir, name)) && !existsSync(join(dir, "manifest.json")),
  );
  return !isModel && existsSync(final) ? final : dir;
}

function baseOf(base: string | null, checkpoints: readonly Named[]): string {
  if (base !== null) return localPath(base);
  for (const { model } of checkpoints) {
    const named = adapterBase(model) ?? trainedFrom(model);
    if (named !== null) return localPath(named);
  }
  throw new UserError("baseline is set, but no checkpoint names a base. Name it with --base MODEL.");
}

function adapterBase(model: string): string | null {
  const base = readObject(join(model, "adapter_config.json"))?.base_model_name_or_path;
  return typeof base === "string" ? base : null;
}

/** What the run that made a model began with. */
function trainedFrom(model: string): string | null {
  const start = readRunConfig(join(model, ".."))?.model;
  return typeof start === "string" ? start : null;
}

interface Setting {
  config: CompareConfig;
  split: string;
  output: string;
}

function playModel(
  label: string,
  model: string,
  { config, split, output }: Setting,
  context: RunContext,
): ReturnType<typeof playPart> {
  const { baseline: _, base: __, checkpoint: ___, output: ____, ...play } = config;
  const place = { name: playsOf(label), runs_dir: join(output, "plays") };
  const part = { ...play, ...place, policy: `model:${model}`, split: [split] };
  return playPart(part, ["policy", "split", "temperature", "repeat", "seed"], context);
}

interface Comparison {
  env: Env;
  split: string;
  policies: readonly ComparedPolicy[];
  kls: ReadonlyMap<string, number>;
  config: CompareConfig;
}

function writeComparison(output: string, { env, split, policies, kls, config }: Comparison): RunResult {
  const compared = comparePolicies(policies, { rules: env.benchmark, kls, seed: config.seed });
  const { temperature, repeat, seed } = config;
  const result = { env: env.id, split, temperature, repeat, seed, ...compared };
  const tables = comparisonTables(result);
  writeJson(join(output, "comparison.json"), result);
  writeWhole(join(output, "comparison.md"), tables.markdown);
  return {
    text: [tables.text, "", `${join(output, "comparison.json")}, ${join(output, "comparison.md")}`].join("\n"),
    json: [result],
    exit_code: compared.policies.every(({ invalid, episodes }) => invalid === 0 && episodes > 0) ? 0 : 1,
  };
}
