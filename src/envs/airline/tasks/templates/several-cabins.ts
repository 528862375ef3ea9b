import { flightOf } from "../../data/state.ts";
import { CABINS, type Cabin, type Reservation } from "../../data/types.ts";
import { type Call, type Customer, cabinText, cancel, type Draft, intro, legsOf, type Template } from "../draft.ts";
import { minutesOf } from "../trips.ts";
import { type World, waysOf } from "../world.ts";
import { cabinGoal, canBeCancelled, cancelGoal, isLocked, named, recabin } from "./several.ts";

// Customers with many trips, of which several get another cabin.

/** Row 2: five trips into one cabin, and what that comes to. */
const fiveCabins: Template = {
  row: 2,
  category: "change",
  gold: "FFFFF #1",
  rules: [12, 16, 17, 20],
  *drafts(world) {
    for (const customer of world.customers)
      for (const cabin of CABINS.toReversed()) {
        const found = customer.trips.flatMap((trip) => {
          const way = recabin(world, customer, trip, cabin);
          return way ? [{ trip, ...way }] : [];
        });
        for (let from = 0; from + 5 <= found.length; from++) {
          const draft = fiveOf(customer, cabin, found.slice(from, from + 5));
          if (draft) yield draft;
        }
      }
  },
};

interface Recabined {
  trip: Reservation;
  call: Call;
  cost: number;
}

function fiveOf(customer: Customer, cabin: Cabin, chosen: readonly Recabined[]): Draft | null {
  const total = chosen.reduce((sum, { cost }) => sum + cost, 0);
  const connecting = chosen.find(({ trip }) => trip.flights.length > 1);
  if (Math.abs(total) < 100 || !connecting) return null;
  const trips = chosen.map(({ trip }) => trip);
  const ids = trips.map(({ reservation_id }) => reservation_id);
  const output = String(Math.abs(total));
  const question = total < 0 ? "get back in all" : "have to pay in all";
  return {
    customer,
    instruction:
      `${intro(customer)} You want five of your trips in ${cabinText(cabin)}, on the flights that they have: ` +
      `${named(trips)}. Your credit card is used for what is to be paid or paid back. When all five are done, you ` +
      `want to know how much you ${question} for the five together.`,
    actions: chosen.map(({ call }) => call),
    outputs: [output],
    script: {
      opening: ids.map((id) => `cabin-${id}`),
      facts: { reservation_id: ids, cabin: cabinText(cabin), payment: "my credit card" },
      goals: [
        ...trips.map((one) => cabinGoal(one, cabin)),
        { id: "total", kind: "question", say: `hear how much I ${question}`, match: { tool: null, said: [output] } },
      ],
    },
    proof: {
      // A cabin is for all flights of a trip, so all of them must be given.
      tempting: [
        {
          ...connecting.call,
          kwargs: { ...connecting.call.kwargs, flights: legsOf(connecting.trip.flights.slice(0, -1)) },
          rule: 16,
        },
      ],
    },
  };
}

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
    for (const customer of world.customers)
      for (const cabin of ["business", "economy"] as const) yield* byLengthOf(world, customer, cabin);
  },
};

function* byLengthOf(world: World, customer: Customer, cabin: Cabin): Generator<Draft> {
  const short = customer.trips.flatMap((trip) => {
    const way = recabin(world, customer, trip, cabin);
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
        `plans have changed. The other ones you want in ${cabinText(cabin)}, on the flights that they have; your credit card ` +
        "is used for what is to be paid or paid back. " +
        "You don't know the flight times; the agent shall look them up.",
      actions: [cancel(long), ...others.map(({ call }) => call)],
      script: {
        opening: [`cancel-${long.reservation_id}`],
        facts: {
          reservation_id: trips.map(({ reservation_id }) => reservation_id),
          reason: "change of plan",
          cabin: cabinText(cabin),
          payment: "my credit card",
        },
        goals: [
          cancelGoal(long, `cancel whichever of ${named(trips)} is more than ${hours} hours in the air on the way out`),
          ...others.map(({ trip }) => cabinGoal(trip, cabin)),
        ],
      },
      proof: {
        reason: "change_of_plan",
        tempting: others.filter((one) => locked.includes(one)).map(({ trip }) => ({ ...cancel(trip), rule: 23 })),
      },
    };
  }
}

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

export const severalCabins: readonly Template[] = [fiveCabins, byLength, threeAndOne];
