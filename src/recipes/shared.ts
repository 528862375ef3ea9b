import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { z } from "zod";
import { projectRoot } from "../bridge/interpreter.ts";
import { type ChatRequest, type EntryResult, entries, type Sampling } from "../bridge/protocol.ts";
import type { Python } from "../bridge/python.ts";
import { mergeValues } from "../config.ts";
import { type Env, replayGold, type TaskSet } from "../core/env.ts";
import { errorText, nearest, pathProblem, UserError } from "../core/errors.ts";
import { createRandom } from "../core/random.ts";
import type { ExpertRow } from "../core/task.ts";
import type { FunctionTool } from "../core/tool.ts";
import { type RunFolder, shownPath } from "../run-folder.ts";
import type { RunContext, RunResult } from "./recipe.ts";

// Config keys and start-up checks that more than two recipes share.

/** Name of a run's folder in runs_dir. */
export const runName = z
  .string()
  .regex(/^(?!\.+$)[\w.-]+$/, "expected letters, digits, '.', '_' and '-', and not dots alone");

export const runKeys = {
  name: runName.nullable().default(null).describe("The run's name; left out: made up."),
  runs_dir: z.string().min(1, "expected a folder").default("runs").describe("Where run folders go."),
  seed: z
    .int()
    .nonnegative()
    .max(2 ** 32 - 1) // numpy's
    .default(42),
  python: z
    .string()
    .nullable()
    .default(null)
    .describe("The Python to use; left out: TRESTLE_PYTHON, an active venv, .venv, python3."),
};

/** An environment's name, also where it is given as a file: "my-env" of "./my-env.ts". */
export const envStem = (env: string): string => basename(env).replace(/\.\w+$/, "");

export const envKeys = {
  env: z.string().default("arxiv").describe("An environment's name, or a file that exports one."),
  env_options: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Options of the environment: its README lists them."),
};

export const chatKeys = {
  chat_template: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("In place of the model's chat template, saved with it: hermes, which writes tools, or a .jinja file."),
  chat_template_kwargs: z
    .record(z.string(), z.unknown())
    .default({})
    .describe('Passed to the chat template, as {"enable_thinking": false}.'),
};

/** How a dialogue becomes tokens, as Python is told in every request. */
export function chatOf(
  env: Env,
  config: {
    env_options: Record<string, unknown>;
    chat_template: string | null;
    chat_template_kwargs: Record<string, unknown>;
  },
): ChatRequest {
  const { env_options, chat_template, chat_template_kwargs } = config;
  return {
    chat_template: chat_template && localPath(chat_template),
    chat_template_kwargs,
    continuation: env.continuation(env_options),
    tools: templateTools(env, env_options),
  };
}

/** The environment's tools where they go to the chat template; null: they do not. */
export function templateTools(env: Env, env_options: Record<string, unknown>): FunctionTool[] | null {
  if (!env.template_tools(env_options)) return null;
  return env.tools.map(({ name, description, parameters }) => ({
    type: "function",
    function: { name, description, parameters },
  }));
}

export const samplingKeys = {
  temperature: z.number().nonnegative().default(1).describe("0: greedy."),
  top_p: z.number().gt(0).max(1).default(1),
  top_k: z.int().nonnegative().default(0).describe("0: off."),
  min_p: z.number().min(0).max(1).default(0),
  max_turn_tokens: z.int().positive().default(256).describe("Tokens of one reply."),
  max_episode_tokens: z
    .int()
    .positive()
    .default(2048)
    .describe("Tokens of all replies of an episode; observations are not counted."),
  max_context_tokens: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("Prompt, replies and observations together; left out: what the model can take."),
};

export const episodeKeys = {
  max_turns: z
    .int()
    .positive()
    .nullable()
    .default(null)
    .describe("Replies an episode has at most; left out: the environment's."),
  // 2^31 ms and more would fire at once
  episode_timeout_ms: z
    .int()
    .positive()
    .max(2 ** 31 - 1)
    .default(300_000)
    .describe("The environment's time for one episode, milliseconds."),
};

