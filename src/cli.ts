import { Console } from "node:console";
import { readFileSync, realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Command, CommanderError, Option } from "commander";
import type { z } from "zod";
import { runBadCases } from "../eval/badcases/command.ts";
import { compareLogs } from "../eval/compare-logs.ts";
import { evalOutput } from "../eval/families.ts";
import { leftOutLines, scoreFile } from "../eval/score.ts";
import { storedPrecisions } from "./bridge/protocol.ts";
import { PythonDied, PythonError, RankLost, Stopped } from "./bridge/python.ts";
import { type Flag, flagsOf, loadConfig, trainerFlags } from "./config.ts";
import { errorText, GuardError, pathProblem, UserError } from "./core/errors.ts";
import { pairSettings } from "./core/pair.ts";
import { runData } from "./data.ts";
import { prmActions } from "./data-airline-prm.ts";
import { buildSettings } from "./envs/arxiv/builder/settings.ts";
import { loadEnv, protocols } from "./envs/index.ts";
import { launchRecipe, readProcesses } from "./launch.ts";
import { runMerge } from "./merge.ts";
import { createProgress } from "./metrics.ts";
import { type PlayFlags, runPlay } from "./play.ts";
import { createEnding, type Ending, type Failure, launchedCommand } from "./rank-process.ts";
import { recipes } from "./recipes/index.ts";
import type { Recipe, RunResult } from "./recipes/recipe.ts";
import { goesOn } from "./recipes/training-run.ts";
import { shownPath } from "./run-folder.ts";
import { formatCheck, runDoctor } from "./setup/doctor.ts";
import { runSetup } from "./setup/setup.ts";
import { readInput } from "./text-file.ts";
import { parseJsonLines } from "./trajectory-log.ts";
import { progressOf, readWorld } from "./world.ts";

/** 0 good, 1 a gate failed or a run stopped by a guard, 2 the user's mistake, 3 our fault; above 128: killed. */
type ExitCode = number;

