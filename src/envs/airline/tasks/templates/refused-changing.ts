import { change, type Draft, eachTrip, intro, legsOf, passengers, type Template } from "../draft.ts";
import { solveTrip, type TripWish } from "../trips.ts";
import { changeCost, daysLater, dayText, fareOf, isAhead, onlyCard, waysOf } from "../world.ts";

// Changes that the policy or the customer's budget rules out: nothing is written.

/** Row 15: fewer passengers, and no other way is wanted. */
const fewerPassengers: Template = {
  row: 15,
  category: "refusal",
  gold: "-",
  rules: [6, 19],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one) => isAhead(db, one) && one.passengers.length >= 2 && one.cabin === "business",
    )) {
      const leaver = trip.passengers.at(-1)!;
      const fewer = passengers(trip, trip.passengers.slice(0, -1));
      yield {
        customer,
        instruction:
          `${intro(customer)} ${leaver.first_name} ${leaver.last_name} can't come on your trip ${trip.reservation_id}. You want ` +
          "this passenger taken off the reservation and that share paid back. You want neither another cabin nor another " +
          "passenger, and you don't want to cancel. Ask twice more, then leave all as it is.",
        actions: [],
        script: {
          opening: ["remove"],
          facts: {
            reservation_id: trip.reservation_id,
            passengers: `all but ${leaver.first_name} ${leaver.last_name}`,
            passenger_count: String(trip.passengers.length - 1),
          },
          goals: [
            {
              id: "remove",
              kind: "passengers",
              say: `take ${leaver.first_name} ${leaver.last_name} off trip ${trip.reservation_id}`,
              match: { tool: "update_reservation_passengers", kwargs: { reservation_id: trip.reservation_id } },
              insist: 2,
              on_refused: "accept",
            },
          ],
        },
        proof: { tempting: [{ ...fewer, rule: 19 }] },
      };
    }
  },
};

