import { repr } from "./python-text.ts";
import {
  compareText,
  int,
  isDict,
  isInt,
  isList,
  type PyDict,
  PyFloat,
  type PyInt,
  type PyList,
  PythonError,
  type PyValue,
  typeName,
} from "./python-values.ts";

// The few operations of Python that the tools use, on values of any type: what a model sends is never checked against a
// schema, so a tool fails where Python would, with Python's words.

/** Looks a key up that may be of any type; undefined: not there. @throws PythonError for a list or dict as the key. */
export function lookup(dict: PyDict, key: PyValue): PyValue | undefined {
  if (typeof key === "string") return dict.get(key);
  if (isList(key) || isDict(key)) throw new PythonError(`unhashable type: '${typeName(key)}'`);
  return undefined;
}

/** `value[key]`. @throws PythonError: a missing key in quotes, or why the value has no items. */
export function item(value: PyValue | undefined, key: PyValue): PyValue {
  if (isDict(value)) {
    const found = lookup(value, key);
    if (found === undefined) throw new PythonError(repr(key));
    return found;
  }
  if (typeof value === "string") throw new PythonError(`string indices must be integers, not '${typeName(key)}'`);
  if (isList(value)) throw new PythonError(`list indices must be integers or slices, not ${typeName(key)}`);
  throw new PythonError(`'${typeName(value ?? null)}' object is not subscriptable`);
}

/** `value[key]` where it must be a dict to be useful. */
export function dictItem(value: PyValue | undefined, key: PyValue): PyDict {
  const found = item(value, key);
  if (!isDict(found)) throw new PythonError(`'${typeName(found)}' object is not subscriptable`);
  return found;
}

/** `for item in value`. A dict gives its keys, a text its characters. */
export function iterate(value: PyValue): PyList {
  if (isList(value)) return value;
  if (typeof value === "string") return [...value];
  if (isDict(value)) return [...value.keys()];
  throw new PythonError(`'${typeName(value)}' object is not iterable`);
}

export function length(value: PyValue): number {
  if (isList(value)) return value.length;
  if (typeof value === "string") return [...value].length;
  if (isDict(value)) return value.size;
  throw new PythonError(`object of type '${typeName(value)}' has no len()`);
}

/** `list.append(value)` as a new list. */
export function appended(list: PyValue, ...values: PyValue[]): PyList {
  if (isList(list)) return [...list, ...values];
  throw new PythonError(`'${typeName(list)}' object has no attribute 'append'`);
}

/** A dict with some keys set: those it has keep their place, new ones go to the end. */
export function withKeys(dict: PyDict, changes: Iterable<readonly [string, PyValue]>): PyDict {
  const copy = new Map(dict);
  for (const [key, value] of changes) copy.set(key, value);
  return copy;
}

/** Numbers in the sense of Python's arithmetic: bools count as 0 and 1. */
function asNumber(value: PyValue): PyInt | PyFloat | null {
  if (typeof value === "boolean") return value ? 1 : 0;
  return isInt(value) || value instanceof PyFloat ? value : null;
}

/** @throws PythonError for an int beyond the largest double. */
export function toFloat(value: PyInt | PyFloat): number {
  if (value instanceof PyFloat) return value.value;
  const converted = Number(value);
  if (!Number.isFinite(converted)) throw new PythonError("int too large to convert to float");
  return converted;
}

type Operator = "+" | "-" | "*";

const FLOAT_OPERATIONS: Record<Operator, (a: number, b: number) => number> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
};
const BIG_OPERATIONS: Record<Operator, (a: bigint, b: bigint) => bigint> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
};

/** `a + b`, `a - b`, `a * b` of two numbers: ints stay ints, however large. */
export function calculate(a: PyInt | PyFloat, operator: Operator, b: PyInt | PyFloat): PyInt | PyFloat {
  if (a instanceof PyFloat || b instanceof PyFloat)
    return new PyFloat(FLOAT_OPERATIONS[operator](toFloat(a), toFloat(b)));
  if (typeof a === "number" && typeof b === "number") {
    const result = FLOAT_OPERATIONS[operator](a, b);
    if (Number.isSafeInteger(result)) return result || 0; // an int has no negative zero
  }
  return int(BIG_OPERATIONS[operator](BigInt(a), BigInt(b)));
}

/** `a + b` and so on for any values. `written` is how the program spelled it, for the error's text. */
export function arithmetic(a: PyValue, operator: Operator, b: PyValue, written: string = operator): PyInt | PyFloat {
  const [left, right] = [asNumber(a), asNumber(b)];
  if (left === null || right === null)
    throw new PythonError(`unsupported operand type(s) for ${written}: '${typeName(a)}' and '${typeName(b)}'`);
  return calculate(left, operator, right);
}

/** `-value` */
export function negated(value: PyValue): PyInt | PyFloat {
  const number = asNumber(value);
  if (number === null) throw new PythonError(`bad operand type for unary -: '${typeName(value)}'`);
  return number instanceof PyFloat ? new PyFloat(-number.value) : calculate(0, "-", number);
}

/** `sum(values)`, from the left. */
export function sum(values: Iterable<PyValue>): PyInt | PyFloat {
  let total: PyInt | PyFloat = 0;
  for (const value of values) total = arithmetic(total, "+", value);
  return total;
}

/** `a < b` */
export function less(a: PyValue, b: PyValue): boolean {
  const [left, right] = [asNumber(a), asNumber(b)];
  if (left !== null && right !== null) return bare(left) < bare(right);
  if (typeof a === "string" && typeof b === "string") return compareText(a, b) < 0;
  throw new PythonError(`'<' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`);
}

function bare(value: PyInt | PyFloat): PyInt {
  return value instanceof PyFloat ? value.value : value;
}

/** `a == b`: numbers by value across kinds (255 == 255.0), dicts whatever their order. */
export function equals(a: PyValue, b: PyValue): boolean {
  const [left, right] = [asNumber(a), asNumber(b)];
  // biome-ignore lint/suspicious/noDoubleEquals: a BigInt equals a number of the same value only so
  if (left !== null && right !== null) return bare(left) == bare(right);
  if (isList(a)) return isList(b) && a.length === b.length && a.every((value, i) => equals(value, b[i]!));
  if (isDict(a)) {
    if (!isDict(b) || a.size !== b.size) return false;
    for (const [key, value] of a) {
      const other = b.get(key);
      if (other === undefined || !equals(value, other)) return false;
    }
    return true;
  }
  return a === b;
}

/** `int(value)` of a text: blanks around it, a sign and single underscores between digits are taken. */
export function parseInt10(value: PyValue): PyInt {
  if (typeof value !== "string")
    throw new PythonError(
      `int() argument must be a string, a bytes-like object or a real number, not '${typeName(value)}'`,
    );
  if (!/^\s*[-+]?\d+(?:_\d+)*\s*$/.test(value))
    throw new PythonError(`invalid literal for int() with base 10: ${repr(value)}`);
  const digits = value.trim().replaceAll("_", "");
  return int(BigInt(digits.startsWith("+") ? digits.slice(1) : digits));
}
