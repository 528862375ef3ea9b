import { existsSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { loadConfig } from "../config.ts";
import type { Continuation } from "../core/env.ts";
import { UserError } from "../core/errors.ts";
import { loadEnv } from "../envs/index.ts";
import { listRuns } from "../run-folder.ts";
import { pretrain } from "./pretrain.ts";
import type { RunContext } from "./recipe.ts";
import { sft } from "./sft.ts";
import { localPath, readRunConfig, TINY_MODEL } from "./shared.ts";

/**
 * Where GRPO and DPO start when no model is named: the newest SFT result of the tiny model, made first where there is
 * none. GRPO from the bare base would hardly ever see a reward to learn from.
 */
export async function startingPolicy(
  start: { runs_dir: string; env: string; env_options: Record<string, unknown>; seed: number; python: string | null },
  context: RunContext,
): Promise<string> {
  const { runs_dir, env, env_options, seed, python } = start;
  const { progress } = context;
  const style = (await loadEnv(env)).continuation(env_options);
  const found = await newestSft(runs_dir, env, style);
  if (found) {
    progress.line(`No --model: starting from ${found}, the newest SFT result of ${TINY_MODEL}.`);
    return found;
  }
  if (context.world.size > 1)
    throw new UserError(
      `No --model and no SFT result of ${TINY_MODEL} in ${runs_dir}: with ${context.world.size} processes none is made ` +
        "on the way. Make one first: npx tsx src/cli.ts sft",
    );
  const file = sft.defaultFile({ env });
  if (!file) throw new UserError(`No --model: name one. There is a ready-made start for arxiv and airline alone.`);
  if (style)
    throw new UserError(
      "No --model: the ready-made start writes in the chat style, and env_options ask for the continuation style. " +
        "Run sft with these env_options first.",
    );
  const base = await tinyBase({ seed, python }, context);
  if (context.dry_run) {
    progress.line(
      `No --model and no SFT result of ${TINY_MODEL} in ${runs_dir}: the run would first make one (${file}).`,
    );
    return base;
  }
  progress.line(`No --model and no SFT result of ${TINY_MODEL} in ${runs_dir}: making one first, with ${file}.`);
  const flags = { runs_dir, seed, ...(python ? { python } : {}) };
  const { config, given } = loadConfig({ recipe: sft.name, schema: sft.schema, file, flags });
  const result = await sft.run(config, { ...context, given });
  progress.line(result.text);
  const made = await newestSft(runs_dir, env, style);
  if (result.exit_code === 1 || !made)
    throw new UserError("The SFT run did not finish, so there is nothing to start from.");
  return made;
}

/** The tiny base: shipped with the project, or made by its own recipe where it is gone. */
export async function tinyBase(
  { seed, python }: { seed: number; python: string | null },
  context: RunContext,
): Promise<string> {
  const base = localPath(TINY_MODEL);
  if (existsSync(join(base, "config.json"))) return base;
  const file = pretrain.defaultFile({});
  if (context.dry_run) throw new UserError(`${TINY_MODEL} is not there. Make it first: npx tsx src/cli.ts pretrain`);
  context.progress.line(`${TINY_MODEL} is not there: making it, with ${file}. This takes a while, once.`);
  const flags = { copy_to: TINY_MODEL, seed, ...(python ? { python } : {}) };
  const { config, given } = loadConfig({ recipe: pretrain.name, schema: pretrain.schema, file, flags });
  const result = await pretrain.run(config, { ...context, given });
  context.progress.line(result.text);
  if (result.exit_code === 1) throw new UserError("The base was not finished, so there is nothing to start from.");
  return TINY_MODEL;
}

/**
 * The model of the newest finished SFT run that started from the tiny base in this environment and style; null: there is
 * none.
 */
export async function newestSft(runsDir: string, env: string, style: Continuation | null): Promise<string | null> {
  const { continuation } = await loadEnv(env);
  for (const { dir, manifest } of [...listRuns(runsDir), ...listRuns(join(runsDir, "quickstart"))]) {
    if (manifest.recipe !== "sft" || manifest.status !== "completed") continue;
    const config = readRunConfig(dir);
    const model = join(dir, "final");
    if (config?.model !== TINY_MODEL || config.env !== env || !existsSync(join(model, "config.json"))) continue;
    if (isDeepStrictEqual(continuation(config.env_options), style)) return model;
  }
  return null;
}
