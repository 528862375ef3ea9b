import type { EnvSpec, EpisodeContext, StepResult } from "./env.ts";
import { checkScore, checkStart, checkStep } from "./env-checks.ts";
import { errorText } from "./errors.ts";
import type { Message } from "./message.ts";
import { createRandom } from "./random.ts";
import type { TaskBase } from "./task.ts";
import type { EndedBy, TokenUsage, Trajectory, Turn } from "./trajectory.ts";

export interface EpisodeOptions {
  seed: number;
  trial?: number;
  policy?: string;
  policy_step?: number | null;
  /** Overrides the environment's turn budget. */
  max_turns?: number;
  /** The environment's time for the whole episode, milliseconds of waiting for `reset` and `step`. */
  timeout_ms?: number;
  /** Stops the episode from outside; it then ends by `error`. */
  signal?: AbortSignal;
}

/** A task being played. The one loop behind training, benchmark and tests. */
export interface Episode {
  readonly task_id: string;
  readonly seed: number;
  /** The dialogue so far, the prompt first. */
  readonly messages: readonly Message[];
  /** null while it runs. */
  readonly ended_by: EndedBy | null;
  /** Plays one reply. Never throws for what the environment does: a failure ends the episode by `error` or `timeout`. */
  reply(text: string): Promise<{ observations: Message[]; done: boolean }>;
  /** Ends it from outside: the sampler ran out of tokens, say. Does nothing once it has ended. */
  end(by: EndedBy, why: string): void;
  /** Closes and scores it, ending it by `truncated` where it still runs. Calls after the first give the same record. */
  finish(tokens?: TokenUsage): Promise<Trajectory>;
}

export const DEFAULT_TIMEOUT_MS = 300_000;
/** A session that does not let go must not hold up its batch. */
const CLOSE_TIMEOUT_MS = 10_000;

export async function startEpisode<Task extends TaskBase, State, Options>(
  env: EnvSpec<Task, State, Options>,
  task: Task,
  envOptions: Options,
  options: EpisodeOptions,
): Promise<Episode> {
  const maxTurns = options.max_turns ?? (typeof env.max_turns === "number" ? env.max_turns : env.max_turns(task));
  const abort = new AbortController();
  const context: EpisodeContext<Options> = {
    options: envOptions,
    random: createRandom(options.seed),
    trial: options.trial ?? 0,
    signal: abort.signal,
  };
  // Not AbortSignal.any: on Node 20 it keeps 2 KB an episode for as long as the run's signal lives.
  const stop = () => abort.abort();
  if (options.signal?.aborted) stop();
  else options.signal?.addEventListener("abort", stop, { once: true });
  let timeLeft_ms = options.timeout_ms ?? DEFAULT_TIMEOUT_MS;
  let env_ms = 0;
  let state: State | undefined;
  let started = false;
  let ended: { by: EndedBy; why: string | null } | null = null;
  let record: Promise<Trajectory> | null = null;
  const messages: Message[] = [];
  const turns: Turn[] = [];

  function end(by: EndedBy, why: string | null): void {
    ended ??= { by, why };
  }

  /** Runs a part of the environment within the time left. null: it failed, and the episode has ended. */
  async function guarded<Result>(what: string, run: () => Result | Promise<Result>): Promise<Result | null> {
    const begin = performance.now();
    let timer: NodeJS.Timeout | undefined;
    let onAbort: (() => void) | undefined;
    try {
      const limit = new Promise<never>((_, reject) => {
        timer = setTimeout(() => {
          end("timeout", `${what} took longer than the ${options.timeout_ms ?? DEFAULT_TIMEOUT_MS} ms an episode has`);
          reject(new Error("timeout"));
        }, timeLeft_ms);
        onAbort = () => reject(new Error("the run was stopped"));
        if (options.signal?.aborted) onAbort();
        else options.signal?.addEventListener("abort", onAbort, { once: true });
      });
      return await Promise.race([Promise.resolve().then(run), limit]);
    } catch (error) {
      end("error", `${what}: ${errorText(error)}`); // no effect after a time-out
      return null;
    } finally {
      clearTimeout(timer);
      if (onAbort) options.signal?.removeEventListener("abort", onAbort);
      const took = performance.now() - begin;
      env_ms += took;
      timeLeft_ms = Math.max(0, timeLeft_ms - took);
      if (ended && (ended.by === "error" || ended.by === "timeout")) abort.abort();
    }
  }

  const resetting = Promise.resolve().then(() => env.reset(task, context));
  const start = await guarded("reset", async () => checkStart(await resetting));
  if (!start) resetting.then((late) => env.close?.(late.state)).catch(() => {}); // it came late or misshapen: give it back
  if (start) {
    state = start.state;
    started = true;
    messages.push(...start.messages);
  }

  async function close(): Promise<void> {
    options.signal?.removeEventListener("abort", stop);
    if (!started || !env.close) return;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`took longer than ${CLOSE_TIMEOUT_MS} ms`)), CLOSE_TIMEOUT_MS);
    });
    try {
      await Promise.race([env.close(state as State), limit]);
    } catch (error) {
      ended = { by: "error", why: `close: ${errorText(error)}` };
    } finally {
      clearTimeout(timer);
    }
  }

  async function finish(tokens: TokenUsage): Promise<Trajectory> {
    end("truncated", "tokens");
    await close();
    const { by, why } = ended as unknown as { by: EndedBy; why: string | null };
    const trajectory: Trajectory = {
      env: env.id,
      task_id: task.id,
      seed: options.seed,
      trial: options.trial ?? 0,
      policy: options.policy ?? "",
      policy_step: options.policy_step ?? null,
      messages,
      turns,
      ended_by: by,
      ended_why: why,
      reward: null,
      parts: Object.fromEntries(env.components.map(({ name }) => [name, null])),
      metrics: {},
      success: false,
      tokens,
      env_ms: Math.round(env_ms * 1000) / 1000,
    };
    if (by === "error" || by === "timeout") return trajectory;
    try {
      const score = env.score(
        {
          ...{ turns, final_state: state as State, ended_by: by, ended_why: why },
          training_step: options.policy_step ?? null,
        },
        task,
        envOptions,
      );
      return { ...trajectory, ...checkScore(score, env.components, turns.length) };
    } catch (error) {
      return { ...trajectory, ended_by: "error", ended_why: `score: ${errorText(error)}` };
    }
  }

  return {
    task_id: task.id,
    seed: options.seed,
    messages,
    get ended_by() {
      return ended?.by ?? null;
    },
    async reply(text) {
      if (ended || !started) return { observations: [], done: true };
      messages.push({ role: "assistant", content: text });
      const result: StepResult<State> | null = await guarded("step", async () =>
        checkStep(await env.step(state as State, text, context, task)),
      );
      if (!result) return { observations: [], done: true };
      if (ended) return { observations: [], done: true }; // ended from outside meanwhile
      state = result.state;
      turns.push({ reply: text, thought: result.thought, action: result.action, outcome: result.outcome });
      messages.push(...result.observations);
      if (result.terminated) end("terminated", null);
      else if (turns.length >= maxTurns) end("truncated", "turns");
      return { observations: result.observations, done: ended !== null };
    },
    end,
    finish(tokens = { prompt: 0, policy: 0, observation: 0 }) {
      record ??= finish(tokens);
      return record;
    },
  };
}
