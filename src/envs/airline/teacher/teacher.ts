import { canonicalJson } from "../../../core/canonical-json.ts";
import { UserError } from "../../../core/errors.ts";
import { type Goal, type Slot, TRANSFER_TOOL } from "../users/script.ts";
import type { WriteCall } from "../users/types.ts";
import { givesIn } from "../users/wordings.ts";
import { costOfWrite, type Facts, missingSearch, NO_FACTS, withResult } from "./facts.ts";
import { answerText, confirmation, FAILED, GOODBYE, question, refusal, report, SUMMARY, thought } from "./phrases.ts";
import {
  argumentsOf,
  type Block,
  isWrite,
  neededSlots,
  type Plan,
  planOf,
  reservationsOf,
  type TeacherTask,
} from "./plan.ts";

// The scripted agent: it knows the gold actions, and does what the policy wants around them. It asks, reads, thinks,
// lists the details, waits for a yes, writes, and reports. It solves tasks that have a script, offline, and so makes SFT
// data without a model. Source: spec section 6.3.

/** A message of the teacher's: a call of a tool, or a text to the user; never both. */
export type TeacherReply = { kind: "call"; call: WriteCall } | { kind: "say"; text: string };

/** What came of its last message: a tool's result, or what the user said. */
export interface Observation {
  from: "user" | "tool";
  text: string;
}

export interface TeacherOptions {
  /** Messages that it has. What it does beyond the necessary fits in. */
  max_turns: number;
}

export const DEFAULT_TEACHER: TeacherOptions = { max_turns: 30 };

export interface TeacherState {
  /** Messages sent. */
  turn: number;
  /** What the user wants now; null: it has not said. */
  goal: string | null;
  /** Indices of blocks that are done, in the plan's order. */
  done: readonly number[];
  asked: readonly Slot[];
  /** Calls made, as canonical JSON. */
  calls: readonly string[];
  facts: Facts;
  /** The block whose yes it waits for or has. */
  block: number | null;
  confirmed: boolean;
  /** Writes of the block that are done. */
  written: number;
  /** One of them was an error: the gold actions do not fit the data. */
  failed: boolean;
  /** Noes to this block's details. */
  noes: number;
  refusals: number;
  /** Goals it has thought about. */
  thought: readonly string[];
  /** The outputs that no goal asks for have been said. */
  told: boolean;
  over: boolean;
  last: TeacherReply | null;
}

const START: TeacherState = {
  turn: 0,
  goal: null,
  done: [],
  asked: [],
  calls: [],
  facts: NO_FACTS,
  block: null,
  confirmed: false,
  written: 0,
  failed: false,
  noes: 0,
  refusals: 0,
  thought: [],
  told: false,
  over: false,
  last: null,
};

const MOST_QUESTIONS = 3;
/** Reservations read to find the one that a user does not remember. */
const MOST_LOOKUPS = 4;
const MOST_SEARCHES = 4;

/** A teacher before its first message. @throws UserError for a task without a script */
export function startTeacher(task: TeacherTask): TeacherState {
  if (!task.script) throw new UserError(`task '${task.id}' has no script, which the scripted teacher goes by.`);
  return START;
}

/** The teacher's next message. Pure: the same dialogue gives the same message. */
export function teacherTurn(
  task: TeacherTask,
  before: TeacherState,
  observation: Observation,
  options: TeacherOptions = DEFAULT_TEACHER,
): { state: TeacherState; reply: TeacherReply } {
  const plan = planOf(task);
  const state =
    observation.from === "tool" ? afterTool(before, observation.text) : afterUser(task, before, observation.text);
  const { reply, change = {} } = decide(task, plan, state, options);
  const calls = reply.kind === "call" ? [...state.calls, keyOf(reply.call)] : state.calls;
  return { state: { ...state, ...change, turn: state.turn + 1, calls, last: reply }, reply };
}

