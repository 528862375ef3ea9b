import { findInterpreter } from "./bridge/interpreter.ts";
import { UserError } from "./core/errors.ts";
import { runRanks } from "./rank-tree.ts";
import type { Recipe, RunContext, RunResult } from "./recipes/recipe.ts";
import { madeName } from "./recipes/training-run.ts";
import { readWorld, silent, type World } from "./world.ts";

// `--nproc N`: a training in N processes of this machine. All that can be checked is checked before any of them starts,
// and what they would each make up, as the run's name, is settled.

/** @throws UserError where `--nproc` is no number of processes, or a launcher has started this process already */
export function readProcesses(text: string, env: NodeJS.ProcessEnv = process.env): number {
  if (!/^[1-9]\d{0,3}$/.test(text))
    throw new UserError(`--nproc is '${text}'; expected a whole number from 1 to 9999.`);
  if (readWorld(env).size > 1)
    throw new UserError("--nproc starts the processes itself; under torchrun or accelerate launch leave it out.");
  return Number(text);
}

/** Keys of a training's config that launching looks at. */
interface TrainingConfig {
  name: string | null;
  runs_dir: string;
  env: string;
  model: string | null;
  python: string | null;
  resume: boolean;
}

/**
 * Checks a config as `--dry-run` does, then runs it in several processes, whose results and errors go where ours go.
 * @param argv the command line, without node and script
 * @returns the dry run's result where that was asked for, else the exit code
 * @throws UserError as the recipe does, before any process starts
 */
export async function launchRecipe(
  recipe: Recipe,
  given: unknown,
  context: Omit<RunContext, "world">,
  { argv, processes }: { argv: readonly string[]; processes: number },
): Promise<RunResult | number> {
  const asked = given as TrainingConfig;
  const name = asked.name ?? madeName(recipe.name, asked);
  const world: World = { rank: 0, size: processes, local_rank: 0, local_size: processes };
  const progress = context.dry_run ? context.progress : silent; // rank 0 will say the same
  const checked = await recipe.run({ ...asked, name }, { ...context, progress, dry_run: true, world });
  const { config } = checked.json[0] as { config?: TrainingConfig };
  if (context.dry_run || !config) return checked; // without a config: a complete run, which --resume leaves as it is
  const { model } = config;
  return runRanks({
    interpreter: await findInterpreter({ python: asked.python ?? undefined }),
    processes,
    argv: [
      ...withoutProcesses(argv),
      ...(asked.name === null ? ["--name", name] : []),
      ...(asked.model === null && model !== null ? ["--model", model] : []),
    ],
    command: context.command,
  });
}

/** A command line without `--nproc N` or `--nproc=N`. */
export function withoutProcesses(argv: readonly string[]): string[] {
  const own = (word: string | undefined) => word === "--nproc";
  return argv.filter((word, index) => !own(word) && !own(argv[index - 1]) && !word.startsWith("--nproc="));
}
