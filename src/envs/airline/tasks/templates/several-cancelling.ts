import type { Reservation } from "../../data/types.ts";
import { cancel, intro, list, type Template } from "../draft.ts";
import { isDirectRoute, type TripWish } from "../trips.ts";
import { dayText, isAhead } from "../world.ts";
import { cabinGoal, canBeCancelled, cancelGoal, isLocked, recabin } from "./several.ts";

// Customers with many trips: some can be cancelled, others must stay.

const UPDATE = "update_reservation_flights";

/** Row 26: of two only one can be cancelled; a third trip gets a better cabin. */
const oneOfTwo: Template = {
  row: 26,
  category: "mixed",
  gold: "CF",
  rules: [17, 20, 22, 23],
  *drafts(world) {
    for (const customer of world.customers) {
      const free = customer.trips.find((trip) => canBeCancelled(world, trip, "change_of_plan"));
      const locked = customer.trips.find((trip) => isLocked(world, trip, "change_of_plan"));
      const third = customer.trips
        .filter((trip) => trip !== free && trip !== locked)
        .flatMap((trip) => {
          const way = recabin(world, customer, trip, "business");
          return way ? [{ trip, ...way }] : [];
        })[0];
      if (!free || !locked || !third) continue;
      yield {
        customer,
        instruction:
          `${intro(customer)} Your plans have changed. You want to cancel two trips, ${free.reservation_id} and ` +
          `${locked.reservation_id}, with a refund; where one can't be cancelled, ask once more and then keep it. After that ` +
          `you want your trip ${third.trip.reservation_id} in business, on the flights that it has, from your credit card.`,
        actions: [cancel(free), third.call],
        script: {
          opening: [`cancel-${free.reservation_id}`, `cancel-${locked.reservation_id}`],
          facts: {
            reservation_id: [free, locked, third.trip].map(({ reservation_id }) => reservation_id),
            reason: "change of plan",
            payment: "my credit card",
          },
          goals: [
            cancelGoal(free, `cancel trip ${free.reservation_id}`),
            cancelGoal(locked, `cancel trip ${locked.reservation_id}`, {
              insist: 1,
              on_refused: `cabin-${third.trip.reservation_id}`,
            }),
            cabinGoal(third.trip, "business"),
          ],
        },
        proof: { reason: "change_of_plan", tempting: [{ ...cancel(locked), rule: 23 }] },
      };
    }
  },
};

/** Row 27: one of two, and the third trip can't go without a stop. */
const noNonStop: Template = {
  row: 27,
  category: "cancel",
  gold: "C",
  rules: [16, 22, 23],
  *drafts(world) {
    const { db } = world;
    for (const customer of world.customers) {
      const free = customer.trips.find((trip) => canBeCancelled(world, trip, "change_of_plan"));
      const locked = customer.trips.find((trip) => isLocked(world, trip, "change_of_plan"));
      const third = customer.trips.find(
        (trip) =>
          trip !== free &&
          trip !== locked &&
          isAhead(db, trip) &&
          trip.cabin !== "basic_economy" &&
          trip.flight_type === "one_way" &&
          !isDirectRoute(db, trip.origin, trip.destination),
      );
      if (!free || !locked || !third) continue;
      const { origin, destination, cabin } = third;
      const date = third.flights[0]!.date;
      const wish: TripWish = {
        origin,
        destination,
        date,
        cabin,
        passengers: third.passengers.length,
        most_stops: 0,
        best: "only",
      };
      yield {
        customer,
        instruction:
          `${intro(customer)} Your plans have changed: cancel your trips ${free.reservation_id} and ${locked.reservation_id}, and ` +
          `leave what can't be cancelled. Then you want your trip ${third.reservation_id} from ${origin} to ${destination} on a ` +
          `flight without a stop on the same day. If there is none, keep it as it is; you take no other day.`,
        actions: [cancel(free)],
        script: {
          opening: [`cancel-${free.reservation_id}`],
          facts: {
            reservation_id: [free, locked, third].map(({ reservation_id }) => reservation_id),
            reason: "change of plan",
            date,
            payment: "my credit card",
            other: "without a stop",
          },
          goals: [
            cancelGoal(free, `cancel trip ${free.reservation_id}`),
            cancelGoal(locked, `cancel trip ${locked.reservation_id}`, { on_refused: "nonstop" }),
            {
              id: "nonstop",
              kind: "change",
              say: `take a flight without a stop on ${date} for trip ${third.reservation_id}`,
              match: { tool: UPDATE, kwargs: { reservation_id: third.reservation_id } },
              on_refused: "accept",
            },
          ],
        },
        proof: {
          reason: "change_of_plan",
          trips: [{ write: null, way: "whole", query: wish }],
          tempting: [{ ...cancel(locked), rule: 23 }],
        },
      };
    }
  },
};

