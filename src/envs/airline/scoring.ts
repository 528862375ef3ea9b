import type { AirlineDb } from "./data/db.ts";
import type { NumberMode } from "./data/python-values.ts";
import { type DataState, startState, userOf } from "./data/state.ts";
import { sameData } from "./data/state-hash.ts";
import type { ActionRecord } from "./prm/records.ts";
import type { TerminatedBy } from "./protocol/turn.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { airlineToolNamed, runAction } from "./tools/index.ts";
import { TRANSFER_TOOL } from "./users/script.ts";

// What an episode's end pays: 1 where the data are those of the gold actions and every output was said, else 0
// (airline.md 4.3). Ends are compared, not calls: another way to the same data earns the same.

export interface ScoringOptions {
  /** `python`: 50 and 50.0 are two values. */
  number_mode: NumberMode;
  /** A task without a gold write asks for a look at the data, and a transfer exactly where the gold has one. */
  strict_refusal: boolean;
}

/** All that an outcome is judged by. */
export interface EpisodeEnd {
  data: DataState;
  /** What the agent said to the user, text by text; not what it thought or wrote into arguments. */
  said: readonly string[];
  /** Calls that reached their tools. */
  calls: readonly Pick<ActionRecord, "tool" | "parameters" | "is_error">[];
  /** null: it has not ended. Only the user's stop and a transfer are ends that can pay. */
  terminated_by: TerminatedBy | null;
}

/** The outcome of an episode, 0 or 1. */
export function outcomeOf(task: AirlineTask, end: EpisodeEnd, options: ScoringOptions): 0 | 1 {
  if (end.terminated_by !== "stop" && end.terminated_by !== "transfer") return 0;
  if (!sameData(end.data, goldState(task, end.data.db), options.number_mode)) return 0;
  if (!saysAll(task.outputs, end.said)) return 0;
  return options.strict_refusal && !isRefusedWell(task, end) ? 0 : 1;
}

/** What ending at once pays, 0 or 1: 1 where the gold changes nothing and asks for no output (airline.md 4.4). */
export function doNothing(task: AirlineTask, db: AirlineDb): 0 | 1 {
  return task.outputs.length === 0 && sameData(startState(db), goldState(task, db)) ? 1 : 0;
}

const goldStates = new WeakMap<AirlineDb, WeakMap<AirlineTask, DataState>>();

/**
 * The data that a task's gold actions lead to, from fresh data: no episode's state is touched. Its transfer is left out,
 * and a tool's errors are passed over. Replayed once a task.
 */
export function goldState(task: AirlineTask, db: AirlineDb): DataState {
  let known = goldStates.get(db);
  if (!known) {
    known = new WeakMap();
    goldStates.set(db, known);
  }
  let gold = known.get(task);
  if (!gold) {
    gold = startState(db);
    for (const action of task.actions) if (action.name !== TRANSFER_TOOL) gold = runAction(gold, action).state;
    known.set(task, gold);
  }
  return gold;
}

/** Each output stands somewhere in a text, without its commas; upper and lower case are one. */
function saysAll(outputs: readonly string[], said: readonly string[]): boolean {
  if (outputs.length === 0) return true;
  const texts = said.map((text) => text.toLowerCase().replaceAll(",", ""));
  return outputs.every((output) => texts.some((text) => text.includes(output.toLowerCase())));
}

function isRefusedWell(task: AirlineTask, { data, calls }: EpisodeEnd): boolean {
  if (task.actions.some(({ name }) => airlineToolNamed(name)?.writes)) return true;
  const transfers = (names: readonly string[]) => names.includes(TRANSFER_TOOL);
  if (transfers(calls.map(({ tool }) => tool)) !== transfers(task.actions.map(({ name }) => name))) return false;
  const own = userOf(startState(data.db), task.user_id)?.reservations ?? [];
  return calls.some(({ tool, parameters, is_error }) => {
    if (is_error) return false;
    if (tool === "get_user_details") return parameters.user_id === task.user_id;
    return tool === "get_reservation_details" && own.includes(String(parameters.reservation_id));
  });
}
