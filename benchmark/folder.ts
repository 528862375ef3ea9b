import { join } from "node:path";
import type { ChatRequest } from "../src/bridge/protocol.ts";
import { Stopped, startPython } from "../src/bridge/python.ts";
import type { Env, TaskSet } from "../src/core/env.ts";
import { errorText, nearest, UserError } from "../src/core/errors.ts";
import { pickTasks } from "../src/core/task-choice.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { loadEnv } from "../src/envs/index.ts";
import type { RunContext, RunResult } from "../src/recipes/recipe.ts";
import {
  chatOf,
  describePython,
  dryRun,
  longestGold,
  modelProblems,
  preflight,
  refuse,
  requireFree,
  samplingOf,
  turnProblems,
} from "../src/recipes/shared.ts";
import { freeName, openRun, type RunFolder, reopenRun } from "../src/run-folder.ts";
import { openJsonLines, openTrajectoryLog } from "../src/trajectory-log.ts";
import { accountLine, isApi, type OpenApi, openApi } from "./api.ts";
import { type PlayConfig, refuseIgnored, withModelsOptions } from "./config.ts";
import { type EpisodeTimes, modelOf, play } from "./play.ts";
import {
  healLog,
  keyOf,
  type LogState,
  modelFiles,
  orderLines,
  readLog,
  readResumed,
  refuseChanged,
  restOf,
} from "./resume.ts";
import { joinTaskSets, pickCategories, pickFrom, planTrials } from "./tasks.ts";
import { healTimes, type Sitting, TIMES_FILE, type TimedEpisode } from "./timing.ts";

// Plays into a run's folder: everything is checked first, then the log is written, an episode a line.

export interface Played {
  run: RunFolder;
  logPath: string;
  env: Env;
  sets: TaskSet[];
  tasks: TaskSet;
  config: PlayConfig;
  /** What the policy itself counted, for --json. */
  extra: Record<string, unknown>;
  /** The same for people. */
  lines: string[];
}

/** Checks, plays, and leaves a run folder with the log. A RunResult: it was only to be checked. */
export async function playIntoFolder(
  recipe: "bench" | "rollout",
  given: PlayConfig,
  context: RunContext,
): Promise<Played | RunResult> {
  const { progress } = context;
  const resumed = given.resume ? readResumed(given, context.given) : null;
  let config = resumed ? resumed.config : withModelsOptions(given, context.given, progress);
  if (!resumed && !config.thinking)
    config = { ...config, chat_template_kwargs: { ...config.chat_template_kwargs, enable_thinking: false } };
  const env = await loadEnv(config.env);
  const splits = config.split ?? [env.splits[0]!];
  // An empty shell variable must not mean every task.
  if (context.given.has("task_ids") && config.task_ids.length === 0)
    throw new UserError("task_ids is empty; expected ids, separated by commas. Leave it out to play all tasks.");
  const twice = splits.find((split, index) => splits.indexOf(split) !== index);
  if (twice !== undefined) throw new UserError(`split names '${twice}' twice.`);
  const loaded = await Promise.all(splits.map((split) => env.load(split, config.env_options)));
  const tasks = pickCategories(pickTasks(joinTaskSets(loaded), config.task_ids), config.categories);
  refuseIgnored(config.policy, context.given);
  const model = modelOf(config.policy);
  checkPolicy(config, env, model, tasks);
  const chat = chatOf(env, config);

  const recorded = [context.command, JSON.stringify(config)];
  const wanted = resumed && given.policy === "api:" && context.given.has("policy") ? given.policy : config.policy;
  const api = isApi(wanted)
    ? openApi({ ...config, policy: wanted }, { stop: env.stop, tools: chat.tools, given: context.given, recorded })
    : null;
  const policy = api?.policy.name ?? config.policy;
  const identity = { policy, env: env.id, data: tasks.sources, model_files: modelFiles(model) };
  if (resumed) refuseChanged(resumed, identity);
  config = { ...config, policy };
  const dir = resumed?.dir ?? folderFor(recipe, config);
  if (!resumed) requireFree(dir);

  const plan = planTrials(tasks.ids, config.repeat, config.seed);
  const logPath = join(dir, "trajectories", "rank-0.jsonl");
  const batch_size = model === null ? null : config.batch_size;
  const finished = resumed !== null && restOf(plan, readLog(logPath, plan), batch_size).episodes.length === 0;
  const python = model === null || finished ? null : await startPython({ interpreter: config.python ?? undefined });
  try {
    if (python && model !== null) await checkModel(python, model, tasks, config, chat, context);
    if (context.dry_run) return dryRun(recipe, config);
    const run = resumed
      ? reopenRun(dir)
      : openRun({
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
            ...(model === null ? {} : { model_files: identity.model_files }),
            ...(api ? { endpoint: api.endpoint } : {}),
          },
        });
    const begun = { ms: performance.now(), at: new Date().toISOString() };
    let logs: Logs | null = null;
    try {
      const before = readLog(logPath, plan);
      const { episodes, batches } = restOf(plan, before, batch_size);
      logs = openLogs(run, logPath, before, recipe === "bench");
      progress.line(
        resumed
          ? `${config.policy} goes on: ${before.kept.size} of ${plan.length} episodes are there, ${episodes.length} are played`
          : `${config.policy} plays ${tasks.ids.length} tasks of ${splits.join(", ")}, ${config.repeat} times each`,
      );
      const account =
        episodes.length === 0
          ? {}
          : await play({
              tasks,
              policy: api?.policy ?? config.policy,
              episodes,
              log: logs,
              seed: config.seed,
              max_turns: config.max_turns,
              timeout_ms: config.episode_timeout_ms,
              progress,
              model: python
                ? {
                    python,
                    sampling: samplingOf(config),
                    batch_size: config.batch_size,
                    batches,
                    chat,
                  }
                : undefined,
            });
      logs.close();
      if (recipe === "bench") orderLines(logPath, plan);
      const sitting: Sitting = {
        command: context.command,
        started: begun.at,
        wall_s: (performance.now() - begun.ms) / 1000,
        episodes: episodes.length,
        ...account,
        ...asked(api),
      };
      const { details } = run.manifest;
      const sittings = [...((details.sittings as Sitting[] | undefined) ?? []), ...(finished ? [] : [sitting])];
      run.update({
        status: "stopped" in account && account.stopped ? "stopped" : "completed",
        finished: new Date().toISOString(),
        details: { ...details, ...account, ...(finished ? {} : asked(api)), sittings },
      });
      return {
        run,
        logPath,
        env,
        sets: loaded.map((set) => pickFrom(set, tasks)),
        tasks,
        config,
        extra: { ...speedOf(account), ...asked(api) },
        lines: api && !finished ? [accountLine(api.account())] : [],
      };
    } catch (error) {
      run.update({
        status: error instanceof Stopped ? "stopped" : "failed",
        finished: new Date().toISOString(),
        details: { ...run.manifest.details, error: errorText(error), ...asked(api) },
      });
      if (error instanceof Stopped) {
        progress.line(`log: ${logPath}`);
        if (recipe === "bench") progress.line(`to go on: ${resumeCommand(run.dir, config)}`);
      }
      throw error;
    } finally {
      logs?.close();
      run.close();
    }
  } finally {
    api?.close();
    await python?.close();
  }
}

