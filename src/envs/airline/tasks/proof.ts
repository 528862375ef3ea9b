import type { AirlineDb } from "../data/db.ts";
import { fromPlain, isDict, type PyDict, toPlain } from "../data/python-values.ts";
import { reservationOf, startState, userOf } from "../data/state.ts";
import { sameData } from "../data/state-hash.ts";
import { checkActions, checkWrite, type Talk } from "../policy/check.ts";
import { hasPlaceholder } from "../prm/placeholders.ts";
import { airlineToolNamed, runAction } from "../tools/index.ts";
import type { Slot } from "../users/script.ts";
import type { TaskProof } from "./proof-record.ts";
import type { AirlineTask, GoldAction } from "./task.ts";
import { solveTrip, tripOptions } from "./trips.ts";

/**
 * Why a synthetic task's gold would not be the only right end; []: it is. The gold runs without an error and obeys the
 * policy; every flight it takes is the one best of those that fit the wish, and all others make another reservation;
 * what else would tempt an agent breaks a rule or the customer's limit; all that a write holds is told by the customer.
 * Source: airline.md 4.7.
 */
export function proveTask(task: AirlineTask, db: AirlineDb): string[] {
  const { proof, script } = task;
  if (!proof || !script) return [`it has no ${proof ? "script" : "proof"}`];
  const start = startState(db);
  if (!userOf(start, task.user_id)) return [`there is no user '${task.user_id}'`];
  const writes = task.actions.filter(({ name }) => airlineToolNamed(name)?.writes);
  return [
    ...goldProblems(task, proof, db),
    ...proof.trips.flatMap((trip) => tripProblems(trip, writes, db)),
    ...proof.tempting.flatMap((one) => temptingProblems(one, task, proof, db)),
    ...writes.flatMap((write) => untold(write, task)),
    ...wordProblems(task, writes.length),
  ];
}

function talkOf({ reason }: TaskProof): Talk {
  return { confirmed: true, asked_for_compensation: true, ...(reason ? { reason } : {}) };
}

function goldProblems(task: AirlineTask, proof: TaskProof, db: AirlineDb): string[] {
  let state = startState(db);
  const problems: string[] = [];
  for (const action of task.actions) {
    const result = runAction(state, action);
    if (result.failed) problems.push(`${action.name}: ${result.observation}`);
    state = result.state;
    if (hasPlaceholder(plain(action.kwargs), "substring")) problems.push(`${action.name}: looks like a placeholder`);
  }
  const writes = task.actions.some(({ name }) => airlineToolNamed(name)?.writes);
  if (writes === sameData(state, startState(db))) problems.push("the gold's writes and its end do not agree");
  if (task.actions.some(({ name }) => name === "cancel_reservation") && !proof.reason)
    problems.push("it cancels without a reason");
  const talk = talkOf(proof);
  for (const { rule, why } of checkActions(startState(db), task.user_id, task.actions, () => talk))
    problems.push(`the gold breaks rule ${rule}: ${why}`);
  return problems;
}

function tripProblems({ write, way, query }: TaskProof["trips"][number], writes: readonly GoldAction[], db: AirlineDb) {
  const route = `${query.origin}-${query.destination} on ${query.date}`;
  if (write === null) return tripOptions(db, query).length === 0 ? [] : [`a flight fits ${route}`];
  const best = solveTrip(db, query);
  if (!best) return [`no flight alone is the ${query.best} ${route}`];
  const args = writes[write] && plain(writes[write].kwargs);
  const legs = args?.flights;
  if (!Array.isArray(legs)) return [`the gold has no flights in write ${write}`];
  const trip = reservationOf(startState(db), String(args!.reservation_id));
  const turn = way === "whole" ? legs.length : backFrom(legs, trip?.destination ?? "", db);
  const own = way === "back" ? legs.slice(turn) : legs.slice(0, turn);
  return JSON.stringify(own) === JSON.stringify(best.legs) ? [] : [`the gold does not take the ${query.best} ${route}`];
}

/** Where the way back begins. */
function backFrom(legs: readonly { flight_number: string }[], destination: string, db: AirlineDb): number {
  return legs.findIndex((leg) => db.flights.get(leg.flight_number)?.get("destination") === destination) + 1;
}

function temptingProblems(one: TaskProof["tempting"][number], task: AirlineTask, proof: TaskProof, db: AirlineDb) {
  const history = task.actions.slice(0, one.after);
  const state = history.reduce((now, action) => runAction(now, action).state, startState(db));
  const found = checkWrite(one, { state, user_id: task.user_id, history, talk: talkOf(proof) });
  if (one.rule !== null)
    return found.some(({ rule }) => rule === one.rule) ? [] : [`${one.name} does not break rule ${one.rule}`];
  if (found.length > 0) return [`${one.name} breaks rule ${found[0]!.rule}, which the proof does not say`];
  const { reservation_id } = one.kwargs;
  const result = runAction(state, one);
  if (result.failed) return []; // no seats, or too little on a gift card
  const after = reservationOf(result.state, String(reservation_id))!.payment_history;
  const paid = after.slice(reservationOf(state, String(reservation_id))!.payment_history.length);
  const cost = paid.reduce((sum, { amount }) => sum + amount, 0);
  return one.over !== null && cost > one.over ? [] : [`${one.name} costs $${cost}, which the customer pays`];
}

/** What the customer must be able to tell for each write. */
const TOLD: Record<string, readonly Slot[]> = {
  book_reservation: [
    ...(["user_id", "trip_type", "origin", "destination", "date", "cabin", "passengers", "dob"] as const),
    ...(["bags", "insurance", "payment"] as const),
  ],
  cancel_reservation: ["user_id", "reason"],
  send_certificate: ["user_id"],
  update_reservation_baggages: ["user_id", "bags", "payment"],
  update_reservation_flights: ["user_id", "payment"],
  update_reservation_passengers: ["user_id", "passengers"],
};

function untold({ name }: GoldAction, { script }: AirlineTask): string[] {
  return (TOLD[name] ?? []).filter((slot) => !script!.facts[slot]).map((slot) => `${name}: nobody tells the ${slot}`);
}

/** Categories of tasks that end as they began. */
const NOTHING_TO_DO = ["refusal", "transfer"];

function wordProblems(task: AirlineTask, writes: number): string[] {
  const { instruction, outputs, user_id } = task;
  const { facts, goals } = task.script!;
  const says = goals.map(({ say }) => say);
  return [
    ...(instruction.includes(user_id) ? [] : ["the instruction does not tell the user id"]),
    ...(facts.user_id?.[0] === user_id ? [] : ["the script tells another user id"]),
    // A shorter number would be found in any text; one of the instruction may be said back.
    ...outputs.filter((text) => !/^\d{3,}$/.test(text)).map((text) => `output '${text}' is no number of three digits`),
    ...outputs.filter((text) => instruction.includes(text)).map((text) => `the instruction gives away '${text}'`),
    ...(new Set(outputs).size < outputs.length ? ["an output stands twice"] : []),
    ...(says.some((say, i) => says.some((other, j) => i !== j && other.includes(say)))
      ? ["two wishes read alike"]
      : []),
    ...(writes + outputs.length === 0 && !NOTHING_TO_DO.includes(task.category ?? "") ? ["it asks for nothing"] : []),
  ];
}

function plain(kwargs: PyDict | Record<string, unknown>): Record<string, unknown> {
  const value = fromPlain(kwargs);
  return isDict(value) ? (toPlain(value) as Record<string, unknown>) : {};
}
