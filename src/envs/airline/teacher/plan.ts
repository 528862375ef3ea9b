import { fromPlain, toPlain } from "../data/python-values.ts";
import { matchesWrite } from "../users/match.ts";
import { type Goal, type Script, type Slot, TRANSFER_TOOL, WRITE_TOOLS } from "../users/script.ts";
import type { WriteCall } from "../users/types.ts";

// What a task's gold actions come to, goal by goal. Source: spec section 6.3, the scripted teacher.

export interface TeacherTask {
  id: string;
  user_id: string;
  /** One gold sequence: reads, writes, a transfer. */
  actions: readonly WriteCall[];
  /** Texts that the agent must say. */
  outputs: readonly string[];
  script?: Script | null;
}

/** Writes that one yes is for, with the gold reads before them. */
export interface Block {
  /** null: the script has no goal for them. */
  goal: string | null;
  reads: WriteCall[];
  writes: WriteCall[];
}

export interface Plan {
  blocks: readonly Block[];
  /** Gold reads that no write follows. */
  reads: readonly WriteCall[];
  /** The gold sequence ends by a transfer. */
  transfers: boolean;
  /** Outputs that no goal of the script asks for. */
  outputs: readonly string[];
}

/** Arguments as ordinary values, for reading. */
export const argumentsOf = (action: WriteCall): Record<string, unknown> =>
  toPlain(fromPlain(action.kwargs)) as Record<string, unknown>;

/**
 * The gold actions by the script's goals. A write that no goal names goes with the write before it where that is of the
 * same tool, otherwise with the one after it: the user leaves when its last goal is met, so nothing may come after that.
 */
export function planOf(task: TeacherTask): Plan {
  const free = [...(task.script?.goals ?? [])];
  const blocks: Block[] = [];
  let reads: WriteCall[] = [];
  let waiting: WriteCall[] = [];
  for (const action of task.actions) {
    if (action.name === TRANSFER_TOOL || action.name === "think") continue;
    if (!isWrite(action.name)) {
      reads.push(action);
      continue;
    }
    const goal = free.find(({ match }) => matchesWrite(match, action));
    const before = blocks.at(-1);
    if (goal) {
      free.splice(free.indexOf(goal), 1);
      blocks.push({ goal: goal.id, reads, writes: [...waiting, action] });
      [reads, waiting] = [[], []];
    } else if (before && waiting.length === 0 && before.writes.at(-1)!.name === action.name) {
      before.writes.push(action);
      before.reads.push(...reads.splice(0));
    } else waiting.push(action);
  }
  const last = blocks.at(-1);
  if (waiting.length > 0 && last) last.writes.push(...waiting);
  else if (waiting.length > 0) blocks.push({ goal: null, reads: reads.splice(0), writes: waiting });
  const said = (task.script?.goals ?? []).flatMap(({ match }) => (match.tool === null ? match.said : []));
  return {
    blocks,
    reads,
    transfers: task.actions.some(({ name }) => name === TRANSFER_TOOL),
    outputs: task.outputs.filter((text) => !said.includes(text)),
  };
}

export const isWrite = (name: string): boolean => (WRITE_TOOLS as readonly string[]).includes(name);

/** What the policy wants to know before each write, in the order in which it is asked for. */
const NEEDED: Record<string, readonly Slot[]> = {
  book_reservation: [
    ...(["user_id", "trip_type", "origin", "destination", "date", "return_date", "cabin"] as const),
    ...(["passengers", "dob", "bags", "insurance", "payment"] as const),
  ],
  cancel_reservation: ["user_id", "reservation_id", "reason"],
  send_certificate: ["user_id", "reservation_id"],
  update_reservation_baggages: ["user_id", "reservation_id", "bags", "payment"],
  update_reservation_flights: ["user_id", "reservation_id", "payment"],
  update_reservation_passengers: ["user_id", "reservation_id", "passengers"],
};

/** Slots that a goal needs before it can be dealt with. */
export function neededSlots(tools: readonly string[], goal: Goal | null, one_way: boolean): Slot[] {
  const about = tools.length > 0 || !goal ? tools : [goal.match.tool ?? ""];
  const needed = about.flatMap((tool): readonly Slot[] => NEEDED[tool] ?? ["user_id"]);
  return [...new Set(needed)].filter((slot) => slot !== "return_date" || !one_way);
}

/** Reservations that a block's writes, or else a goal, are about. */
export function reservationsOf(block: Block | null, goal: Goal | null, script: Script | null | undefined): string[] {
  const named = block
    ? block.writes.map((write) => argumentsOf(write).reservation_id)
    : [goal && "kwargs" in goal.match ? goal.match.kwargs.reservation_id : undefined];
  const ids = named.filter((id): id is string => typeof id === "string");
  if (ids.length > 0) return [...new Set(ids)];
  // A booking needs none; for the rest the user's own word is all there is.
  return block?.writes.some(({ name }) => name === "book_reservation") ? [] : [...(script?.facts.reservation_id ?? [])];
}
