import type { Judgements } from "../judgements.ts";
import type { Checker, Verdict } from "./types.ts";

/** Goes by judgements; what they do not list is DISCARD. */
export function labelsChecker(judgements: Judgements): Checker {
  return { check: async ({ id }, _, { docid }) => ({ label: judgements.get(id)?.get(docid) ?? "DISCARD" }) };
}

/** A function as a checker: for tests. */
export function scriptedChecker(judge: (...args: Parameters<Checker["check"]>) => Verdict | Promise<Verdict>): Checker {
  return { check: async (...args) => judge(...args) };
}
