import { floatText } from "./python-text.ts";
import {
  compareText,
  int,
  isDict,
  isList,
  type NumberMode,
  PyFloat,
  type PyInt,
  PythonError,
  type PyValue,
} from "./python-values.ts";

// JSON as Python's `json` module reads and writes it.

/** A text that is no JSON. `offset` is where, in UTF-16 units from 0. */
export class JsonError extends Error {
  override name = "JsonError";
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

const MAX_DEPTH = 500;
/** Python refuses to read or print longer ints. */
export const MAX_INT_DIGITS = 4300;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?/y;
const CONSTANTS: Record<string, PyValue> = {
  true: true,
  false: false,
  null: null,
  NaN: new PyFloat(Number.NaN),
  Infinity: new PyFloat(Number.POSITIVE_INFINITY),
  "-Infinity": new PyFloat(Number.NEGATIVE_INFINITY),
};
const ESCAPES: Record<string, string> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/**
 * Reads JSON and keeps what JSON.parse loses: the order of all keys, int against float (50, 50.0), big ints. Of a key
 * that occurs twice the last value counts, at the first one's place. NaN and Infinity are taken, as Python does.
 * @throws JsonError saying what stands where.
 */
export function parseJson(text: string): PyValue {
  let at = 0;

  function fail(expected: string, offset = at): never {
    const found = offset >= text.length ? "the end of the text" : JSON.stringify(text.slice(offset, offset + 12));
    throw new JsonError(`expected ${expected}, found ${found}`, offset);
  }

  function skip(): void {
    for (;;) {
      const code = text.charCodeAt(at);
      if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return;
      at++;
    }
  }

  function value(depth: number): PyValue {
    if (depth > MAX_DEPTH) fail(`at most ${MAX_DEPTH} levels`);
    skip();
    const code = text.charCodeAt(at);
    if (code === 34) return string();
    if (code === 123) return object(depth);
    if (code === 91) return array(depth);
    return scalar();
  }

  function scalar(): PyValue {
    NUMBER.lastIndex = at;
    const match = NUMBER.exec(text);
    if (match) {
      const [literal, fraction, exponent] = match;
      at += literal.length;
      return fraction !== undefined || exponent !== undefined ? new PyFloat(Number(literal)) : parseInteger(literal);
    }
    for (const word in CONSTANTS) {
      if (!text.startsWith(word, at)) continue;
      at += word.length;
      return CONSTANTS[word]!;
    }
    return fail("a value");
  }

  function parseInteger(literal: string): PyInt {
    if (literal.length < 16) return Number(literal) || 0;
    if (literal.length > MAX_INT_DIGITS + 1)
      fail(`an integer of at most ${MAX_INT_DIGITS} digits`, at - literal.length);
    return int(BigInt(literal));
  }

  function array(depth: number): PyValue[] {
    at++;
    const items: PyValue[] = [];
    skip();
    if (text[at] === "]") {
      at++;
      return items;
    }
    for (;;) {
      items.push(value(depth + 1));
      skip();
      const code = text.charCodeAt(at);
      if (code !== 44 && code !== 93) fail("',' or ']'");
      at++;
      if (code === 93) return items;
    }
  }

  function object(depth: number): Map<string, PyValue> {
    at++;
    const entries = new Map<string, PyValue>();
    skip();
    if (text[at] === "}") {
      at++;
      return entries;
    }
    for (;;) {
      skip();
      if (text.charCodeAt(at) !== 34) fail("a key in double quotes");
      const key = string();
      skip();
      if (text.charCodeAt(at) !== 58) fail("':'");
      at++;
      entries.set(key, value(depth + 1));
      skip();
      const code = text.charCodeAt(at);
      if (code !== 44 && code !== 125) fail("',' or '}'");
      at++;
      if (code === 125) return entries;
    }
  }

  function string(): string {
    const opening = at++;
    let start = at;
    let read = "";
    for (;;) {
      const code = text.charCodeAt(at);
      if (code === 34) {
        read += text.slice(start, at++);
        return read;
      }
      if (Number.isNaN(code)) fail("a closing quote", opening);
      if (code < 32) fail("no control character inside a text");
      if (code === 92) {
        read += text.slice(start, at) + escaped();
        start = at;
      } else at++;
    }
  }

  function escaped(): string {
    const char = text[at + 1] ?? "";
    if (char === "u") {
      const digits = text.slice(at + 2, at + 6);
      if (!/^[\da-fA-F]{4}$/.test(digits)) fail("four hex digits after \\u");
      at += 6;
      return String.fromCharCode(Number.parseInt(digits, 16));
    }
    if (!Object.hasOwn(ESCAPES, char)) fail("an escape that JSON has");
    at += 2;
    return ESCAPES[char]!;
  }

  const parsed = value(0);
  skip();
  if (at < text.length) fail("nothing more");
  return parsed;
}

/** Line and column (both from 1) of an offset, as an error message names it. */
export function lineAndColumn(text: string, offset: number): string {
  const before = text.slice(0, offset).split("\n");
  return `line ${before.length}, column ${before.at(-1)!.length + 1}`;
}

interface Style {
  comma: string;
  colon: string;
  sorted: boolean;
  text(value: string): string;
  float(value: number): string;
}

/** `json.dumps(value)`: what tools answer. Blanks after comma and colon, order of insertion, ASCII escapes. */
export function toJson(value: PyValue): string {
  return write(value, TOOL_TEXT, 0);
}

/** `json.dumps(value, sort_keys=True, ensure_ascii=False)`: what PRM-Lite compares calls by, before lower-casing. */
export function toSortedJson(value: PyValue): string {
  return write(value, SORTED_TEXT, 0);
}

/**
 * The canonical text that states are hashed by: sorted keys, no blanks, no ASCII escapes. Two values have the same one
 * exactly where `sameValue` holds.
 */
export function canonicalJson(value: PyValue, mode: NumberMode = "python"): string {
  return write(value, mode === "python" ? CANONICAL : NORMALIZED, 0);
}

/** JSON.stringify escapes quotes, control characters and lone surrogates as Python does. */
const plainText = (text: string) => JSON.stringify(text);
const asciiText = (text: string) =>
  JSON.stringify(text).replace(/[\x7f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  return floatText(value);
}

const TOOL_TEXT: Style = { comma: ", ", colon: ": ", sorted: false, text: asciiText, float: jsonFloat };
const SORTED_TEXT: Style = { comma: ", ", colon: ": ", sorted: true, text: plainText, float: jsonFloat };
const CANONICAL: Style = { comma: ",", colon: ":", sorted: true, text: plainText, float: jsonFloat };
const NORMALIZED: Style = {
  ...CANONICAL,
  float: (value) => (Number.isInteger(value) ? BigInt(value).toString() : jsonFloat(value)),
};

function write(value: PyValue, style: Style, depth: number): string {
  if (typeof value === "string") return style.text(value);
  if (typeof value === "number") return String(value);
  if (value === null) return "null";
  if (typeof value === "boolean") return value ? "true" : "false";
  if (value instanceof PyFloat) return style.float(value.value);
  if (typeof value === "bigint") return value.toString();
  if (depth > MAX_DEPTH) throw new PythonError("maximum recursion depth exceeded");
  if (isList(value)) {
    let text = "[";
    for (let i = 0; i < value.length; i++) text += (i > 0 ? style.comma : "") + write(value[i]!, style, depth + 1);
    return `${text}]`;
  }
  if (!isDict(value)) return "null";
  let text = "{";
  const entries = style.sorted ? [...value].sort(([a], [b]) => compareText(a, b)) : value;
  for (const [key, item] of entries) {
    if (text.length > 1) text += style.comma;
    text += style.text(key) + style.colon + write(item, style, depth + 1);
  }
  return `${text}}`;
}
