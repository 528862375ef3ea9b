import { setMaxListeners } from "node:events";
import type { z } from "zod";
import type { TaskSet } from "../core/env.ts";
import type { Episode } from "../core/episode.ts";
import { GuardError, nearest } from "../core/errors.ts";
import type { Score } from "../core/reward.ts";
import { describeIssues } from "../core/tool.ts";
import type { EndedBy, Trajectory, Turn } from "../core/trajectory.ts";
import { type Op, type OpAnswer, type OpPayload, ops, type Purpose } from "./protocol.ts";

/** Tasks to be played, and where their finished episodes are written; null: nowhere. */
export interface Served {
  tasks: TaskSet;
  log: { write(trajectory: Trajectory): void } | null;
  /** Overrides the turn budget of the run; null: the environment's. Left out: the run's. */
  max_turns?: number | null;
}

export interface ServeOptions {
  /** null: training plays no episodes, as SFT; it only logs. */
  tasks: TaskSet | null;
  log: Served["log"];
  /** Episodes that teach nothing: their tasks may be of another split, and they count in no counter. */
  exams?: Partial<Record<Exclude<Purpose, "training">, Served>>;
  /** The environment's time for one episode, milliseconds; core's default where it is left out. */
  timeout_ms?: number;
  /** Overrides the environment's turn budget. */
  max_turns?: number;
  /**
   * Share of a step's rollouts that may fail (`error`, `timeout`) before `finish` raises, 0 to 1; outside training, of
   * a batch's. A single failure among others never stops a run: in a batch of four it would already be a quarter.
   */
  max_invalid_share?: number;
  /** Stops every episode. */
  signal?: AbortSignal;
  onLog?(step: number, metrics: Record<string, number>): void;
  onNote?(text: string): void;
  /** A checkpoint was written: brings the logs to the disk and says where they end. */
  onCheckpoint?(step: number): Record<string, number>;
  /** What was counted before the run was interrupted, as `counters` gave it. */
  counters?: Partial<EpisodeCounters>;
}

export interface EpisodeCounters {
  started: number;
  finished: number;
  open: number;
  invalid: number;
  successes: number;
  ended_by: Record<EndedBy, number>;
  turns: number;
  policy_tokens: number;
  /** Wall-clock time spent answering, milliseconds; what the bridge itself took is Python's `ask_s` minus this. */
  answer_ms: number;
  /** Time in environments, milliseconds, added up over episodes that ran concurrently. */
  env_ms: number;
}

export interface EpisodeServer {
  /** Answers one question of Python's. @throws Error that says which entry of which question is wrong. */
  answer(op: string, payload: unknown): Promise<unknown>;
  counters(): EpisodeCounters;
  /** Ends and closes every episode that is still open; to be called once the run is over, however it ended. */
  closeAll(): Promise<void>;
}

/** All batches that were started at one policy step (dynamic sampling plays several); outside training a single one. */
interface Batch {
  purpose: string;
  policy_step: number | null;
  size: number;
  invalid: number;
  firstError: string | null;
}

interface OpenEpisode {
  episode: Episode;
  purpose: Purpose;
  batch: Batch;
}

