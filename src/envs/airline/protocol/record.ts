import type { Message } from "../../../core/message.ts";
import type { ActionRecord } from "../prm/records.ts";
import type { ProtocolEnd } from "./turn.ts";

/** How an episode of this family ended (airline.md 7.4). Only `stop` and `transfer` are the task's own ends. */
export type TerminatedBy = "stop" | "transfer" | "max_turns" | "max_tokens" | ProtocolEnd | "error";

/** One played task: a line of a collection or a report. Its keys are those it has on disk. */
export interface AirlineTrajectory {
  task_id: string;
  /** Which of the task's rollouts, from 0. */
  sample: number;
  seed: number;
  split: string;
  success: boolean;
  /** 0 or 1. */
  outcome: number;
  /** The process score, [-0.5, 0.5]. */
  process: number;
  reward: number;
  /** Replies and what answered them, and the first message: `countTurns`. */
  num_turns: number;
  num_tool_calls: number;
  terminated_by: TerminatedBy;
  error: string | null;
  /** What failed was an endpoint or the machine, not the policy: no sample to learn from. */
  infra: boolean;
  messages: Message[];
  actions: ActionRecord[];
  /** Tokens of each reply, where they are known. */
  turn_tokens: number[];
  /** Calls that could not be read, and calls of a message beyond those that are run. */
  malformed: number;
  extra_calls: number;
}

/**
 * Turns of a dialogue as the reference counts them (7.5): each reply is one, each batch of messages that answers is one,
 * and one more. 15 replies with 14 answers make 30.
 */
export function countTurns(messages: readonly Message[]): number {
  const first = messages.findIndex(({ role }) => role === "assistant");
  if (first < 0) return 1;
  const later = messages.slice(first);
  const begins = later.filter(
    ({ role }, index) => role === "assistant" || index === 0 || later[index - 1]!.role === "assistant",
  );
  return begins.length + 1;
}
