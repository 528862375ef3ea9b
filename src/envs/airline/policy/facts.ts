import type { AirlineDb } from "../data/db.ts";
import { flightOf } from "../data/state.ts";
import type { Cabin, DayRecord, Membership, Reservation } from "../data/types.ts";

// What the policy turns on, computed from records (airline.md section 3).

/** Rule 1: the time that it always is, EST. */
export const NOW = "2024-05-15T15:00:00";
/** Rules 13 and 14, dollars a bag and a passenger. */
export const BAG_PRICE = 50;
export const INSURANCE_PRICE = 30;
/** Rule 10. */
export const MOST_PASSENGERS = 5;
/** Rule 11: how many payment methods of each kind a booking may use. */
export const MOST_PAYMENTS = { certificate: 1, credit_card: 1, gift_card: 3 } as const;
/** Rules 28 and 29, dollars a passenger. */
export const CANCELLED_COMPENSATION = 100;
export const DELAYED_COMPENSATION = 50;

const FREE_BAGS: Record<Membership, Record<Cabin, number>> = {
  regular: { basic_economy: 0, economy: 1, business: 2 },
  silver: { basic_economy: 1, economy: 2, business: 3 },
  gold: { basic_economy: 2, economy: 3, business: 3 },
};

/** Rule 12: bags that one passenger takes for free. */
export function freeBags(membership: Membership, cabin: Cabin): number {
  return FREE_BAGS[membership][cabin];
}

/** Rule 13: how many of a reservation's bags are charged. */
export function chargedBags(membership: Membership, cabin: Cabin, passengers: number, bags: number): number {
  return Math.max(0, bags - freeBags(membership, cabin) * passengers);
}

/** A leg's flight on its day; null: there is no such flight or day. */
export function dayOf(db: AirlineDb, leg: { flight_number: string; date: string }): DayRecord | null {
  return flightOf(db, leg.flight_number)?.dates[leg.date] ?? null;
}

/** Rule 24: whether a leg has been used: its flight has departed. */
export function isFlown(db: AirlineDb, leg: { flight_number: string; date: string }): boolean {
  const status = dayOf(db, leg)?.status;
  return status === "landed" || status === "flying";
}

/** Rules 22 and 28: whether the airline cancelled a flight of the reservation. */
export function airlineCancelled(db: AirlineDb, reservation: Reservation): boolean {
  return reservation.flights.some((leg) => dayOf(db, leg)?.status === "cancelled");
}

/** Rule 29: whether a flight of the reservation is delayed. */
export function hasDelay(db: AirlineDb, reservation: Reservation): boolean {
  return reservation.flights.some((leg) => dayOf(db, leg)?.status === "delayed");
}

/** Rule 22: whether it was booked in the 24 hours before now. */
export function bookedWithinADay(reservation: Reservation): boolean {
  return Date.parse(`${NOW}Z`) - Date.parse(`${reservation.created_at}Z`) <= 24 * 60 * 60 * 1000;
}

/** Rules 26 and 27: whether a customer of this kind can get compensation for a reservation at all. */
export function canBeCompensated(membership: Membership, reservation: Reservation): boolean {
  return membership !== "regular" || reservation.insurance === "yes" || reservation.cabin === "business";
}

/** Why a customer cancels. Health and weather are what insurance covers (rule 14). */
export const CANCEL_REASONS = ["change_of_plan", "airline_cancelled", "health", "weather", "other"] as const;
export type CancelReason = (typeof CANCEL_REASONS)[number];

/**
 * Rules 22 to 24: why a reservation can't be cancelled; null: it can.
 * @param reason undefined: it isn't known, so an insured customer's is taken to be covered
 */
export function cancelProblem(
  db: AirlineDb,
  reservation: Reservation,
  reason?: CancelReason,
): { rule: number; why: string } | null {
  if (reservation.status === "cancelled") return { rule: 24, why: "it is cancelled already" };
  if (reservation.flights.some((leg) => isFlown(db, leg)))
    return { rule: 24, why: "a flight of it has departed: this is a case for a human agent" };
  if (bookedWithinADay(reservation) || airlineCancelled(db, reservation) || reservation.cabin === "business")
    return null;
  if (reservation.insurance !== "yes")
    return { rule: 23, why: `it is ${reservation.cabin}, not insured, and was booked more than 24 hours ago` };
  if (reason === undefined || reason === "health" || reason === "weather") return null;
  return { rule: 23, why: `insurance covers health and weather, not '${reason}'` };
}