export const trainerKey = (configClass: string) => ({
  trainer: z.record(z.string(), z.unknown()).default({}).describe(`Keys of TRL's ${configClass}; each is a flag too.`),
});

/** A group, or a student, that always says the same has nothing to be told apart by. */
export function temperatureProblems({ temperature }: { temperature: number }): string[] {
  return temperature > 0
    ? []
    : [
        "temperature is 0: training learns from samples, and greedy rollouts are one rollout many times. Set it above 0.",
      ];
}

export function samplingOf(config: Sampling): Sampling {
  const { temperature, top_p, top_k, min_p, max_turn_tokens, max_episode_tokens, max_context_tokens } = config;
  return { temperature, top_p, top_k, min_p, max_turn_tokens, max_episode_tokens, max_context_tokens };
}

/** @throws UserError with all the problems, a line each. */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) throw new UserError(problems.join("\n"));
}

// ------------------------------------------------------------------------------------------------------ models

/** The base that comes with the project. */
export const TINY_MODEL = "models/tiny";

/** A path as given where it exists from here, else the project's own file of that name, else as given (a hub id). */
export function localPath(path: string): string {
  if (path === "") return path;
  const own = join(projectRoot, path);
  return !existsSync(path) && existsSync(own) ? shownPath(own) : path;
}

/** Widest model that is trained with the tiny model's settings. */
const TINY_WIDTH = 256;

/** Whether a folder holds the tiny model or one made from it: the settings for real models would teach it nothing. */
export function isTinyModel(model: string): boolean {
  try {
    const config = JSON.parse(readFileSync(join(model, "config.json"), "utf8")) as { hidden_size?: unknown };
    return typeof config.hidden_size === "number" && config.hidden_size <= TINY_WIDTH;
  } catch {
    return false;
  }
}

/** What is wrong with a model's name, told within milliseconds: Python would start for seconds, a hub be asked for minutes. */
export function modelProblems(model: string): string[] {
  if (model === "") return ["model is empty; expected a folder in Hugging Face format, or a hub id."];
  if (existsSync(model)) {
    if (!statSync(model).isDirectory())
      return [`model is '${model}', a file; expected a folder in Hugging Face format.`];
    if (existsSync(join(model, "config.json")) || existsSync(join(model, "adapter_config.json"))) return [];
    const inside = ["final", ...readdirSync(model).filter((name) => name.startsWith("checkpoint-"))].find((name) =>
      existsSync(join(model, name, "config.json")),
    );
    return [
      `model is '${model}', a folder without config.json or adapter_config.json.` +
        (inside ? ` Did you mean ${join(model, inside)}?` : ""),
    ];
  }
  const parent = dirname(model);
  if (/^[./~]/.test(model) || model.split("/").length !== 2 || existsSync(parent)) {
    const near = existsSync(parent) ? nearest(basename(model), readdirSync(parent)) : null;
    return [`model is '${model}': there is no such folder.${near ? ` Did you mean ${join(parent, near)}?` : ""}`];
  }
  if (isOffline() && !isCached(model))
    return [
      `model is '${model}', which is not on this machine, and the hub is switched off (HF_HUB_OFFLINE). ` +
        `Download it first, or name a folder.`,
    ];
  return [];
}

function isOffline(): boolean {
  return [process.env.HF_HUB_OFFLINE, process.env.TRANSFORMERS_OFFLINE].some((value) =>
    /^(1|true|yes|on)$/i.test(value ?? ""),
  );
}

function isCached(model: string): boolean {
  const home = process.env.HF_HOME ?? join(homedir(), ".cache", "huggingface");
  const cache = process.env.HF_HUB_CACHE ?? join(home, "hub");
  return existsSync(join(cache, `models--${model.replaceAll("/", "--")}`));
}

/** The resolved config of the run that a model came from; null where it is not a run's. */
export function readRunConfig(dir: string): Record<string, unknown> | null {
  try {
    return JSON.parse(readFileSync(join(dir, "config.json"), "utf8")) as Record<string, unknown>;
  } catch {
    return null;
  }
}

// ------------------------------------------------------------------------------------------------------ checks

