import type { Cabin, Reservation } from "../../data/types.ts";
import { cancelProblem, freeBags } from "../../policy/facts.ts";
import { type Call, type Customer, cabinText, change, type GoalInput, legsOf, list } from "../draft.ts";
import { changeCost, isAhead, onlyCard, type World } from "../world.ts";

// What the templates for customers with several trips share.

const UPDATE = "update_reservation_flights";
const CANCEL = "cancel_reservation";

export const isLocked = ({ db }: World, trip: Reservation, reason: "change_of_plan" | "health" | "weather"): boolean =>
  isAhead(db, trip) && cancelProblem(db, trip, reason)?.rule === 23;
export const canBeCancelled = (
  { db }: World,
  trip: Reservation,
  reason: "change_of_plan" | "health" | "weather",
): boolean => isAhead(db, trip) && cancelProblem(db, trip, reason) === null;

/** Another cabin on the same flights, as the customer's bags allow; null: no seats, or no difference in price. */
export function recabin(
  { db }: World,
  { user }: Customer,
  trip: Reservation,
  cabin: Cabin,
): { call: Call; cost: number } | null {
  const card = onlyCard(user);
  const cost = changeCost(db, trip, cabin, trip.flights);
  const roomy = trip.total_baggages <= freeBags(user.membership, cabin) * trip.passengers.length;
  if (!isAhead(db, trip) || trip.cabin === cabin || card === null || !cost || !roomy) return null;
  return { call: change(trip, cabin, legsOf(trip.flights), card), cost };
}

export const cancelGoal = (trip: Reservation, say: string, rest: Partial<GoalInput> = {}): GoalInput => ({
  id: `cancel-${trip.reservation_id}`,
  kind: "cancel",
  say,
  match: { tool: CANCEL, kwargs: { reservation_id: trip.reservation_id } },
  ...rest,
});
export const cabinGoal = (trip: Reservation, cabin: Cabin): GoalInput => ({
  id: `cabin-${trip.reservation_id}`,
  kind: "cabin",
  say: `put trip ${trip.reservation_id} into ${cabinText(cabin)}`,
  match: { tool: UPDATE, kwargs: { reservation_id: trip.reservation_id } },
});
export const named = (trips: readonly Reservation[]): string => list(trips.map(({ reservation_id }) => reservation_id));
