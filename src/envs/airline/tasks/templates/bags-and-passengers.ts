import { freeBags } from "../../policy/facts.ts";
import { bags, bornText, change, eachTrip, fullName, intro, legsOf, passengers, type Template } from "../draft.ts";
import { changeCost, isAhead, onlyCard } from "../world.ts";
import { stranger } from "./stranger.ts";

// Who travels, and with how many bags.

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
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              accept: { max_extra_cost: budget },
              on_refused: "bags",
            },
            {
              id: "bags",
              kind: "bags",
              say: `have ${total} checked bags in economy`,
              match: { tool: "update_reservation_baggages", kwargs: { reservation_id: trip.reservation_id } },
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
              match: { tool: "update_reservation_passengers", kwargs: { reservation_id: trip.reservation_id } },
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

export const bagsAndPassengers: readonly Template[] = [bagsInstead, newName, suitcases];
