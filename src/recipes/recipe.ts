import type { z } from "zod";
import type { ConfigSource } from "../config.ts";
import type { Progress } from "../metrics.ts";
import type { World } from "../world.ts";

/** What a command gets besides its config. */
export interface RunContext {
  /** The command line, for the run's record. */
  command: string;
  /** Check everything that needs no model, print the resolved config, and stop. */
  dry_run: boolean;
  progress: Progress;
  /** Keys that the user set, in a file or by flag. */
  given: ReadonlySet<string>;
  /** Those of them on the command line; left out: none is known to be. */
  flags?: ReadonlySet<string>;
  /** This process's place among those of the run. */
  world: World;
}

export interface RunResult {
  /** For people, on stdout. */
  text: string;
  /** For machines: with --json each is a line on stdout. */
  json: unknown[];
  /** 0 good, 1 a gate failed or a guard stopped the run. */
  exit_code?: 0 | 1;
}

export interface RecipeSpec<Schema extends z.ZodObject> {
  name: string;
  /** A line for --help. */
  summary: string;
  /** Command lines for --help. */
  examples: readonly string[];
  config: Schema;
  /** The config file to take where the user names none; null for none. `flags`: what was given on the command line. */
  defaultFile?(flags: Record<string, unknown>): string | null;
  /** The config file that a flag stands for, as `--exp`: no other can be given beside it. Left out: none does. */
  namedFile?(flags: Record<string, unknown>): string | null;
  presets?: ConfigSource["presets"];
  /** Whether a launcher may start it several times, a rank each; left out: it runs in one process. */
  several_processes?: boolean;
  run(config: z.output<Schema>, context: RunContext): Promise<RunResult>;
}

/** A command that takes a config, its types sealed in, so that recipes of all kinds fit one list. */
export interface Recipe {
  name: string;
  summary: string;
  examples: readonly string[];
  schema: z.ZodObject;
  defaultFile(flags: Record<string, unknown>): string | null;
  namedFile(flags: Record<string, unknown>): string | null;
  presets?: ConfigSource["presets"];
  /** Set where there is no such recipe: why, and what to take instead. Said whatever stands behind the command. */
  instead?: string;
  several_processes: boolean;
  /** `config` comes from `loadConfig` with this recipe's schema. */
  run(config: unknown, context: RunContext): Promise<RunResult>;
}

export function defineRecipe<Schema extends z.ZodObject>(spec: RecipeSpec<Schema>): Recipe {
  return {
    name: spec.name,
    summary: spec.summary,
    examples: spec.examples,
    schema: spec.config,
    defaultFile: spec.defaultFile ?? (() => null),
    namedFile: spec.namedFile ?? (() => null),
    presets: spec.presets,
    several_processes: spec.several_processes ?? false,
    run: (config, context) => spec.run(spec.config.parse(config), context),
  };
}
