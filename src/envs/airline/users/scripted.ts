import { UserError } from "../../../core/errors.ts";
import { type Heard, hear, proposalOf } from "./hearing.ts";
import { matchesWrite, plainWrite } from "./match.ts";
import { type Goal, type Script, type Slot, TRANSFER_TOOL } from "./script.ts";
import {
  type EnvProbe,
  NOTHING_SPENT,
  STOP_TOKEN,
  type UserSimulator,
  type UserTask,
  type UserTurn,
  type WriteCall,
} from "./types.ts";
import { FOREIGN_GREETINGS, listed, SLOT_LABELS, type Wording, word } from "./wordings.ts";

// A user without a language model: deterministic, offline. Source: spec section 6.3; rule numbers are its.

export interface ScriptedOptions {
  /** true: a goal is met when its write was made. false: when the agent says that something was done. */
  peek: boolean;
}

export interface GoalState {
  status: "open" | "done" | "closed";
  /** The user has said it. */
  stated: boolean;
  /** How often the user will still hold on to it. */
  insist: number;
  /** Of the texts that the agent must say, those that it has said while this goal was the current one. */
  heard: readonly string[];
}

export interface ScriptedState {
  kind: "scripted";
  /** Messages of the user so far. */
  turn: number;
  /** null: all goals are done or closed. */
  current: string | null;
  /** The current goal, or the one that was it last. */
  latest: string;
  goals: Readonly<Record<string, GoalState>>;
  /** How often each slot was answered. */
  answered: Readonly<Partial<Record<Slot, number>>>;
  /** Writes that no goal has claimed yet: an agent may do more at once than the current goal asks. */
  writes: readonly WriteCall[];
  /** Agent turns in a row without a new slot, confirmation or goal change. */
  stalled: number;
  /** Announcements of a transfer that the user did not want. */
  transfers: number;
  /** The last text that asked for a yes: to ask the same again is no progress. */
  confirmed: string;
  /** The next message is the stop token, whatever the agent says. */
  leaving: boolean;
}

const MOST_SLOTS = 3;
/** The user leaves after so many agent turns without progress. */
const MOST_STALLED = 4;
/** Far beyond any limit on turns: an agent that asks for one yes after another must not go on for ever. */
const MOST_TURNS = 200;

/** What one turn builds: a copy of the state that may be written to. */
interface Draft extends ScriptedState {
  goals: Record<string, GoalState>;
  answered: Partial<Record<Slot, number>>;
}

export function scriptedUser(options: ScriptedOptions): UserSimulator<ScriptedState> {
  return {
    strategy: "scripted",
    async reset(task) {
      return openScripted(task);
    },
    async step(task, state, agent_text, probe) {
      return stepScripted(task, state, agent_text, probe, options);
    },
    cost: () => NOTHING_SPENT.cost,
    close() {},
  };
}

/** The user's first message: a greeting with the opening goals. @throws UserError for a task without a script */
export function openScripted(task: UserTask): UserTurn<ScriptedState> {
  const script = scriptOf(task);
  const { persona, opening, disclosure } = script;
  const state: ScriptedState = {
    kind: "scripted",
    turn: 1,
    current: opening[0]!,
    latest: opening[0]!,
    goals: Object.fromEntries(
      script.goals.map(({ id, insist }) => [id, { status: "open", stated: opening.includes(id), insist, heard: [] }]),
    ),
    answered: {},
    writes: [],
    stalled: 0,
    transfers: 0,
    confirmed: "",
    leaving: false,
  };
  const say = speaker(task, script, 0);
  const draft = copy(state);
  const told = disclosure === "all_at_once" && script.facts.user_id ? [answer(draft, script, "user_id", say)] : [];
  const wishes = opening.map((id, i) =>
    say(i === 0 ? "wish" : "next_wish", id, { say: plain(goalOf(script, id).say) }),
  );
  const foreign = FOREIGN_GREETINGS[persona.language_tag ?? ""];
  return finish(draft, script, [...(foreign ? [foreign] : []), say("greeting", "", {}), ...told, ...wishes]);
}

