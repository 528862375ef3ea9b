import type { Reservation } from "../../data/types.ts";
import { cancelProblem } from "../../policy/facts.ts";
import {
  type Booking,
  book,
  bookingFacts,
  bookingText,
  bornText,
  type Customer,
  cancel,
  eachTrip,
  fullName,
  intro,
  list,
  NO_NIGHT,
  passengers,
  person,
  self,
  type Template,
} from "../draft.ts";
import { solveTrip, type TripWish } from "../trips.ts";
import { daysLater, dayText, isAhead, methodsOf, onlyCard, type World } from "../world.ts";

// One trip is cancelled and another one booked.

/** Trips ahead that can be cancelled for a change of plan, of customers with one credit card. */
function* replaceable(world: World, fits: (trip: Reservation) => boolean) {
  const { db } = world;
  yield* eachTrip(
    world,
    (trip, { user }) =>
      isAhead(db, trip) && fits(trip) && cancelProblem(db, trip, "change_of_plan") === null && onlyCard(user) !== null,
  );
}

/** A trip that tempts to be cancelled as well, but is locked. */
function lockedOf({ db }: World, { trips }: Customer): Reservation | undefined {
  return trips.find((trip) => isAhead(db, trip) && cancelProblem(db, trip, "change_of_plan")?.rule === 23);
}

function balances({ user }: Customer): { gift: number; certificates: number } {
  const total = (source: "gift_card" | "certificate") =>
    methodsOf(user, source).reduce((sum, { amount }) => sum + amount, 0);
  return { gift: total("gift_card"), certificates: total("certificate") };
}

/** Row 8: first the balances, then a new trip, paid with a certificate and a card. */
const balancesFirst: Template = {
  row: 8,
  category: "mixed",
  gold: "CB #3",
  rules: [11, 22, 23, 25],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of replaceable(world, () => true)) {
      const [certificate, ...others] = methodsOf(customer.user, "certificate");
      const { gift, certificates } = balances(customer);
      if (!certificate || others.length > 0 || methodsOf(customer.user, "gift_card").length === 0) continue;
      const { origin, destination } = trip;
      const date = daysLater(trip.flights[0]!.date, 1);
      const wish: TripWish = {
        ...{ origin, destination, date, cabin: "business", passengers: 1, most_stops: 1, best: "cheapest" },
      };
      const best = solveTrip(db, wish);
      const charge = best && best.price - certificate.amount;
      const locked = lockedOf(world, customer);
      if (!best || !charge || charge < 100) continue;
      const booking: Booking = {
        ...{ origin, destination, cabin: "business", legs: best.legs, people: [self(customer)] },
        bags: 1,
        payments: [
          { payment_id: certificate.id, amount: certificate.amount },
          { payment_id: onlyCard(customer.user)!, amount: charge },
        ],
      };
      const outputs = [gift, certificates, charge].map(String);
      yield {
        customer,
        instruction:
          `${intro(customer)} First you want to know how much is left on your gift cards in all, and how much on your ` +
          `certificates in all. Then you want to cancel your trip ${trip.reservation_id}, as your plans have changed, and ` +
          `book a new one for yourself alone: from ${origin} to ${destination}, one way, on ${dayText(date)}, in business, ` +
          `the cheapest way with at most one stop; ${NO_NIGHT}. ${bookingText(booking)} Pay with your certificate first, ` +
          "and put the rest on your credit card. At the end you want to know what the credit card was charged.",
        actions: [cancel(trip), book(customer, booking)],
        outputs,
        script: {
          opening: ["balances"],
          facts: {
            ...bookingFacts(booking, date, "my certificate first, and the rest on my credit card"),
            reservation_id: trip.reservation_id,
            reason: "change of plan",
            other: `the cheapest with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            {
              id: "balances",
              kind: "question",
              say: "tell me how much is left on my gift cards in all, and on my certificates in all",
              match: { tool: null, said: outputs.slice(0, 2) },
            },
            {
              id: "cancel",
              kind: "cancel",
              say: `cancel trip ${trip.reservation_id}`,
              match: { tool: "cancel_reservation", kwargs: cancel(trip).kwargs },
            },
            {
              id: "book",
              kind: "book",
              say: `book the cheapest business flight from ${origin} to ${destination} on ${date} for me alone`,
              match: { tool: "book_reservation", kwargs: { origin, destination } },
              accept: { dates: date, cabin: "business" },
            },
            {
              id: "charge",
              kind: "question",
              say: "tell me what was charged to my credit card",
              match: { tool: null, said: outputs.slice(2) },
            },
          ],
        },
        proof: {
          reason: "change_of_plan",
          trips: [{ write: 1, way: "whole", query: wish }],
          tempting: [
            { ...book(customer, { ...booking, payments: [booking.payments[0]!, booking.payments[0]!] }), rule: 11 },
            ...(locked ? [{ ...cancel(locked), rule: 23 }] : []),
          ],
        },
      };
    }
  },
};

/** Row 9: a reservation for three becomes three, so that each can be changed alone. */
const splitInThree: Template = {
  row: 9,
  category: "mixed",
  gold: "CBBB #3",
  rules: [10, 11, 19, 22, 23],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of replaceable(world, (one) => one.passengers.length === 3)) {
      const card = onlyCard(customer.user)!;
      const { gift } = balances(customer);
      const refund = trip.payment_history.reduce((sum, { amount }) => sum + amount, 0);
      const { origin, destination } = trip;
      const date = trip.flights[0]!.date;
      const wish: TripWish = {
        ...{ origin, destination, date, cabin: "economy", passengers: 3, most_stops: 1, best: "cheapest" },
      };
      const best = solveTrip(db, wish);
      if (!best) continue;
      const bookings = trip.passengers.map(
        (one): Booking => ({
          ...{ origin, destination, cabin: "economy", legs: best.legs, people: [one] },
          payments: [{ payment_id: card, amount: best.price / 3 }],
        }),
      );
      const outputs = [gift, refund, best.price].map(String);
      const names = trip.passengers.map(fullName);
      const fewer = passengers(trip, trip.passengers.slice(0, 1));
      yield {
        customer,
        instruction:
          `${intro(customer)} You want your trip ${trip.reservation_id} for three people split into three reservations, so ` +
          "that each can be changed alone. If that can't be done, have it cancelled (your plans have changed) and then " +
          `book the three one after the other, in this order: ${list(trip.passengers.map(bornText))}. All three go from ` +
          `${origin} to ${destination}, one way only, on ${dayText(date)}, in economy, on the same flights: the cheapest way with ` +
          `at most one stop; ${NO_NIGHT}. Nobody has checked bags or wants insurance. Each is paid with your credit card. ` +
          "At the end you want to know three figures: what is left on your gift cards in all, what is refunded for the " +
          "cancelled trip, and what the three new trips cost together.",
        actions: [cancel(trip), ...bookings.map((one) => book(customer, one))],
        outputs,
        script: {
          opening: ["split"],
          facts: {
            ...bookingFacts({ ...bookings[0]!, people: trip.passengers }, date, "my credit card, for each of them"),
            passenger_count: "one on each of the three",
            reservation_id: trip.reservation_id,
            reason: "change of plan",
            other: `the cheapest with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            {
              id: "split",
              kind: "passengers",
              say: `split trip ${trip.reservation_id} into one reservation for each passenger`,
              match: { tool: "update_reservation_passengers", kwargs: { reservation_id: trip.reservation_id } },
              on_refused: "cancel",
            },
            {
              id: "cancel",
              kind: "cancel",
              say: `cancel trip ${trip.reservation_id}`,
              match: { tool: "cancel_reservation", kwargs: cancel(trip).kwargs },
            },
            ...trip.passengers.map((one, i) => ({
              id: `book-${i + 1}`,
              kind: "book",
              say: `book the cheapest economy flight from ${origin} to ${destination} on ${date} for ${names[i]} alone`,
              match: { tool: "book_reservation" as const, kwargs: { passengers: [person(one)] } },
              accept: { dates: date, cabin: "economy" },
            })),
            {
              id: "figures",
              kind: "question",
              say: "tell me what is left on my gift cards, what is refunded, and what the three trips cost together",
              match: { tool: null, said: outputs },
            },
          ],
        },
        proof: {
          reason: "change_of_plan",
          trips: [1, 2, 3].map((write) => ({ write, way: "whole" as const, query: wish })),
          tempting: [{ ...fewer, rule: 19 }],
        },
      };
    }
  },
};

