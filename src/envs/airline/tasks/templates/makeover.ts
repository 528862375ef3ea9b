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
import { stranger } from "./stranger.ts";

// A trip whose cabin, passengers and bags all change.

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
      match: { tool: "update_reservation_flights", kwargs },
    },
    {
      id: "passenger",
      kind: "passengers",
      say: `let ${fullName(newcomer)} travel in place of ${fullName(leaver)}`,
      match: { tool: "update_reservation_passengers", kwargs },
    },
    {
      id: "bags",
      kind: "bags",
      say: `have ${total} checked bags in all`,
      match: { tool: "update_reservation_baggages", kwargs },
    },
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

export const makeoverTasks: readonly Template[] = [oneByOne, allAtOnce];
