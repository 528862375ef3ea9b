import type { Message } from "./message.ts";

/**
 * How an episode ended. `terminated`: by the task's own rules. `truncated`: by our limits (turns, tokens).
 * `error`, `timeout`: the environment failed, or the endpoint that the policy is behind; such a rollout carries no reward
 * and is counted, never scored as 0.
 */
export type EndedBy = "terminated" | "truncated" | "error" | "timeout";

/** What became of one reply. Rewards read this, never the text of an observation. */
export interface Outcome {
  /** `fallback`: the environment had to make something up, which must never count as success. */
  kind: "ok" | "tool_error" | "parse_error" | "fallback" | "terminal";
  /** What the tool gave back, or the family's own facts about the reply. */
  payload?: unknown;
  /** The observation as the policy reads it; "" after a terminal reply. */
  text: string;
}

/** One turn: the policy's reply, how it was read, and what came of it. */
export interface Turn {
  reply: string;
  thought: string;
  /** The call as it was read; null: the reply held none (it finished, or could not be read). */
  action: { name: string; args: Record<string, unknown> } | null;
  outcome: Outcome;
}

/** Tokens of one episode. */
export interface TokenUsage {
  prompt: number;
  /** Sampled by the policy. */
  policy: number;
  /** Written by the environment and the template. */
  observation: number;
}

/** Everything about one episode: a line of a trajectory log. */
export interface Trajectory {
  /** Environment id with its version, as "arxiv@1". */
  env: string;
  task_id: string;
  seed: number;
  /** Which of a group's rollouts, or which trial of a benchmark; counts from 0. */
  trial: number;
  /** Who played: "model:…", "gold", a baseline's name. */
  policy: string;
  /** Optimizer steps the policy had taken; null outside training. */
  policy_step: number | null;
  messages: Message[];
  turns: Turn[];
  ended_by: EndedBy;
  /** Why, for `truncated` ("turns", "tokens"), `error` and `timeout`. */
  ended_why: string | null;
  /** null: the rollout is invalid (`error`, `timeout`). */
  reward: number | null;
  /** Every reward component, before weights. null: the task gives it nothing to judge. */
  parts: Record<string, number | null>;
  metrics: Record<string, number | boolean | string | null>;
  /** The family's main yes-or-no: what pass^k counts. */
  success: boolean;
  /** What single replies earned, one each, where the environment says so. */
  turn_scores?: number[];
  tokens: TokenUsage;
  /** Wall-clock time in the environment, milliseconds; null in a benchmark's log, whose times stand in timing.jsonl. */
  env_ms: number | null;
}
