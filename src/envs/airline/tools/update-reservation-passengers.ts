import { toJson } from "../data/python-json.ts";
import { item, length, withKeys } from "../data/python-ops.ts";
import { PythonError } from "../data/python-values.ts";
import { findReservation, withReservation } from "../data/state.ts";
import { PASSENGERS, RESERVATION_ID } from "./arguments.ts";
import { airlineTool } from "./define.ts";

export const updateReservationPassengers = airlineTool({
  name: "update_reservation_passengers",
  description: "Replace the passengers of a reservation; their number stays the same.",
  parameters: { reservation_id: RESERVATION_ID, passengers: PASSENGERS },
  writes: true,
  run(state, { reservation_id, passengers }) {
    const reservation = findReservation(state, reservation_id);
    if (!reservation) throw new PythonError("reservation not found");
    if (length(passengers) !== length(item(reservation, "passengers")))
      throw new PythonError("number of passengers does not match");
    const updated = withKeys(reservation, [["passengers", passengers]]);
    return { state: withReservation(state, reservation_id as string, updated), text: toJson(updated) };
  },
});
