import { setMaxListeners } from "node:events";
import { constants } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type Judgement, judge } from "../eval/run.ts";
import { serveEpisodes } from "../src/bridge/episodes.ts";
import { type EntryResult, type EpisodeRequest, entries, type Sampling } from "../src/bridge/protocol.ts";
import { type Python, Stopped, startPython } from "../src/bridge/python.ts";
import type { TaskSet } from "../src/core/env.ts";
import { nearest, UserError } from "../src/core/errors.ts";
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
  localPath,
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

export interface PlayOptions {
  tasks: TaskSet;
  /** `model:<folder or hub id>`, or one of the environment's own policies, as "gold". */
  policy: string;
  episodes: readonly EpisodeRequest[];
  log: { write(trajectory: Trajectory): void } | null;
  seed: number;
  max_turns: number | null;
  timeout_ms: number;
  progress: Progress;
  /** For `model:` policies. */
  model?: { python: Python; sampling: Sampling; batch_size: number; chat_template_kwargs: Record<string, unknown> };
}

/** null: the policy is not a model. */
export function modelOf(policy: string): string | null {
  return policy.startsWith("model:") ? localPath(policy.slice("model:".length)) : null;
}

/** Plays the episodes and writes their trajectories. Result: Python's account, null for policies without a model. */
export async function play(options: PlayOptions): Promise<EntryResult<"play"> | null> {
  const { tasks, policy, episodes, seed, progress } = options;
  const model = modelOf(policy);
  if (model === null) {
    await playScripted(options);
    return null;
  }
  let finished = 0;
  const served = serveEpisodes({
    tasks,
    log: {
      write(trajectory) {
        options.log?.write(trajectory);
        progress.status(`${++finished} of ${episodes.length} episodes`);
      },
    },
    max_turns: options.max_turns ?? undefined,
    timeout_ms: options.timeout_ms,
    max_invalid_share: 1, // failures are told in the result; what was played is not thrown away
    onNote: progress.line,
  });
  const { python, ...settings } = options.model!;
  try {
    const request = entries.play.request.parse({ model, policy, seed, episodes, ...settings });
    return entries.play.result.parse(await python.call("play", request, { answer: served.answer }));
  } finally {
    await served.closeAll();
    progress.end();
  }
}

const SCRIPTED_AT_A_TIME = 16;

/** tsx and npm pass on a Ctrl-C that the terminal has already sent us: within this time it is the same one. */
const SAME_SIGNAL_MS = 1000;

