import { join } from "node:path";
import { z } from "zod";
import { type Judgement, judge } from "../eval/run.ts";
import type { EpisodeRequest } from "../src/bridge/protocol.ts";
import { Stopped, startPython } from "../src/bridge/python.ts";
import type { TaskSet } from "../src/core/env.ts";
import { errorText, nearest, UserError } from "../src/core/errors.ts";
import { createRandom } from "../src/core/random.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { loadEnv } from "../src/envs/index.ts";
import type { Progress } from "../src/metrics.ts";
import { defineRecipe, type RunResult } from "../src/recipes/recipe.ts";
import {
  chatKeys,
  describePython,
  dryRun,
  envKeys,
  episodeKeys,
  longestGold,
  modelProblems,
  preflight,
  readRunConfig,
  refuse,
  requireFree,
  runKeys,
  samplingKeys,
  samplingOf,
  turnProblems,
} from "../src/recipes/shared.ts";
import { textTable } from "../src/report.ts";
import { freeName, openRun, writeJson } from "../src/run-folder.ts";
import { openTrajectoryLog, readTrajectories } from "../src/trajectory-log.ts";
import { accountLine, apiKeys, isApi, type OpenApi, openApi } from "./api.ts";
import { modelOf, play } from "./play.ts";

export { play } from "./play.ts";

// Plays: a suite (splits of an environment) × a policy × repeats → a trajectory log. What it is worth, eval/ says.

/** Several splits as one set of tasks, each task once. @throws UserError where they are of different environments */
export function joinTaskSets(sets: readonly TaskSet[]): TaskSet {
  const owner = new Map<string, TaskSet>();
  for (const tasks of sets) for (const id of tasks.ids) if (!owner.has(id)) owner.set(id, tasks);
  const of = (task_id: string): TaskSet => owner.get(task_id) ?? sets[0]!;
  return {
    env_id: sets[0]!.env_id,
    split: sets.map(({ split }) => split).join(","),
    ids: [...owner.keys()],
    sources: Object.assign({}, ...sets.map(({ sources }) => sources)) as Record<string, string>,
    category: (task_id) => of(task_id).category(task_id),
    max_turns: (task_id) => of(task_id).max_turns(task_id),
    start: (task_id, options) => of(task_id).start(task_id, options),
    replies: (policy, task_id, random) => of(task_id).replies(policy, task_id, random),
  };
}

/** Only the tasks named. @throws UserError for one that is not there */
export function pickTasks(tasks: TaskSet, ids: readonly string[]): TaskSet {
  if (ids.length === 0) return tasks;
  for (const [index, id] of ids.entries()) {
    if (ids.indexOf(id) !== index) throw new UserError(`task_ids names '${id}' twice.`);
    if (tasks.ids.includes(id)) continue;
    const near = nearest(id, tasks.ids);
    throw new UserError(`task_ids: ${tasks.split} has no task '${id}'${near ? `; did you mean '${near}'?` : "."}`);
  }
  return { ...tasks, ids };
}

/** Every (task, trial), each with a seed of its own: neither order nor selection of tasks moves another's numbers. */
export function planTrials(task_ids: readonly string[], trials: number, seed: number): EpisodeRequest[] {
  return task_ids.flatMap((task_id) =>
    Array.from({ length: trials }, (_, trial) => ({
      task_id,
      seed: createRandom(`${seed}/${task_id}/${trial}`).int(2 ** 32),
      trial,
    })),
  );
}

// ---------------------------------------------------------------------------------------- the two commands

/** All episodes are planned at the start, in memory. */
const MOST_TRIALS = 10_000;

const playKeys = {
  ...runKeys,
  ...envKeys,
  split: z
    .union([z.array(z.string()).min(1), z.string().transform((text) => text.split(",").map((name) => name.trim()))])
    .nullable()
    .default(null)
    .describe("Splits to play; left out: the environment's first."),
  task_ids: z.array(z.string()).default([]).describe("Only these tasks."),
  policy: z
    .string()
    .default("gold")
    .describe("model:<folder or hub id>, api:<model>, gold, or a baseline of the environment."),
  repeat: z.int().positive().max(MOST_TRIALS).default(3).describe("Trials of each task."),
  ...samplingKeys,
  batch_size: z.int().positive().default(32).describe("Episodes that a model plays at a time."),
  ...episodeKeys,
  ...chatKeys,
  thinking: z
    .boolean()
    .default(true)
    .describe("off: chat_template_kwargs gets enable_thinking false, which Qwen3's and like templates read."),
  ...apiKeys,
};