interface Decision {
  reply: TeacherReply;
  change?: Partial<TeacherState>;
}

const say = (text: string, change?: Partial<TeacherState>): Decision => ({ reply: { kind: "say", text }, change });
const call = (name: string, kwargs: WriteCall["kwargs"], change?: Partial<TeacherState>): Decision => ({
  reply: { kind: "call", call: { name, kwargs } },
  change,
});

function afterTool(state: TeacherState, text: string): TeacherState {
  const { last } = state;
  if (last?.kind !== "call") return state;
  const failed = state.failed || (isWrite(last.call.name) && text.startsWith("Error:"));
  return { ...state, failed, facts: withResult(state.facts, last.call, text) };
}

function afterUser(task: TeacherTask, state: TeacherState, text: string): TeacherState {
  const goal = statedGoal(task, state, text);
  const moved: TeacherState =
    goal !== null && goal !== state.goal
      ? { ...state, goal, refusals: 0, block: null, noes: 0, confirmed: false }
      : state;
  if (givesIn(text)) return { ...moved, over: true };
  if (moved.block === null || moved.confirmed) return moved;
  return saysYes(text) ? { ...moved, confirmed: true } : { ...moved, noes: moved.noes + 1 };
}

/** "Insurance: yes. No, …" is a no. */
const saysYes = (text: string): boolean => /\byes\b/i.test(text) && !/(?:^|[.!?] )no\b/i.test(text);

/** The goal that a user's text names last; in the opening, the one that it begins with. null: it names none. */
function statedGoal({ script }: TeacherTask, state: TeacherState, text: string): string | null {
  const { goals, opening } = script!;
  if (state.turn === 0) return opening[0]!;
  const found = goals
    .map(({ id, say: wish }) => ({ id, wish, at: text.lastIndexOf(wish.trim().replace(/[.]+$/, "")) }))
    .filter(({ at }) => at >= 0)
    .sort((a, b) => b.at - a.at || b.wish.length - a.wish.length);
  return found[0]?.id ?? null;
}

// ---- what to do ----

function decide(task: TeacherTask, plan: Plan, state: TeacherState, options: TeacherOptions): Decision {
  const open = plan.blocks.flatMap((_, i) => (state.done.includes(i) ? [] : [i]));
  const goal = task.script!.goals.find(({ id }) => id === state.goal) ?? null;
  const at = state.block ?? open.find((i) => plan.blocks[i]!.goal === goal?.id) ?? (goal ? undefined : open[0]) ?? null;
  const block = at === null ? null : plan.blocks[at]!;
  if (at !== null && state.block === at && state.confirmed) return write(plan, state, at);
  if (state.over && !block) return plan.transfers ? transfer() : say(GOODBYE);
  // Each block that is left takes its yes, its writes and its report.
  const needed = open.reduce((sum, i) => sum + plan.blocks[i]!.writes.length + 2, 1);
  const spare = options.max_turns - state.turn - needed;
  if (at !== null && state.block === at) return confirm(plan, state, at);
  const prepared = spare > 0 ? prepare(task, plan, state, block, goal, open) : null;
  if (prepared) return prepared;
  if (at !== null) return confirm(plan, state, at);
  if (goal?.match.tool === null) return say(answerText(goal.match.said), { goal: null });
  if (goal?.match.tool === TRANSFER_TOOL || (plan.transfers && open.length === 0)) return transfer();
  if (!goal) return say(GOODBYE);
  return refuse(plan, state, goal);
}

const transfer = (): Decision => call(TRANSFER_TOOL, { summary: SUMMARY });

