import type { AirlineDb } from "../data/db.ts";
import { flightOf } from "../data/state.ts";

/** What an itinerary is to be: where it begins, where it goes, and whether it comes back. */
export interface Trip {
  origin: string;
  destination: string;
  flight_type: string;
}

/**
 * Why flights don't make the trip: they don't begin at its origin, don't chain, depart before the one before them has
 * arrived, or don't end where they should. null: they do.
 */
export function itineraryProblem(
  db: AirlineDb,
  legs: readonly { flight_number: string; date: string }[],
  trip: Trip,
): string | null {
  if (legs.length === 0) return "there are no flights";
  const flights = [];
  for (const leg of legs) {
    const flight = flightOf(db, leg.flight_number);
    if (!flight) return `there is no flight ${leg.flight_number}`;
    flights.push({ ...leg, ...flight });
  }
  if (flights[0]!.origin !== trip.origin) return `it begins at ${flights[0]!.origin}, not at ${trip.origin}`;
  for (const [i, flight] of flights.slice(1).entries()) {
    const before = flights[i]!;
    if (flight.origin !== before.destination)
      return `flight ${flight.flight_number} departs from ${flight.origin}, not from ${before.destination}`;
    if (
      minutes(flight.date, flight.scheduled_departure_time_est) <
      minutes(before.date, before.scheduled_arrival_time_est)
    )
      return `flight ${flight.flight_number} departs before flight ${before.flight_number} arrives`;
  }
  const stops = flights.map((flight) => flight.destination);
  if (trip.flight_type !== "round_trip")
    return stops.at(-1) === trip.destination ? null : `it ends at ${stops.at(-1)}, not at ${trip.destination}`;
  if (stops.at(-1) !== trip.origin) return `a round trip that ends at ${stops.at(-1)}, not at ${trip.origin}`;
  return stops.slice(0, -1).includes(trip.destination) || trip.origin === trip.destination
    ? null
    : `it never gets to ${trip.destination}`;
}

/** A scheduled time on a day, in minutes; "+1" behind it means the day after. */
function minutes(date: string, time: string): number {
  const overnight = time.includes("+1") ? 24 * 60 : 0;
  return Date.parse(`${date}T${time.slice(0, 8)}Z`) / 60_000 + overnight;
}