/**
 * Tasks whose gold solution takes more replies than an episode has (arxiv.md 3.4). None where others may take fewer than
 * gold: such a budget is for the user to choose.
 */
export function turnProblems(tasks: TaskSet, max_turns: number | null): string[] {
  if (tasks.gold_is_shortest === false) return [];
  const needs = tasks.ids.map((task_id) => ({
    task_id,
    replies: tasks.replies("gold", task_id, createRandom(0)).length,
    has: max_turns ?? tasks.max_turns(task_id),
  }));
  const short = needs.filter(({ replies, has }) => replies > has);
  if (short.length === 0) return [];
  const worst = short.reduce((a, b) => (b.replies > a.replies ? b : a));
  return [
    `max_turns is ${worst.has}, but ${short.length} of ${needs.length} tasks need more replies, ` +
      `'${worst.task_id}' ${worst.replies} of them. Set --max-turns ${worst.replies}.`,
  ];
}

/** Longest gold solutions of a split, to be measured against the token budgets. */
export async function longestGold(tasks: TaskSet): Promise<ExpertRow[]> {
  return longestRows((await replayGold(tasks)).rows);
}

const MEASURED_ROWS = 32;

/** The `count` rows with most text, longest first. */
export function longestRows(rows: readonly ExpertRow[], count = MEASURED_ROWS): ExpertRow[] {
  const measured = rows.map((row) => ({ row, length: JSON.stringify([row.prompt, row.turns]).length }));
  return measured
    .sort((a, b) => b.length - a.length)
    .slice(0, count)
    .map(({ row }) => row);
}

/** Asks Python to check what needs no weights. @throws UserError with every problem. */
export async function preflight(
  python: Python,
  request: Omit<z.input<(typeof entries)["preflight"]["request"]>, "processes" | "local_processes">,
  { progress, world }: RunContext,
): Promise<EntryResult<"preflight">> {
  const processes = { processes: world.size, local_processes: world.local_size };
  const result = entries.preflight.result.parse(
    await python.call("preflight", entries.preflight.request.parse({ ...request, ...processes })),
  );
  for (const warning of result.warnings) progress.line(`warning: ${warning}`);
  refuse(result.problems);
  return result;
}

/** @throws UserError where the run's folder is taken or can't be made: found before a model loads. */
export function requireFree(dir: string): void {
  requireWritable(dir);
  if (existsSync(join(dir, "manifest.json")))
    throw new UserError(`${dir} already holds a run. Choose another --name, or remove that folder.`);
}

/** @throws UserError where a folder can't be made, or written to. */
export function requireWritable(dir: string, flag = "--runs-dir"): void {
  let above = dirname(resolve(dir));
  while (!existsSync(above)) above = dirname(above);
  if (!statSync(above).isDirectory()) throw new UserError(`${dir} can't be made: ${above} is a file.`);
  try {
    accessSync(above, constants.W_OK);
  } catch (error) {
    throw new UserError(
      `${dir} can't be made (${pathProblem(error)?.message ?? errorText(error)}) Choose another ${flag}.`,
    );
  }
}

export function dryRun(recipe: string, config: object, notes: readonly string[] = []): RunResult {
  return {
    text: [`${recipe}: the config is good.`, ...notes, JSON.stringify(config, null, 2)].join("\n"),
    json: [{ recipe, config }],
  };
}

/**
 * Groups that TRL would refuse only after the model has loaded: fewer than 2 rollouts, or a batch that does not hold
 * whole groups, which may lie across processes. Python checks again with the installed TRL's own defaults.
 */
export function groupProblems(trainer: Record<string, unknown>, processes: number): string[] {
  const value = (key: string, standard: number) =>
    typeof trainer[key] === "number" ? (trainer[key] as number) : standard;
  const group = value("num_generations", 8);
  if (group < 2) return [`num_generations is ${group}; a group needs at least 2 rollouts to tell better from worse.`];
  const batch = value("per_device_train_batch_size", 8);
  const rounds = value("steps_per_generation", value("gradient_accumulation_steps", 1));
  const rollouts = value("generation_batch_size", batch * rounds * processes);
  if (rollouts % group === 0) return [];
  const made = `per_device_train_batch_size ${batch} × ${rounds}${processes > 1 ? ` × ${processes} processes` : ""}`;
  return [
    `${rollouts} rollouts a step (${made}) do not divide into groups of ${group} (num_generations). Make the batch a ` +
      `multiple of ${group}.`,
  ];
}

