import type { AirlineDb } from "../data/db.ts";
import { type DataState, reservationOf, startState, userIds, userOf } from "../data/state.ts";
import type { SynthRandom } from "../data/synth-random.ts";
import type { Cabin, PaymentMethod, Reservation, User } from "../data/types.ts";
import { dayOf, isFlown } from "../policy/facts.ts";

// The database as templates of tasks look at it.

export interface Customer {
  id: string;
  user: User;
  trips: readonly Reservation[];
}

export interface World {
  db: AirlineDb;
  state: DataState;
  /** In the order in which a template looks through them. */
  customers: readonly Customer[];
  /** Of the template's own choices. */
  random: SynthRandom;
}

export function customersOf(db: AirlineDb): Customer[] {
  const state = startState(db);
  return userIds(state).map((id) => {
    const user = userOf(state, id)!;
    return { id, user, trips: user.reservations.flatMap((trip) => reservationOf(state, trip) ?? []) };
  });
}

/** None of its flights has departed, and all of them can still be booked. */
export function isAhead(db: AirlineDb, trip: Reservation): boolean {
  return trip.flights.every((leg) => dayOf(db, leg)?.status === "available");
}

/** Some flights are flown, others are still to come. */
export function isPartlyFlown(db: AirlineDb, trip: Reservation): boolean {
  return (
    trip.flights.some((leg) => isFlown(db, leg)) && trip.flights.some((leg) => dayOf(db, leg)?.status === "available")
  );
}

export function isOver(db: AirlineDb, trip: Reservation): boolean {
  return trip.flights.every((leg) => dayOf(db, leg)?.status === "landed");
}

/** Legs of the way out, and of the way back; a one-way trip has only the first. */
export function waysOf(trip: Reservation): { out: Reservation["flights"]; back: Reservation["flights"] } {
  const turn = trip.flights.findIndex((leg) => leg.destination === trip.destination) + 1;
  return { out: trip.flights.slice(0, turn), back: trip.flights.slice(turn) };
}

/** What a change of flights or cabin comes to, dollars for all; negative: a refund. null: it can't be booked. */
export function changeCost(
  db: AirlineDb,
  trip: Reservation,
  cabin: Cabin,
  legs: readonly { flight_number: string; date: string }[],
): number | null {
  let total = 0;
  for (const leg of legs) {
    const kept =
      cabin === trip.cabin &&
      trip.flights.find(({ flight_number, date }) => flight_number === leg.flight_number && date === leg.date);
    const day = dayOf(db, leg);
    if (kept) total += kept.price;
    else if (day?.status === "available" && day.available_seats[cabin] >= trip.passengers.length)
      total += day.prices[cabin];
    else return null;
  }
  return total * trip.passengers.length - fareOf(trip);
}

/** Dollars that its flights cost, for all passengers. */
export function fareOf(trip: Reservation): number {
  return trip.flights.reduce((sum, { price }) => sum + price, 0) * trip.passengers.length;
}

export function methodsOf<Source extends PaymentMethod["source"]>(
  user: User,
  source: Source,
): Extract<PaymentMethod, { source: Source }>[] {
  return Object.values(user.payment_methods).filter(
    (method): method is Extract<PaymentMethod, { source: Source }> => method.source === source,
  );
}

/** The one credit card that a customer means by "my credit card"; null: there is none, or more than one. */
export function onlyCard(user: User): string | null {
  const cards = methodsOf(user, "credit_card");
  return cards.length === 1 ? cards[0]!.id : null;
}

/** YYYY-MM-DD, so many days later. */
export function daysLater(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
}

/** "May 20" */
export const dayText = (date: string): string => `May ${Number(date.slice(-2))}`;
