import type { Slot } from "../users/script.ts";
import type { WriteCall } from "../users/types.ts";
import { listed } from "../users/wordings.ts";
import { argumentsOf } from "./plan.ts";

// What the teacher says. Its questions ask for exactly the slots they name (a test reads them as the user does), and
// what it says beside them asks for nothing, refuses nothing and announces nothing.

const QUESTIONS: Readonly<Record<Slot, string>> = {
  user_id: "your user id",
  reservation_id: "the reservation id",
  reason: "the reason",
  trip_type: "the trip type",
  origin: "the origin",
  destination: "the destination",
  date: "the travel date",
  return_date: "the return date",
  cabin: "the cabin",
  time_window: "the time of day",
  passenger_count: "the number of passengers",
  passengers: "the names of the passengers",
  dob: "the date of birth",
  bags: "the number of bags",
  insurance: "whether you want insurance",
  payment: "the way of payment",
  budget: "your budget",
  other: "other preferences",
};

export function question(slots: readonly Slot[]): string {
  return `Could you please tell me ${listed(slots.map((slot) => QUESTIONS[slot]))}?`;
}

/** @param cost what a change of flights or bags comes to, dollars, negative: back to the user; null: not told */
export function confirmation(writes: readonly { write: WriteCall; cost: number | null }[], in_full: boolean): string {
  const lines = writes.map(({ write, cost }) => `- ${in_full ? detailed(write, cost) : brief(write)}`);
  return `This is what I would do:\n${lines.join("\n")}\nDo you confirm (yes/no)?`;
}

interface Named {
  first_name?: unknown;
  last_name?: unknown;
}
interface Paid {
  payment_id?: unknown;
  amount?: unknown;
}

const cabinText = (cabin: unknown): string => String(cabin).replaceAll("_", " ");
const flightsText = (flights: unknown): string =>
  list(flights)
    .map(
      (leg) =>
        `${String((leg as { flight_number?: unknown }).flight_number)} on ${String((leg as { date?: unknown }).date)}`,
    )
    .join(", ");
const passengersText = (passengers: unknown): string =>
  list(passengers)
    .map((one) => `${String((one as Named).first_name)} ${String((one as Named).last_name)}`)
    .join(", ");
const paymentsText = (payments: unknown): string =>
  list(payments)
    .map((one) => `${String((one as Paid).payment_id)} with $${String((one as Paid).amount)}`)
    .join(", ");
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function brief(write: WriteCall): string {
  const args = argumentsOf(write);
  const id = String(args.reservation_id);
  switch (write.name) {
    case "book_reservation":
      return `the new booking from ${String(args.origin)} to ${String(args.destination)}`;
    case "cancel_reservation":
      return `the cancellation of ${id}`;
    case "update_reservation_flights":
      return `the change of ${id}`;
    case "update_reservation_baggages":
      return `the bags of ${id}`;
    case "update_reservation_passengers":
      return `the passengers of ${id}`;
    default:
      return "the certificate";
  }
}

function detailed(write: WriteCall, cost: number | null): string {
  const args = argumentsOf(write);
  const money =
    cost === null || cost === 0
      ? ""
      : cost > 0
        ? `, for $${cost} from ${String(args.payment_id)}`
        : `, with a refund of $${-cost} to ${String(args.payment_id)}`;
  switch (write.name) {
    case "book_reservation":
      return (
        `${brief(write)}: ${cabinText(args.flight_type)}, ${cabinText(args.cabin)}, ${flightsText(args.flights)}; ` +
        `passengers: ${passengersText(args.passengers)}; bags: ${String(args.total_baggages)}, ` +
        `of which ${String(args.nonfree_baggages)} charged; insurance: ${String(args.insurance)}; ` +
        `paid by ${paymentsText(args.payment_methods)}`
      );
    case "update_reservation_flights":
      return `${brief(write)}: ${cabinText(args.cabin)}, ${flightsText(args.flights)}${money}`;
    case "update_reservation_baggages":
      return `${brief(write)}: ${String(args.total_baggages)} in all, of which ${String(args.nonfree_baggages)} charged${money}`;
    case "update_reservation_passengers":
      return `${brief(write)}: ${passengersText(args.passengers)}`;
    case "send_certificate":
      return `${brief(write)} of $${String(args.amount)}`;
    default:
      return `${brief(write)}, with all payments going back to where they came from in 5 to 7 business days`;
  }
}

/** What has been done, with texts that the user waits for. */
export function report(writes: readonly WriteCall[], outputs: readonly string[]): string {
  const done = listed(writes.map((write) => brief(write)));
  return `This has been completed: ${done}.${outputs.length > 0 ? ` Figures for you: ${outputs.join("; ")}.` : ""}`;
}

export const answerText = (outputs: readonly string[]): string => `Here is what you asked for: ${outputs.join("; ")}.`;

/** @param limited the user set limits that the wish would break */
export function refusal(times: number, limited: boolean, outputs: readonly string[]): string {
  const text = limited
    ? "Unfortunately that is not possible within your limits."
    : times === 0
      ? "Unfortunately that is not possible: our policy does not allow it."
      : "I understand, but unfortunately our policy leaves me no way to do it.";
  return outputs.length > 0 ? `${text} Figures for you: ${outputs.join("; ")}.` : text;
}

export const FAILED = "Unfortunately that did not work.";
export const GOODBYE = "Thank you. Is there anything else?";
export const SUMMARY = "The request cannot be handled with the available tools.";

export function thought(writes: readonly WriteCall[]): string {
  return writes.length > 0
    ? `The policy allows ${listed(writes.map((write) => brief(write)))}. I list the details and wait for a yes.`
    : "The policy does not allow this request.";
}
