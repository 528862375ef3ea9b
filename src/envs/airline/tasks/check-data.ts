import type { AirlineDb } from "../data/db.ts";
import { allFlights, flightOf, reservationIds, reservationOf, startState, userIds, userOf } from "../data/state.ts";
import { checkActions } from "../policy/check.ts";
import { airlineToolNamed, runAction } from "../tools/index.ts";
import type { AirlineTask } from "./task.ts";

/** What is wrong with data, and what is worth knowing about them. */
export interface DataFindings {
  problems: string[];
  /** Where a gold breaks the policy: the originals do, so it is no error. */
  notes: string[];
}

/** Whether the records of a database point to each other. */
export function databaseProblems(db: AirlineDb): string[] {
  const state = startState(db);
  const problems: string[] = [];
  for (const [key, flight] of db.flights)
    if (flight.get("flight_number") !== key) problems.push(`flights: ${key} holds another flight_number`);
  for (const id of reservationIds(state)) {
    const reservation = reservationOf(state, id)!;
    const owner = userOf(state, reservation.user_id);
    if (reservation.reservation_id !== id) problems.push(`reservations: ${id} holds another reservation_id`);
    if (!owner) problems.push(`reservations: ${id} is of '${reservation.user_id}', who is no user`);
    else if (!owner.reservations.includes(id)) problems.push(`users: ${reservation.user_id} does not list ${id}`);
    for (const { flight_number, date } of reservation.flights)
      if (!flightOf(db, flight_number)?.dates[date])
        problems.push(`reservations: ${id} is on flight ${flight_number} of ${date}, which there is not`);
  }
  for (const id of userIds(state))
    for (const listed of userOf(state, id)!.reservations)
      if (reservationOf(state, listed)?.user_id !== id)
        problems.push(`users: ${id} lists ${listed}, which is not theirs`);
  if (allFlights(db).length === 0) problems.push("flights: there are none");
  return problems;
}

/** Whether the gold of each task runs, and the rules that it breaks. */
export function taskFindings(tasks: readonly AirlineTask[], db: AirlineDb): DataFindings {
  const findings: DataFindings = { problems: [], notes: [] };
  for (const task of tasks) {
    let state = startState(db);
    for (const action of task.actions) {
      const result = runAction(state, action);
      state = result.state;
      if (result.failed) findings.problems.push(`${task.id}: ${action.name}: ${result.observation}`);
    }
    const reason = task.proof?.reason;
    const talk = { confirmed: true, asked_for_compensation: true, ...(reason ? { reason } : {}) };
    for (const { index, rule, why } of checkActions(startState(db), task.user_id, task.actions, () => talk))
      findings.notes.push(`${task.id}: ${task.actions[index]!.name} breaks rule ${rule}: ${why}`);
  }
  return findings;
}

/** How many calls the gold of these tasks has, and how many of them write. */
export function goldCounts(tasks: readonly AirlineTask[]): { tasks: number; actions: number; writes: number } {
  const calls = tasks.flatMap(({ actions }) => actions);
  const writes = calls.filter(({ name }) => airlineToolNamed(name)?.writes).length;
  return { tasks: tasks.length, actions: calls.length, writes };
}