/** Runs one command line; `argv` without node and script. Results go to stdout, all else to stderr. */
export async function main(argv: readonly string[]): Promise<ExitCode> {
  let exitCode: ExitCode = 0;
  const ending = createEnding();
  const program = new Command("trestle")
    .description("Agentic reinforcement learning: environments in TypeScript, training in PyTorch.")
    .version(
      (JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string }).version,
    )
    .showHelpAfterError("(--help shows what there is)")
    .exitOverride();
  const command = launchedCommand() ?? ["trestle", ...argv].join(" ");

  function add(name: string, summary: string, examples: readonly string[]): Command {
    return program
      .command(name)
      .description(summary)
      .addHelpText("after", `\nExamples:\n${examples.map((example) => `  trestle ${example}`).join("\n")}`)
      .exitOverride();
  }

  function finish(result: RunResult | number, json: boolean): void {
    if (typeof result === "number") {
      exitCode = result;
      return;
    }
    const lines = json ? result.json.map((line) => JSON.stringify(line)) : [result.text];
    process.stdout.write(lines.map((line) => `${line}\n`).join(""));
    exitCode = result.exit_code ?? 0;
  }

  for (const recipe of recipes)
    addRecipe(add(recipe.name, recipe.summary, recipe.examples), recipe, { argv, command, ending, finish });

  add("setup", "Make the .venv and install the Python packages", ["setup", "setup --python python3.12 --force"])
    .option("--python <path>", "build it with this interpreter")
    .option("--force", "install again even where all is in place")
    .option("--json", "print the result as JSON")
    .action(async ({ python, force, json = false }: { python?: string; force?: boolean; json?: boolean }) => {
      const result = await runSetup({ python, force });
      finish({ text: `${result.python} (${result.version})`, json: [result] }, json);
    });

  add("doctor", "What is installed and works: a line each, with what to do", ["doctor", "doctor --json"])
    .option("--python <path>", "check this interpreter")
    .option("--json", "print the result as JSON")
    .action(async ({ json = false, python }: { json?: boolean; python?: string }) => {
      const { checks, ok } = await runDoctor({ python });
      finish({ text: checks.map(formatCheck).join("\n"), json: [{ ok, checks }], exit_code: ok ? 0 : 1 }, json);
    });

  add("check", "A quick look at an environment's training data: what there is, what was left out, one prompt", [
    "check --env search",
    "check --env search --model models/tiny",
    "check --env search --corpus corpus.jsonl --judgements qrels.jsonl --checkpoints checkpoints --json",
  ])
    .addOption(new Option("--env <name>", "the environment").choices(["search"]).default("search"))
    .option("--env-options <json>", "options of the environment", readJsonObject("--env-options"), {})
    .option("--corpus <path>", "short for the option corpus")
    .option("--judgements <path>", "short for the option judgements")
    .option("--checkpoints <folder>", "short for the option checkpoints")
    .option("--model <model>", "load it, and let it answer the prompt that is shown")
    .option("--json", "print the result as JSON")
    .action(async ({ env: _, envOptions, model, json = false, ...paths }: CheckFlags) => {
      const { checkSearch } = await import("./data-search.ts");
      finish(await checkSearch({ ...envOptions, ...paths }, model), json);
    });

  add("eval", "Judge trajectory logs or run folders, and compare each with the first", [
    "eval runs/bench-a runs/bench-b --json",
    "eval --env search --baseline --checkpoint runs/search/checkpoint-10 runs/search/final   (see: compare --help)",
    "eval --env airline runs/bench-vanilla runs/bench-joint --output runs/ablation",
  ])
    .argument("<logs...>", "trajectory logs, or folders of runs")
    .option("--env <name>", "for the environment's own measures; left out: as the logs name it")
    .option("--across-versions", "compare even what other snapshots, splits, scorers or environments made")
    .option("--json", "print the results as JSON lines")
    .option("--output <folder>", "write the environment's own tables and plots there, made from report files alone")
    .option("--names <list>", "with --output: what the runs are called, one a folder, separated by commas", (text) =>
      text.split(",").map((name) => name.trim()),
    )
    .action(async (logs: string[], { json = false, acrossVersions: across_versions, ...flags }: EvalFlags) =>
      finish(
        flags.output === undefined && flags.names === undefined
          ? await compareLogs(logs, { env: flags.env, across_versions })
          : await evalOutput(logs, { ...flags, across_versions }),
        json,
      ),
    );

  add("score", "Score stored trajectories again, without a model: JSON lines in, JSON lines out", [
    "score histories.jsonl --env arxiv --json",
    "score - --env arxiv --profile reference --json < histories.jsonl",
    "score runs/my-bench/trajectories/rank-0.jsonl --env airline --process --json",
  ])
    .argument("<file>", "JSON lines, or - for stdin")
    .option("--env <name>", "the environment", "arxiv")
    .option("--profile <name>", "arxiv: how rewards read a trajectory, project or reference")
    .option("--process", "airline: with the process score in the reward, as reward mode prm_lite has it")
    .option("--env-options <json>", "options of the environment", readJsonObject("--env-options"), {})
    .option("--json", "print JSON lines (as it does without)")
    .action(async (file: string, options: ScoreOptions) => {
      const env = await loadEnv(options.env);
      if (options.process && !env.components.some(({ name, shaping }) => name === "process" && shaping))
        throw new UserError(`${env.name} has no process score. Leave out --process.`);
      const profile = {
        ...(options.profile ? { profile: options.profile } : {}),
        ...(options.process ? { reward: { ...(options.envOptions.reward as object), mode: "prm_lite" } } : {}),
      };
      const { results, ...leftOut } = await scoreFile(env, file, { ...options.envOptions, ...profile });
      for (const line of leftOutLines(leftOut)) process.stderr.write(`${line}\n`);
      finish({ text: "", json: results, exit_code: leftOut.malformed.length > 0 ? 1 : 0 }, true);
    });

  add("play", "Apply lists of actions to an environment's data, or play a task yourself", [
    "play --env airline --actions actions.jsonl --json",
    "play --env airline --task-id synth-00",
    "play --env airline --task-id synth-00 --as user --policy api:my-model",
  ])
    .option("--env <name>", "the environment", "airline")
    .option("--actions <file>", "JSON lines {id, task_id?, actions: [{name, kwargs}]}, or - for stdin")
    .option("--data-dir <folder>", "a database of your own: data_dir of --env-options")
    .option("--tasks <file>", "tasks of your own: tasks of --env-options")
    .option("--task-id <id>", "the task that a person plays")
    .addOption(new Option("--as <part>", "whose part the person takes").choices(["agent", "user"]).default("agent"))
    .option("--policy <name>", "--as user: who is the agent: gold, a baseline, api:<model>", "gold")
    .option("--seed <number>", "the episode's seed", readSeed, 0)
    .option("--env-options <json>", "options of the environment", readJsonObject("--env-options"), {})
    .option("--json", "print JSON lines")
    .action(async (flags: PlayFlags) => finish(await runPlay(flags), flags.json ?? false));

  add("badcases", "Judge stored bad cases again, or capture new ones; exits with 1 where a fixed one is bad again", [
    "badcases --json",
    "badcases capture runs/bench-a --task-id search_CL_7d_5 --trial 0 --dry-run",
    `badcases capture runs/bench-a --when '{"reward": {"ge": 0.9}, "tool_call_accurate": false}'`,
  ])
    .argument("[action]", "replay or capture", "replay")
    .argument("[log]", "capture: a trajectory log, or a run's folder")
    .option("--env <name>", "the environment", "arxiv")
    .option("--profile <name>", "how rewards read a trajectory: project or reference")
    .option("--env-options <json>", "options of the environment", readJsonObject("--env-options"), {})
    .option("--library <path>", "a file or folder of cases; left out: the environment's, in eval/badcases/")
    .option("--task-id <id>", "capture: only this task's trajectories")
    .option("--trial <number>", "capture: only this trial", readTrial)
    .option(
      "--when <json>",
      "capture: what this holds for, instead of what is known to be wrong",
      readJsonObject("--when"),
    )
    .option("--note <text>", "capture: what the cases are there to catch")
    .option("--output <file>", "capture: where to; left out: captured.jsonl in the library")
    .option("--dry-run", "capture: say what would be added, and write nothing")
    .option("--json", "print JSON lines")
    .action(async (action: string, log: string | undefined, options: BadCaseOptions) => {
      const { envOptions, taskId, dryRun, json = false, ...flags } = options;
      const result = await runBadCases(action, log, {
        ...flags,
        env_options: envOptions,
        task_id: taskId,
        dry_run: dryRun,
      });
      finish(result, json);
    });

  add("parse", "How a model's text would be read: JSON lines {id, text} in, JSON lines out", [
    `parse --protocol react --json <<< '{"id": 1, "text": "Thought: done\\nAction: FINISH"}'`,
  ])
    .argument("[file]", "JSON lines, or - for stdin", "-")
    .addOption(
      new Option("--protocol <name>", "how replies are written").choices(Object.keys(protocols)).default("react"),
    )
    .option("--json", "print JSON lines (as it does without)")
    .action(async (file: string, { protocol }: { protocol: string }) => {
      const { text, name } = await readInput(file);
      const rows = parseJsonLines(text, name);
      finish(
        { text: "", json: rows.map(({ line, value }) => readReply(protocol, `${name}, line ${line}`, value)) },
        true,
      );
    });

  add("merge", "Merge LoRA adapters into their base, and prove it on 8 prompts", [
    "merge runs/my-grpo --out merged",
    "merge --base Qwen/Qwen3-0.6B --adapter runs/my-grpo/checkpoint-20 runs/my-grpo/final --out merged",
  ])
    .argument("[run]", "a run's folder: its checkpoints and its final adapter")
    .option("--base <model>", "a folder or a hub id; left out: the base that the adapter names")
    .option("--adapter <folders...>", "adapters, instead of a run")
    .option("--out <folder>", "where the merged models go")
    .addOption(new Option("--dtype <name>", "left out: as the base is stored").choices(storedPrecisions))
    .option("--force", "replace what an earlier merge made")
    .option("--python <path>", "the Python to use")
    .option("--json", "print the results as JSON lines")
    .action(async (run: string | undefined, { adapter: adapters = [], json = false, ...flags }: MergeFlags) =>
      finish(await runMerge({ run, adapters, ...flags }, createProgress()), json),
    );

  const data = add("data", "Build and check an environment's data", [
    "data arxiv snapshot --check --seed 20260820",
    "data arxiv snapshot-build --output snapshots/arxiv.json",
    "data arxiv snapshot-diff data/arxiv/snapshot.json snapshots/arxiv.json",
    "data arxiv rates runs/bench-probe --output splits/mine.json",
    "data search index corpus.jsonl --output corpus.sqlite",
    "data search world --check",
    "data arxiv sft --split v3_81:train --output rows.jsonl",
    "data arxiv dpo runs/my-rollouts --output pairs.jsonl",
    "data airline db --output airline-data",
    "data airline tasks --check",
    "data airline convert --tasks-py tasks_test.py --output airline-data/tasks.json",
    "data airline split airline-data --output split.json",
    "data airline check airline-data",
    "data airline hacking runs/my-grpo",
    "data airline prm-validate runs/bench-vanilla",
  ])
    .argument("<family>", "the environment")
    .argument(
      "<action>",
      "arxiv: snapshot, snapshot-build, snapshot-import, snapshot-diff, rates; airline: db, tasks, convert, split, check, " +
        "prm-validate, prm-search, hacking, alarms, published; search: index, world; of every family: collect (see collect " +
        "--help), sft for rows of worked solutions, dpo for pairs of trajectories",
    )
    .argument(
      "[files...]",
      "snapshot-import: the file to read; snapshot-diff: two snapshots; rates: a benchmark's folder; index: a collection; " +
        "dpo, prm-…, hacking, alarms: logs, folders of runs, stored trajectories; split, check: a folder with an airline's data",
    )
    .option("--split <name>", "sft, dpo: whose tasks")
    .option("--output <file>", "where to write")
    .option(
      "--seed <number>",
      "snapshot, world, db, tasks: the seed; dpo: decides between trajectories of equal rewards (default: 42)",
      readSeed,
    )
    .option(
      "--check",
      "snapshot, world: check the file, and with --seed that it is that seed's; db, tasks: check, and write nothing",
    )
    .option("--env-options <json>", "sft, dpo, prm-…: options of the environment", readJsonObject("--env-options"))
    .addOption(
      new Option("--by <how>", "rates: what makes rl_train, a probe's informative groups or the middle band").choices([
        "probe",
        "bands",
      ]),
    )
    .option("--group-size <number>", "rates: rollouts of a group of the probe; left out: 4", readGroupSize)
    .option("--scale <number>", "db: 1 has 300 flights, 500 users and 2,000 reservations (default: 1)", readScale)
    .option("--tasks-py <file>", "convert: a module of tasks of τ-bench's; it is read, not run")
    .option("--python <path>", "convert: the Python to use")
    .option("--holdout <number>", "split: how many tasks are unseen (default: a fifth)", readHoldout)
    .option("--json", "print the result as JSON")
    .action(async (family: string, action: string, files: string[], options: DataFlags) => {
      const { split, output, seed, check, envOptions, by, groupSize } = options;
      const { scale, tasksPy: tasks_py, python, holdout } = options;
      if (envOptions && !["sft", "dpo", ...prmActions].includes(action))
        throw new UserError(`data ${family} ${action} takes no --env-options.`);
      const given = {
        build: givenFlags(data, buildFlags),
        pairs: givenFlags(data, pairFlags),
        rates: { by, group_size: groupSize },
        airline: { scale, tasks_py, python, holdout },
        env_options: envOptions ?? {},
      };
      finish(await runData(family, action, { split, output, seed, check, files, ...given }), options.json ?? false);
    });
  const buildFlags = addFlags(data, buildSettings, "snapshot-build: ");
  const pairFlags = addFlags(data, pairSettings, "dpo: ");

  try {
    await program.parseAsync(withAliases(argv), { from: "user" });
    return ending.done(exitCode);
  } catch (error) {
    return await ending.failed(readFailure(error));
  }
}

