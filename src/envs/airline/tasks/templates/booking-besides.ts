import type { Passenger } from "../../data/types.ts";
import { cancelProblem } from "../../policy/facts.ts";
import {
  type Booking,
  book,
  bookingFacts,
  bookingText,
  cancel,
  eachTrip,
  fullName,
  intro,
  self,
  type Template,
} from "../draft.ts";
import { solveTrip, type TripWish } from "../trips.ts";
import { dayText, isAhead, isOver, onlyCard } from "../world.ts";
import { drawRoute } from "./route.ts";

// Bookings of customers who talk of a trip that they have.

/** Row 25: the trip stays, and the second-cheapest flight is booked. */
const secondCheapest: Template = {
  row: 25,
  category: "book",
  gold: "B",
  rules: [6, 9, 12, 23],
  *drafts(world) {
    const { db } = world;
    const locked = eachTrip(
      world,
      (trip, { user }) =>
        isAhead(db, trip) &&
        cancelProblem(db, trip, "change_of_plan")?.rule === 23 &&
        onlyCard(user) !== null &&
        user.membership !== "regular",
    );
    for (const { customer, trip } of locked) {
      const route = drawRoute(world, true);
      const wish: TripWish = { ...route, cabin: "economy", passengers: 1, most_stops: 0, best: "second_cheapest" };
      const best = solveTrip(db, wish);
      if (!best) continue;
      const booking: Booking = {
        ...route,
        cabin: "economy",
        legs: best.legs,
        people: [self(customer)],
        bags: 2,
        insurance: "yes",
        payments: [{ payment_id: onlyCard(customer.user)!, amount: best.price + 30 }],
      };
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to cancel your trip ${trip.reservation_id}, because your plans have changed. You argue ` +
          "about it twice. When that leads nowhere, keep it, and book a new trip: from " +
          `${route.origin} to ${route.destination}, one way, on ${dayText(route.date)}, in economy, without a stop, for ` +
          `yourself alone. You distrust the cheapest flight and take the second-cheapest. ${bookingText(booking)} Pay ` +
          "with your credit card.",
        actions: [book(customer, booking)],
        script: {
          opening: ["cancel"],
          facts: {
            ...bookingFacts(booking, route.date, "my credit card"),
            reservation_id: trip.reservation_id,
            reason: "change of plan",
            other: "without a stop, and the second-cheapest flight",
          },
          goals: [
            {
              id: "cancel",
              kind: "cancel",
              say: `cancel trip ${trip.reservation_id}`,
              match: { tool: "cancel_reservation", kwargs: cancel(trip).kwargs },
              insist: 2,
              on_refused: "book",
            },
            {
              id: "book",
              kind: "book",
              say: `book the second-cheapest economy flight from ${route.origin} to ${route.destination} on ${route.date}`,
              match: {
                tool: "book_reservation",
                kwargs: { origin: route.origin, destination: route.destination },
              },
              accept: { dates: route.date, cabin: "economy" },
            },
          ],
        },
        proof: {
          reason: "change_of_plan",
          trips: [{ write: 0, way: "whole", query: wish }],
          tempting: [{ ...cancel(trip), rule: 23 }],
        },
      };
    }
  },
};

/** Row 32: the flight of a past trip once more, with somebody else, under a limit. */
const onceMore: Template = {
  row: 32,
  category: "book",
  gold: "B",
  rules: [8, 9, 10, 12, 13],
  *drafts(world) {
    const { db, random } = world;
    const past = eachTrip(
      world,
      (trip, { user }) =>
        isOver(db, trip) &&
        trip.flight_type === "one_way" &&
        trip.flights.length === 1 &&
        trip.passengers.length === 1 &&
        onlyCard(user) !== null &&
        user.saved_passengers.length > 0,
    );
    for (const { customer, trip } of past) {
      const date = `2024-05-${random.int(18, 29)}`;
      const { origin, destination } = trip;
      const flight_number = trip.flights[0]!.flight_number;
      const [friend] = customer.user.saved_passengers as [Passenger, ...Passenger[]];
      const people = [self(customer), friend];
      const wish: TripWish = {
        origin,
        destination,
        date,
        cabin: "economy",
        passengers: 2,
        most_stops: 0,
        best: "only",
      };
      const only = solveTrip(db, { ...wish, flight_number });
      if (!only || fullName(friend) === fullName(people[0]!)) continue;
      const limit = Math.ceil((only.price + 10) / 50) * 50;
      const booking: Booking = {
        ...{ origin, destination, cabin: "economy", legs: only.legs, people },
        bags: 2,
        payments: [{ payment_id: onlyCard(customer.user)!, amount: only.price }],
      };
      const call = book(customer, booking);
      yield {
        customer,
        instruction:
          `${intro(customer)} You liked the flight of your past trip ${trip.reservation_id} from ${origin} to ${destination} and ` +
          `want the same flight once more on ${dayText(date)}, one way, in economy, for yourself and ${fullName(friend)}, who ` +
          `is saved in your profile. ${bookingText(booking)} The tickets may cost at most $${limit} together, from your ` +
          "credit card.",
        actions: [call],
        script: {
          opening: ["book"],
          facts: {
            ...bookingFacts(booking, date, "my credit card"),
            reservation_id: trip.reservation_id,
            budget: `at most $${limit}`,
            other: `the same flight as on trip ${trip.reservation_id}`,
          },
          goals: [
            {
              id: "book",
              kind: "book",
              say: `book the flight of my past trip ${trip.reservation_id} once more on ${date} for two, for at most $${limit}`,
              match: { tool: "book_reservation", kwargs: { origin, destination } },
              accept: { dates: date, cabin: "economy", max_extra_cost: limit },
            },
          ],
        },
        proof: {
          trips: [{ write: 0, way: "whole", query: { ...wish, flight_number, max_price: limit } }],
          tempting: [
            {
              ...book(customer, { ...booking, legs: [{ flight_number, date: trip.flights[0]!.date }] }),
              rule: 8,
            },
            { ...call, kwargs: { ...call.kwargs, nonfree_baggages: 2 }, rule: 13 },
          ],
        },
      };
    }
  },
};

export const bookingBesides: readonly Template[] = [secondCheapest, onceMore];
