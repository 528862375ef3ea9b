import type { Reservation } from "../../data/types.ts";
import { type Customer, eachTrip, type GoalInput } from "../draft.ts";
import type { TripWish } from "../trips.ts";
import { daysLater, isAhead, onlyCard, type World } from "../world.ts";

// What the templates for changes of flights share.

export const UPDATE = "update_reservation_flights";

/** One-way trips ahead whose flights may be changed, of customers with one credit card. */
export function* movable(world: World, fits: (trip: Reservation, customer: Customer) => boolean) {
  yield* eachTrip(
    world,
    (trip, customer) =>
      isAhead(world.db, trip) &&
      trip.cabin !== "basic_economy" &&
      trip.flight_type === "one_way" &&
      onlyCard(customer.user) !== null &&
      fits(trip, customer),
  );
}

/** The trip's own route, so many days after it was booked for. */
export function moved(trip: Reservation, days: number, rest: Pick<TripWish, "most_stops" | "best">): TripWish {
  return {
    origin: trip.origin,
    destination: trip.destination,
    date: daysLater(trip.flights[0]!.date, days),
    cabin: trip.cabin,
    passengers: trip.passengers.length,
    ...rest,
  };
}

export const changeGoal = (trip: Reservation, say: string, rest: Partial<GoalInput> = {}): GoalInput => ({
  id: "change",
  kind: "change",
  say,
  match: { tool: UPDATE, kwargs: { reservation_id: trip.reservation_id } },
  ...rest,
});
