import type { Reservation } from "../../data/types.ts";
import { chargedBags, freeBags } from "../../policy/facts.ts";
import {
  bags,
  type Customer,
  cabinText,
  change,
  eachTrip,
  type GoalInput,
  intro,
  legsOf,
  NO_NIGHT,
  type Template,
} from "../draft.ts";
import { solveTrip, type TripWish } from "../trips.ts";
import { changeCost, daysLater, dayText, isAhead, methodsOf, onlyCard, type World, waysOf } from "../world.ts";

// Other flights on a reservation, and what goes with them.

const UPDATE = "update_reservation_flights";

/** One-way trips ahead whose flights may be changed, of customers with one credit card. */
function* movable(world: World, fits: (trip: Reservation, customer: Customer) => boolean) {
  yield* eachTrip(
    world,
    (trip, customer) =>
      isAhead(world.db, trip) &&
      trip.cabin !== "basic_economy" &&
      trip.flight_type === "one_way" &&
      onlyCard(customer.user) !== null &&
      fits(trip, customer),
  );
}

/** The trip's own route, so many days after it was booked for. */
function moved(trip: Reservation, days: number, rest: Pick<TripWish, "most_stops" | "best">): TripWish {
  return {
    origin: trip.origin,
    destination: trip.destination,
    date: daysLater(trip.flights[0]!.date, days),
    cabin: trip.cabin,
    passengers: trip.passengers.length,
    ...rest,
  };
}

const changeGoal = (trip: Reservation, say: string, rest: Partial<GoalInput> = {}): GoalInput => ({
  id: "change",
  kind: "change",
  say,
  match: { tool: UPDATE, kwargs: { reservation_id: trip.reservation_id } },
  ...rest,
});