interface CheckFlags {
  env: string;
  envOptions: Record<string, unknown>;
  corpus?: string;
  judgements?: string;
  checkpoints?: string;
  model?: string;
  json?: boolean;
}

/**
 * `data FAMILY collect` is `collect --env FAMILY`, and `eval` with models is `compare`: they play, so their flags are those
 * of play. Folders behind `--checkpoint` may stand apart, as in a shell's DIR/checkpoint-*.
 */
function withAliases(argv: readonly string[]): string[] {
  const [command, family, action, ...rest] = argv;
  if (command === "data" && action === "collect") return ["collect", "--env", family!, ...rest];
  const plays = argv.some((word) => /^--(baseline|checkpoint)(=|$)/.test(word));
  if (command !== "compare" && !(command === "eval" && plays)) return [...argv];
  const words = ["compare"];
  for (const word of argv.slice(1)) {
    const joins = words.at(-2) === "--checkpoint" && !word.startsWith("-");
    if (joins) words.push(`${words.pop()},${word}`);
    else words.push(word);
  }
  return words;
}

interface ScoreOptions {
  env: string;
  profile?: string;
  process?: boolean;
  envOptions: Record<string, unknown>;
}

interface BadCaseOptions {
  env: string;
  profile?: string;
  envOptions: Record<string, unknown>;
  library?: string;
  taskId?: string;
  trial?: number;
  when?: Record<string, unknown>;
  note?: string;
  output?: string;
  dryRun?: boolean;
  json?: boolean;
}

