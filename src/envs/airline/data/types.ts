import { z } from "zod";

// What stands in the three files of a database (airline.md 1.1 to 1.3). Fields that these shapes don't name are kept.
// Code that only reads a record takes these types (`flightOf`, `reservationOf`, `userOf` in state.ts); the tools work on
// the Python values beneath, where ints, floats and the order of keys survive.

export const CABINS = ["basic_economy", "economy", "business"] as const;
export const MEMBERSHIPS = ["regular", "silver", "gold"] as const;

const perCabin = z.looseObject({ basic_economy: z.number(), economy: z.number(), business: z.number() });
const time = z.string();

/** One flight on one day. Times are ISO without a zone, in EST. */
export const dayRecordSchema = z.discriminatedUnion("status", [
  z.looseObject({
    status: z.literal("landed"),
    actual_departure_time_est: time,
    actual_arrival_time_est: time,
  }),
  z.looseObject({ status: z.literal("cancelled") }),
  z.looseObject({
    status: z.literal("flying"),
    actual_departure_time_est: time,
    estimated_arrival_time_est: time,
  }),
  z.looseObject({
    status: z.enum(["on time", "delayed"]),
    estimated_departure_time_est: time,
    estimated_arrival_time_est: time,
  }),
  /** Seats left and price in dollars, per cabin. */
  z.looseObject({ status: z.literal("available"), available_seats: perCabin, prices: perCabin }),
]);

export const flightSchema = z.looseObject({
  flight_number: z.string(),
  origin: z.string(),
  destination: z.string(),
  /** HH:MM:SS */
  scheduled_departure_time_est: z.string(),
  /** HH:MM:SS, with "+1" behind it where it is on the next day. */
  scheduled_arrival_time_est: z.string(),
  /** By day, YYYY-MM-DD. */
  dates: z.record(z.string(), dayRecordSchema),
});

export const passengerSchema = z.looseObject({ first_name: z.string(), last_name: z.string(), dob: z.string() });

export const reservationSchema = z.looseObject({
  reservation_id: z.string(),
  user_id: z.string(),
  origin: z.string(),
  destination: z.string(),
  flight_type: z.enum(["one_way", "round_trip"]),
  cabin: z.enum(CABINS),
  flights: z.array(
    z.looseObject({
      origin: z.string(),
      destination: z.string(),
      flight_number: z.string(),
      date: z.string(),
      /** Dollars for one passenger, as it was when booked. */
      price: z.number(),
    }),
  ),
  passengers: z.array(passengerSchema),
  /** Dollars; negative: a refund. */
  payment_history: z.array(z.looseObject({ payment_id: z.string(), amount: z.number() })),
  created_at: z.string(),
  total_baggages: z.number(),
  nonfree_baggages: z.number(),
  insurance: z.enum(["yes", "no"]),
  /** Not there until the reservation is cancelled. */
  status: z.string().optional(),
});

export const paymentMethodSchema = z.discriminatedUnion("source", [
  z.looseObject({ source: z.literal("credit_card"), brand: z.string(), last_four: z.string(), id: z.string() }),
  /** `amount`: what is left on it, dollars. */
  z.looseObject({ source: z.literal("gift_card"), amount: z.number(), id: z.string() }),
  z.looseObject({ source: z.literal("certificate"), amount: z.number(), id: z.string() }),
]);

export const userSchema = z.looseObject({
  name: z.looseObject({ first_name: z.string(), last_name: z.string() }),
  address: z.looseObject({
    address1: z.string(),
    address2: z.string(),
    city: z.string(),
    country: z.string(),
    state: z.string(),
    zip: z.string(),
  }),
  email: z.string(),
  dob: z.string(),
  payment_methods: z.record(z.string(), paymentMethodSchema),
  saved_passengers: z.array(passengerSchema),
  membership: z.enum(MEMBERSHIPS),
  /** Ids of the reservations that the user owns. */
  reservations: z.array(z.string()),
});

export type Cabin = (typeof CABINS)[number];
export type Membership = (typeof MEMBERSHIPS)[number];
export type DayRecord = z.output<typeof dayRecordSchema>;
export type Flight = z.output<typeof flightSchema>;
export type Passenger = z.output<typeof passengerSchema>;
export type Reservation = z.output<typeof reservationSchema>;
export type PaymentMethod = z.output<typeof paymentMethodSchema>;
export type User = z.output<typeof userSchema>;