const benchConfig = z.object({ ...playKeys, seed: runKeys.seed.default(45) });
const rolloutConfig = z.object({
  ...playKeys,
  repeat: playKeys.repeat.unwrap().default(1).describe("Trials of each task."),
});
type PlayConfig = z.output<typeof benchConfig>;

/** Keys that not every kind of policy reads. */
const SAMPLED_KEYS = [...Object.keys(samplingKeys), "chat_template_kwargs", "thinking"];
const LOCAL_KEYS = ["batch_size", "python"];
const API_KEYS = Object.keys(apiKeys);

/** @throws UserError for a key that this policy would ignore */
function refuseIgnored(policy: string, given: ReadonlySet<string>): void {
  const [is, ignored] = isApi(policy)
    ? ["not a local model", LOCAL_KEYS]
    : modelOf(policy) !== null
      ? ["not behind an API", API_KEYS]
      : ["not a model", [...SAMPLED_KEYS, ...LOCAL_KEYS, ...API_KEYS]];
  const key = ignored.find((name) => given.has(name));
  if (key) throw new UserError(`${key} is set, but the policy '${policy}' is ${is}. Leave it out.`);
}

interface Played {
  dir: string;
  logPath: string;
  sets: TaskSet[];
  tasks: TaskSet;
  config: PlayConfig;
  /** What the policy itself counted, for --json and the summary. */
  extra: Record<string, unknown>;
  /** The same for people. */
  lines: string[];
}

/** Checks, plays, and leaves a run folder with the log. A RunResult: it was only to be checked. */
async function playIntoFolder(
  recipe: "bench" | "rollout",
  given: PlayConfig,
  context: Parameters<typeof preflight>[2],
): Promise<Played | RunResult> {
  const { progress } = context;
  let config = withModelsOptions(given, context.given, progress);
  if (!config.thinking)
    config = { ...config, chat_template_kwargs: { ...config.chat_template_kwargs, enable_thinking: false } };
  const env = await loadEnv(config.env);
  const splits = config.split ?? [env.splits[0]!];
  const twice = splits.find((split, index) => splits.indexOf(split) !== index);
  if (twice !== undefined) throw new UserError(`split names '${twice}' twice.`);
  const sets = await Promise.all(splits.map((split) => env.load(split, config.env_options)));
  const tasks = pickTasks(joinTaskSets(sets), config.task_ids);
  refuseIgnored(config.policy, context.given);
  const model = modelOf(config.policy);
  if (model === null && !isApi(config.policy) && !env.policies.includes(config.policy)) {
    const near = nearest(config.policy, env.policies);
    throw new UserError(
      `policy is '${config.policy}'${near ? `; did you mean '${near}'?` : "."} Expected model:<folder or hub id>, ` +
        `api:<model>, or one of ${env.policies.join(", ")}.`,
    );
  }
  if (model !== null) refuse(modelProblems(model));
  if (model !== null || isApi(config.policy)) refuse(turnProblems(tasks, config.max_turns));
  const continuation = env.continuation(config.env_options);
  if (continuation && isApi(config.policy))
    throw new UserError(
      `env_options ask for the continuation style, but the policy '${config.policy}' is behind an API, which takes ` +
        "whole messages only. Play it in the chat style, or as model:<folder or hub id>.",
    );
  const recorded = [context.command, JSON.stringify(config)];
  const api = isApi(config.policy) ? openApi(config, { stop: env.stop, given: context.given, recorded }) : null;
  if (api) config = { ...config, policy: api.policy.name };
  const dir = join(
    config.runs_dir,
    config.name ??
      freeName(config.runs_dir, `${recipe}-${config.policy.replace(/^model:|\/final$/g, "").replace(/\W+/g, "-")}`),
  );
  requireFree(dir);

  const python = model === null ? null : await startPython({ interpreter: config.python ?? undefined });
  try {
    if (python && model !== null) {
      const gold = await longestGold(tasks);
      const { max_turn_tokens, max_episode_tokens, max_context_tokens, chat_template_kwargs } = config;
      const budgets = { max_turn_tokens, max_episode_tokens, max_context_tokens, max_length: null };
      await preflight(
        python,
        { recipe: "play", model, trainer: {}, lora: null, chat_template_kwargs, continuation, gold, budgets },
        context,
      );
    }
    if (context.dry_run) return dryRun(recipe, config);

    const run = openRun({
      dir,
      recipe,
      config,
      command: context.command,
      seed: config.seed,
      ...(python ? await describePython(python) : { versions: {} }),
      data: tasks.sources,
      details: {
        env: env.id,
        splits,
        tasks: tasks.ids.length,
        policy: config.policy,
        ...(api ? { endpoint: api.endpoint } : {}),
      },
    });
    const log = openTrajectoryLog(run.path("trajectories", "rank-0.jsonl"));
    try {
      progress.line(
        `${config.policy} plays ${tasks.ids.length} tasks of ${splits.join(", ")}, ${config.repeat} times each`,
      );
      const account = await play({
        tasks,
        policy: api?.policy ?? config.policy,
        episodes: planTrials(tasks.ids, config.repeat, config.seed),
        log,
        seed: config.seed,
        max_turns: config.max_turns,
        timeout_ms: config.episode_timeout_ms,
        progress,
        model: python
          ? {
              python,
              sampling: samplingOf(config),
              batch_size: config.batch_size,
              chat_template_kwargs: config.chat_template_kwargs,
              continuation,
            }
          : undefined,
      });
      run.update({
        status: "stopped" in account && account.stopped ? "stopped" : "completed",
        finished: new Date().toISOString(),
        details: { ...run.manifest.details, ...account, ...asked(api) },
      });
      return {
        dir,
        logPath: log.path,
        sets: sets.map((set) => pickFrom(set, tasks)),
        tasks,
        config,
        extra: { ...speedOf(account), ...asked(api) },
        lines: api ? [accountLine(api.account())] : [],
      };
    } catch (error) {
      run.update({
        status: error instanceof Stopped ? "stopped" : "failed",
        finished: new Date().toISOString(),
        details: { ...run.manifest.details, error: errorText(error), ...asked(api) },
      });
      if (error instanceof Stopped) progress.line(`log: ${log.path}`);
      throw error;
    } finally {
      log.close();
      run.close();
    }
  } finally {
    api?.close();
    await python?.close();
  }
}