// --------------------------------------------------------------------------------------------------- the run

interface Outcome {
  result: { steps: number; stop_reason: string; [key: string]: unknown };
  text: string;
  /** Writes pictures and pages; returns their paths. */
  report(): string[];
}

const COMPLETED = "max_steps_or_epochs_completed";

/** Does a run's work and leaves its folder in order, however it ends. */
export async function finishRun(
  run: RunFolder,
  logs: readonly { close(): void }[],
  work: () => Promise<Outcome>,
): Promise<RunResult> {
  const { details } = run.manifest;
  try {
    const { result, text, report } = await work();
    for (const log of logs) log.close();
    const completed = result.stop_reason === COMPLETED;
    run.update({
      status: completed ? "completed" : result.stop_reason === "stop_requested" ? "stopped" : "failed",
      finished: new Date().toISOString(),
      details: { ...details, result: carryNumbers(result) },
    });
    const files = report();
    return {
      text: [
        ...(completed ? [] : [`STOPPED: ${result.stop_reason}`]),
        text,
        ...files.map((file) => `report: ${file}`),
      ].join("\n"),
      json: [{ recipe: run.manifest.recipe, dir: run.dir, model: modelOf(run), ...carryNumbers(result) }],
      exit_code: completed ? 0 : 1,
    };
  } catch (error) {
    run.update({
      status: "failed",
      finished: new Date().toISOString(),
      details: { ...details, error: errorText(error) },
    });
    throw error;
  } finally {
    for (const log of logs) log.close();
    run.close();
  }
}

/** The folder of the trained model; null: the run ended so that there was none worth keeping. */
const modelOf = (run: RunFolder): string | null => (existsSync(run.path("final")) ? run.path("final") : null);

/** Lines for the person watching: where the model is, and the command that measures it in the run's environment. */
export function savedModel(run: RunFolder, config: MeasuredIn): string[] {
  const model = modelOf(run);
  if (!model) return ["model: none was saved"];
  return [`model: ${model}`, `Next: npx tsx src/cli.ts bench --policy model:${model}${envFlags(config)}`];
}

interface MeasuredIn {
  env: string;
  env_options: Record<string, unknown>;
  /** What an evaluation has otherwise than training. */
  validate_env_options?: Record<string, unknown>;
}

/** The flags that name an environment as a run has it, in a shell's quotes; nothing where it is the default one. */
export function envFlags({ env, env_options, validate_env_options = {} }: MeasuredIn): string {
  const options = JSON.stringify(mergeValues(env_options, validate_env_options));
  return [
    env === envKeys.env.parse(undefined) ? "" : ` --env ${env}`,
    options === "{}" ? "" : ` --env-options '${options.replaceAll("'", `'\\''`)}'`,
  ].join("");
}

/** JSON has no NaN: {"$float": "NaN"}, as on the bridge. */
function carryNumbers(values: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([key, value]) => [
      key,
      typeof value === "number" && !Number.isFinite(value) ? { $float: String(value) } : value,
    ]),
  );
}

export function fileHash(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}

const PACKAGES = ["torch", "transformers", "trl", "peft", "accelerate", "datasets", "tokenizers", "numpy"];

/** What a run's numbers depend on: versions of the packages, and the GPU's name (null: none). */
export async function describePython(
  python: Python,
): Promise<{ versions: Record<string, string>; gpu: string | null }> {
  const facts = await python.call<{ packages: Record<string, string | null>; torch: { devices?: { name: string }[] } }>(
    "doctor",
    { packages: PACKAGES },
    { answer: async () => ({}) },
  );
  const installed = Object.entries(facts.packages).flatMap(([name, version]) => (version ? [[name, version]] : []));
  return {
    versions: { python: python.info.version, ...Object.fromEntries(installed) },
    gpu: facts.torch.devices?.map(({ name }) => name).join(", ") || null,
  };
}
