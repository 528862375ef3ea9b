import { toJson } from "../data/python-json.ts";
import { PythonError } from "../data/python-values.ts";
import { findReservation } from "../data/state.ts";
import { RESERVATION_ID } from "./arguments.ts";
import { airlineTool } from "./define.ts";

export const getReservationDetails = airlineTool({
  name: "get_reservation_details",
  description: "Show a reservation: flights, passengers, payments, bags, insurance.",
  parameters: { reservation_id: RESERVATION_ID },
  writes: false,
  run(state, { reservation_id }) {
    const reservation = findReservation(state, reservation_id);
    // A quirk: the original's text speaks of a user.
    if (!reservation) throw new PythonError("user not found");
    return { state, text: toJson(reservation) };
  },
});
