import type { Judgements } from "../judgements.ts";
import type { Checker } from "./types.ts";

/** Goes by judgements; what they do not list is DISCARD. */
export function labelsChecker(judgements: Judgements): Checker {
  return { check: async ({ id }, _, { docid }) => ({ label: judgements.get(id)?.get(docid) ?? "DISCARD" }) };
}