/** The user's answer. Never throws for what an agent says or does; after the end it is the stop token for good. */
export function stepScripted(
  task: UserTask,
  before: ScriptedState,
  agent_text: string,
  probe: EnvProbe,
  { peek }: ScriptedOptions,
): UserTurn<ScriptedState> {
  const script = scriptOf(task);
  const heard = hear(agent_text);
  const say = speaker(task, script, before.turn);
  const draft = copy(before);
  draft.turn++;
  draft.writes = [
    ...draft.writes,
    ...probe.writes.filter(({ name }) => script.goals.some(({ match }) => match.tool === name)).map(plainWrite),
  ];
  if (draft.leaving || draft.turn > MOST_TURNS) return stop(draft);

  // Rule 1. The limits of a goal that is met hold on for a question in the same text.
  const met = meetGoals(draft, script, heard, peek);
  if (draft.current === null) {
    if (!heard.confirmation || heard.transfer) return stop(draft);
    draft.leaving = true;
  }
  draft.latest = draft.current ?? draft.latest;
  const goal = goalOf(script, draft.latest);

  const parts: string[] = [];
  let progress = met;
  // Rule 5 goes before 3 and 4 where the transfer is what they would be about.
  const wanted = expectsTransfer(goal);
  const aboutTransfer = heard.transfer && (wanted || heard.confirmation || !(heard.refusal || heard.slots.length > 0));
  if (heard.slots.length > 0 || heard.confirmation || aboutTransfer) {
    progress = answerSlots(draft, script, heard, say, parts) || progress;
    if (aboutTransfer) progress = answerTransfer(draft, script, goal, say, parts) || progress;
    else if (heard.confirmation) progress = answerProposal(draft, script, goal, heard, say, parts) || progress;
  } else if (heard.refusal) progress = answerRefusal(draft, script, goal, say, parts) || progress;
  else stateGoal(draft, goal, say, parts, met ? "next_wish" : "wish");

  draft.stalled = progress ? 0 : draft.stalled + 1;
  if (draft.stalled >= MOST_STALLED || parts.length === 0) return stop(draft);
  return finish(draft, script, parts);
}

type Say = (wording: Wording, slot: string, values: Record<string, string>) => string;

// ---- rule 1 ----

/** Marks the goals that are met, one after the other. true: at least one is. */
function meetGoals(draft: Draft, script: Script, heard: Heard, peek: boolean): boolean {
  let any = false;
  while (draft.current !== null) {
    const goal = goalOf(script, draft.current);
    // Words tell of one write at most: "your booking has been changed".
    if (!(isSaid(draft, goal, heard) || (peek ? isWritten(draft, goal) : !any && isToldDone(goal, heard)))) break;
    end(draft, script, goal, "done");
    draft.latest = goal.id;
    any = true;
  }
  return any;
}

/** Whether the agent has said all that a goal without a write waits for, in texts while it was the current goal. */
function isSaid(draft: Draft, { id, match }: Goal, heard: Heard): boolean {
  if (match.tool !== null) return false;
  const state = draft.goals[id]!;
  const said = match.said.filter((text) => state.heard.includes(text) || heard.text.includes(asHeard(text)));
  draft.goals[id] = { ...state, heard: said };
  return said.length === match.said.length;
}

/** Whether a goal's write was made; each write meets one goal. */
function isWritten(draft: Draft, { match }: Goal): boolean {
  const at = draft.writes.findIndex((write) => matchesWrite(match, write));
  draft.writes = draft.writes.filter((_, i) => i !== at);
  return at >= 0;
}

function isToldDone({ match }: Goal, heard: Heard): boolean {
  return "kwargs" in match && heard.completion && !heard.confirmation && !heard.refusal;
}

const asHeard = (text: string): string => text.toLowerCase().replace(/(?<=\d),(?=\d)/g, "");

