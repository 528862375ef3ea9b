import type { Passenger, Reservation } from "../../data/types.ts";
import { freeBags } from "../../policy/facts.ts";
import {
  bags,
  bornText,
  type Call,
  type Customer,
  change,
  type Draft,
  eachTrip,
  fullName,
  type GoalInput,
  intro,
  legsOf,
  passengers,
  type Template,
} from "../draft.ts";
import { changeCost, isAhead, onlyCard, type World } from "../world.ts";

// Who travels, and with how many bags.

const BAGS = "update_reservation_baggages";
const PASSENGERS = "update_reservation_passengers";
const UPDATE = "update_reservation_flights";

/** Somebody who is not on the trip. */
function stranger({ random, customers }: World, trip: Reservation): Passenger {
  for (;;) {
    const { user } = random.pick(customers);
    const name = fullName(user.name);
    if (!trip.passengers.some((one) => fullName(one) === name))
      return { first_name: user.name.first_name, last_name: user.name.last_name, dob: user.dob };
  }
}

/** Upgrade, passenger and bags of one trip. */
interface Makeover {
  customer: Customer;
  trip: Reservation;
  card: string;
  upgrade: Call;
  swap: Call;
  luggage: Call;
  newcomer: Passenger;
  leaver: Passenger;
  /** Bags in all. */
  total: number;
}

function* makeovers(world: World): Generator<Makeover> {
  const { db } = world;
  for (const { customer, trip } of eachTrip(
    world,
    // Gold members have as many free bags in economy as in business.
    (one, { user }) =>
      isAhead(db, one) && one.cabin === "economy" && user.membership !== "gold" && onlyCard(user) !== null,
  )) {
    const card = onlyCard(customer.user)!;
    const cost = changeCost(db, trip, "business", trip.flights);
    if (cost === null || cost <= 0) continue;
    const newcomer = stranger(world, trip);
    const leaver = trip.passengers.at(-1)!;
    const total = freeBags(customer.user.membership, "business") * trip.passengers.length + 1;
    yield {
      ...{ customer, trip, card, newcomer, leaver, total },
      upgrade: change(trip, "business", legsOf(trip.flights), card),
      swap: passengers(trip, [...trip.passengers.slice(0, -1), newcomer]),
      luggage: bags(customer, trip, total, card, "business"),
    };
  }
}

/** The goals, in the order of the gold: the history of payments keeps it. */
function makeoverGoals({ trip, newcomer, leaver, total }: Makeover): GoalInput[] {
  const kwargs = { reservation_id: trip.reservation_id };
  return [
    {
      id: "upgrade",
      kind: "upgrade",
      say: `put trip ${trip.reservation_id} into business on the same flights`,
      match: { tool: UPDATE, kwargs },
    },
    {
      id: "passenger",
      kind: "passengers",
      say: `let ${fullName(newcomer)} travel in place of ${fullName(leaver)}`,
      match: { tool: PASSENGERS, kwargs },
    },
    { id: "bags", kind: "bags", say: `have ${total} checked bags in all`, match: { tool: BAGS, kwargs } },
  ];
}

function makeover(one: Makeover, opening: string[], disclosure: "on_request" | "all_at_once", how: string): Draft {
  const { customer, trip, card, newcomer, leaver, total, upgrade, swap, luggage } = one;
  return {
    customer,
    instruction:
      `${intro(customer)} You want three things for your trip ${trip.reservation_id}, in this order: business on the same ` +
      `flights; ${bornText(newcomer)}, in place of ${fullName(leaver)}, at the same place in the list; and then ${total} ` +
      `checked bags in all, by the allowance of business. Your credit card pays for all of it. ${how}`,
    actions: [upgrade, swap, luggage],
    script: {
      opening,
      disclosure,
      facts: {
        reservation_id: trip.reservation_id,
        cabin: "business",
        passengers: [...trip.passengers.slice(0, -1), newcomer].map(bornText),
        dob: newcomer.dob,
        bags: `${total} in all`,
        payment: "my credit card",
      },
      goals: makeoverGoals(one),
    },
    proof: {
      tempting: [
        { ...passengers(trip, [...trip.passengers, newcomer]), rule: 19 },
        // The record still says economy, where fewer bags are free; what counts is the cabin that is flown.
        { ...bags(customer, trip, total, card, "economy"), rule: 13, after: 1 },
      ],
    },
  };
}

/** Row 4. */
const oneByOne: Template = {
  row: 4,
  category: "mixed",
  gold: "FPG",
  rules: [12, 13, 17, 18, 19, 20],
  *drafts(world) {
    for (const one of makeovers(world))
      yield makeover(one, ["upgrade"], "on_request", "You tell the next wish when the one before it is done.");
  },
};

/** Row 5. */
const allAtOnce: Template = {
  row: 5,
  category: "mixed",
  gold: "FPG",
  rules: [12, 13, 17, 18, 19, 20],
  *drafts(world) {
    for (const one of makeovers(world))
      yield makeover(
        one,
        ["upgrade", "passenger", "bags"],
        "all_at_once",
        "You say everything in your opening message.",
      );
  },
};

