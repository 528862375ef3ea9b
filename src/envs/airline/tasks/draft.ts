import type { z } from "zod";
import type { Cabin, Passenger, Reservation } from "../data/types.ts";
import { chargedBags } from "../policy/facts.ts";
import type { scriptSchema } from "../users/script.ts";
import type { ProofInput } from "./proof-record.ts";
import type { TripOption } from "./trips.ts";
import type { Customer, World } from "./world.ts";

export type { Customer };

// What a template makes, and the parts that templates put together.

export interface Call {
  name: string;
  kwargs: Record<string, unknown>;
}

export type ScriptInput = z.input<typeof scriptSchema>;
export type GoalInput = ScriptInput["goals"][number];

/** A task before it has a number. */
export interface Draft {
  customer: Customer;
  instruction: string;
  actions: readonly Call[];
  outputs?: readonly string[];
  script: ScriptInput;
  proof: ProofInput;
}

/** A kind of task: a row of the table in airline.md 4.6. */
export interface Template {
  row: number;
  category: string;
  /** Its gold in the letters of that table, as "CB #3" or "- T". */
  gold: string;
  /** Rules of section 3 that it turns on. */
  rules: readonly number[];
  /** Tasks of its kind, in the order in which the world's customers stand. Not all of them need to hold. */
  drafts(world: World): Iterable<Draft>;
}

/** A customer with each of the trips that a template can begin with. */
export function* eachTrip(
  { customers }: World,
  fits: (trip: Reservation, customer: Customer) => boolean,
): Generator<{ customer: Customer; trip: Reservation }> {
  for (const customer of customers)
    for (const trip of customer.trips) if (fits(trip, customer)) yield { customer, trip };
}

// ---- calls ----

export const cancel = (trip: Reservation): Call => ({
  name: "cancel_reservation",
  kwargs: { reservation_id: trip.reservation_id },
});

export const legsOf = (legs: readonly { flight_number: string; date: string }[]): TripOption["legs"] =>
  legs.map(({ flight_number, date }) => ({ flight_number, date }));

/** A change of flights, or of the cabin alone. */
export const change = (trip: Reservation, cabin: Cabin, legs: TripOption["legs"], payment_id: string): Call => ({
  name: "update_reservation_flights",
  kwargs: { reservation_id: trip.reservation_id, cabin, flights: legs, payment_id },
});

/** @param cabin the one flown in by then */
export function bags(
  { user }: Customer,
  trip: Reservation,
  total: number,
  payment_id: string,
  cabin: Cabin = trip.cabin,
): Call {
  return {
    name: "update_reservation_baggages",
    kwargs: {
      reservation_id: trip.reservation_id,
      total_baggages: total,
      nonfree_baggages: chargedBags(user.membership, cabin, trip.passengers.length, total),
      payment_id,
    },
  };
}

export const person = ({ first_name, last_name, dob }: Passenger): Record<string, string> => ({
  first_name,
  last_name,
  dob,
});

export const passengers = (trip: Reservation, people: readonly Passenger[]): Call => ({
  name: "update_reservation_passengers",
  kwargs: { reservation_id: trip.reservation_id, passengers: people.map(person) },
});

export const certificate = ({ id }: Customer, amount: number): Call => ({
  name: "send_certificate",
  kwargs: { user_id: id, amount },
});

export const transfer: Call = {
  name: "transfer_to_human_agents",
  kwargs: { summary: "The request is out of reach of the tools." },
};

export interface Booking {
  origin: string;
  destination: string;
  cabin: Cabin;
  legs: TripOption["legs"];
  people: readonly Passenger[];
  payments: readonly { payment_id: string; amount: number }[];
  bags?: number;
  insurance?: "yes" | "no";
}

/** A one-way booking. */
export function book(customer: Customer, booking: Booking): Call {
  const { origin, destination, cabin, legs, people, payments, bags: total = 0, insurance = "no" } = booking;
  return {
    name: "book_reservation",
    kwargs: {
      user_id: customer.id,
      origin,
      destination,
      flight_type: "one_way",
      cabin,
      flights: legs,
      passengers: people.map(person),
      payment_methods: payments.filter(({ amount }) => amount > 0),
      total_baggages: total,
      nonfree_baggages: chargedBags(customer.user.membership, cabin, people.length, total),
      insurance,
    },
  };
}

// ---- words ----

export const cabinText = (cabin: Cabin): string => cabin.replace("_", " ");
export const fullName = ({ first_name, last_name }: { first_name: string; last_name: string }): string =>
  `${first_name} ${last_name}`;
export const bornText = (one: Passenger): string => `${fullName(one)}, born ${one.dob}`;
export const list = (items: readonly string[]): string =>
  items.length < 2 ? (items[0] ?? "") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;

/** The person whom the user simulator plays, for a language model. */
export const intro = ({ id, user }: Customer): string => `You are ${fullName(user.name)}, and your user id is ${id}.`;

export const self = ({ user }: Customer): Passenger => ({ ...user.name, dob: user.dob }) as Passenger;

/** What a booking's customer says when asked. */
export function bookingFacts(booking: Booking, date: string, payment: string): NonNullable<ScriptInput["facts"]> {
  const { origin, destination, cabin, people, bags: total = 0, insurance = "no" } = booking;
  return {
    trip_type: "one way",
    origin,
    destination,
    date,
    cabin: cabinText(cabin),
    passenger_count: String(people.length),
    passengers: people.map(fullName),
    dob: people.map(({ dob }) => dob),
    bags: String(total),
    insurance,
    payment,
  };
}

/** The same for the instruction. */
export function bookingText({ people, bags: total = 0, insurance = "no" }: Booking): string {
  const party = people.length === 1 ? "The only passenger is" : "The passengers are, in this order,";
  const luggage = total === 0 ? "no checked bags" : total === 1 ? "one checked bag" : `${total} checked bags`;
  const insured = insurance === "yes" ? "You want travel insurance." : "You want no travel insurance.";
  return `${party} ${list(people.map(bornText))}, with ${luggage}. ${insured}`;
}

export const NO_NIGHT = "a connection must leave on the same day";
