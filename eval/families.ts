import { UserError } from "../src/core/errors.ts";
import type { RunResult } from "../src/recipes/recipe.ts";

export interface OutputOptions {
  env?: string;
  output?: string;
  names?: readonly string[];
  across_versions?: boolean;
}

/**
 * What `trestle eval --output` writes: tables and plots that are one environment's own.
 * @throws UserError where no such environment is named, or no folder to write to
 */
export async function evalOutput(paths: readonly string[], options: OutputOptions): Promise<RunResult> {
  const { env, output, names, across_versions } = options;
  if (output === undefined)
    throw new UserError("--names is for the tables that --output writes; name a folder with it.");
  if (env !== "airline")
    throw new UserError(
      `--output asks for an environment's own tables and plots; ${env === undefined ? "no --env is given" : `'${env}' has none`}. Expected --env airline.`,
    );
  const { ablationCommand } = await import("./airline-ablation.ts"); // with its plots
  return ablationCommand(paths, { output, names, across_versions });
}