/** The command that goes on with a benchmark. */
export function resumeCommand(dir: string, { runs_dir }: PlayConfig): string {
  return `trestle bench --resume --name ${dir.split("/").at(-1)}${runs_dir === "runs" ? "" : ` --runs-dir ${runs_dir}`}`;
}

function checkPolicy(config: PlayConfig, env: Env, model: string | null, tasks: TaskSet): void {
  if (model === null && !isApi(config.policy) && !env.policies.includes(config.policy)) {
    const near = nearest(config.policy, env.policies);
    throw new UserError(
      `policy is '${config.policy}'${near ? `; did you mean '${near}'?` : "."} Expected model:<folder or hub id>, ` +
        `api:<model>, or one of ${env.policies.join(", ")}.`,
    );
  }
  if (model !== null) refuse(modelProblems(model));
  if (model !== null || isApi(config.policy)) refuse(turnProblems(tasks, config.max_turns));
  if (isApi(config.policy) && env.continuation(config.env_options))
    throw new UserError(
      `env_options ask for the continuation style, but the policy '${config.policy}' is behind an API, which takes ` +
        "whole messages only. Play it in the chat style, or as model:<folder or hub id>.",
    );
}

function folderFor(recipe: string, { runs_dir, name, policy }: PlayConfig): string {
  const stem = `${recipe}-${policy.replace(/^model:|\/final$/g, "").replace(/\W+/g, "-")}`;
  return join(runs_dir, name ?? freeName(runs_dir, stem));
}

async function checkModel(
  python: Awaited<ReturnType<typeof startPython>>,
  model: string,
  tasks: TaskSet,
  config: PlayConfig,
  chat: ChatRequest,
  context: RunContext,
): Promise<void> {
  const gold = await longestGold(tasks);
  const { max_turn_tokens, max_episode_tokens, max_context_tokens } = config;
  const budgets = { max_turn_tokens, max_episode_tokens, max_context_tokens, max_length: null };
  await preflight(python, { recipe: "play", model, trainer: {}, lora: null, ...chat, gold, budgets }, context);
}

interface Logs {
  write(trajectory: Trajectory, times: EpisodeTimes): void;
  close(): void;
}

/** A benchmark's log has no times: they have a file of their own, so that the same play leaves the same bytes. */
function openLogs(run: RunFolder, logPath: string, before: LogState, apart: boolean): Logs {
  healLog(logPath, before);
  const log = openTrajectoryLog(logPath);
  if (!apart) return log;
  const timesPath = run.path(TIMES_FILE);
  healTimes(timesPath, before.kept);
  const times = openJsonLines<TimedEpisode>(timesPath);
  return {
    write(trajectory, took) {
      if (before.kept.has(keyOf(trajectory))) return; // of a batch that had to be played again
      times.write({ task_id: trajectory.task_id, trial: trajectory.trial, ...took });
      log.write({ ...trajectory, env_ms: null });
    },
    close() {
      log.close();
      times.close();
    },
  };
}

const asked = (api: OpenApi | null) => (api ? { api: api.account() } : {});

/** Tokens a second of a local model. */
function speedOf(account: Awaited<ReturnType<typeof play>>): Record<string, unknown> {
  return "policy_tokens" in account
    ? { tokens_per_s: Math.round(account.policy_tokens / Math.max(account.play_s, 1e-9)) }
    : {};
}