const routeText = ({ origin, destination }: Reservation): string => `from ${origin} to ${destination}`;

/** Trips that a customer tells apart by their routes. */
function byRoute(trips: readonly Reservation[]): boolean {
  return new Set(trips.map(routeText)).size === trips.length;
}

/** Row 28: whatever can be cancelled, from a customer who speaks another language. */
const allEligible: Template = {
  row: 28,
  category: "cancel",
  gold: "CCC",
  rules: [21, 22, 23],
  *drafts(world) {
    const { db, random } = world;
    for (const customer of world.customers) {
      const ahead = customer.trips.filter((trip) => isAhead(db, trip));
      const free = ahead.filter((trip) => canBeCancelled(world, trip, "health"));
      const locked = ahead.filter((trip) => isLocked(world, trip, "health"));
      if (free.length !== 3 || locked.length !== 1 || !byRoute(customer.trips)) continue;
      const language_tag = random.pick(["es", "fr", "it", "pt", "de"]);
      const language = { es: "Spanish", fr: "French", it: "Italian", pt: "Portuguese", de: "German" }[language_tag];
      const all = [...free, ...locked];
      yield {
        customer,
        instruction:
          `${intro(customer)} Your mother tongue is ${language}, and you open with a greeting in it. You have to undergo ` +
          `surgery and want to cancel all trips that still lie ahead of you: ${list(all.map(routeText))}. You don't remember ` +
          "the reservation ids. Cancel those that are refunded; the others you keep.",
        actions: free.map(cancel),
        script: {
          persona: { language_tag },
          opening: [`cancel-${free[0]!.reservation_id}`],
          facts: { reason: "I need surgery, so it is my health" },
          unknown: ["reservation_id"],
          goals: all.map((trip) =>
            cancelGoal(
              trip,
              `cancel my trip ${routeText(trip)}`,
              locked.includes(trip) ? { on_refused: "accept" } : {},
            ),
          ),
        },
        proof: { reason: "health", tempting: locked.map((trip) => ({ ...cancel(trip), rule: 23 })) },
      };
    }
  },
};

/** Row 30: all trips that leave within some days. */
const withinDays: Template = {
  row: 30,
  category: "cancel",
  gold: "CC",
  rules: [21, 22, 23],
  *drafts(world) {
    const { db } = world;
    for (const customer of world.customers) {
      const ahead = customer.trips
        .filter((trip) => isAhead(db, trip))
        .toSorted((a, b) => (a.flights[0]!.date < b.flights[0]!.date ? -1 : 1));
      const free = ahead.filter((trip) => canBeCancelled(world, trip, "weather"));
      if (free.length < 2 || !byRoute(customer.trips)) continue;
      const [from, to] = [free[0]!, free[1]!].map((trip) => trip.flights[0]!.date) as [string, string];
      const within = ahead.filter(({ flights }) => flights[0]!.date >= from && flights[0]!.date <= to);
      const chosen = within.filter((trip) => free.includes(trip));
      const locked = within.filter((trip) => isLocked(world, trip, "weather"));
      if (chosen.length !== 2 || locked.length !== 1 || within.length !== 3 || within.length === ahead.length) continue;
      const order = [...chosen, ...locked];
      yield {
        customer,
        instruction:
          `${intro(customer)} A storm is forecast from ${dayText(from)} to ${dayText(to)}. You want to cancel every trip of yours ` +
          "that begins on one of these days, because of the weather: those that are refunded. What can't be cancelled, you " +
          `keep, and trips on other days as well. You don't remember the reservation ids, only where they go: ` +
          `${list(order.map(routeText))}.`,
        actions: chosen.map(cancel),
        script: {
          opening: order.map(({ reservation_id }) => `cancel-${reservation_id}`),
          facts: { reason: "the weather: a storm is forecast", date: `any day from ${from} to ${to}` },
          unknown: ["reservation_id"],
          goals: order.map((trip) =>
            cancelGoal(
              trip,
              `cancel my trip ${routeText(trip)}`,
              locked.includes(trip) ? { on_refused: "accept" } : {},
            ),
          ),
        },
        proof: { reason: "weather", tempting: locked.map((trip) => ({ ...cancel(trip), rule: 23 })) },
      };
    }
  },
};

export const severalCancelling: readonly Template[] = [oneOfTwo, noNonStop, allEligible, withinDays];
