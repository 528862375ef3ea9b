import { chargedBags, freeBags } from "../../policy/facts.ts";
import { bags, cabinText, change, eachTrip, intro, legsOf, NO_NIGHT, type Template } from "../draft.ts";
import { solveTrip, type TripWish } from "../trips.ts";
import { changeCost, daysLater, dayText, isAhead, methodsOf, onlyCard, waysOf } from "../world.ts";
import { changeGoal, movable, moved, UPDATE } from "./change.ts";

// Other flights, and then more bags: in this order, which the history of payments keeps.

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

/** Row 23: both ways, within a budget that holds, and bags beyond the allowance. */
const bothWays: Template = {
  row: 23,
  category: "change",
  gold: "FG",
  rules: [12, 13, 16, 18, 20],
  *drafts(world) {
    const { db, random } = world;
    for (const { customer, trip } of eachTrip(
      world,
      (one, { user }) =>
        isAhead(db, one) && one.cabin === "economy" && one.flight_type === "round_trip" && onlyCard(user) !== null,
    )) {
      const card = onlyCard(customer.user)!;
      const { out, back } = waysOf(trip);
      const days = random.int(1, 2);
      const common = {
        cabin: trip.cabin,
        passengers: trip.passengers.length,
        most_stops: 1,
        best: "cheapest",
      } as const;
      const there: TripWish = {
        ...{ ...common, origin: trip.origin, destination: trip.destination, date: daysLater(out[0]!.date, days) },
      };
      const home: TripWish = {
        ...{ ...common, origin: trip.destination, destination: trip.origin, date: daysLater(back[0]!.date, days) },
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
          `${intro(customer)} You want both ways of your trip ${trip.reservation_id} ${days === 1 ? "a day" : "two days"} later: out on ${dayText(there.date)}, ` +
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

export const changingWithBags: readonly Template[] = [fasterReturn, otherCity, bothWays];
