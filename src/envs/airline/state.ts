import { type DataState, startState } from "./data/state.ts";
import type { AirlineFacts } from "./facts.ts";
import type { DialogueLog } from "./protocol/turn.ts";
import type { UserSimulator, UserState, WriteCall } from "./users/index.ts";

/** An end of an episode, and what it pays. */
export interface PaidEnd {
  by: NonNullable<AirlineFacts["terminated_by"]>;
  outcome: 0 | 1;
  /** What scoring.strict_refusal would pay. */
  strict: 0 | 1;
}

/** An episode. A value: each turn gives the next one. */
export interface AirlineState {
  readonly data: DataState;
  readonly log: DialogueLog;
  readonly user: UserState;
  /** Who answers: holds connections, and nothing of the episode. Given back when the episode is closed. */
  readonly simulator: UserSimulator;
  /** Writes that succeeded since the user spoke last. */
  readonly writes: readonly WriteCall[];
  /** What the agent said to the user. */
  readonly said: readonly string[];
  /** Messages of the user that the agent saw. */
  readonly user_turns: number;
  /** Calls that changed the data. */
  readonly changes: number;
  /** Calls that reached no tool: nobody knows their name, or their arguments are no object. */
  readonly refused_calls: number;
  /** One at most, but for `done_latch: false`. */
  readonly ends: readonly PaidEnd[];
}

export function beginState(
  db: DataState["db"],
  start: Pick<AirlineState, "log" | "user" | "simulator" | "user_turns">,
): AirlineState {
  return { ...start, data: startState(db), writes: [], said: [], changes: 0, refused_calls: 0, ends: [] };
}
