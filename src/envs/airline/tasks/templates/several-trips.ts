import { flightOf } from "../../data/state.ts";
import { CABINS, type Cabin, type Reservation } from "../../data/types.ts";
import { cancelProblem, freeBags } from "../../policy/facts.ts";
import {
  type Call,
  type Customer,
  cabinText,
  cancel,
  change,
  type GoalInput,
  intro,
  legsOf,
  list,
  type Template,
} from "../draft.ts";
import { isDirectRoute, minutesOf, type TripWish } from "../trips.ts";
import { changeCost, dayText, isAhead, onlyCard, type World, waysOf } from "../world.ts";

// Customers with many trips: some of them are changed or cancelled, others must stay.

const UPDATE = "update_reservation_flights";
const CANCEL = "cancel_reservation";

const isLocked = ({ db }: World, trip: Reservation, reason: "change_of_plan" | "health" | "weather"): boolean =>
  isAhead(db, trip) && cancelProblem(db, trip, reason)?.rule === 23;
const canBeCancelled = ({ db }: World, trip: Reservation, reason: "change_of_plan" | "health" | "weather"): boolean =>
  isAhead(db, trip) && cancelProblem(db, trip, reason) === null;

/** Another cabin on the same flights, as the customer's bags allow; null: no seats, or no difference in price. */
function recabin(
  { db }: World,
  { user }: Customer,
  trip: Reservation,
  cabin: Cabin,
): { call: Call; cost: number } | null {
  const card = onlyCard(user);
  const cost = changeCost(db, trip, cabin, trip.flights);
  const roomy = trip.total_baggages <= freeBags(user.membership, cabin) * trip.passengers.length;
  if (!isAhead(db, trip) || trip.cabin === cabin || card === null || !cost || !roomy) return null;
  return { call: change(trip, cabin, legsOf(trip.flights), card), cost };
}

const cancelGoal = (trip: Reservation, say: string, rest: Partial<GoalInput> = {}): GoalInput => ({
  id: `cancel-${trip.reservation_id}`,
  kind: "cancel",
  say,
  match: { tool: CANCEL, kwargs: { reservation_id: trip.reservation_id } },
  ...rest,
});
const cabinGoal = (trip: Reservation, cabin: Cabin): GoalInput => ({
  id: `cabin-${trip.reservation_id}`,
  kind: "cabin",
  say: `put trip ${trip.reservation_id} into ${cabinText(cabin)}`,
  match: { tool: UPDATE, kwargs: { reservation_id: trip.reservation_id } },
});
const named = (trips: readonly Reservation[]): string => list(trips.map(({ reservation_id }) => reservation_id));

/** Row 2: five trips into one cabin, and what that comes to. */
const fiveCabins: Template = {
  row: 2,
  category: "change",
  gold: "FFFFF #1",
  rules: [12, 17, 20],
  *drafts(world) {
    for (const customer of world.customers)
      for (const cabin of CABINS.toReversed()) {
        const found = customer.trips.flatMap((trip) => {
          const way = recabin(world, customer, trip, cabin);
          return way ? [{ trip, ...way }] : [];
        });
        const chosen = found.slice(0, 5);
        const total = chosen.reduce((sum, { cost }) => sum + cost, 0);
        if (chosen.length < 5 || Math.abs(total) < 100) continue;
        const trips = chosen.map(({ trip }) => trip);
        const [{ trip, call }] = chosen as [(typeof chosen)[number]];
        const certificates = Object.values(customer.user.payment_methods).find(
          ({ source }) => source === "certificate",
        );
        const other = trips.find((one) => one.cabin !== cabin && one.total_baggages > 0);
        const output = String(Math.abs(total));
        const question = total < 0 ? "get back in all" : "have to pay in all";
        yield {
          customer,
          instruction:
            `${intro(customer)} You want five of your trips in ${cabinText(cabin)}, on the flights that they have: ` +
            `${named(trips)}. Your credit card is used for what is to be paid or paid back. When all five are done, you ` +
            `want to know how much you ${question} for the five together.`,
          actions: chosen.map((one) => one.call),
          outputs: [output],
          script: {
            opening: trips.map(({ reservation_id }) => `cabin-${reservation_id}`),
            facts: {
              reservation_id: trips.map(({ reservation_id }) => reservation_id),
              cabin: cabinText(cabin),
              payment: "my credit card",
            },
            goals: [
              ...trips.map((one) => cabinGoal(one, cabin)),
              {
                id: "total",
                kind: "question",
                say: `hear how much I ${question}`,
                match: { tool: null, said: [output] },
              },
            ],
          },
          proof: {
            tempting: [
              // A trip is one cabin for all of its flights, paid with what the rules take.
              ...(certificates ? [{ ...call, kwargs: { ...call.kwargs, payment_id: certificates.id }, rule: 20 }] : []),
              {
                name: "update_reservation_baggages",
                kwargs: {
                  reservation_id: (other ?? trip).reservation_id,
                  total_baggages: (other ?? trip).total_baggages - 1,
                  nonfree_baggages: 0,
                  payment_id: onlyCard(customer.user)!,
                },
                rule: 18,
              },
            ],
          },
        };
      }
  },
};

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

