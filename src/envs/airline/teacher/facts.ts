import { parseJson } from "../data/python-json.ts";
import { toPlain } from "../data/python-values.ts";
import type { WriteCall } from "../users/types.ts";
import { argumentsOf } from "./plan.ts";

// What the teacher has read, and what follows from it.

interface LegFacts {
  flight_number: string;
  date: string;
  price: number;
}

interface ReservationFacts {
  origin: string;
  destination: string;
  flight_type: string;
  cabin: string;
  flights: LegFacts[];
  passengers: unknown[];
  nonfree_baggages: number;
}

export interface Facts {
  /** The user's reservations; null: not read. */
  owned: readonly string[] | null;
  reservations: Readonly<Record<string, ReservationFacts>>;
  /** Prices by cabin, of "flight/day". */
  prices: Readonly<Record<string, Record<string, number>>>;
}

export const NO_FACTS: Facts = { owned: null, reservations: {}, prices: {} };

/** The facts with those of a call's result; an error adds none. */
export function withResult(facts: Facts, call: WriteCall, observation: string): Facts {
  const result = readResult(observation);
  const args = argumentsOf(call);
  if (call.name === "get_user_details" && isObject(result) && Array.isArray(result.reservations))
    return { ...facts, owned: result.reservations.map(String) };
  if (isObject(result) && typeof args.reservation_id === "string" && Array.isArray(result.flights))
    return {
      ...facts,
      reservations: { ...facts.reservations, [args.reservation_id]: result as unknown as ReservationFacts },
    };
  if (call.name.startsWith("search_") && Array.isArray(result)) {
    const found = (result.flat() as unknown[]).filter(isObject).filter(({ prices }) => isObject(prices));
    const prices = found.map((flight) => [
      `${String(flight.flight_number)}/${String(flight.date ?? args.date)}`,
      flight.prices as Record<string, number>,
    ]);
    return { ...facts, prices: { ...facts.prices, ...Object.fromEntries(prices) } };
  }
  return facts;
}

/** Dollars that a change of flights or bags costs, by what was read; null: that is not enough to tell. */
export function costOfWrite(facts: Facts, write: WriteCall): number | null {
  const args = argumentsOf(write);
  const reservation = facts.reservations[String(args.reservation_id)];
  if (!reservation) return null;
  if (write.name === "update_reservation_baggages")
    return 50 * Math.max(0, Number(args.nonfree_baggages) - reservation.nonfree_baggages);
  if (write.name !== "update_reservation_flights") return null;
  let total = 0;
  for (const leg of legsOf(write)) {
    const price =
      keptLeg(reservation, leg, args.cabin)?.price ??
      facts.prices[`${leg.flight_number}/${leg.date}`]?.[String(args.cabin)];
    if (price === undefined) return null;
    total += price;
  }
  for (const { price } of reservation.flights) total -= price;
  return total * reservation.passengers.length;
}

/** The search that would show a leg of a booking or a change that no search has shown yet; null: none is left to try. */
export function missingSearch(facts: Facts, write: WriteCall, tried: (call: WriteCall) => boolean): WriteCall | null {
  const args = argumentsOf(write);
  const reservation = facts.reservations[String(args.reservation_id)];
  const trip =
    write.name === "book_reservation" ? args : write.name === "update_reservation_flights" ? reservation : null;
  if (!trip) return null;
  const legs = legsOf(write);
  const at = legs.findIndex(
    (leg) =>
      !facts.prices[`${leg.flight_number}/${leg.date}`] && !(reservation && keptLeg(reservation, leg, args.cabin)),
  );
  if (at < 0) return null;
  const out = { origin: trip.origin, destination: trip.destination, date: legs[at]!.date };
  const back = { origin: trip.destination, destination: trip.origin, date: legs[at]!.date };
  const routes = trip.flight_type !== "round_trip" ? [out] : at === 0 ? [out, back] : [back, out];
  const calls = routes.flatMap((kwargs) => [
    { name: "search_direct_flight", kwargs },
    { name: "search_onestop_flight", kwargs },
  ]);
  return calls.find((call) => !tried(call)) ?? null;
}

/** A leg that stays as it is, with its price. */
function keptLeg(reservation: ReservationFacts, leg: Omit<LegFacts, "price">, cabin: unknown): LegFacts | undefined {
  if (reservation.cabin !== cabin) return undefined;
  return reservation.flights.find(
    ({ flight_number, date }) => flight_number === leg.flight_number && date === leg.date,
  );
}

function legsOf(write: WriteCall): Omit<LegFacts, "price">[] {
  const { flights } = argumentsOf(write);
  return Array.isArray(flights) ? (flights as LegFacts[]) : [];
}

function readResult(observation: string): unknown {
  try {
    return toPlain(parseJson(observation));
  } catch {
    return null;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
