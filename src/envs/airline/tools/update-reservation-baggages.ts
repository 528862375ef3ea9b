import { toJson } from "../data/python-json.ts";
import { arithmetic, item, less, withKeys } from "../data/python-ops.ts";
import { PythonError } from "../data/python-values.ts";
import { findReservation, withReservation } from "../data/state.ts";
import { PAYMENT_ID, RESERVATION_ID } from "./arguments.ts";
import { airlineTool, integer } from "./define.ts";
import { settle } from "./payment.ts";

const BAG_PRICE = 50; // dollars

/** Quirks: bags can be removed, without a refund; the payment method is checked even where nothing is to pay. */
export const updateReservationBaggages = airlineTool({
  name: "update_reservation_baggages",
  description: "Change the number of checked bags of a reservation and charge the added ones.",
  parameters: {
    reservation_id: RESERVATION_ID,
    total_baggages: integer("Number of checked bags of all passengers after the change."),
    nonfree_baggages: integer("How many of those bags are charged, earlier ones included."),
    payment_id: PAYMENT_ID,
  },
  writes: true,
  run(state, { reservation_id, total_baggages, nonfree_baggages, payment_id }) {
    const reservation = findReservation(state, reservation_id);
    if (!reservation) throw new PythonError("reservation not found");
    const added = arithmetic(nonfree_baggages, "-", item(reservation, "nonfree_baggages"));
    const cost = arithmetic(BAG_PRICE, "*", less(0, added) ? added : 0);
    const settled = settle(state, reservation, payment_id, cost);
    const updated = withKeys(reservation, [
      ["total_baggages", total_baggages],
      ["nonfree_baggages", nonfree_baggages],
      ["payment_history", settled.history],
    ]);
    return { state: withReservation(settled.state, reservation_id as string, updated), text: toJson(updated) };
  },
});
