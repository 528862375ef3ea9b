import type { TerminatedBy, TurnFacts } from "./protocol/turn.ts";

/** What a turn's record tells beside the reply: `outcome.payload` of every turn of this family. */
export interface AirlineFacts extends TurnFacts {
  /** What the agent said to the user, without its thinking; null: it said nothing to them. */
  said: string | null;
  /** What the user answered; null: nobody was asked. */
  user: string | null;
  /** Why the episode ended with this turn; null: it goes on. */
  terminated_by: Extract<TerminatedBy, "stop" | "transfer" | "contaminated" | "loop" | "context"> | null;
  /** Names that no tool has, of calls in this turn. */
  unknown_tools: readonly string[];
}

/**
 * The scorer's metrics of an episode. Counts are over the whole episode. Beside these there are `prm_<rule>`: what each
 * rule of section 8.3 contributed to the process score before clipping, and `hack_<pattern>`: see evaluation/hacking.ts.
 */
export interface AirlineMetrics {
  terminated_by: TerminatedBy;
  /** As the reference counts (7.5): `countTurns`. */
  num_turns: number;
  /** Messages of the user that the agent saw. */
  user_turns: number;
  /** Calls that reached a tool. */
  num_tool_calls: number;
  /** Calls answered by "Error…" or "Unknown action …". */
  tool_errors: number;
  malformed: number;
  repaired: number;
  extra_calls: number;
  transferred: boolean;
  /** Calls that changed the data. */
  writes: number;
  /** The task asks for a write or an output: doing nothing does not solve it. */
  needs_action: boolean;
  /** What scoring.strict_refusal would pay. */
  strict: boolean;
  process_mean: number;
  process_adjustments: number;
}
