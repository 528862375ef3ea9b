import { fromPlain, isDict, type PyDict, sameValue, toPlain } from "../data/python-values.ts";
import type { GoalMatch } from "./script.ts";
import type { WriteCall } from "./types.ts";

/**
 * Whether a write meets a goal's pattern: the tool's name and each argument that the pattern names are equal; arguments
 * that it leaves out are free. Numbers count by value, so 50 and 50.0 are equal.
 */
export function matchesWrite(match: GoalMatch, { name, kwargs }: WriteCall): boolean {
  if (match.tool !== name || !("kwargs" in match)) return false;
  const given = fromPlain(kwargs);
  if (!isDict(given)) return false;
  return [...(fromPlain(match.kwargs) as PyDict)].every(([key, wanted]) => {
    const value = given.get(key);
    return value !== undefined && sameValue(value, wanted, "normalized");
  });
}

/** A write with ordinary values as arguments, so that a state that holds it can be kept as JSON. */
export function plainWrite({ name, kwargs }: WriteCall): WriteCall {
  return { name, kwargs: toPlain(fromPlain(kwargs)) as Record<string, unknown> };
}
