import { toJson } from "../data/python-json.ts";
import { appended, item, iterate, negated, withKeys } from "../data/python-ops.ts";
import { PythonError, type PyValue } from "../data/python-values.ts";
import { findReservation, withReservation } from "../data/state.ts";
import { RESERVATION_ID } from "./arguments.ts";
import { airlineTool } from "./define.ts";

/**
 * Quirks: no balance is credited and no seat freed, and a cancelled reservation can be cancelled again, which refunds
 * the refunds.
 */
export const cancelReservation = airlineTool({
  name: "cancel_reservation",
  description: "Cancel a whole reservation; every payment goes back to where it came from.",
  parameters: { reservation_id: RESERVATION_ID },
  writes: true,
  run(state, { reservation_id }) {
    const reservation = findReservation(state, reservation_id);
    if (!reservation) throw new PythonError("reservation not found");
    const history = item(reservation, "payment_history");
    const refunds = iterate(history).map(
      (payment) =>
        new Map<string, PyValue>([
          ["payment_id", item(payment, "payment_id")],
          ["amount", negated(item(payment, "amount"))],
        ]),
    );
    const cancelled = withKeys(reservation, [
      ["payment_history", appended(history, ...refunds)],
      ["status", "cancelled"],
    ]);
    return { state: withReservation(state, reservation_id as string, cancelled), text: toJson(cancelled) };
  },
});