interface EvalFlags {
  env?: string;
  acrossVersions?: boolean;
  output?: string;
  names?: string[];
  json?: boolean;
}

interface MergeFlags {
  base?: string;
  adapter?: string[];
  out?: string;
  dtype?: (typeof storedPrecisions)[number];
  force?: boolean;
  python?: string;
  json?: boolean;
}

interface DataFlags {
  split?: string;
  output?: string;
  seed?: number;
  check?: boolean;
  by?: "probe" | "bands";
  groupSize?: number;
  scale?: number;
  tasksPy?: string;
  python?: string;
  holdout?: number;
  envOptions?: Record<string, unknown>;
  json?: boolean;
}

/** Gives a command a flag for every key of a schema. */
function addFlags(target: Command, schema: z.ZodObject, prefix = ""): Flag[] {
  const flags = flagsOf(schema);
  for (const flag of flags) {
    const option = new Option(flag.usage, `${prefix}${flag.description}`);
    target.addOption(flag.negative ? option : option.argParser((text) => [flag.read(text)])); // commander makes '' of null
    if (flag.negative) target.addOption(new Option(flag.negative).hideHelp());
  }
  return flags;
}

/** What the user set of these flags, by the key of the schema. */
function givenFlags(target: Command, flags: readonly Flag[]): Record<string, unknown> {
  const options = target.opts<Record<string, unknown>>();
  return Object.fromEntries(
    flags.flatMap(({ key, usage }) => {
      const value = options[new Option(usage).attributeName()];
      return value === undefined ? [] : [[key, Array.isArray(value) ? value[0] : value]];
    }),
  );
}