/** Ends a goal and goes on to `on_done`, or to the next one in list order; null when there is none. */
function end(draft: Draft, script: Script, goal: Goal, status: "done" | "closed"): void {
  draft.goals[goal.id] = { ...draft.goals[goal.id]!, status };
  const open = (id: string) => draft.goals[id]!.status === "open";
  const at = script.goals.indexOf(goal);
  draft.current =
    goal.on_done !== null && open(goal.on_done)
      ? goal.on_done
      : (script.goals.slice(at + 1).find(({ id }) => open(id))?.id ?? null);
}

// ---- rule 2 ----

/** true: at least one slot is new, or its answer is. */
function answerSlots(draft: Draft, script: Script, heard: Heard, say: Say, parts: string[]): boolean {
  const slots = script.disclosure === "all_at_once" ? heard.slots : heard.slots.slice(0, MOST_SLOTS);
  let fresh = false;
  for (const slot of slots) {
    const times = draft.answered[slot] ?? 0;
    const claim = script.claims.find((one) => one.slot === slot);
    fresh ||= times === 0 || times === claim?.insist;
    parts.push(answer(draft, script, slot, say));
  }
  return fresh;
}

function answer(draft: Draft, script: Script, slot: Slot, say: Say): string {
  const times = draft.answered[slot] ?? 0;
  draft.answered[slot] = times + 1;
  const { label, plural } = SLOT_LABELS[slot];
  const values = (value: string) => ({ label, Label: capital(label), is: plural ? "are" : "is", value });
  const claim = script.claims.find((one) => one.slot === slot);
  if (claim)
    return times < claim.insist
      ? say("fact", slot, values(claim.claimed))
      : say("admission", slot, values(claim.truth));
  if (script.unknown.includes(slot)) return say("unknown", slot, values(""));
  if (script.in_profile.includes(slot)) return say("in_profile", slot, values(""));
  const fact = script.facts[slot];
  return fact ? say("fact", slot, values(plain(listed(fact)))) : say("no_preference", slot, values(""));
}

// ---- rule 3 ----

/** true: the proposal is a new one, or the goal changes. */
function answerProposal(draft: Draft, script: Script, goal: Goal, heard: Heard, say: Say, parts: string[]): boolean {
  const fresh = heard.text !== draft.confirmed;
  draft.confirmed = heard.text;
  const wish = violatedWish(script, goal, heard, say);
  if (wish === null) {
    parts.push(say("yes", "", {}));
    return fresh;
  }
  parts.push(say("no", "", { wish }));
  if (draft.current === null) return fresh;
  const insist = Math.max(0, draft.goals[goal.id]!.insist - 1);
  draft.goals[goal.id] = { ...draft.goals[goal.id]!, insist };
  // Without a way on the user stays with the wish: a proposal refused is no goal given up.
  if (insist > 0 || goal.on_refused === null) return fresh;
  moveOn(draft, script, goal, say, parts);
  return true;
}

/** The first limit of a goal that a proposal breaks, as the user puts it; null: it breaks none. */
function violatedWish(script: Script, { accept }: Goal, heard: Heard, say: Say): string | null {
  const { amounts, flights, dates, cabins } = proposalOf(heard.text);
  const { max_extra_cost } = accept;
  if (max_extra_cost !== undefined && amounts.some((amount) => amount > max_extra_cost))
    return say("over_cost", "budget", { limit: `$${max_extra_cost}` });
  const limits: [readonly string[] | undefined, readonly string[]][] = [
    // A reservation's id may look like a flight's.
    [
      accept.flights?.map((code) => code.toUpperCase()),
      flights.filter((code) => !reservationIds(script).includes(code)),
    ],
    [accept.dates, dates],
    [accept.cabin, cabins],
  ];
  for (const [wanted, offered] of limits)
    if (wanted && offered.some((one) => !wanted.includes(one)))
      return say("other_flight", wanted[0]!, { limit: wanted.join(" or ") });
  return null;
}

function reservationIds({ facts, goals }: Script): unknown[] {
  return [
    ...(facts.reservation_id ?? []),
    ...goals.map(({ match }) => ("kwargs" in match ? match.kwargs.reservation_id : undefined)),
  ];
}

// ---- rule 4 ----