/** Row 10: a passenger can't be taken off, so the trip is cancelled and booked again for one. */
const onePassengerLess: Template = {
  row: 10,
  category: "mixed",
  gold: "CB",
  rules: [19, 22, 23, 25],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of replaceable(
      world,
      (one) => one.flight_type === "one_way" && one.passengers.length === 2,
    )) {
      const [stays, leaves] = trip.passengers;
      const { origin, destination } = trip;
      const date = trip.flights[0]!.date;
      const wish: TripWish = {
        ...{ origin, destination, date, cabin: "economy", passengers: 1, most_stops: 1, best: "cheapest" },
      };
      const best = solveTrip(db, wish);
      if (!best) continue;
      const booking: Booking = {
        ...{ origin, destination, cabin: "economy", legs: best.legs, people: [stays!] },
        insurance: "yes",
        payments: [{ payment_id: onlyCard(customer.user)!, amount: best.price + 30 }],
      };
      yield {
        customer,
        instruction:
          `${intro(customer)} ${fullName(leaves!)} does not want to come on your trip ${trip.reservation_id} any more, and you ` +
          "want this passenger taken off. If that can't be done, cancel the trip (your plans have changed) and book a new " +
          `one for ${fullName(stays!)} alone: from ${origin} to ${destination}, one way, on ${dayText(date)}, in economy, the ` +
          `cheapest way with at most one stop; ${NO_NIGHT}. ${bookingText(booking)} Pay with your credit card.`,
        actions: [cancel(trip), book(customer, booking)],
        script: {
          opening: ["remove"],
          facts: {
            ...bookingFacts(booking, date, "my credit card"),
            reservation_id: trip.reservation_id,
            reason: "change of plan",
            other: `the cheapest with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            {
              id: "remove",
              kind: "passengers",
              say: `take ${fullName(leaves!)} off trip ${trip.reservation_id}`,
              match: { tool: "update_reservation_passengers", kwargs: { reservation_id: trip.reservation_id } },
              on_refused: "cancel",
            },
            {
              id: "cancel",
              kind: "cancel",
              say: `cancel trip ${trip.reservation_id} for all`,
              match: { tool: "cancel_reservation", kwargs: cancel(trip).kwargs },
            },
            {
              id: "book",
              kind: "book",
              say: `book the cheapest economy flight from ${origin} to ${destination} on ${date} for ${fullName(stays!)} alone`,
              match: { tool: "book_reservation", kwargs: { origin, destination } },
              accept: { dates: date, cabin: "economy" },
            },
          ],
        },
        proof: {
          reason: "change_of_plan",
          trips: [{ write: 1, way: "whole", query: wish }],
          tempting: [{ ...passengers(trip, [stays!]), rule: 19 }],
        },
      };
    }
  },
};

export const rebooking: readonly Template[] = [balancesFirst, splitInThree, onePassengerLess];