/** What comes before a yes or a no: questions, reads, searches, a thought. null: all is done. */
function prepare(
  task: TeacherTask,
  plan: Plan,
  state: TeacherState,
  block: Block | null,
  goal: Goal | null,
  open: readonly number[],
): Decision | null {
  const { facts } = state;
  const tools = [...new Set(block?.writes.map(({ name }) => name) ?? [])];
  const one_way = block?.writes.every((write) => argumentsOf(write).flight_type !== "round_trip") ?? true;
  const slots = neededSlots(tools, goal, one_way).filter((slot) => !state.asked.includes(slot));
  if (slots.length > 0) {
    const asked = slots.slice(0, MOST_QUESTIONS);
    return say(question(asked), { asked: [...state.asked, ...asked] });
  }
  const fresh = (one: WriteCall): boolean => !state.calls.includes(keyOf(one));
  const user: WriteCall = { name: "get_user_details", kwargs: { user_id: task.user_id } };
  if (fresh(user)) return call(user.name, user.kwargs);
  for (const id of reservationsOf(block, goal, task.script)) {
    if (facts.reservations[id]) continue;
    const lookup: WriteCall = {
      name: "get_reservation_details",
      kwargs: { reservation_id: soughtId(task, state, id) },
    };
    if (fresh(lookup)) return call(lookup.name, lookup.kwargs);
  }
  // Gold reads that no write follows belong to what is left after the writes.
  const reads = block?.reads ?? (open.length === 0 ? plan.reads : []);
  const read = reads.find(fresh);
  if (read) return call(read.name, read.kwargs);
  const searches = state.calls.filter((key) => key.includes('"search_')).length;
  if (searches < MOST_SEARCHES * (state.done.length + 1))
    for (const one of block?.writes ?? []) {
      const search = missingSearch(facts, one, (candidate) => !fresh(candidate));
      if (search) return call(search.name, search.kwargs);
    }
  const topic = goal?.id ?? "";
  const think: WriteCall = { name: "think", kwargs: { thought: thought(block?.writes ?? []) } };
  // Three equal bookings make three equal thoughts, which the guard against loops would take for one.
  if (!state.thought.includes(topic) && goal?.match.tool !== null && fresh(think))
    return call(think.name, think.kwargs, { thought: [...state.thought, topic] });
  return null;
}

/** Where the user doesn't remember: the next of the user's reservations, up to a number, in the order of the profile. */
function soughtId({ script }: TeacherTask, { facts }: TeacherState, id: string): string {
  if (!script!.unknown.includes("reservation_id") || !facts.owned?.includes(id)) return id;
  const read = Object.keys(facts.reservations).length;
  const next = facts.owned.find((one) => !facts.reservations[one]);
  return read >= MOST_LOOKUPS - 1 ? id : (next ?? id);
}

function confirm(plan: Plan, state: TeacherState, at: number): Decision {
  const writes = plan.blocks[at]!.writes.map((one) => ({ write: one, cost: costOfWrite(state.facts, one) }));
  // A user who says no to details that are right has misread them: fewer are said.
  return say(confirmation(writes, state.noes === 0), { block: at, written: 0 });
}

function write(plan: Plan, state: TeacherState, at: number): Decision {
  const { writes } = plan.blocks[at]!;
  const next = writes[state.written];
  if (next) return call(next.name, next.kwargs, { written: state.written + 1 });
  const outputs = state.told ? [] : plan.outputs;
  const last = state.done.length + 1 === plan.blocks.length;
  return say(state.failed ? FAILED : report(writes, last ? outputs : []), {
    done: [...state.done, at],
    block: null,
    confirmed: false,
    failed: false,
    noes: 0,
    goal: null,
    told: state.told || last,
  });
}

function refuse(plan: Plan, state: TeacherState, goal: Goal): Decision {
  const outputs = state.told || plan.blocks.length > 0 ? [] : plan.outputs;
  const limited = Object.keys(goal.accept).length > 0;
  return say(refusal(state.refusals, limited, outputs), {
    refusals: state.refusals + 1,
    told: state.told || outputs.length > 0,
  });
}

function keyOf({ name, kwargs }: WriteCall): string {
  return canonicalJson([name, argumentsOf({ name, kwargs })]);
}