/** Row 3: home faster, with a bag more, both from the smaller gift card. */
const fasterReturn: Template = {
  row: 3,
  category: "change",
  gold: "FG",
  rules: [12, 13, 16, 18, 20],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) =>
        isAhead(db, one) &&
        one.cabin !== "basic_economy" &&
        one.flight_type === "round_trip" &&
        waysOf(one).back.length === 2 &&
        methodsOf(user, "gift_card").length >= 2,
    )) {
      const { out, back } = waysOf(trip);
      const gifts = methodsOf(customer.user, "gift_card").toSorted((a, b) => a.amount - b.amount);
      const [smallest, second] = gifts;
      const wish: TripWish = {
        ...{ origin: trip.destination, destination: trip.origin, date: back[0]!.date, cabin: trip.cabin },
        ...{ passengers: trip.passengers.length, most_stops: 1, best: "fastest" },
      };
      const best = solveTrip(db, wish);
      if (!best || JSON.stringify(best.legs) === JSON.stringify(legsOf(back))) continue;
      const legs = [...legsOf(out), ...best.legs];
      const cost = changeCost(db, trip, trip.cabin, legs);
      const total = freeBags(customer.user.membership, trip.cabin) * trip.passengers.length + 1;
      if (cost === null || smallest!.amount === second!.amount || smallest!.amount < cost + 50) continue;
      const count = total - trip.total_baggages;
      const flights = change(trip, trip.cabin, legs, smallest!.id);
      const luggage = bags(customer, trip, total, smallest!.id);
      yield {
        customer,
        instruction:
          `${intro(customer)} On your trip ${trip.reservation_id} the way home on ${dayText(back[0]!.date)} takes too long. ` +
          `Leave the way out as it is, and take the fastest flights home on that day, with at most one stop; ${NO_NIGHT}. ` +
          `After that you want to have ${count} more checked ${count === 1 ? "bag" : "bags"} on the trip, so ${total} in all. ` +
          "Both go on the gift card of yours with the smallest balance.",
        actions: [flights, luggage],
        script: {
          opening: ["change"],
          facts: {
            reservation_id: trip.reservation_id,
            bags: `${total} in all`,
            payment: "my gift card with the smallest balance",
            other: `the fastest with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            changeGoal(trip, `take the fastest way home on ${back[0]!.date} for trip ${trip.reservation_id}`),
            {
              id: "bags",
              kind: "bags",
              say: `have ${total} checked bags in all`,
              match: { tool: "update_reservation_baggages", kwargs: { reservation_id: trip.reservation_id } },
            },
          ],
        },
        proof: {
          trips: [{ write: 0, way: "back", query: wish }],
          tempting: [{ ...luggage, kwargs: { ...luggage.kwargs, nonfree_baggages: 0 }, rule: 13 }],
        },
      };
    }
  },
};

/** Row 6: a day later, and the difference goes back. */
const dayLater: Template = {
  row: 6,
  category: "change",
  gold: "F",
  rules: [16, 20],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of movable(world, ({ cabin }) => cabin === "business")) {
      const wish = moved(trip, 1, { most_stops: 1, best: "cheapest" });
      const best = solveTrip(db, wish);
      const original = trip.payment_history[0]!.payment_id;
      const cost = best && changeCost(db, trip, trip.cabin, best.legs);
      if (!best || !cost || cost >= 0) continue;
      const economy = solveTrip(db, { ...wish, destination: trip.origin, origin: trip.destination });
      if (!economy) continue;
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to fly a day later on your trip ${trip.reservation_id}: on ${dayText(wish.date)}, in ` +
          `business as before, the cheapest way with at most one stop; ${NO_NIGHT}. What you get back shall go to where ` +
          "you paid from when you booked.",
        actions: [change(trip, trip.cabin, best.legs, original)],
        script: {
          opening: ["change"],
          facts: {
            reservation_id: trip.reservation_id,
            date: wish.date,
            cabin: "business",
            payment: "back to where I paid from when I booked",
            other: `the cheapest with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            changeGoal(trip, `take the cheapest business flight on ${wish.date} for trip ${trip.reservation_id}`),
          ],
        },
        proof: {
          trips: [{ write: 0, way: "whole", query: wish }],
          tempting: [{ ...change(trip, trip.cabin, economy.legs, original), rule: 16 }],
        },
      };
    }
  },
};

const NEW_YORK = ["JFK", "LGA", "EWR"];

/** Row 7: the cheapest flight goes to another airport of the city, which is no choice. */
const otherAirport: Template = {
  row: 7,
  category: "change",
  gold: "F",
  rules: [16, 20],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of movable(world, ({ destination }) => NEW_YORK.includes(destination))) {
      const wish = moved(trip, 1, { most_stops: 1, best: "cheapest" });
      const best = solveTrip(db, wish);
      const others = NEW_YORK.filter((code) => code !== trip.destination && code !== trip.origin);
      const tempting = others.map((code) => ({ code, way: solveTrip(db, { ...wish, destination: code }) }));
      const cheaper = tempting.find(({ way }) => best && way && way.price < best.price);
      if (!best || !cheaper) continue;
      const card = onlyCard(customer.user)!;
      const illegal = change(trip, trip.cabin, cheaper.way!.legs, card);
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to fly a day later on your trip ${trip.reservation_id}, on ${dayText(wish.date)}, in ` +
          `${trip.cabin}, as cheaply as possible, with at most one stop; ${NO_NIGHT}. You have seen that flights to ` +
          `${cheaper.code} are cheaper, and want to arrive there instead of ${trip.destination}. If that can't be done, take ` +
          `the cheapest way to ${trip.destination}. Pay with, or get it back on, your credit card.`,
        actions: [change(trip, trip.cabin, best.legs, card)],
        script: {
          opening: ["airport"],
          facts: {
            reservation_id: trip.reservation_id,
            date: wish.date,
            cabin: cabinText(trip.cabin),
            payment: "my credit card",
            other: `the cheapest with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            {
              id: "airport",
              kind: "change",
              say: `fly to ${cheaper.code} instead of ${trip.destination} on ${wish.date} with trip ${trip.reservation_id}`,
              match: { tool: UPDATE, kwargs: { ...illegal.kwargs } },
              on_refused: "change",
            },
            changeGoal(trip, `take the cheapest way to ${trip.destination} on ${wish.date}`),
          ],
        },
        proof: {
          trips: [{ write: 0, way: "whole", query: wish }],
          tempting: [{ ...illegal, rule: 16 }],
        },
      };
    }
  },
};

/** Row 19: another destination is refused; a later day and more bags are not. */
const otherCity: Template = {
  row: 19,
  category: "change",
  gold: "FG",
  rules: [12, 13, 16, 18, 20],
  *drafts(world) {
    const { db, random } = world;
    for (const { customer, trip } of movable(world, () => true)) {
      const wish = moved(trip, 2, { most_stops: 1, best: "earliest" });
      const best = solveTrip(db, wish);
      const city = random.pick(["SEA", "MIA", "DEN", "BOS", "PHX", "MSP"]);
      const elsewhere = solveTrip(db, { ...wish, destination: city });
      if (!best || !elsewhere || [trip.origin, trip.destination].includes(city)) continue;
      const card = onlyCard(customer.user)!;
      const total = trip.total_baggages + 2;
      if (chargedBags(customer.user.membership, trip.cabin, trip.passengers.length, total) === 0) continue;
      const illegal = change(trip, trip.cabin, elsewhere.legs, card);
      const luggage = bags(customer, trip, total, card);
      yield {
        customer,
        instruction:
          `${intro(customer)} You would like to go to ${city} instead of ${trip.destination} on your trip ${trip.reservation_id}, ` +
          `on ${dayText(wish.date)}. If that can't be done, stay with ${trip.destination}, but move the trip to that day: ` +
          `take the way in ${trip.cabin} that arrives first, with at most one stop; ${NO_NIGHT}. When the flights are ` +
          "changed, add two checked bags to those that you have. Your credit card is used for both.",
        actions: [change(trip, trip.cabin, best.legs, card), luggage],
        script: {
          opening: ["city"],
          facts: {
            reservation_id: trip.reservation_id,
            date: wish.date,
            cabin: cabinText(trip.cabin),
            bags: `two more than now, so ${total} in all`,
            payment: "my credit card",
            other: `the way that arrives first with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            {
              id: "city",
              kind: "change",
              say: `go to ${city} instead of ${trip.destination} on ${wish.date} with trip ${trip.reservation_id}`,
              match: { tool: UPDATE, kwargs: { ...illegal.kwargs } },
              on_refused: "change",
            },
            changeGoal(trip, `move it to ${wish.date}, the way to ${trip.destination} that arrives first`),
            {
              id: "bags",
              kind: "bags",
              say: "add two checked bags",
              match: { tool: "update_reservation_baggages", kwargs: { reservation_id: trip.reservation_id } },
            },
          ],
        },
        proof: {
          trips: [{ write: 0, way: "whole", query: wish }],
          tempting: [
            { ...illegal, rule: 16 },
            { ...luggage, kwargs: { ...luggage.kwargs, nonfree_baggages: 0 }, rule: 13 },
          ],
        },
      };
    }
  },
};

/** Row 20: a bag can't be taken off; without a stop there is a flight. */
const nonStop: Template = {
  row: 20,
  category: "change",
  gold: "F",
  rules: [16, 18, 20],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of movable(world, (one) => one.total_baggages >= 1 && one.flights.length === 1)) {
      const wish = moved(trip, 2, { most_stops: 0, best: "cheapest" });
      const best = solveTrip(db, wish);
      if (!best) continue;
      const card = onlyCard(customer.user)!;
      const fewer = bags(customer, trip, trip.total_baggages - 1, card);
      yield {
        customer,
        instruction:
          `${intro(customer)} You want one checked bag taken off your trip ${trip.reservation_id}, and argue once. Whether it ` +
          `works or not, you then want to move the trip to ${dayText(wish.date)}, in ${trip.cabin}, on the cheapest flight ` +
          "without a stop. Use your credit card.",
        actions: [change(trip, trip.cabin, best.legs, card)],
        script: {
          opening: ["bag"],
          facts: {
            reservation_id: trip.reservation_id,
            date: wish.date,
            cabin: cabinText(trip.cabin),
            bags: "one less than now",
            payment: "my credit card",
            other: "the cheapest without a stop",
          },
          goals: [
            {
              id: "bag",
              kind: "bags",
              say: `take one checked bag off trip ${trip.reservation_id}`,
              match: { tool: "update_reservation_baggages", kwargs: fewer.kwargs },
              insist: 1,
              on_refused: "change",
            },
            changeGoal(trip, `move the trip to ${wish.date} on the cheapest flight without a stop`),
          ],
        },
        proof: {
          trips: [{ write: 0, way: "whole", query: wish }],
          tempting: [{ ...fewer, rule: 18 }],
        },
      };
    }
  },
};

/** Row 22: a basic economy trip gets a better cabin but no other day; another trip does get it. */
const cabinAndDay: Template = {
  row: 22,
  category: "change",
  gold: "FF",
  rules: [16, 17, 20],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of movable(world, () => true)) {
      const wish = moved(trip, 1, { most_stops: 1, best: "cheapest" });
      const best = solveTrip(db, wish);
      const card = onlyCard(customer.user)!;
      const basic = customer.trips.find(
        (one) =>
          isAhead(db, one) &&
          one.cabin === "basic_economy" &&
          one.flights.length <= 2 &&
          (changeCost(db, one, "economy", one.flights) ?? 0) !== 0,
      );
      if (!best || !basic) continue;
      const legs = legsOf(basic.flights);
      const later = legs.map((leg) => ({ ...leg, date: daysLater(leg.date, 1) }));
      const illegal = change(basic, basic.cabin, later, card);
      yield {
        customer,
        instruction:
          `${intro(customer)} You want to have two trips a day later: ${basic.reservation_id} and ${trip.reservation_id}. Begin ` +
          `with ${basic.reservation_id}, on the same flights the day after. If that can't be done, put it into economy on its ` +
          `booked flights instead. Then move ${trip.reservation_id} to ${dayText(wish.date)}, in ${trip.cabin}, the cheapest ` +
          `way with at most one stop; ${NO_NIGHT}. Use your credit card for both.`,
        actions: [change(basic, "economy", legs, card), change(trip, trip.cabin, best.legs, card)],
        script: {
          opening: ["basic"],
          facts: {
            reservation_id: [basic.reservation_id, trip.reservation_id],
            date: wish.date,
            payment: "my credit card",
            other: `the cheapest with at most one stop, and ${NO_NIGHT}`,
          },
          goals: [
            {
              id: "basic",
              kind: "change",
              say: `move trip ${basic.reservation_id} to the day after`,
              match: { tool: UPDATE, kwargs: { reservation_id: basic.reservation_id, flights: later } },
              on_refused: "cabin",
            },
            {
              id: "cabin",
              kind: "upgrade",
              say: `put trip ${basic.reservation_id} into economy on its booked flights`,
              match: { tool: UPDATE, kwargs: { reservation_id: basic.reservation_id, flights: legs } },
            },
            changeGoal(trip, `take the cheapest way on ${wish.date} for trip ${trip.reservation_id}`),
          ],
        },
        proof: {
          trips: [{ write: 1, way: "whole", query: wish }],
          tempting: [
            { ...illegal, rule: 16 },
            { ...change(basic, "economy", later, card), rule: 16 },
          ],
        },
      };
    }
  },
};

/** Row 23: both ways, within a budget that holds, and bags beyond the allowance. */
const bothWays: Template = {
  row: 23,
  category: "change",
  gold: "FG",
  rules: [12, 13, 16, 18, 20],
  *drafts(world) {
    const { db } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) =>
        isAhead(db, one) &&
        one.cabin === "economy" &&
        one.flight_type === "round_trip" &&
        onlyCard(user) !== null &&
        user.membership === "gold",
    )) {
      const card = onlyCard(customer.user)!;
      const { out, back } = waysOf(trip);
      const common = {
        cabin: trip.cabin,
        passengers: trip.passengers.length,
        most_stops: 1,
        best: "cheapest",
      } as const;
      const there: TripWish = {
        ...{ ...common, origin: trip.origin, destination: trip.destination, date: daysLater(out[0]!.date, 1) },
      };
      const home: TripWish = {
        ...{ ...common, origin: trip.destination, destination: trip.origin, date: daysLater(back[0]!.date, 1) },
      };
      const [bestThere, bestHome] = [solveTrip(db, there), solveTrip(db, home)];
      if (!bestThere || !bestHome) continue;
      const legs = [...bestThere.legs, ...bestHome.legs];
      const cost = changeCost(db, trip, trip.cabin, legs);
      if (cost === null || cost < 10) continue;
      const budget = Math.ceil((cost + 5) / 50) * 50;
      const free = freeBags(customer.user.membership, trip.cabin) * trip.passengers.length;
      const total = free + 1;
      const luggage = bags(customer, trip, total, card);
      yield {
        customer,
        instruction:
          `${intro(customer)} You want both ways of your trip ${trip.reservation_id} a day later: out on ${dayText(there.date)}, ` +
          `home on ${dayText(home.date)}, in economy, each the cheapest way with at most one stop; ${NO_NIGHT}. The new ` +
          `flights may cost $${budget} more in all. After that you want ${total} checked bags on the trip in all; what they ` +
          "cost comes on top. Pay with your credit card.",
        actions: [change(trip, trip.cabin, legs, card), luggage],
        script: {
          opening: ["change"],
          facts: {
            reservation_id: trip.reservation_id,
            date: there.date,
            return_date: home.date,
            cabin: "economy",
            bags: `${total} in all`,
            budget: `at most $${budget} more for the flights`,
            payment: "my credit card",
            other: `the cheapest with at most one stop each way, and ${NO_NIGHT}`,
          },
          goals: [
            changeGoal(
              trip,
              `move trip ${trip.reservation_id} to ${there.date} and ${home.date} for at most $${budget} more`,
              { accept: { max_extra_cost: budget } },
            ),
            {
              id: "bags",
              kind: "bags",
              say: `have ${total} checked bags on the trip in all`,
              match: { tool: "update_reservation_baggages", kwargs: { reservation_id: trip.reservation_id } },
            },
          ],
        },
        proof: {
          trips: [
            { write: 0, way: "out", query: there },
            { write: 0, way: "back", query: home },
          ],
          tempting: [0, 2].map((nonfree_baggages) => ({
            ...luggage,
            kwargs: { ...luggage.kwargs, nonfree_baggages },
            rule: 13,
          })),
        },
      };
    }
  },
};

export const changing: readonly Template[] = [
  ...[fasterReturn, dayLater, otherAirport, otherCity, nonStop, cabinAndDay, bothWays],
];
