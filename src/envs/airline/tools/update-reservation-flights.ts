import { toJson } from "../data/python-json.ts";
import { arithmetic, equals, item, iterate, length, sum, withKeys } from "../data/python-ops.ts";
import { PythonError, type PyValue } from "../data/python-values.ts";
import { findReservation, withReservation } from "../data/state.ts";
import { CABIN, flightList, PAYMENT_ID, RESERVATION_ID } from "./arguments.ts";
import { airlineTool } from "./define.ts";
import { pricedLegs } from "./itinerary.ts";
import { settle } from "./payment.ts";

/**
 * A quirk that much follows from: the reservation's `cabin` isn't changed. So after an upgrade the record still names
 * the old cabin; asking for that one again keeps the upgraded prices, asking for the new one prices all legs anew.
 */
export const updateReservationFlights = airlineTool({
  name: "update_reservation_flights",
  description: "Replace the flights or the cabin of a reservation; the difference in price is charged or refunded.",
  parameters: {
    reservation_id: RESERVATION_ID,
    cabin: CABIN,
    flights: flightList("All flights of the new itinerary in order, those that stay included."),
    payment_id: PAYMENT_ID,
  },
  writes: true,
  run(state, { reservation_id, cabin, flights, payment_id }) {
    const reservation = findReservation(state, reservation_id);
    if (!reservation) throw new PythonError("reservation not found");
    const passengers = () => length(item(reservation, "passengers"));
    const stored = iterate(item(reservation, "flights"));
    const sameCabin = equals(cabin, item(reservation, "cabin"));
    const kept = (leg: PyValue) =>
      stored.find(
        (own) =>
          equals(item(own, "flight_number"), item(leg, "flight_number")) &&
          equals(item(own, "date"), item(leg, "date")) &&
          sameCabin,
      );
    const { legs, prices } = pricedLegs(state.db, flights, cabin, passengers, kept);
    const before = arithmetic(sum(stored.map((leg) => item(leg, "price"))), "*", passengers());
    const after = arithmetic(sum(prices), "*", passengers());
    const settled = settle(state, reservation, payment_id, arithmetic(after, "-", before));
    const updated = withKeys(reservation, [
      ["flights", legs],
      ["payment_history", settled.history],
    ]);
    return { state: withReservation(settled.state, reservation_id as string, updated), text: toJson(updated) };
  },
});
