import type { Message } from "./message.ts";
import type { TokenUsage } from "./trajectory.ts";

/**
 * Who plays, a reply at a time: gold, a baseline, a model behind an API. A local model is none: it samples a whole batch
 * in Python and asks for the episodes itself.
 */
export interface Policy {
  /** As it stands in logs: "gold", "api:my-model". */
  name: string;
  /** Episodes that may be under way at a time. */
  parallel: number;
  /**
   * true: its replies take time and money, so each episode is logged when it ends. false: they are there at once, and
   * the log keeps the order of the plan.
   */
  remote: boolean;
  /** A player for one episode. What it does depends on the task, the trial and the policy's own seed alone. */
  start(episode: { task_id: string; trial: number }): Player;
}

/** A policy in one episode. */
export interface Player {
  /**
   * The next reply to the dialogue so far, or why the policy stops here: the episode then ends truncated.
   * @throws PolicyError where this rollout has failed: it is invalid, never scored as 0;
   *   UserError where no other rollout could do better: the run stops
   */
  reply(messages: readonly Message[], signal: AbortSignal): Promise<{ text: string } | { ended: string }>;
  /** Of the replies so far; zeros where nobody counts them. */
  tokens(): TokenUsage;
  /** Its own measures, beside the environment's. */
  metrics(): Record<string, number | null>;
}

/** The policy failed, not what it said: a trajectory ends by this and has no reward. */
export class PolicyError extends Error {
  override name = "PolicyError";
  readonly ended_by: "error" | "timeout";
  constructor(message: string, ended_by: "error" | "timeout" = "error") {
    super(message);
    this.ended_by = ended_by;
  }
}