/** Row 17: every flight of the next day costs more than the customer pays. */
const overBudget: Template = {
  row: 17,
  category: "refusal",
  gold: "-",
  rules: [6, 16],
  *drafts(world) {
    const { db, random } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) =>
        isAhead(db, one) && one.cabin === "economy" && one.flight_type === "one_way" && onlyCard(user) !== null,
    )) {
      const date = daysLater(trip.flights[0]!.date, random.int(1, 3));
      const { origin, destination, cabin } = trip;
      const wish: TripWish = {
        ...{ origin, destination, date, cabin, best: "cheapest", most_stops: 1 },
        passengers: trip.passengers.length,
      };
      const cheapest = solveTrip(db, wish);
      const extra = cheapest && cheapest.price - fareOf(trip);
      if (!cheapest || extra! < 40) continue;
      const budget = Math.floor((extra! - 10) / 10) * 10;
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to fly on ${dayText(date)} instead of the booked day on your trip ` +
          `${trip.reservation_id}, in economy and with at most one stop, with no night on the way. You pay at most ` +
          `$${budget} more in all, with your credit card. If it costs more, keep the trip as it is.`,
        actions: [],
        script: {
          opening: ["move"],
          facts: {
            reservation_id: trip.reservation_id,
            date,
            budget: `at most $${budget} more`,
            payment: "my credit card",
          },
          goals: [
            {
              id: "move",
              kind: "change",
              say: `move trip ${trip.reservation_id} to ${date} for at most $${budget} more`,
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              accept: { max_extra_cost: budget },
              on_refused: "accept",
            },
          ],
        },
        proof: {
          trips: [{ write: null, way: "whole", query: { ...wish, max_price: fareOf(trip) + budget } }],
          tempting: [{ ...change(trip, cabin, cheapest.legs, onlyCard(customer.user)!), rule: null, over: budget }],
        },
      };
    }
  },
};

/** Row 21: no cabin that the customer would take is within the budget. */
const dearUpgrade: Template = {
  row: 21,
  category: "refusal",
  gold: "-",
  rules: [6, 17],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) => isAhead(db, one) && one.cabin === "basic_economy" && onlyCard(user) !== null,
    )) {
      const card = onlyCard(customer.user)!;
      const extra = changeCost(db, trip, "economy", trip.flights);
      const business = changeCost(db, trip, "business", trip.flights);
      if (extra === null || business === null || extra < 40 || extra > business) continue;
      const budget = Math.floor((extra - 10) / 10) * 10;
      const up = (cabin: "economy" | "business") => change(trip, cabin, legsOf(trip.flights), card);
      const { out } = waysOf(trip);
      const later = legsOf(trip.flights).map((leg, i) =>
        i < out.length ? { ...leg, date: daysLater(leg.date, 1) } : leg,
      );
      yield {
        customer,
        instruction:
          `${intro(customer)} You want a better cabin on your trip ${trip.reservation_id}: business, or else economy, on the ` +
          `same flights. You pay at most $${budget} for it in all, with your credit card. If neither is possible for that, ` +
          "you would move the way out to the day after; if that can't be done, leave the trip as it is.",
        actions: [],
        script: {
          opening: ["upgrade"],
          facts: {
            reservation_id: trip.reservation_id,
            cabin: "business, or else economy",
            budget: `at most $${budget}`,
            payment: "my credit card",
          },
          goals: [
            {
              id: "upgrade",
              kind: "upgrade",
              say: `put trip ${trip.reservation_id} into a better cabin for at most $${budget}`,
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              accept: { max_extra_cost: budget },
              on_refused: "move",
            },
            {
              id: "move",
              kind: "change",
              say: "move the way out to the day after",
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              on_refused: "accept",
            },
          ],
        },
        proof: {
          tempting: [
            { ...up("economy"), rule: null, over: budget },
            { ...up("business"), rule: null, over: budget },
            { ...change(trip, trip.cabin, later, card), rule: 16 },
          ],
        },
      };
    }
  },
};

/** Row 24: both ways on other days, or neither. */
const allOrNothing: Template = {
  row: 24,
  category: "refusal",
  gold: "-",
  rules: [6, 16],
  *drafts(world) {
    const { db, random } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) =>
        isAhead(db, one) && one.cabin === "economy" && one.flight_type === "round_trip" && onlyCard(user) !== null,
    )) {
      const card = onlyCard(customer.user)!;
      const { out, back } = waysOf(trip);
      const days = random.int(1, 3);
      const [outDate, backDate] = [daysLater(out[0]!.date, days), daysLater(back[0]!.date, days)];
      const common = {
        cabin: trip.cabin,
        passengers: trip.passengers.length,
        most_stops: 1,
        best: "cheapest",
      } as const;
      const outWish = { ...common, origin: trip.origin, destination: trip.destination, date: outDate };
      const backWish = { ...common, origin: trip.destination, destination: trip.origin, date: backDate };
      const [there, home] = [solveTrip(db, outWish), solveTrip(db, backWish)];
      if (!there || !home) continue;
      const extra = there.price + home.price - fareOf(trip);
      if (extra < 40) continue;
      const budget = Math.floor((extra - 10) / 10) * 10;
      const draft: Draft = {
        customer,
        instruction:
          `${intro(customer)} You want both ways of your trip ${trip.reservation_id} later, out on ${dayText(outDate)} ` +
          `and home on ${dayText(backDate)}, in economy, with at most one stop each way and no night on the way. It may cost ` +
          `you $${budget} more in all, from your credit card. If both together cost more, change nothing at all.`,
        actions: [],
        script: {
          opening: ["move"],
          facts: {
            reservation_id: trip.reservation_id,
            date: outDate,
            return_date: backDate,
            budget: `at most $${budget} more`,
            payment: "my credit card",
          },
          goals: [
            {
              id: "move",
              kind: "change",
              say: `move both ways of trip ${trip.reservation_id} to ${outDate} and ${backDate} for at most $${budget} more`,
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              accept: { max_extra_cost: budget },
              on_refused: "accept",
            },
          ],
        },
        proof: {
          tempting: [
            // The cheapest of each way: all others cost more still.
            { ...change(trip, trip.cabin, [...there.legs, ...home.legs], card), rule: null, over: budget },
          ],
        },
      };
      yield draft;
    }
  },
};

/** Row 48: basic economy, and an upgrade is no way around it. */
const basicEconomyDate: Template = {
  row: 48,
  category: "refusal",
  gold: "-",
  rules: [6, 16],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) =>
        isAhead(db, one) && one.cabin === "basic_economy" && one.flights.length === 1 && onlyCard(user) !== null,
    )) {
      const [leg] = trip.flights;
      const date = daysLater(leg!.date, 2);
      const moved = [{ flight_number: leg!.flight_number, date }];
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to fly on ${dayText(date)} instead of ${dayText(leg!.date)} on your trip ` +
          `${trip.reservation_id}; the same flight would do. You would pay a fee with your credit card. You are told that ` +
          "this fare can't be changed: ask once more, and then keep the trip. You want neither to cancel nor an upgrade.",
        actions: [],
        script: {
          opening: ["move"],
          facts: { reservation_id: trip.reservation_id, date, payment: "my credit card" },
          goals: [
            {
              id: "move",
              kind: "change",
              say: `move trip ${trip.reservation_id} from ${leg!.date} to ${date}`,
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              insist: 1,
              on_refused: "accept",
            },
          ],
        },
        proof: {
          tempting: [
            { ...change(trip, trip.cabin, moved, onlyCard(customer.user)!), rule: 16 },
            { ...change(trip, "economy", moved, onlyCard(customer.user)!), rule: 16 },
          ],
        },
      };
    }
  },
};

export const refusedChanging: readonly Template[] = [
  ...[fewerPassengers, overBudget, dearUpgrade, allOrNothing, basicEconomyDate],
];
