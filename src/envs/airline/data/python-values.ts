// Values as Python holds them (airline.md, appendix B). The originals are Python programs, and what they print, compare
// and hash depends on three things that plain JavaScript values lose: int against float, big ints, and the order of keys.

/**
 * A float: a number that was written with a point or an exponent, or came out of a division. Plain numbers are ints.
 * A class only so that logs get a number: `JSON.stringify` calls `toJSON`.
 */
export class PyFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
  toJSON(): number {
    return this.value;
  }
}

/** Text keys in the order of insertion; also those that look like numbers. */
export type PyDict = ReadonlyMap<string, PyValue>;
export type PyList = readonly PyValue[];
/** An int is a safe integer, or a BigInt outside that range. */
export type PyInt = number | bigint;
export type PyValue = null | boolean | PyInt | PyFloat | string | PyList | PyDict;

/** An exception of the original program: a tool's observation is "Error: " and this text. */
export class PythonError extends Error {
  override name = "PythonError";
}

/** Deeper values than this are refused, as Python's own recursion limit does. */
const MAX_DEPTH = 500;

export function isDict(value: unknown): value is PyDict {
  return value instanceof Map;
}

export function isList(value: unknown): value is PyList {
  return Array.isArray(value);
}

export function isInt(value: unknown): value is PyInt {
  return typeof value === "number" || typeof value === "bigint";
}

/** A BigInt as it is held: a number where that is exact. */
export function int(value: bigint): PyInt {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

/**
 * A copy of any JavaScript value as a Python one: integers become ints, other numbers floats, objects dicts. Maps,
 * PyFloats and BigInts stay what they are, so a value that was parsed by `parseJson` keeps its spelling.
 * What JSON can't hold (undefined, functions) becomes null.
 * @throws PythonError for a value nested more than 500 deep, or in a circle.
 */
export function fromPlain(value: unknown, depth = 0): PyValue {
  if (depth > MAX_DEPTH) throw new PythonError("maximum recursion depth exceeded");
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "bigint":
      return int(value);
    case "number":
      if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
      return Number.isInteger(value) ? int(BigInt(value)) : new PyFloat(value);
    case "object": {
      if (value === null || value instanceof PyFloat) return value;
      if (Array.isArray(value)) return value.map((item) => fromPlain(item, depth + 1));
      const entries = value instanceof Map ? value : Object.entries(value);
      const dict = new Map<string, PyValue>();
      for (const [key, item] of entries)
        dict.set(typeof key === "object" ? "[object]" : String(key), fromPlain(item, depth + 1));
      return dict;
    }
    default:
      return null;
  }
}

/**
 * The value as ordinary JavaScript: dicts become objects, floats numbers. For reading and for logs; it loses what the
 * top of this file names.
 */
export function toPlain(value: PyValue): unknown {
  if (isDict(value)) {
    const object: Record<string, unknown> = {};
    for (const [key, item] of value) {
      if (key === "__proto__")
        Object.defineProperty(object, key, {
          value: toPlain(item),
          enumerable: true,
          writable: true,
          configurable: true,
        });
      else object[key] = toPlain(item);
    }
    return object;
  }
  if (isList(value)) return value.map(toPlain);
  return value instanceof PyFloat ? value.value : value;
}

function refuseChange(): never {
  throw new TypeError("This value is part of the loaded database and is never changed: make a copy.");
}

/** Freezes a value and all within it; a write to it throws from then on. Gives the same value back. */
export function freeze<Value extends PyValue>(value: Value): Value {
  if (isDict(value)) {
    const dict = value as unknown as Map<string, PyValue>;
    for (const item of dict.values()) freeze(item);
    // Object.freeze leaves a Map's entries open.
    dict.set = refuseChange;
    dict.delete = refuseChange;
    dict.clear = refuseChange;
    Object.freeze(dict);
  } else if (isList(value)) {
    for (const item of value) freeze(item);
    Object.freeze(value);
  }
  return value;
}

/** Python's name of a value's type, as its error texts spell it. */
export function typeName(value: PyValue): string {
  if (value === null) return "NoneType";
  if (typeof value === "boolean") return "bool";
  if (isInt(value)) return "int";
  if (value instanceof PyFloat) return "float";
  if (typeof value === "string") return "str";
  return isList(value) ? "list" : "dict";
}

/** Order of code points: what Python sorts texts by. JavaScript's `<` goes by UTF-16 units, which differs above U+FFFF. */
export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return byCodePoint(left) - byCodePoint(right);
  }
  return a.length - b.length;
}

/** Moves surrogates behind all other units. */
function byCodePoint(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

/**
 * `python`: 50 and 50.0 are different values, as in the originals' hashes. `normalized`: numbers count by their value.
 * (`scoring.numberMode`, airline.md 4.3)
 */
export type NumberMode = "python" | "normalized";

/**
 * Whether two values have the same canonical text (see `canonicalJson`), without writing it: the order of keys doesn't
 * matter, the order of items does.
 */
export function sameValue(a: PyValue, b: PyValue, mode: NumberMode = "python"): boolean {
  if (a === b) return true;
  if (isDict(a)) {
    if (!isDict(b) || a.size !== b.size) return false;
    for (const [key, item] of a) {
      const other = b.get(key);
      if (other === undefined || !sameValue(item, other, mode)) return false;
    }
    return true;
  }
  if (isList(a)) {
    if (!isList(b) || a.length !== b.length) return false;
    for (let i = 0; i < a.length; i++) if (!sameValue(a[i]!, b[i]!, mode)) return false;
    return true;
  }
  if (a instanceof PyFloat) {
    if (b instanceof PyFloat) return Object.is(a.value, b.value) || (mode === "normalized" && a.value === b.value);
    // biome-ignore lint/suspicious/noDoubleEquals: a BigInt equals a number of the same value only so
    return mode === "normalized" && isInt(b) && a.value == b;
  }
  return b instanceof PyFloat && sameValue(b, a, mode);
}
