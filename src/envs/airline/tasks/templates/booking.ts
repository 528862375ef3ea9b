import { AIRPORTS } from "../../data/airports.ts";
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
  NO_NIGHT,
  self,
  type Template,
} from "../draft.ts";
import { isDirectRoute, solveTrip, type TripWish } from "../trips.ts";
import { dayText, isAhead, isOver, methodsOf, onlyCard, type World } from "../world.ts";

// Bookings: which flight, for whom, and how it is paid.

/** A route and a day of the world's own choice. */
function drawRoute({ db, random }: World, direct: boolean): { origin: string; destination: string; date: string } {
  for (;;) {
    const [origin, destination] = [random.pick(AIRPORTS)[0], random.pick(AIRPORTS)[0]];
    if (origin !== destination && isDirectRoute(db, origin, destination) === direct)
      return { origin, destination, date: `2024-05-${random.int(17, 29)}` };
  }
}

/** A booking with a card and no certificate can't be paid by two of them, which tempts who has two. */
function twice(booking: Booking, ids: readonly string[]): Booking {
  const [first] = booking.payments;
  return { ...booking, payments: ids.map((payment_id) => ({ payment_id, amount: first!.amount })) };
}

/** Row 0: a certificate, and the rest on a card. */
const certificateAndCard: Template = {
  row: 0,
  category: "book",
  gold: "B",
  rules: [9, 11, 12, 14],
  *drafts(world) {
    for (const customer of world.customers) {
      const [certificate, ...others] = methodsOf(customer.user, "certificate");
      const card = onlyCard(customer.user);
      if (!certificate || others.length > 0 || card === null) continue;
      const route = drawRoute(world, false);
      const wish: TripWish = { ...route, cabin: "economy", passengers: 1, most_stops: 1, best: "cheapest" };
      const best = solveTrip(world.db, wish);
      if (!best || best.price <= certificate.amount) continue;
      const booking: Booking = {
        ...route,
        cabin: "economy",
        legs: best.legs,
        people: [self(customer)],
        payments: [
          { payment_id: certificate.id, amount: certificate.amount },
          { payment_id: card, amount: best.price - certificate.amount },
        ],
      };
      const call = book(customer, booking);
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to fly from ${route.origin} to ${route.destination}, one way, on ${dayText(route.date)}, ` +
          `in economy. You take the cheapest way with one stop; ${NO_NIGHT}. ${bookingText(booking)} Pay with your ` +
          "certificate first, as far as it goes, and put the rest on your credit card.",
        actions: [call],
        script: {
          opening: ["book"],
          facts: {
            ...bookingFacts(booking, route.date, "my certificate first, and the rest on my credit card"),
            other: `the cheapest with one stop, and ${NO_NIGHT}`,
          },
          goals: [
            {
              id: "book",
              kind: "book",
              say: `book the cheapest economy flight with one stop from ${route.origin} to ${route.destination} on ${route.date}`,
              match: {
                tool: "book_reservation",
                kwargs: { origin: route.origin, destination: route.destination },
              },
              accept: { dates: route.date, cabin: "economy" },
            },
          ],
        },
        proof: {
          trips: [{ write: 0, way: "whole", query: wish }],
          tempting: [{ ...book(customer, twice(booking, [certificate.id, certificate.id])), rule: 11 }],
        },
      };
    }
  },
};

/** Row 11: for somebody saved in the profile; of the certificates the largest that is used up. */
const noWaste: Template = {
  row: 11,
  category: "book",
  gold: "B",
  rules: [10, 11],
  *drafts(world) {
    for (const customer of world.customers) {
      const certificates = methodsOf(customer.user, "certificate");
      const card = onlyCard(customer.user);
      if (certificates.length < 2 || card === null || customer.user.saved_passengers.length !== 1) continue;
      const route = drawRoute(world, true);
      const wish: TripWish = { ...route, cabin: "business", passengers: 1, most_stops: 0, best: "earliest" };
      const best = solveTrip(world.db, wish);
      if (!best) continue;
      const usedUp = certificates.filter(({ amount }) => amount <= best.price).toSorted((a, b) => b.amount - a.amount);
      const [chosen, next] = usedUp;
      // Two of one worth leave open which, and without a larger one nothing tempts.
      if (!chosen || chosen.amount === next?.amount || usedUp.length === certificates.length) continue;
      const [friend] = customer.user.saved_passengers as [Passenger];
      const booking: Booking = {
        ...route,
        cabin: "business",
        legs: best.legs,
        people: [friend],
        bags: 1,
        payments: [
          { payment_id: chosen.id, amount: chosen.amount },
          { payment_id: card, amount: best.price - chosen.amount },
        ],
      };
      const all = certificates.map(({ id }) => id);
      yield {
        customer,
        instruction:
          `${intro(customer)} You are booking for ${fullName(friend)}, who is saved in your profile and travels alone: ` +
          `from ${route.origin} to ${route.destination}, one way, on ${dayText(route.date)}, in business, without a stop, on ` +
          `the flight that arrives first. ${bookingText(booking)} You don't want a certificate's rest to be lost: use the ` +
          "largest one that is used up, first, and put what is left on your credit card.",
        actions: [book(customer, booking)],
        script: {
          opening: ["book"],
          facts: {
            ...bookingFacts(
              booking,
              route.date,
              "first my largest certificate that is used up completely, and the rest on my credit card",
            ),
            other: "without a stop, and the flight that arrives first",
          },
          in_profile: ["dob"],
          goals: [
            {
              id: "book",
              kind: "book",
              say:
                `book the business flight that arrives first from ${route.origin} to ${route.destination} on ${route.date} ` +
                `for ${fullName(friend)}`,
              match: {
                tool: "book_reservation",
                kwargs: { origin: route.origin, destination: route.destination },
              },
              accept: { dates: route.date, cabin: "business" },
            },
          ],
        },
        proof: {
          trips: [{ write: 0, way: "whole", query: wish }],
          tempting: [{ ...book(customer, twice(booking, all)), rule: 11 }],
        },
      };
    }
  },
};

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

export const booking: readonly Template[] = [certificateAndCard, noWaste, secondCheapest, onceMore];
