import { z } from "zod";
import type { AirlineDb } from "../data/db.ts";
import { allFlights } from "../data/state.ts";
import { CABINS, type Flight } from "../data/types.ts";

// What a customer asks of a flight, and the flights that fit. A connection never takes more than one stop, nor a night:
// tasks say so, since the one-stop search shows wrong prices for the second day (airline.md 2.8).

export const CRITERIA = ["cheapest", "second_cheapest", "fastest", "earliest", "only"] as const;

export const tripQuerySchema = z.strictObject({
  origin: z.string(),
  destination: z.string(),
  date: z.iso.date(),
  cabin: z.enum(CABINS),
  passengers: z.int().min(1),
  /** 0: without a stop; 1: a stop on the same day is taken too. */
  most_stops: z.union([z.literal(0), z.literal(1)]),
  /** Departs at this time or later, as "09:00:00". */
  from_time: z.string().nullable().default(null),
  /** The only flight that the customer means. */
  flight_number: z.string().nullable().default(null),
  /** Dollars for all passengers. */
  max_price: z.number().nullable().default(null),
  best: z.enum(CRITERIA),
});
export type TripQuery = z.output<typeof tripQuerySchema>;
export type TripWish = z.input<typeof tripQuerySchema>;

export interface TripOption {
  legs: { flight_number: string; date: string }[];
  /** Dollars for all passengers. */
  price: number;
  /** From departure to arrival. */
  minutes: number;
  /** Arrival, in minutes from the day's midnight. */
  arrives: number;
}

/** All flights and pairs of flights that fit, in file order. */
export function tripOptions(db: AirlineDb, wish: TripWish): TripOption[] {
  const query = tripQuerySchema.parse(wish);
  const from = flightsFrom(db).get(query.origin) ?? [];
  const ways = from.flatMap((first): Flight[][] => {
    if (first.destination === query.destination) return [[first]];
    if (query.most_stops === 0 || isOvernight(first)) return [];
    return (flightsFrom(db).get(first.destination) ?? [])
      .filter((second) => second.destination === query.destination && follows(first, second))
      .map((second) => [first, second]);
  });
  return ways.flatMap((flights) => {
    const option = optionOf(flights, query);
    return option ? [option] : [];
  });
}

function optionOf(flights: readonly Flight[], query: TripQuery): TripOption | null {
  const { date, cabin, passengers, from_time, flight_number, max_price } = query;
  if (flight_number !== null && !flights.every((flight) => flight.flight_number === flight_number)) return null;
  if (from_time !== null && flights[0]!.scheduled_departure_time_est < from_time) return null;
  let fare = 0;
  for (const flight of flights) {
    const day = flight.dates[date];
    if (day?.status !== "available" || day.available_seats[cabin] < passengers) return null;
    fare += day.prices[cabin];
  }
  const price = fare * passengers;
  if (max_price !== null && price > max_price) return null;
  const arrives = minutesOf(flights.at(-1)!.scheduled_arrival_time_est);
  return {
    legs: flights.map((flight) => ({ flight_number: flight.flight_number, date })),
    price,
    minutes: arrives - minutesOf(flights[0]!.scheduled_departure_time_est),
    arrives,
  };
}

/** The option that a query means; null: there is none, or another is as good. A lone one is the best of nothing. */
export function solveTrip(db: AirlineDb, wish: TripWish): TripOption | null {
  const options = tripOptions(db, wish);
  if (wish.best === "only") return options.length === 1 ? options[0]! : null;
  if (options.length < 2) return null;
  const value = ({ price, minutes, arrives }: TripOption): number =>
    wish.best === "fastest" ? minutes : wish.best === "earliest" ? arrives : price;
  const ranked = options.toSorted((a, b) => value(a) - value(b));
  const rank = wish.best === "second_cheapest" ? 1 : 0;
  const values = ranked.map(value);
  const chosen = ranked[rank];
  const isAlone = values.filter((one) => one === values[rank]).length === 1;
  // A tie for the first place leaves open which is the second.
  return chosen && isAlone && (rank === 0 || values[0]! < values[1]!) ? chosen : null;
}

const indices = new WeakMap<AirlineDb, Map<string, Flight[]>>();

function flightsFrom(db: AirlineDb): Map<string, Flight[]> {
  let index = indices.get(db);
  if (!index) {
    index = new Map();
    for (const flight of allFlights(db)) index.set(flight.origin, [...(index.get(flight.origin) ?? []), flight]);
    indices.set(db, index);
  }
  return index;
}

/** Whether any flight serves two airports without a stop, on whatever day. */
export function isDirectRoute(db: AirlineDb, origin: string, destination: string): boolean {
  return (flightsFrom(db).get(origin) ?? []).some((flight) => flight.destination === destination);
}

const isOvernight = (flight: Flight): boolean => flight.scheduled_arrival_time_est.includes("+1");
const follows = (first: Flight, second: Flight): boolean =>
  first.scheduled_arrival_time_est <= second.scheduled_departure_time_est;

/** Minutes from midnight; "+1" behind a time means the day after. */
export function minutesOf(time: string): number {
  const [hours, minutes] = time.split(":").map((part) => Number.parseInt(part, 10));
  return hours! * 60 + minutes! + (time.includes("+1") ? 24 * 60 : 0);
}
