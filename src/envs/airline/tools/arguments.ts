import type { JsonSchema } from "../../../core/tool.ts";
import { CABINS } from "../data/types.ts";
import { listOf, oneOf, text } from "./define.ts";

// Schemas of arguments that several tools have.

export const RESERVATION_ID = text("Reservation code of six letters and digits, such as 'Q7ZK2M'.");
export const USER_ID = text("Id of the customer's profile, such as 'noor_halvorsen_4821'.");
export const CABIN = oneOf(CABINS, "Cabin of all flights of the reservation.");
export const PAYMENT_ID = text("Id of a payment method in the customer's profile, such as 'gift_card_4025718'.");

export const PASSENGERS = listOf("All passengers of the reservation.", {
  first_name: text("First name, such as 'Noor'."),
  last_name: text("Last name, such as 'Halvorsen'."),
  dob: text("Date of birth, YYYY-MM-DD."),
});

/** The flights of an itinerary, in order. */
export function flightList(description: string): JsonSchema {
  return listOf(description, {
    flight_number: text("Flight number: three letters and three digits."),
    date: text("Day of departure, YYYY-MM-DD."),
  });
}