const asked = (api: OpenApi | null) => (api ? { api: api.account() } : {});

/** Tokens a second of a local model. */
function speedOf(account: Awaited<ReturnType<typeof play>>): Record<string, unknown> {
  return "policy_tokens" in account
    ? { tokens_per_s: Math.round(account.policy_tokens / Math.max(account.play_s, 1e-9)) }
    : {};
}

/** A split, without the tasks that were not played. */
function pickFrom(set: TaskSet, played: TaskSet): TaskSet {
  return { ...set, ids: set.ids.filter((id) => played.ids.includes(id)) };
}

/** A model of one of our runs is played in the environment and under the options of that run, unless others are given. */
function withModelsOptions(config: PlayConfig, given: ReadonlySet<string>, progress: Progress): PlayConfig {
  const model = modelOf(config.policy);
  const trained = model === null ? null : readRunConfig(join(model, ".."));
  if (typeof trained?.env !== "string") return config;
  const taken: Partial<PlayConfig> = {};
  if (trained.env !== config.env) {
    if (given.has("env")) return config;
    taken.env = trained.env;
    progress.line(`env as in the model's own run: ${trained.env}`);
  }
  for (const key of ["env_options", "chat_template_kwargs"] as const) {
    const value = trained[key];
    if (given.has(key) || typeof value !== "object" || value === null) continue;
    taken[key] = value as Record<string, unknown>;
  }
  const options = { ...taken.env_options };
  delete options.sft; // about SFT rows, not about play
  if (taken.env_options) taken.env_options = options;
  if (Object.keys(options).length > 0)
    progress.line(`env_options as in the model's own run: ${JSON.stringify(options)}`);
  return { ...config, ...taken };
}

const number = (value: number | null, digits = 3): string => (value === null ? "n/a" : value.toFixed(digits));
const interval = (range: readonly [number, number] | null): string =>
  range ? `[${range.map((end) => end.toFixed(3)).join(", ")}]` : "n/a";

/** One row a judgement: pass^1 with its interval, pass^k, pass@k, reward. */
export function judgementTable(rows: readonly { label: string; judged: Judgement }[]): string {
  const ks = Object.keys(rows[0]!.judged.pass_hat).filter((k) => k !== "1");
  return textTable([
    [
      "split",
      "tasks",
      "trials",
      "pass^1",
      "95 %",
      ...ks.map((k) => `pass^${k}`),
      ...ks.map((k) => `pass@${k}`),
      "reward",
      "turns",
    ],
    ...rows.map(({ label, judged }) => [
      label,
      String(judged.tasks),
      String(judged.trials),
      number(judged.pass_hat["1"] ?? null),
      interval(judged.pass_hat_1_interval),
      ...ks.map((k) => number(judged.pass_hat[k] ?? null)),
      ...ks.map((k) => number(judged.pass_at[k] ?? null)),
      number(judged.mean_reward),
      number(judged.mean_turns, 1),
    ]),
  ]);
}

