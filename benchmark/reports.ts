import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkReports } from "../src/core/env-checks.ts";
import type { ReportContext } from "../src/core/measure.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { readRunConfig } from "../src/recipes/shared.ts";
import { readManifest, writeJson } from "../src/run-folder.ts";
import { isApi } from "./api.ts";
import type { Played } from "./folder.ts";
import { modelOf } from "./play.ts";
import { tokenCounter } from "./token-counter.ts";

/** Writes the report files that are the family's own, each whole; returns their paths. None: the family has none. */
export async function writeFamilyReports(
  { run, env, config }: Pick<Played, "run" | "env" | "config">,
  trajectories: readonly Trajectory[],
  counter = tokenCounter,
): Promise<string[]> {
  if (!env.benchmark?.reports) return [];
  const model = modelOf(config.policy);
  const counting = counter(config);
  try {
    const reports = await env.benchmark.reports(trajectories, {
      env: env.id,
      policy: config.policy,
      ...trainingOf(model),
      trials: config.repeat,
      seed: config.seed,
      env_options: env.parseOptions(config.env_options),
      max_turn_tokens: model !== null || isApi(config.policy) ? config.max_turn_tokens : null,
      count_tokens: counting.count,
    });
    return Object.entries(checkReports(env.id, reports)).map(([name, content]) => {
      const path = join(run.dir, name);
      writeJson(path, content);
      return path;
    });
  } finally {
    await counting.close();
  }
}

/**
 * What is known of the training behind a model's folder: a run's `checkpoint-50`, an export `hf_step_50`, a finished run's
 * `final`, or what was merged of one of them.
 */
export function trainingOf(model: string | null): Pick<ReportContext, "variant" | "step"> {
  if (model === null) return { variant: null, step: null };
  const merged = readMerge(model);
  const dir = merged?.run ?? join(model, "..");
  const exp = readRunConfig(dir)?.exp;
  const { steps } = (readManifest(dir)?.details.result ?? {}) as { steps?: unknown };
  const numbered = /\/(?:checkpoint-|hf_step_)(\d+)\/*$/.exec(model)?.[1];
  const known = [merged?.step, numbered === undefined ? null : Number(numbered), merged ? null : steps];
  return {
    variant: typeof exp === "string" ? exp : null,
    step: known.find((step): step is number => Number.isInteger(step)) ?? null,
  };
}

/** Where a merged model comes from; null: it was not merged. */
function readMerge(model: string): { run: string | null; step: number | null } | null {
  try {
    const facts = JSON.parse(readFileSync(join(model, "merge.json"), "utf8")) as { run?: unknown; step?: unknown };
    const { run, step } = facts;
    return { run: typeof run === "string" ? run : null, step: typeof step === "number" ? step : null };
  } catch {
    return null;
  }
}
