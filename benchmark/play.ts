import { serveEpisodes } from "../src/bridge/episodes.ts";
import { type EntryResult, type EpisodeRequest, entries, type Sampling } from "../src/bridge/protocol.ts";
import { type Python, Stopped } from "../src/bridge/python.ts";
import type { Continuation, TaskSet } from "../src/core/env.ts";
import { errorText, UserError } from "../src/core/errors.ts";
import { type Policy, PolicyError } from "../src/core/policy.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import type { Progress } from "../src/metrics.ts";
import { scriptedPolicy } from "../src/policies/scripted.ts";
import { localPath } from "../src/recipes/shared.ts";
import { listenForStop, type Stop } from "./stop.ts";

// Plays episodes with a policy and writes their trajectories.

export interface PlayOptions {
  tasks: TaskSet;
  /** `model:<folder or hub id>`, one of the environment's own policies by name, as "gold", or any other policy itself. */
  policy: string | Policy;
  episodes: readonly EpisodeRequest[];
  log: { write(trajectory: Trajectory): void } | null;
  seed: number;
  max_turns: number | null;
  timeout_ms: number;
  progress: Progress;
  /** For `model:` policies. */
  model?: {
    python: Python;
    sampling: Sampling;
    batch_size: number;
    chat_template_kwargs: Record<string, unknown>;
    continuation: Continuation | null;
  };
}

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

/** Every episode that has begun is finished and written, however the play ends. */
async function playEpisodes(options: PlayOptions, policy: Policy): Promise<void> {
  const { episodes, log, progress } = options;
  const stop = listenForStop({ dear: policy.remote, tell: progress.line });
  let next = 0;
  let written = 0;
  let invalid = 0;
  let failure: { error: unknown } | null = null;

  function write(trajectory: Trajectory): void {
    log?.write(trajectory);
    written++;
    if (trajectory.reward === null) invalid++;
    if (policy.remote)
      progress.status(`${written} of ${episodes.length} episodes${invalid > 0 ? `, ${invalid} failed` : ""}`);
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
        for (const trajectory of await Promise.all(played)) write(trajectory);
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

/** @param refuse told what no other episode could do better with; this one still ends, as invalid */
async function playEpisode(
  { tasks, max_turns, timeout_ms }: PlayOptions,
  policy: Policy,
  { task_id, seed, trial }: EpisodeRequest,
  { signal }: Stop,
  refuse: (error: UserError) => void,
): Promise<Trajectory> {
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
      const turn = await player.reply(episode.messages, signal);
      if ("text" in turn) await episode.reply(turn.text);
      else episode.end("truncated", turn.ended);
    } catch (error) {
      if (error instanceof UserError) refuse(error);
      episode.end(error instanceof PolicyError ? error.ended_by : "error", `policy: ${errorText(error)}`);
    }
  }
  const trajectory = await episode.finish(player.tokens());
  return { ...trajectory, metrics: { ...trajectory.metrics, ...player.metrics() } };
}
