import type { Passenger } from "../../data/types.ts";
import {
  type Booking,
  book,
  bookingFacts,
  bookingText,
  fullName,
  intro,
  NO_NIGHT,
  self,
  type Template,
} from "../draft.ts";
import { solveTrip, type TripWish } from "../trips.ts";
import { dayText, methodsOf, onlyCard } from "../world.ts";
import { drawRoute } from "./route.ts";

// Bookings that turn on how they are paid.

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

export const booking: readonly Template[] = [certificateAndCard, noWaste];