interface CommandLine {
  argv: readonly string[];
  command: string;
  ending: Ending;
  /** Takes what a command came to: a result to be printed, or the exit code of one that has printed. */
  finish(result: RunResult | number, json: boolean): void;
}

/** Gives a recipe's command its flags, made from the recipe's schema. */
function addRecipe(target: Command, recipe: Recipe, { argv, command, ending, finish }: CommandLine): void {
  const { instead } = recipe;
  if (instead !== undefined) {
    target.argument("[anything...]").allowUnknownOption().allowExcessArguments();
    target.action(() => {
      throw new UserError(instead);
    });
    return;
  }
  const takesTrainer = "trainer" in recipe.schema.shape;
  target.argument("[config]", "a YAML file; flags win over it");
  const flags = addFlags(target, recipe.schema);
  target.option("--json", "print results as JSON lines; nothing else on stdout");
  if (recipe.several_processes)
    target.option(
      "--nproc <number>",
      "train in so many processes on this machine, one a GPU (docs/several-processes.md)",
    );
  target.option("--dry-run", "check what can be checked before a model loads, print the resolved config, and stop");
  if (takesTrainer) {
    target.allowUnknownOption().allowExcessArguments();
    target.addHelpText("after", "\nAny other --flag is a key of TRL's config class, as --learning-rate 1e-5.");
  }
  target.action(async () => {
    const world = readWorld();
    if (world.size > 1 && !recipe.several_processes)
      throw new UserError(
        `${recipe.name} runs in one process, and WORLD_SIZE is ${world.size}. Leave out the launcher.`,
      );
    ending.join(world);
    const options = target.opts<Record<string, unknown>>();
    const given = givenFlags(target, flags);
    const ours = [...flags.map(({ key }) => key), "json", "dry_run", "nproc", "help"];
    const { trainer, rest } = trainerFlags(target.args, ours);
    if (rest.length > 1) throw new UserError(`${recipe.name} takes one config file; got ${rest.join(", ")}.`);
    if (Object.keys(trainer).length > 0) given.trainer = { ...(given.trainer as object | undefined), ...trainer };

    const progress = progressOf(world, createProgress());
    const named = recipe.namedFile(given);
    if (named && rest[0])
      throw new UserError(
        `The flags name the config file ${shownPath(named)}, and ${rest[0]} is given too. Leave one out.`,
      );
    const file = rest[0] ?? (goesOn(given) ? null : (named ?? recipe.defaultFile(given))); // such a run has its settings
    if (file && !rest[0]) progress.line(`settings: ${shownPath(file)}`);
    const loaded = loadConfig({
      recipe: recipe.name,
      schema: recipe.schema,
      file,
      flags: given,
      presets: recipe.presets,
    });
    const context = {
      command,
      dry_run: options.dryRun === true,
      progress,
      given: loaded.given,
      flags: new Set(Object.keys(given)),
    };
    const processes = typeof options.nproc === "string" ? readProcesses(options.nproc) : 1;
    const result =
      processes > 1
        ? await launchRecipe(recipe, loaded.config, context, { argv, processes })
        : await recipe.run(loaded.config, { ...context, world });
    finish(typeof result === "object" && world.rank > 0 ? (result.exit_code ?? 0) : result, options.json === true);
  });
}