/** Row 14: the upgrade is too dear, so only bags are added. */
const bagsInstead: Template = {
  row: 14,
  category: "bags",
  gold: "G",
  rules: [12, 13, 17, 18],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) => isAhead(db, one) && one.cabin === "economy" && onlyCard(user) !== null,
    )) {
      const card = onlyCard(customer.user)!;
      const cost = changeCost(db, trip, "business", trip.flights);
      if (cost === null || cost < 150) continue;
      const budget = Math.floor((cost - 20) / 50) * 50;
      const upgrade = change(trip, "business", legsOf(trip.flights), card);
      const total = freeBags(customer.user.membership, "economy") * trip.passengers.length + 1;
      const luggage = bags(customer, trip, total, card);
      yield {
        customer,
        instruction:
          `${intro(customer)} You need room for ${total} checked bags on your trip ${trip.reservation_id}. You think of business ` +
          `on the same flights, for at most $${budget} in all. If it costs more, stay in economy, and just have ${total} bags ` +
          "in all on the reservation. Pay with your credit card.",
        actions: [luggage],
        script: {
          opening: ["upgrade"],
          facts: {
            reservation_id: trip.reservation_id,
            bags: `${total} in all`,
            budget: `at most $${budget} for the upgrade`,
            payment: "my credit card",
          },
          goals: [
            {
              id: "upgrade",
              kind: "upgrade",
              say: `put trip ${trip.reservation_id} into business for at most $${budget}`,
              match: { tool: UPDATE, kwargs: { reservation_id: trip.reservation_id } },
              accept: { max_extra_cost: budget },
              on_refused: "bags",
            },
            {
              id: "bags",
              kind: "bags",
              say: `have ${total} checked bags in economy`,
              match: { tool: BAGS, kwargs: { reservation_id: trip.reservation_id } },
            },
          ],
        },
        proof: {
          tempting: [
            { ...upgrade, rule: null, over: budget },
            { ...luggage, kwargs: { ...luggage.kwargs, nonfree_baggages: 0 }, rule: 13 },
          ],
        },
      };
    }
  },
};

/** Row 43: somebody has married. */
const newName: Template = {
  row: 43,
  category: "passengers",
  gold: "P",
  rules: [10, 19],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(world, (one) => isAhead(db, one) && one.passengers.length >= 2)) {
      const before = trip.passengers.at(-1)!;
      const { last_name } = stranger(world, trip);
      const after = { ...before, last_name };
      if (last_name === before.last_name || fullName(before) === fullName(customer.user.name)) continue;
      yield {
        customer,
        instruction:
          `${intro(customer)} ${bornText(before)}, travels with you on trip ${trip.reservation_id} and has married: the family ` +
          `name is now ${last_name}. You want the name on the reservation corrected; all else about the passengers stays.`,
        actions: [passengers(trip, [...trip.passengers.slice(0, -1), after])],
        script: {
          opening: ["name"],
          facts: {
            reservation_id: trip.reservation_id,
            passengers: `as before, but ${fullName(before)} is now ${fullName(after)}`,
            dob: before.dob,
          },
          goals: [
            {
              id: "name",
              kind: "passengers",
              say: `correct the name of ${fullName(before)} to ${fullName(after)} on trip ${trip.reservation_id}`,
              match: { tool: PASSENGERS, kwargs: { reservation_id: trip.reservation_id } },
            },
          ],
        },
        proof: { tempting: [{ ...passengers(trip, [after]), rule: 19 }] },
      };
    }
  },
};

/** Row 44: what so many bags would cost, and no change. */
const suitcases: Template = {
  row: 44,
  category: "question",
  gold: "- #1",
  rules: [12, 13],
  *drafts(world) {
    const { db, random } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) => isAhead(db, one) && one.passengers.length >= 2 && onlyCard(user) !== null,
    )) {
      const free = freeBags(customer.user.membership, trip.cabin) * trip.passengers.length;
      const total = free + random.int(2, 6);
      const luggage = bags(customer, trip, total, onlyCard(customer.user)!);
      const price = String(50 * (total - free));
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to know how many suitcases you may check in for free on your trip ` +
          `${trip.reservation_id}, and what it would cost to have ${total} of them in all. You only ask: nothing is to be ` +
          "added or changed.",
        actions: [],
        outputs: [price],
        script: {
          opening: ["question"],
          facts: { reservation_id: trip.reservation_id, bags: `${total} in all, but I only ask` },
          goals: [
            {
              id: "question",
              kind: "question",
              say: `hear how many suitcases are free on trip ${trip.reservation_id} and what ${total} of them would cost`,
              match: { tool: null, said: [price] },
            },
          ],
        },
        proof: { tempting: [{ ...luggage, kwargs: { ...luggage.kwargs, nonfree_baggages: 0 }, rule: 13 }] },
      };
    }
  },
};

export const bagsAndPassengers: readonly Template[] = [oneByOne, allAtOnce, bagsInstead, newName, suitcases];
