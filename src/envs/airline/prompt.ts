import type { AirlineOptions } from "./options.ts";
import { policyText } from "./policy/policy.ts";

// What the agent reads before the dialogue (airline.md 7.1). Small models complete dates as of years long past, and then
// every search comes back empty: the date facts are in both modes.

const DATE_FACTS =
  "Today is 2024-05-15, a Wednesday. A date without a year is one in 2024: search and book flights in 2024.";

const POLICY = `${policyText()}\n${DATE_FACTS}`;

/** The system message. The tools are not in it: the chat template lists them. */
export function systemText({ prompt }: Pick<AirlineOptions, "prompt">): string {
  return prompt.mode === "policy" ? POLICY : DATE_FACTS;
}