function readJsonObject(flag: string): (text: string) => Record<string, unknown> {
  return (text) => {
    try {
      const value: unknown = JSON.parse(text);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    } catch {}
    throw new UserError(`${flag} is '${text}'; expected a JSON object.`);
  };
}

function readSeed(text: string): number {
  const seed = Number(text);
  if (text.trim() !== "" && Number.isSafeInteger(seed) && seed >= 0) return seed;
  throw new UserError(`--seed is '${text}'; expected a whole number of 0 or more.`);
}

function readGroupSize(text: string): number {
  if (/^\d+$/.test(text) && Number(text) >= 2) return Number(text);
  throw new UserError(`--group-size is '${text}'; expected a whole number of 2 or more.`);
}

function readHoldout(text: string): number {
  if (/^\d+$/.test(text) && Number(text) >= 1) return Number(text);
  throw new UserError(`--holdout is '${text}'; expected a whole number from 1.`);
}

function readScale(text: string): number {
  const scale = Number(text);
  if (scale > 0 && scale <= 2) return scale;
  throw new UserError(`--scale is '${text}'; expected a number above 0, at most 2.`);
}

function readTrial(text: string): number {
  if (/^\d+$/.test(text)) return Number(text);
  throw new UserError(`--trial is '${text}'; expected a whole number from 0.`);
}

function readReply(protocol: string, where: string, value: unknown): Record<string, unknown> {
  const { id, text } = (value ?? {}) as { id?: unknown; text?: unknown };
  if (typeof text !== "string")
    throw new UserError(`${where}: expected {"id": …, "text": "…"}, got ${JSON.stringify(value).slice(0, 100)}.`);
  return { id, ...protocols[protocol]!(text) };
}

/** The exit code of whatever a command threw, and what the person is told. */
function readFailure(error: unknown): Failure {
  const failure = (code: ExitCode, text: string) => ({ code, text, with_another: false, stopped: false });
  if (error instanceof CommanderError) return failure(error.exitCode === 0 ? 0 : 2, ""); // it has told already
  if (error instanceof UserError || (error instanceof PythonError && error.type === "UserError"))
    return failure(2, errorText(error).replace(/^UserError: /, ""));
  const problem = (error as NodeJS.ErrnoException | null)?.code === "ENOENT" ? null : pathProblem(error);
  if (problem) return failure(2, problem.message);
  if (error instanceof GuardError) return failure(1, error.message);
  if (error instanceof Stopped) return { ...failure(1, error.message), stopped: true };
  if (error instanceof RankLost) return { ...failure(3, error.message), with_another: true };
  if (error instanceof PythonDied) return failure(3, error.message);
  if (error instanceof PythonError) return failure(3, `${error.message}\n${error.traceback}`);
  return failure(3, (error instanceof Error ? error.stack : undefined) ?? String(error));
}

/** Node's own exit code where the program waits for a promise that nothing can settle any more. */
const UNSETTLED = 13;

/** `main` as a process of its own. */
export async function runProcess(): Promise<void> {
  for (const stream of [process.stdout, process.stderr])
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error; // its reader has gone (`| head`): the work goes on
    });
  globalThis.console = new Console(process.stderr); // stdout is for results, whatever an environment prints
  process.on("uncaughtException", (error) => {
    const { code, text } = readFailure(error);
    process.stderr.write(`${text}\n`);
    process.exit(code); // Node's own exit code would be a gate's
  });
  let settled = false;
  process.on("exit", (code) => {
    if (settled || (code !== 0 && code !== UNSETTLED)) return;
    process.stderr.write(
      "The work is not done, and nothing is left to wait for: a promise of the environment never settles.\n",
    );
    process.exitCode = 3;
  });
  process.exitCode = await main(process.argv.slice(2));
  settled = true;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) await runProcess();