/** Plays the episodes of a run: answers `start`, `step` and `finish`, a whole batch a crossing, its members concurrently. */
export function serveEpisodes(options: ServeOptions): EpisodeServer {
  const { exams = {} } = options;
  const training = options.tasks && { tasks: options.tasks, log: options.log };
  const served: Partial<Record<Purpose, Served>> = { ...exams, ...(training && { training }) };
  const maxInvalidShare = options.max_invalid_share ?? 0.2;
  const stop = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
  setMaxListeners(0, signal); // every episode of a batch listens
  const open = new Map<number, OpenEpisode>();
  const running = new Set<Promise<unknown>>();
  let nextHandle = 1;
  let latest: Batch | null = null;
  const counters: EpisodeCounters = {
    started: 0,
    finished: 0,
    invalid: 0,
    successes: 0,
    ended_by: { terminated: 0, truncated: 0, error: 0, timeout: 0 },
    turns: 0,
    policy_tokens: 0,
    answer_ms: 0,
    env_ms: 0,
    ...options.counters,
    open: 0,
  };

  async function start({ purpose, policy_step, policy, episodes }: OpPayload<"start">): Promise<OpAnswer<"start">> {
    const { tasks, max_turns = options.max_turns ?? null } = served[purpose] ?? {};
    if (!tasks) throw new Error(`start: this run plays no episodes for ${purpose}`);
    const known = new Set(tasks.ids);
    episodes.forEach(({ task_id }, row) => {
      if (known.has(task_id)) return;
      const near = nearest(task_id, tasks.ids);
      throw new Error(
        `start: row ${row} asks for task '${task_id}', which split ${tasks.split} of ${tasks.env_id} does not have` +
          (near ? `; nearest: '${near}'.` : "."),
      );
    });
    if (stop.signal.aborted) throw new Error("start: the run was stopped");
    if (latest === null || policy_step === null || latest.policy_step !== policy_step || latest.purpose !== purpose)
      latest = { purpose, policy_step, size: 0, invalid: 0, firstError: null };
    const batch = latest;
    batch.size += episodes.length;
    const opened = await Promise.all(
      episodes.map(async ({ task_id, seed, trial }) => {
        const handle = nextHandle++;
        const episode = await tasks.start(task_id, {
          seed,
          trial,
          policy,
          policy_step,
          max_turns: max_turns ?? undefined,
          timeout_ms: options.timeout_ms,
          signal,
        });
        open.set(handle, { episode, purpose, batch });
        if (purpose === "training") counters.started++;
        return { handle, episode };
      }),
    );
    return {
      episodes: opened.map(({ handle, episode }) => ({
        handle,
        messages: [...episode.messages],
        done: episode.ended_by !== null,
        max_turns: max_turns ?? tasks.max_turns(episode.task_id),
      })),
    };
  }

  /** The episodes of a question, each handle open and named once. */
  function find(op: string, handles: readonly number[]): OpenEpisode[] {
    const repeated = handles.find((handle, row) => handles.indexOf(handle) !== row);
    if (repeated !== undefined) throw new Error(`${op}: handle ${repeated} is named twice`);
    return handles.map((handle, row) => {
      const found = open.get(handle);
      if (!found) throw new Error(`${op}: row ${row} names handle ${handle}, which is not open (finished already?)`);
      return found;
    });
  }

  async function step({ episodes }: OpPayload<"step">): Promise<OpAnswer<"step">> {
    const found = find(
      "step",
      episodes.map(({ handle }) => handle),
    );
    found.forEach(({ episode }, row) => {
      if (episode.ended_by) throw new Error(`step: row ${row}, handle ${episodes[row]!.handle}, has ended already`);
    });
    const answers = await Promise.all(
      found.map(async ({ episode }, row) => {
        const { observations, done } = await episode.reply(episodes[row]!.reply);
        return { observations, done, ended_by: episode.ended_by };
      }),
    );
    return { episodes: answers };
  }

  async function finish({ episodes }: OpPayload<"finish">): Promise<OpAnswer<"finish">> {
    const found = find(
      "finish",
      episodes.map(({ handle }) => handle),
    );
    found.forEach(({ episode }, row) => {
      const { handle, ended } = episodes[row]!;
      if (!episode.ended_by && !ended)
        throw new Error(
          `finish: row ${row}, handle ${handle}, is still running and the question does not say why it ends`,
        );
    });
    const trajectories = await Promise.all(
      found.map(async ({ episode }, row) => {
        const { handle, ended, tokens } = episodes[row]!;
        if (ended) episode.end(ended.by, ended.why);
        open.delete(handle);
        return episode.finish(tokens);
      }),
    );
    regroup(trajectories, found);
    for (const [row, trajectory] of trajectories.entries()) record(trajectory, found[row]!);
    for (const batch of new Set(found.map(({ batch }) => batch))) refuseTooManyInvalid(batch);
    return {
      episodes: trajectories.map(({ reward, parts, metrics, success, ended_by, ended_why, turns, turn_scores }) => ({
        reward,
        parts,
        metrics: { ...metrics, ...errorRates(turns) },
        success,
        ended_by,
        ended_why,
        ...(turn_scores ? { turn_scores } : {}),
      })),
    };
  }

  /** Sets the rewards that hang on a whole group: the rollouts of one task and seed, which Python finishes together. */
  function regroup(trajectories: readonly Trajectory[], found: readonly OpenEpisode[]): void {
    const { group_rewards } = served.training?.tasks ?? {};
    if (!group_rewards) return;
    const groups = new Map<string, Trajectory[]>();
    for (const [row, trajectory] of trajectories.entries()) {
      if (found[row]!.purpose !== "training") continue;
      const key = `${trajectory.seed}/${trajectory.task_id}`;
      groups.set(key, [...(groups.get(key) ?? []), trajectory]);
    }
    for (const group of groups.values()) {
      const rewards = group_rewards(group.map(scoreOf));
      for (const [member, trajectory] of group.entries()) {
        const reward = rewards?.[member];
        if (trajectory.reward !== null && typeof reward === "number") trajectory.reward = reward;
      }
    }
  }

  function record(trajectory: Trajectory, { purpose, batch }: OpenEpisode): void {
    served[purpose]?.log?.write(trajectory);
    if (trajectory.reward === null) {
      batch.invalid++;
      batch.firstError ??= `task '${trajectory.task_id}': ${trajectory.ended_why}`;
    }
    if (purpose !== "training") return;
    counters.finished++;
    counters.ended_by[trajectory.ended_by]++;
    counters.turns += trajectory.turns.length;
    counters.policy_tokens += trajectory.tokens.policy;
    counters.env_ms += trajectory.env_ms ?? 0;
    if (trajectory.success) counters.successes++;
    if (trajectory.reward === null) counters.invalid++;
  }

  function refuseTooManyInvalid({ size, invalid, firstError }: Batch): void {
    if (invalid <= maxInvalidShare * size || (invalid === 1 && size > 1)) return;
    throw new GuardError(
      `${invalid} of ${size} rollouts of this step failed in the environment, more than the ${maxInvalidShare} ` +
        `that max_invalid_share allows. The first one: ${firstError}`,
    );
  }

  const handlers: { [Name in Op]: (payload: OpPayload<Name>) => Promise<OpAnswer<Name>> } = {
    start,
    step,
    finish,
    async log({ step, metrics }) {
      options.onLog?.(step, metrics);
      return {};
    },
    async checkpoint({ step }) {
      return { step, logs: options.onCheckpoint?.(step) ?? {}, counters: { ...snapshot() } };
    },
    async note({ text }) {
      options.onNote?.(text);
      return {};
    },
  };

  function snapshot(): EpisodeCounters {
    return { ...counters, ended_by: { ...counters.ended_by }, open: open.size };
  }

  async function answer(op: string, payload: unknown): Promise<unknown> {
    if (!Object.hasOwn(handlers, op))
      throw new Error(`Python asked '${op}'; the questions are ${Object.keys(handlers).join(", ")}`);
    const parsed = (ops[op as Op].payload as z.ZodType).safeParse(payload);
    if (!parsed.success) throw new Error(`${op}: ${describeIssues(parsed.error)}`);
    const begin = performance.now();
    const work = (handlers[op as Op] as (payload: unknown) => Promise<unknown>)(parsed.data);
    running.add(work);
    try {
      return await work;
    } finally {
      running.delete(work);
      counters.answer_ms += performance.now() - begin;
    }
  }

  return {
    answer,
    counters: snapshot,
    async closeAll() {
      stop.abort();
      await Promise.allSettled(running);
      const left = [...open.values()];
      open.clear();
      await Promise.all(
        left.map(async (entry) => {
          entry.episode.end("error", "the run was stopped");
          record(await entry.episode.finish(), entry);
        }),
      );
    },
  };
}

function scoreOf({ reward, parts, metrics, success }: Trajectory): Score | null {
  return reward === null ? null : { reward, parts, metrics, success };
}

/** Shares of an episode's turns that could not be read, or whose tool refused: curves that every family has. */
function errorRates(turns: readonly Turn[]): { parse_error_rate: number; tool_error_rate: number } {
  const rate = (kind: Turn["outcome"]["kind"]) =>
    turns.filter(({ outcome }) => outcome.kind === kind).length / Math.max(turns.length, 1);
  return { parse_error_rate: rate("parse_error"), tool_error_rate: rate("tool_error") };
}
