// JSON text as it crosses to Python and back. Its twin is py/trainers/wire.py: what one side writes, the other reads.
// Non-finite numbers travel as {"$float": "NaN"}: bare NaN would kill Node's reader, and null would hide it.

import { types } from "node:util";

/** The longest text that crosses, in UTF-16 units: escaped twice it must still fit one Node string (512 Mi). */
export const MAX_TEXT_LENGTH = 64 * 1024 * 1024;

let replaced = 0;

/** Lone surrogates replaced since the process began. */
export function replacedSurrogates(): number {
  return replaced;
}

/** Half a surrogate pair is not text and breaks encoders: each becomes U+FFFD and is counted. Whole text is untouched. */
export function wellFormed(text: string): string {
  // With the u flag, a whole pair is one character, so only lone halves match.
  return text.replace(/\p{Surrogate}/gu, () => {
    replaced++;
    return "\ufffd";
  });
}

/**
 * The JSON text of plain data. Typed arrays become lists; NaN and the infinities keep their value.
 * @param path what errors call the value, as "sft" in "sft.trainer.max_steps"
 * @throws TypeError with the path of what cannot cross: integers beyond 2^53, Map, Set, Date, functions, instances of
 *   classes, undefined in a list, circular references; RangeError where the text is longer than MAX_TEXT_LENGTH
 */
export function encode(value: unknown, path = "value"): string {
  const text = JSON.stringify(plain(value, path, []));
  if (text.length > MAX_TEXT_LENGTH)
    throw new RangeError(
      `${path} is ${mebi(text.length)} MiB as JSON; the bridge carries at most ${mebi(MAX_TEXT_LENGTH)} MiB at once. Write it to a file and pass the file's path.`,
    );
  return text;
}

/** @throws SyntaxError where the text is not the codec's JSON. */
export function decode(text: string): unknown {
  return revive(JSON.parse(text));
}

function plain(value: unknown, path: string, above: readonly object[]): unknown {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "string") return wellFormed(value);
  if (typeof value === "number") return number(value, path);
  if (typeof value === "bigint") return number(safe(value, path), path);
  if (typeof value !== "object") throw new TypeError(`${path} is ${kindOf(value)}, which cannot cross to Python.`);
  if (above.includes(value)) throw new TypeError(`${path} refers back to an object that holds it.`);
  const here = [...above, value];
  if (Array.isArray(value)) return Array.from(value, (item, index) => plain(item, `${path}[${index}]`, here));
  if (types.isTypedArray(value))
    return Array.from(value as Iterable<number | bigint>, (item, index) => plain(item, `${path}[${index}]`, here));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError(`${path} is ${kindOf(value)}; only plain objects, lists, texts and numbers cross to Python.`);
  const entries: [string, unknown][] = [];
  for (const [key, item] of Object.entries(value))
    if (item !== undefined) entries.push([wellFormed(key), plain(item, `${path}.${key}`, here)]);
  const result = Object.fromEntries(entries);
  return isMark(result) ? { $float: result } : result;
}

function number(value: number, path: string): unknown {
  if (!Number.isFinite(value)) return { $float: String(value) };
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    throw new TypeError(`${path} is ${value}, beyond 2^53: it would arrive as another number. Pass it as text.`);
  return value;
}

function safe(value: bigint, path: string): number {
  if (!Number.isSafeInteger(Number(value)))
    throw new TypeError(`${path} is ${value}, beyond 2^53: it would arrive as another number. Pass it as text.`);
  return Number(value);
}

/** Data of the caller that looks like our mark. It is wrapped in one more, which `revive` takes off. */
function isMark(value: object): value is { $float: unknown } {
  const keys = Object.keys(value);
  return keys.length === 1 && keys[0] === "$float";
}

function revive(value: unknown): unknown {
  if (typeof value === "string") return wellFormed(value);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = revive(value[index]);
    return value;
  }
  if (!isMark(value)) return reviveEntries(value);
  if (value.$float === "NaN" || value.$float === "Infinity" || value.$float === "-Infinity")
    return Number(value.$float);
  if (typeof value.$float === "object" && value.$float !== null) return reviveEntries(value.$float);
  throw new SyntaxError(`{"$float": ${JSON.stringify(value.$float)}} is no number.`);
}

function reviveEntries(value: object): object {
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [wellFormed(key), revive(item)]));
}

/** "a Map", "a function", "undefined": for messages. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (Array.isArray(value)) return "a list";
  if (typeof value !== "object") return `a ${typeof value}`;
  const name = value.constructor?.name;
  return name === undefined || name === "Object" ? "an object" : `a ${name}`;
}

function mebi(length: number): string {
  return (length / 1024 / 1024).toFixed(0);
}
