import type { AirlineFacts } from "./facts.ts";
import type { AirlineOptions } from "./options.ts";
import { goldState, outcomeOf } from "./scoring.ts";
import type { AirlineState, PaidEnd } from "./state.ts";
import type { AirlineTask } from "./tasks/task.ts";

// The end of an episode, and the latch behind it (airline.md 4.5). What the original does instead is all in this file:
// nothing there stops actions after the end, and its scorer leaves the gold data in place of the episode's own. So the
// second end compares gold with gold and pays 1, on every task without outputs. `done_latch: false` plays like that: a
// transfer ends nothing, and what the ends pay adds up. It is there to show the hole and to compare, never to train.

/** An action after the end of its episode. Whoever sends one has lost track of the episode. */
export class EpisodeEnded extends Error {
  override name = "EpisodeEnded";
  constructor() {
    super("the episode has ended");
  }
}

/** @throws EpisodeEnded where the latch holds */
export function refuseAfterEnd({ ends }: AirlineState, { done_latch }: AirlineOptions): void {
  if (done_latch && ends.length > 0) throw new EpisodeEnded();
}

/** Whether an end of this kind is the last thing that happens. */
export function isFinal(by: PaidEnd["by"], { done_latch }: AirlineOptions): boolean {
  return done_latch || by !== "transfer";
}

/** The state once it has come to an end: what that pays is settled here and never computed again. */
export function atEnd(
  state: AirlineState,
  by: NonNullable<AirlineFacts["terminated_by"]>,
  task: AirlineTask,
  options: AirlineOptions,
): AirlineState {
  const end = { data: state.data, said: state.said, calls: state.log.records, terminated_by: by };
  const outcome = outcomeOf(task, end, options.scoring);
  const strict = outcomeOf(task, end, { ...options.scoring, strict_refusal: true });
  const ended = { ...state, ends: [...state.ends, { by, outcome, strict }] };
  return options.done_latch ? ended : { ...ended, data: goldState(task, state.data.db) };
}

/** What the ends pay together. A reply that made up a tool's answer, a loop or an overflow takes it all back. */
export function paidBy(ends: readonly PaidEnd[]): { outcome: number; strict: number } {
  const last = ends.at(-1)?.by;
  const counts = last === "stop" || last === "transfer";
  const sum = (what: "outcome" | "strict") => (counts ? ends.reduce((total, end) => total + end[what], 0) : 0);
  return { outcome: sum("outcome"), strict: sum("strict") };
}
