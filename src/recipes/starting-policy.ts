import { existsSync } from "node:fs";
import { join } from "node:path";
import { loadConfig } from "../config.ts";
import { UserError } from "../core/errors.ts";
import { listRuns } from "../run-folder.ts";
import { pretrain } from "./pretrain.ts";
import type { RunContext } from "./recipe.ts";
import { sft } from "./sft.ts";
import { localPath, readRunConfig, TINY_MODEL } from "./shared.ts";

/**
 * Where GRPO starts when no model is named: the newest SFT result of the tiny model, made first where there is none.
 * GRPO from the bare base would hardly ever see a reward to learn from.
 */
export async function startingPolicy(
  { runs_dir, env, seed, python }: { runs_dir: string; env: string; seed: number; python: string | null },
  context: RunContext,
): Promise<string> {
  const { progress } = context;
  const found = newestSft(runs_dir, env);
  if (found) {
    progress.line(`No --model: starting from ${found}, the newest SFT result of ${TINY_MODEL}.`);
    return found;
  }
  const file = sft.defaultFile({ env });
  if (!file) throw new UserError(`No --model: name one. Only for env arxiv there is a ready-made start.`);
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
  const made = newestSft(runs_dir, env);
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

/** The model of the newest finished SFT run that started from the tiny base in this environment; null: there is none. */
export function newestSft(runsDir: string, env: string): string | null {
  for (const { dir, manifest } of [...listRuns(runsDir), ...listRuns(join(runsDir, "quickstart"))]) {
    if (manifest.recipe !== "sft" || manifest.status !== "completed") continue;
    const config = readRunConfig(dir);
    const model = join(dir, "final");
    if (config?.model === TINY_MODEL && config.env === env && existsSync(join(model, "config.json"))) return model;
  }
  return null;
}
