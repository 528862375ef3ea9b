// Does a predicted argument value mean the expected one? The table of the arXiv reward: `"cs.AI"` is `"AI"`, `"5"` is 5.
import { isDeepStrictEqual } from "node:util";
import type { ArxivOptions } from "./options.ts";

/** `project` compares `ref` integers exactly; `reference` truncates (1.9 is 1) and takes true for 1. */
export type RewardProfile = ArxivOptions["profile"];

/**
 * The first rule that applies decides. `predicted` and `expected` are JSON values; an absent key is `undefined`.
 * It is a comparison of one key: `ref` is judged by the paper it resolved to where that is known (rewards.ts).
 */
export function valuesMatch(predicted: unknown, expected: unknown, key: string, profile: RewardProfile): boolean {
  if (expected === null || expected === undefined) return predicted === null || predicted === undefined;
  if (predicted === null || predicted === undefined) return false;
  if (key === "ref" && profile === "project") return refsMatchExactly(predicted, expected);
  if (isDeepStrictEqual(untyped(predicted), untyped(expected))) return true;
  if (key === "aspect") return aspect(predicted) === aspect(expected);
  if (key === "ref") return refsMatch(predicted, expected);
  if (typeof expected === "number" || typeof expected === "boolean") {
    const number = toNumber(predicted);
    if (number !== null) return number === Number(expected);
    return typeof expected === "boolean" && typeof predicted === "string" && plain(predicted) === String(expected);
  }
  return typeof predicted === "string" && typeof expected === "string" && plain(predicted) === plain(expected);
}

function refsMatch(predicted: unknown, expected: unknown): boolean {
  const wanted = truncate(expected);
  const given = truncate(predicted);
  if (wanted !== null && given !== null) return given === wanted;
  return wanted !== null
    ? firstInteger(predicted) === wanted || text(predicted) === text(expected)
    : text(predicted) === text(expected);
}

function refsMatchExactly(predicted: unknown, expected: unknown): boolean {
  const wanted = exactInteger(expected);
  if (wanted === null) return typeof predicted === typeof expected && text(predicted) === text(expected);
  if (typeof predicted === "boolean") return false;
  const given = toNumber(predicted);
  return given !== null ? given === wanted : firstInteger(predicted) === wanted;
}

/** The first integer in a text, its minus sign with it: `-1` once matched `1`, and paid for wrong papers. */
function firstInteger(value: unknown): number | null {
  const found = /-?\d+/.exec(text(value));
  return found ? Number(found[0]) : null;
}

/** An integer by truncation, as the reference converts: 1.9 and true become 1; the text "1.9" is none. */
function truncate(value: unknown): number | null {
  if (typeof value === "string") return exactInteger(value);
  const number = toNumber(value);
  return number !== null && Number.isFinite(number) ? Math.trunc(number) : null;
}

function exactInteger(value: unknown): number | null {
  if (typeof value === "number") return Number.isInteger(value) ? value : null;
  return typeof value === "string" && /^\s*[+-]?\d+\s*$/.test(value) ? Number(value) : null;
}

function toNumber(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  return typeof value === "string" && /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(value) ? Number(value) : null;
}

/** Numbers and booleans in one kind: the reference's language has `1 == true`. */
function untyped(value: unknown): unknown {
  if (typeof value === "boolean") return Number(value);
  if (Array.isArray(value)) return value.map(untyped);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, untyped(item)]));
  }
  return value === 0 ? 0 : value; // -0 is 0
}

function aspect(value: unknown): string {
  return text(value).toUpperCase().replace(/^CS\./, "");
}

function text(value: unknown): string {
  return plain(typeof value === "object" ? JSON.stringify(value) : String(value));
}

function plain(value: string): string {
  return value.trim().toLowerCase();
}