/** true: the goal changes. */
function answerRefusal(draft: Draft, script: Script, goal: Goal, say: Say, parts: string[]): boolean {
  const state = draft.goals[goal.id]!;
  if (state.insist > 0) {
    draft.goals[goal.id] = { ...state, insist: state.insist - 1, stated: true };
    parts.push(say("persuade", goal.id, { say: plain(goal.say) }));
    return false;
  }
  moveOn(draft, script, goal, say, parts);
  return true;
}

/** From a goal that was refused to what its `on_refused` says. */
function moveOn(draft: Draft, script: Script, goal: Goal, say: Say, parts: string[]): void {
  const target = goal.on_refused;
  if (target === "stop") {
    draft.goals[goal.id] = { ...draft.goals[goal.id]!, status: "closed" };
    draft.current = null;
    draft.leaving = true; // the stop token is a message of its own: at once where nothing else is said
    return;
  }
  end(draft, script, goal, "closed");
  if (target !== null && target !== "accept" && draft.goals[target]!.status === "open") draft.current = target;
  if (draft.current === null) parts.push(say("give_in", goal.id, {}));
  else stateGoal(draft, goalOf(script, draft.current), say, parts, "other_wish");
}

// ---- rule 5 ----

const expectsTransfer = (goal: Goal): boolean => goal.match.tool === TRANSFER_TOOL;

/** true: the goals change. */
function answerTransfer(draft: Draft, script: Script, goal: Goal, say: Say, parts: string[]): boolean {
  if (draft.current !== null && expectsTransfer(goal)) {
    end(draft, script, goal, "done");
    parts.push(say("transfer_wanted", goal.id, {}));
    return true;
  }
  draft.transfers++;
  if (draft.transfers === 1) {
    draft.goals[goal.id] = { ...draft.goals[goal.id]!, stated: true };
    parts.push(say("transfer_unwanted", goal.id, { say: plain(goal.say) }));
    return false;
  }
  for (const id of Object.keys(draft.goals))
    if (draft.goals[id]!.status === "open") draft.goals[id] = { ...draft.goals[id]!, status: "closed" };
  draft.current = null;
  parts.push(say("transfer_accepted", goal.id, {}));
  return true;
}

// ---- rule 6 ----

function stateGoal(draft: Draft, goal: Goal, say: Say, parts: string[], first: Wording): void {
  const state = draft.goals[goal.id]!;
  // A goal of the opening that only now becomes the current one is repeated, in the words of a next wish.
  const wording = state.stated && first === "wish" ? "again" : first;
  draft.goals[goal.id] = { ...state, stated: true };
  parts.push(say(wording, goal.id, { say: plain(goal.say) }));
}

// ---- shared ----

function scriptOf(task: UserTask): Script {
  if (task.script) return task.script;
  throw new UserError(
    `task '${task.id}' has no script, which the scripted user simulator plays. ` +
      "Choose user.strategy llm, react, verify, reflection or human, or silent to replay gold actions; or give the task a script.",
  );
}

function goalOf(script: Script, id: string): Goal {
  return script.goals.find((goal) => goal.id === id)!;
}

const copy = (state: ScriptedState): Draft => ({
  ...state,
  goals: { ...state.goals },
  answered: { ...state.answered },
});

/** Says things in the persona's style; the variant depends on task, turn and slot alone. */
function speaker(task: UserTask, script: Script, turn: number): Say {
  return (wording, slot, values) => word(wording, script.persona.style, `${task.id}/${turn}/${slot}`, values);
}

function finish(draft: Draft, { persona }: Script, parts: readonly string[]): UserTurn<ScriptedState> {
  const text = [...parts, ...(persona.suffix ? [persona.suffix] : [])].join(" ");
  // A script's own words must not end the dialogue.
  return { state: draft, text: text.replaceAll(STOP_TOKEN, "") };
}

function stop(draft: Draft): UserTurn<ScriptedState> {
  return { state: { ...draft, leaving: true }, text: STOP_TOKEN };
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
/** Without the full stop that the sentence around it brings. */
const plain = (text: string): string => text.trim().replace(/[.]+$/, "");