async function playScripted(options: PlayOptions): Promise<void> {
  const stop = new AbortController();
  setMaxListeners(0, stop.signal); // each episode of a batch listens
  let asked_ms: number | null = null;
  function onSignal(signal: NodeJS.Signals) {
    if (asked_ms !== null && performance.now() - asked_ms > SAME_SIGNAL_MS)
      process.exit(128 + constants.signals[signal]);
    asked_ms ??= performance.now();
    stop.abort(signal);
  }
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    await playReplies(options, stop.signal);
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

async function playReplies(
  { tasks, policy, episodes, log, max_turns, timeout_ms, seed }: PlayOptions,
  signal: AbortSignal,
): Promise<void> {
  for (let first = 0; first < episodes.length; first += SCRIPTED_AT_A_TIME) {
    const played = await Promise.all(
      episodes.slice(first, first + SCRIPTED_AT_A_TIME).map(async ({ task_id, seed: episodeSeed, trial }) => {
        const random = createRandom(`${seed}/${task_id}/${trial}`).fork("policy");
        const replies = tasks.replies(policy, task_id, random);
        const episode = await tasks.start(task_id, {
          seed: episodeSeed,
          trial,
          policy,
          max_turns: max_turns ?? undefined,
          timeout_ms,
          signal,
        });
        for (const reply of replies) {
          if (episode.ended_by) break;
          await episode.reply(reply);
        }
        if (!episode.ended_by) episode.end("truncated", "the policy has no more replies");
        return episode.finish();
      }),
    );
    for (const trajectory of played) log?.write(trajectory);
    if (signal.aborted) throw new Stopped(signal.reason, `Stopped by ${signal.reason}; what was played is in the log.`);
  }
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
  policy: z.string().default("gold").describe("model:<folder or hub id>, gold, or a baseline of the environment."),
  repeat: z.int().positive().max(MOST_TRIALS).default(3).describe("Trials of each task."),
  ...samplingKeys,
  batch_size: z.int().positive().default(32).describe("Episodes that a model plays at a time."),
  ...episodeKeys,
  ...chatKeys,
};

const benchConfig = z.object({ ...playKeys, seed: runKeys.seed.default(45) });
const rolloutConfig = z.object({
  ...playKeys,
  repeat: playKeys.repeat.unwrap().default(1).describe("Trials of each task."),
});
type PlayConfig = z.output<typeof benchConfig>;

/** Keys that only a model's policy reads. */
const MODEL_KEYS = [...Object.keys(samplingKeys), "batch_size", "chat_template_kwargs", "python"];

interface Played {
  dir: string;
  logPath: string;
  sets: TaskSet[];
  tasks: TaskSet;
  config: PlayConfig;
  account: EntryResult<"play"> | null;
}

/** Checks, plays, and leaves a run folder with the log. A RunResult: it was only to be checked. */
async function playIntoFolder(
  recipe: "bench" | "rollout",
  given: PlayConfig,
  context: Parameters<typeof preflight>[2],
): Promise<Played | RunResult> {
  const { progress } = context;
  const config = withModelsOptions(given, context.given, progress);
  const env = await loadEnv(config.env);
  const splits = config.split ?? [env.splits[0]!];
  const twice = splits.find((split, index) => splits.indexOf(split) !== index);
  if (twice !== undefined) throw new UserError(`split names '${twice}' twice.`);
  const sets = await Promise.all(splits.map((split) => env.load(split, config.env_options)));
  const tasks = pickTasks(joinTaskSets(sets), config.task_ids);
  const model = modelOf(config.policy);
  const dir = join(
    config.runs_dir,
    config.name ??
      freeName(config.runs_dir, `${recipe}-${config.policy.replace(/^model:|\/final$/g, "").replace(/\W+/g, "-")}`),
  );
  requireFree(dir);
  if (model === null) {
    const ignored = MODEL_KEYS.find((key) => context.given.has(key));
    if (ignored)
      throw new UserError(`${ignored} is set, but the policy '${config.policy}' is not a model. Leave it out.`);
    if (!env.policies.includes(config.policy)) {
      const near = nearest(config.policy, env.policies);
      throw new UserError(
        `policy is '${config.policy}'${near ? `; did you mean '${near}'?` : "."} Expected model:<folder or hub id>, ` +
          `or one of ${env.policies.join(", ")}.`,
      );
    }
  } else refuse([...modelProblems(model), ...turnProblems(tasks, config.max_turns)]);

  const python = model === null ? null : await startPython({ interpreter: config.python ?? undefined });
  try {
    if (python && model !== null) {
      const gold = await longestGold(tasks);
      const { max_turn_tokens, max_episode_tokens, max_context_tokens, chat_template_kwargs } = config;
      const budgets = { max_turn_tokens, max_episode_tokens, max_context_tokens, max_length: null };
      await preflight(
        python,
        { recipe: "play", model, trainer: {}, lora: null, chat_template_kwargs, gold, budgets },
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
      details: { env: env.id, splits, tasks: tasks.ids.length, policy: config.policy },
    });
    const log = openTrajectoryLog(run.path("trajectories", "rank-0.jsonl"));
    try {
      progress.line(
        `${config.policy} plays ${tasks.ids.length} tasks of ${splits.join(", ")}, ${config.repeat} times each`,
      );
      const account = await play({
        tasks,
        policy: config.policy,
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
            }
          : undefined,
      });
      run.update({
        status: account?.stopped ? "stopped" : "completed",
        finished: new Date().toISOString(),
        details: { ...run.manifest.details, ...account },
      });
      return { dir, logPath: log.path, sets: sets.map((set) => pickFrom(set, tasks)), tasks, config, account };
    } catch (error) {
      run.update({ status: error instanceof Stopped ? "stopped" : "failed", finished: new Date().toISOString() });
      throw error;
    } finally {
      log.close();
      run.close();
    }
  } finally {
    await python?.close();
  }
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
  ],
  config: benchConfig,
  async run(given, context): Promise<RunResult> {
    const played = await playIntoFolder("bench", given, context);
    if ("text" in played) return played;
    const { dir, logPath, sets, config, account } = played;
    const rows = judgeSplits(sets, readTrajectories(logPath), config.repeat);
    writeJson(
      join(dir, "summary.json"),
      rows.map(({ label, judged }) => ({ split: label, ...judged })),
    );
    const incomplete = rows.filter(({ judged }) => !judged.complete);
    const lines = [
      `${config.policy} on ${rows[0]!.judged.env}, temperature ${modelOf(config.policy) ? config.temperature : "n/a"}, seed ${config.seed}`,
      "",
      judgementTable(rows),
      "",
      ...incomplete.map(
        ({ label, judged }) =>
          `INCOMPLETE: ${label} lacks ${judged.missing.length} of ${judged.tasks * judged.trials} episodes (${judged.invalid} failed).`,
      ),
      `log: ${logPath}`,
    ];
    const extra = account ? { tokens_per_s: Math.round(account.policy_tokens / Math.max(account.play_s, 1e-9)) } : {};
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
    "rollout --policy model:models/tiny --task-ids multi_ai3_tr1 --repeat 4",
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
        `log: ${played.logPath}`,
      ].join("\n"),
      json: [...rows, { log: played.logPath, episodes: rows.length }],
    };
  },
});