/** Minutes in the air on the way out. */
function airtime({ db }: World, trip: Reservation): number {
  return waysOf(trip).out.reduce((sum, leg) => {
    const flight = flightOf(db, leg.flight_number)!;
    const [departs, arrives] = [flight.scheduled_departure_time_est, flight.scheduled_arrival_time_est];
    return sum + minutesOf(arrives) - minutesOf(departs);
  }, 0);
}

/** Row 33: the longest trip is cancelled, the shorter ones get business. */
const byLength: Template = {
  row: 33,
  category: "mixed",
  gold: "CFFF",
  rules: [17, 20, 22, 23],
  *drafts(world) {
    for (const customer of world.customers) {
      const short = customer.trips.flatMap((trip) => {
        const way = recabin(world, customer, trip, "business");
        return way ? [{ trip, call: way.call, length: airtime(world, trip) }] : [];
      });
      const locked = short.filter(({ trip }) => isLocked(world, trip, "change_of_plan"));
      for (const long of customer.trips.filter((trip) => canBeCancelled(world, trip, "change_of_plan"))) {
        const length = airtime(world, long);
        const others = short.filter((one) => one.trip !== long && one.length < length).slice(0, 3);
        const hours = Math.ceil(length / 60) - 1;
        if (others.length < 3 || locked.length === 0 || others.some((one) => one.length > hours * 60)) continue;
        if (!others.some((one) => locked.includes(one))) continue;
        const trips = [long, ...others.map(({ trip }) => trip)].toSorted((a, b) =>
          a.reservation_id < b.reservation_id ? -1 : 1,
        );
        yield {
          customer,
          instruction:
            `${intro(customer)} It is about four of your trips: ${named(trips)}. Flights wear you out: whichever of them is more ` +
            `than ${hours} hours in the air on the way out, connections added up without the wait, you want cancelled, as your ` +
            "plans have changed. The other ones you want in business, on the flights that they have, from your credit card. " +
            "You don't know the flight times; the agent shall look them up.",
          actions: [cancel(long), ...others.map(({ call }) => call)],
          script: {
            opening: [`cancel-${long.reservation_id}`],
            facts: {
              reservation_id: trips.map(({ reservation_id }) => reservation_id),
              reason: "change of plan",
              cabin: "business",
              payment: "my credit card",
            },
            goals: [
              cancelGoal(
                long,
                `cancel whichever of ${named(trips)} is more than ${hours} hours in the air on the way out`,
              ),
              ...others.map(({ trip }) => cabinGoal(trip, "business")),
            ],
          },
          proof: {
            reason: "change_of_plan",
            tempting: others.filter((one) => locked.includes(one)).map(({ trip }) => ({ ...cancel(trip), rule: 23 })),
          },
        };
      }
    }
  },
};

/** Row 34: a better cabin, two cancellations, and one that is refused again and again. */
const threeAndOne: Template = {
  row: 34,
  category: "mixed",
  gold: "FCC",
  rules: [17, 20, 22, 23],
  *drafts(world) {
    for (const customer of world.customers) {
      const free = customer.trips.filter((trip) => canBeCancelled(world, trip, "health")).slice(0, 2);
      const rest = customer.trips.filter((trip) => !free.includes(trip));
      const locked = rest.find((trip) => isLocked(world, trip, "health"));
      const third = rest.find((trip) => trip !== locked && recabin(world, customer, trip, "economy"));
      if (free.length < 2 || !locked || !third) continue;
      const up = recabin(world, customer, third, "economy")!;
      yield {
        customer,
        instruction:
          `${intro(customer)} First you want your trip ${third.reservation_id} in economy, on the flights that it has, with your ` +
          "credit card for what is to be paid or paid back. Then you want to cancel three trips, one after the other, because " +
          `your doctor has told you not to fly: ${named([...free, locked])}. Where that is refused, you come back to it twice, ` +
          "and then give up.",
        actions: [up.call, ...free.map(cancel)],
        script: {
          opening: [`cabin-${third.reservation_id}`],
          facts: {
            reservation_id: [third, ...free, locked].map(({ reservation_id }) => reservation_id),
            reason: "my doctor has told me not to fly, so it is my health",
            cabin: "economy",
            payment: "my credit card",
          },
          goals: [
            cabinGoal(third, "economy"),
            ...free.map((trip) => cancelGoal(trip, `cancel trip ${trip.reservation_id}`)),
            cancelGoal(locked, `cancel trip ${locked.reservation_id}`, { insist: 2, on_refused: "accept" }),
          ],
        },
        proof: { reason: "health", tempting: [{ ...cancel(locked), rule: 23 }] },
      };
    }
  },
};

export const severalTrips: readonly Template[] = [
  ...[fiveCabins, oneOfTwo, noNonStop, allEligible, withinDays, byLength, threeAndOne],
];