/** The line that machines read: design's fields first, then all that was judged. */
export function judgementLine(split: string, { by_task: _, ...judged }: Judgement): Record<string, unknown> {
  const { policy, env, tasks, trials, pass_hat, pass_at, ...rest } = judged;
  return { policy, env, split, tasks, trials, pass_hat, pass_at, ...rest };
}

/** Judges a log split by split. */
export function judgeSplits(
  sets: readonly TaskSet[],
  trajectories: readonly Trajectory[],
  trials: number,
): { label: string; judged: Judgement }[] {
  return sets
    .filter(({ ids }) => ids.length > 0)
    .map((set) => {
      const ids = new Set(set.ids);
      const judged = judge(
        trajectories.filter(({ task_id }) => ids.has(task_id)),
        {
          expected: { task_ids: set.ids, trials },
          category: set.category,
          ks: [...new Set([1, 2, 3, trials])].sort((a, b) => a - b),
        },
      );
      return { label: set.split, judged };
    });
}

export const bench = defineRecipe({
  name: "bench",
  summary: "Play splits with a policy, several times each, and tell pass^k, pass@k, reward and their intervals",
  examples: [
    "bench --policy gold --split iid_test",
    "bench --policy model:runs/quickstart-grpo/final --split dev,iid_test,ood_test --json",
    "bench --policy api:my-model --split iid_test --temperature 0.1 --no-thinking",
  ],
  config: benchConfig,
  async run(given, context): Promise<RunResult> {
    const played = await playIntoFolder("bench", given, context);
    if ("text" in played) return played;
    const { dir, logPath, sets, config, extra } = played;
    const rows = judgeSplits(sets, readTrajectories(logPath), config.repeat);
    writeJson(
      join(dir, "summary.json"),
      rows.map(({ label, judged }) => ({ split: label, ...judged, ...extra })),
    );
    const incomplete = rows.filter(({ judged }) => !judged.complete);
    const lines = [
      `${config.policy} on ${rows[0]!.judged.env}, temperature ${modelOf(config.policy) || isApi(config.policy) ? config.temperature : "n/a"}, seed ${config.seed}`,
      "",
      judgementTable(rows),
      "",
      ...incomplete.map(
        ({ label, judged }) =>
          `INCOMPLETE: ${label} lacks ${judged.missing.length} of ${judged.tasks * judged.trials} episodes (${judged.invalid} failed).`,
      ),
      ...played.lines,
      `log: ${logPath}`,
    ];
    return {
      text: lines.join("\n"),
      json: rows.map(({ label, judged }) => ({
        ...judgementLine(label, judged),
        seed: config.seed,
        log: logPath,
        ...extra,
      })),
      exit_code: incomplete.length > 0 ? 1 : 0,
    };
  },
});

export const rollout = defineRecipe({
  name: "rollout",
  summary: "Play tasks with a policy and write their trajectories",
  examples: [
    "rollout --policy gold --split dev",
    "rollout --policy model:models/tiny --split iid_test --task-ids multi_ai3_tr1 --repeat 4",
    "rollout --policy api:my-model --split train --parallel 16",
  ],
  config: rolloutConfig,
  async run(given, context): Promise<RunResult> {
    const played = await playIntoFolder("rollout", given, context);
    if ("text" in played) return played;
    const trajectories = readTrajectories(played.logPath);
    const rows = trajectories.map(({ task_id, trial, reward, success, turns, ended_by, ended_why }) => ({
      task_id,
      trial,
      reward,
      success,
      turns: turns.length,
      ended_by,
      ended_why,
    }));
    return {
      text: [
        textTable([
          ["task", "trial", "reward", "success", "turns", "ended by"],
          ...rows.map((row) => [
            row.task_id,
            String(row.trial),
            number(row.reward),
            row.success ? "yes" : "no",
            String(row.turns),
            row.ended_why ? `${row.ended_by}: ${row.ended_why}` : row.ended_by,
          ]),
        ]),
        "",
        ...played.lines,
        `log: ${played.logPath}`,
      ].join("\n"),
      json: [...rows, { log: played.logPath, episodes: rows.length, ...played.extra }],
    };
  },
});
