import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RunContext } from "../src/recipes/recipe.ts";
import { type PlayConfig, rolloutConfig } from "./config.ts";
import { playIntoFolder } from "./folder.ts";

/** Keys that a command sets for its parts, whatever the user called the whole. */
const SET_BY_THE_COMMAND = ["name", "runs_dir"];

/**
 * Plays a part of a larger command as a benchmark of its own, gone on with where its folder is there already.
 * @param fixed keys that the command decides, beside the part's place
 */
export function playPart(
  config: PlayConfig & { name: string },
  fixed: readonly (keyof PlayConfig)[],
  context: RunContext,
): ReturnType<typeof playIntoFolder> {
  const own = new Set(Object.keys(rolloutConfig.shape));
  const given = [...context.given].filter((key) => own.has(key) && !SET_BY_THE_COMMAND.includes(key));
  const resume = existsSync(join(config.runs_dir, config.name, "manifest.json"));
  return playIntoFolder("bench", { ...config, resume }, { ...context, given: new Set([...given, ...fixed]) });
}
