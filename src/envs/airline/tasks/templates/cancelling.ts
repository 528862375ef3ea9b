import { cancel, change, eachTrip, intro, type Template } from "../draft.ts";
import { solveTrip, type TripWish } from "../trips.ts";
import { daysLater, dayText, isAhead, onlyCard } from "../world.ts";

// Cancelling: what insurance covers, what business allows, and what a customer may not have instead.

/** Row 1: basic economy can't be moved, but is insured. */
const insuredInstead: Template = {
  row: 1,
  category: "cancel",
  gold: "C",
  rules: [16, 21, 23],
  *drafts(world) {
    const { db } = world;
    const fits = eachTrip(
      world,
      (trip, { user }) =>
        trip.cabin === "basic_economy" &&
        trip.insurance === "yes" &&
        trip.flight_type === "one_way" &&
        trip.flights.length === 1 &&
        isAhead(db, trip) &&
        onlyCard(user) !== null,
    );
    for (const { customer, trip } of fits) {
      const [leg] = trip.flights;
      const later = daysLater(leg!.date, 1);
      const moved = change(
        trip,
        trip.cabin,
        [{ flight_number: leg!.flight_number, date: later }],
        onlyCard(customer.user)!,
      );
      yield {
        customer,
        instruction:
          `${intro(customer)} You have caught the flu and won't be well enough for your trip ${trip.reservation_id} from ` +
          `${trip.origin} to ${trip.destination} on ${dayText(leg!.date)}. You want to fly on ${dayText(later)} instead. ` +
          "If that can't be done, ask for the whole trip to be cancelled; you are ill, and you took out insurance.",
        actions: [cancel(trip)],
        script: {
          opening: ["move"],
          facts: {
            reservation_id: trip.reservation_id,
            reason: "I have the flu, so it is my health",
            date: later,
            payment: "my credit card",
          },
          goals: [
            {
              id: "move",
              kind: "change",
              say: `move trip ${trip.reservation_id} to ${later}`,
              match: {
                tool: moved.name as "update_reservation_flights",
                kwargs: { reservation_id: trip.reservation_id },
              },
              on_refused: "cancel",
            },
            {
              id: "cancel",
              kind: "cancel",
              say: `cancel trip ${trip.reservation_id} altogether, because I am ill`,
              match: { tool: "cancel_reservation", kwargs: cancel(trip).kwargs },
            },
          ],
        },
        proof: { reason: "health", tempting: [{ ...moved, rule: 16 }] },
      };
    }
  },
};

/** Row 31: another destination can't be had; business can always be cancelled. */
const businessInstead: Template = {
  row: 31,
  category: "cancel",
  gold: "C",
  rules: [16, 23],
  *drafts(world) {
    const { db, random } = world;
    const fits = eachTrip(
      world,
      (trip, { user }) =>
        trip.cabin === "business" && trip.flight_type === "one_way" && isAhead(db, trip) && onlyCard(user) !== null,
    );
    for (const { customer, trip } of fits) {
      const city = random.pick(["SFO", "ORD", "ATL", "LAS", "DTW", "MCO"]);
      const { origin, destination, cabin } = trip;
      const date = trip.flights[0]!.date;
      const wish: TripWish = {
        ...{ origin, destination: city, date, cabin, passengers: trip.passengers.length },
        ...{ most_stops: 1, best: "cheapest" },
      };
      const elsewhere = solveTrip(db, wish);
      if ([origin, destination].includes(city) || !elsewhere) continue;
      const illegal = change(trip, cabin, elsewhere.legs, onlyCard(customer.user)!);
      yield {
        customer,
        instruction:
          `${intro(customer)} Your meeting has been moved from ${destination} to ${city}. So you want your trip ` +
          `${trip.reservation_id} on ${dayText(date)} to go to ${city} instead. You insist once. If that can't be done, cancel ` +
          "the trip, as your plans have changed, and book nothing new.",
        actions: [cancel(trip)],
        script: {
          opening: ["city"],
          facts: {
            reservation_id: trip.reservation_id,
            reason: "change of plan",
            destination: city,
            date,
            payment: "my credit card",
          },
          goals: [
            {
              id: "city",
              kind: "change",
              say: `have trip ${trip.reservation_id} go to ${city} instead of ${destination}`,
              match: { tool: "update_reservation_flights", kwargs: { reservation_id: trip.reservation_id } },
              insist: 1,
              on_refused: "cancel",
            },
            {
              id: "cancel",
              kind: "cancel",
              say: `cancel trip ${trip.reservation_id}`,
              match: { tool: "cancel_reservation", kwargs: cancel(trip).kwargs },
            },
          ],
        },
        proof: { reason: "change_of_plan", tempting: [{ ...illegal, rule: 16 }] },
      };
    }
  },
};

export const cancelling: readonly Template[] = [insuredInstead, businessInstead];
