import { serveEpisodes } from "../src/bridge/episodes.ts";
import {
  type ChatRequest,
  type EntryResult,
  type EpisodeRequest,
  entries,
  type Sampling,
} from "../src/bridge/protocol.ts";
import { type Python, Stopped } from "../src/bridge/python.ts";
import type { TaskSet } from "../src/core/env.ts";
import { errorText, UserError } from "../src/core/errors.ts";
import { type Policy, PolicyError } from "../src/core/policy.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { type Progress, progressBar } from "../src/metrics.ts";
import { scriptedPolicy } from "../src/policies/scripted.ts";
import { localPath } from "../src/recipes/shared.ts";
import { listenForStop, type Stop } from "./stop.ts";

// Plays episodes with a policy and writes their trajectories.

export interface PlayOptions {
  tasks: TaskSet;
  /** `model:<folder or hub id>`, one of the environment's own policies by name, as "gold", or any other policy itself. */
  policy: string | Policy;
  episodes: readonly EpisodeRequest[];
  log: { write(trajectory: Trajectory, times: EpisodeTimes): void } | null;
  seed: number;
  max_turns: number | null;
  timeout_ms: number;
  progress: Progress;
  /** For `model:` policies. */
  model?: ModelOptions;
}

export interface ModelOptions {
  python: Python;
  sampling: Sampling;
  /** Episodes that are played at a time. */
  batch_size: number;
  /** The episodes in batches made otherwise. */
  batches?: EpisodeRequest[][];
  chat: ChatRequest;
}

/** Wall-clock times of one episode, milliseconds; null: not known. Others were under way meanwhile. */
export interface EpisodeTimes {
  total_ms: number | null;
  /** Waiting for the policy's replies. */
  policy_ms: number | null;
  env_ms: number | null;
}

/** Without a word until then where the policy takes no time of its own. */
const QUIET_MS = 2_000;

/** null: the policy is not a local model. */
export function modelOf(policy: string): string | null {
  return policy.startsWith("model:") ? localPath(policy.slice("model:".length)) : null;
}

/**
 * Plays the episodes and writes their trajectories. Result: Python's account; {} for policies without a local model.
 * @throws Stopped where a Ctrl-C came before the last episode; UserError, of a policy for which no episode could be played
 */
export async function play(options: PlayOptions): Promise<EntryResult<"play"> | Record<string, never>> {
  const { tasks, policy, episodes, seed, progress } = options;
  const model = typeof policy === "string" ? modelOf(policy) : null;
  if (model === null) {
    await playEpisodes(options, typeof policy === "string" ? scriptedPolicy(policy, tasks, seed) : policy);
    return {};
  }
  const began_ms = performance.now();
  let finished = 0;
  const served = serveEpisodes({
    tasks,
    log: {
      write(trajectory) {
        options.log?.write(trajectory, { total_ms: null, policy_ms: null, env_ms: trajectory.env_ms });
        progress.status(progressBar(++finished, episodes.length, "episodes", began_ms));
      },
    },
    max_turns: options.max_turns ?? undefined,
    timeout_ms: options.timeout_ms,
    max_invalid_share: 1, // failures are told in the result; what was played is not thrown away
    onNote: progress.line,
  });
  const { python, batch_size, batches = inBatches(episodes, batch_size), chat, sampling } = options.model!;
  try {
    const request = entries.play.request.parse({ model, policy, seed, batches, ...chat, sampling });
    return entries.play.result.parse(await python.call("play", request, { answer: served.answer }));
  } finally {
    await served.closeAll();
    progress.end();
  }
}

export function inBatches<Item>(items: readonly Item[], size: number): Item[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
}

/** Every episode that has begun is finished and written, however the play ends. */
async function playEpisodes(options: PlayOptions, policy: Policy): Promise<void> {
  const { episodes, log, progress } = options;
  const stop = listenForStop({ dear: policy.remote, tell: progress.line });
  let next = 0;
  let written = 0;
  let invalid = 0;
  let failure: { error: unknown } | null = null;
  const began_ms = performance.now();

  function write({ trajectory, times }: Timed): void {
    log?.write(trajectory, times);
    written++;
    if (trajectory.reward === null) invalid++;
    if (policy.remote || performance.now() - began_ms > QUIET_MS)
      progress.status(
        progressBar(written, episodes.length, `episodes${invalid > 0 ? `, ${invalid} failed` : ""}`, began_ms),
      );
  }
  const refuse = (error: unknown) => {
    failure ??= { error };
    stop.abort();
  };

  /** Plays one episode after the other, as long as there are some. */
  async function work(): Promise<void> {
    while (next < episodes.length && !failure && stop.asked === null) {
      const request = episodes[next++]!;
      try {
        write(await playEpisode(options, policy, request, stop, refuse));
      } catch (error) {
        refuse(error);
      }
    }
  }

  try {
    if (policy.remote) await Promise.all(Array.from({ length: policy.parallel }, work));
    else
      while (next < episodes.length && !failure && stop.asked === null) {
        const batch = episodes.slice(next, next + policy.parallel);
        next += batch.length;
        const played = batch.map((request) => playEpisode(options, policy, request, stop, refuse));
        for (const timed of await Promise.all(played)) write(timed);
      }
  } finally {
    stop.close();
    progress.end();
  }
  if (failure) throw (failure as { error: unknown }).error;
  if (stop.asked && (written < episodes.length || stop.signal.aborted))
    throw new Stopped(
      stop.asked,
      `Stopped by ${stop.asked}; what was played is in the log. It has ${written} of ${episodes.length} episodes.`,
    );
}

interface Timed {
  trajectory: Trajectory;
  times: EpisodeTimes;
}

/** @param refuse told what no other episode could do better with; this one still ends, as invalid */
async function playEpisode(
  { tasks, max_turns, timeout_ms }: PlayOptions,
  policy: Policy,
  { task_id, seed, trial }: EpisodeRequest,
  { signal }: Stop,
  refuse: (error: UserError) => void,
): Promise<Timed> {
  const began_ms = performance.now();
  let policy_ms = 0;
  const player = policy.start({ task_id, trial });
  const episode = await tasks.start(task_id, {
    seed,
    trial,
    policy: policy.name,
    max_turns: max_turns ?? undefined,
    timeout_ms,
    signal,
  });
  while (!episode.ended_by) {
    try {
      const asked_ms = performance.now();
      const turn = await player.reply(episode.messages, signal).finally(() => {
        policy_ms += performance.now() - asked_ms;
      });
      if ("text" in turn) await episode.reply(turn.text);
      else episode.end("truncated", turn.ended);
    } catch (error) {
      if (error instanceof UserError) refuse(error);
      episode.end(error instanceof PolicyError ? error.ended_by : "error", `policy: ${errorText(error)}`);
    }
  }
  const trajectory = await episode.finish(player.tokens());
  return {
    trajectory: { ...trajectory, metrics: { ...trajectory.metrics, ...player.metrics() } },
    times: {
      total_ms: rounded(performance.now() - began_ms),
      policy_ms: rounded(policy_ms),
      env_ms: trajectory.env_ms,
    },
  };
}

const rounded = (ms: number): number => Math.round(ms * 1000) / 1000;
