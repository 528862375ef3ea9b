import { MAX_INT_DIGITS } from "../data/python-json.ts";
import { arithmetic, calculate as exact, toFloat } from "../data/python-ops.ts";
import { floatText, roundToCents } from "../data/python-text.ts";
import { int, isInt, PyFloat, type PyInt, PythonError } from "../data/python-values.ts";

// Python's arithmetic on the characters `0123456789+-*/(). ` (airline.md 2.8). Nothing is ever handed to JavaScript.

type Value = PyInt | PyFloat;

/** Ours: the original would compute on for hours. */
const MAX_RESULT_DIGITS = 10_000;
/** Python's own limit for brackets; here for signs and powers in a row too. */
const MAX_NESTING = 200;

const ALLOWED = /^[0-9+\-*/(). ]*$/;
const TOKEN = /(?:\d+\.?\d*|\.\d+)|\*\*|\/\/|[-+*/().]/y;

/**
 * Evaluates an expression, rounds to 2 places (half to even on the exact value) and prints it as a Python float.
 * @throws PythonError with Python's text: a syntax error, a division by zero, a number that is too large.
 */
export function evaluate(expression: string): string {
  if (!ALLOWED.test(expression)) throw new PythonError("invalid characters in expression");
  const result = new Parser(expression.trimStart()).whole();
  return floatText(roundToCents(toFloat(result)));
}

function syntaxError(what = "invalid syntax", line = 1): PythonError {
  return new PythonError(`${what} (<string>, line ${line})`);
}

/** What an expression means, to be computed only once all of it has been read: a syntax error comes before any other. */
type Term = () => Value;

/** Precedence climbing: sum, product, sign, power, atom. Holds the place in the text. */
class Parser {
  private readonly tokens: string[];
  private at = 0;
  private depth = 0;

  constructor(text: string) {
    this.tokens = tokenize(text);
  }

  whole(): Value {
    if (this.tokens.length === 0) throw syntaxError("invalid syntax", 0);
    const term = this.sum();
    if (this.at < this.tokens.length) throw syntaxError();
    return term();
  }

  private take(...expected: string[]): string | null {
    const token = this.tokens[this.at];
    if (token === undefined || !expected.includes(token)) return null;
    this.at++;
    return token;
  }

  private nested(read: () => Term): Term {
    if (++this.depth > MAX_NESTING) throw syntaxError("too many nested parentheses");
    const term = read();
    this.depth--;
    return term;
  }

  private sum(): Term {
    const first = this.product();
    const rest: [string, Term][] = [];
    for (let sign = this.take("+", "-"); sign; sign = this.take("+", "-")) rest.push([sign, this.product()]);
    return inOrder(first, rest);
  }

  private product(): Term {
    const first = this.sign();
    const rest: [string, Term][] = [];
    for (let sign = this.take("*", "/", "//"); sign; sign = this.take("*", "/", "//")) rest.push([sign, this.sign()]);
    return inOrder(first, rest);
  }

  private sign(): Term {
    const sign = this.take("+", "-");
    if (!sign) return this.power();
    const term = this.nested(() => this.sign());
    if (sign === "+") return term;
    return () => {
      const value = term();
      return value instanceof PyFloat ? new PyFloat(-value.value) : exact(0, "-", value);
    };
  }

  /** `**` binds tighter than a sign on its left and looser than one on its right, and goes from the right. */
  private power(): Term {
    const base = this.atom();
    if (!this.take("**")) return base;
    const exponent = this.nested(() => this.sign());
    return () => {
      const value = base();
      return power(value, exponent());
    };
  }

  private atom(): Term {
    const callee = this.plainAtom();
    // `2(3)` is a call to Python: the text is good, and fails when it is computed, so further brackets behind it don't
    // matter.
    let isCall = false;
    while (this.tokens[this.at] === "(") {
      this.brackets();
      isCall = true;
    }
    if (!isCall) return callee;
    return () => {
      throw new PythonError(`'${callee() instanceof PyFloat ? "float" : "int"}' object is not callable`);
    };
  }

  private plainAtom(): Term {
    const token = this.tokens[this.at];
    if (token === "(") {
      const inner = this.brackets();
      if (inner) return inner;
      return () => {
        throw new PythonError("float() argument must be a string or a real number, not 'tuple'");
      };
    }
    if (token === undefined || !/\d/.test(token)) throw syntaxError();
    this.at++;
    const value = literal(token);
    return () => value;
  }

  /** What stands in brackets; null: nothing. */
  private brackets(): Term | null {
    this.at++;
    if (this.take(")")) return null;
    const inner = this.nested(() => this.sum());
    if (!this.take(")")) throw syntaxError();
    return inner;
  }
}

/** Operations of one rank, from the left. */
function inOrder(first: Term, rest: readonly [string, Term][]): Term {
  if (rest.length === 0) return first;
  return () => {
    let value = first();
    for (const [sign, term] of rest) value = apply(value, sign, term());
    return value;
  };
}

/** Cuts a text up and finds what Python's tokenizer refuses, brackets that don't match included. */
function tokenize(text: string): string[] {
  const tokens: string[] = [];
  let open = 0;
  let at = 0;
  while (at < text.length) {
    if (text[at] === " ") {
      at++;
      continue;
    }
    TOKEN.lastIndex = at;
    const token = TOKEN.exec(text)![0];
    at += token.length;
    if (token === "(") open++;
    if (token === ")" && --open < 0) throw syntaxError("unmatched ')'");
    if (/^0+[1-9]\d*$/.test(token))
      throw syntaxError(
        "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers",
      );
    if (/^\d+$/.test(token) && token.length > MAX_INT_DIGITS)
      throw syntaxError(`Exceeds the limit (${MAX_INT_DIGITS} digits) for integer string conversion`);
    tokens.push(token);
  }
  if (open > 0) throw syntaxError("'(' was never closed");
  return tokens;
}

function literal(token: string): Value {
  return token.includes(".") ? new PyFloat(Number(token)) : int(BigInt(token));
}

function apply(left: Value, sign: string, right: Value): Value {
  if (sign === "/") return trueQuotient(left, right);
  if (sign === "//") return floorQuotient(left, right);
  if (sign === "*" && isInt(left) && isInt(right)) checkSize(digits(left) + digits(right));
  return arithmetic(left, sign as "+" | "-" | "*", right);
}

function digits(value: PyInt): number {
  const size = value < 0 ? -BigInt(value) : BigInt(value);
  return size === 0n ? 1 : (size.toString(16).length - 1) * Math.log10(16) + 1;
}

function checkSize(count: number): void {
  if (count > MAX_RESULT_DIGITS) throw new PythonError("number too large");
}

function trueQuotient(left: Value, right: Value): PyFloat {
  if (isInt(left) && isInt(right)) {
    if (BigInt(right) === 0n) throw new PythonError("division by zero");
    if (typeof left === "number" && typeof right === "number") return new PyFloat(left / right);
    return new PyFloat(quotientOfInts(BigInt(left), BigInt(right)));
  }
  const divisor = toFloat(right);
  if (divisor === 0) throw new PythonError("float division by zero");
  return new PyFloat(toFloat(left) / divisor);
}

/** The double nearest to a quotient of two ints of any size. */
function quotientOfInts(left: bigint, right: bigint): number {
  const negative = left < 0n !== right < 0n;
  const [above, below] = [left < 0n ? -left : left, right < 0n ? -right : right];
  // 64 bits or more of the quotient, and whether anything is left, as the lowest bit: enough to round it rightly.
  const shift = Math.max(0, 66 - (above.toString(2).length - below.toString(2).length));
  const scaled = above << BigInt(shift);
  const quotient = scaled / below;
  const rounded = Number(quotient | (quotient * below === scaled ? 0n : 1n)) / 2 ** Math.min(shift, 1000);
  const size = shift > 1000 ? rounded / 2 ** Math.min(shift - 1000, 1000) : rounded;
  if (!Number.isFinite(size)) throw new PythonError("integer division result too large for a float");
  return negative ? -size : size;
}

function floorQuotient(left: Value, right: Value): Value {
  if (isInt(left) && isInt(right)) {
    const [above, below] = [BigInt(left), BigInt(right)];
    if (below === 0n) throw new PythonError("integer division or modulo by zero");
    const cut = above / below;
    return int(cut * below !== above && above < 0n !== below < 0n ? cut - 1n : cut);
  }
  const [above, below] = [toFloat(left), toFloat(right)];
  if (below === 0) throw new PythonError("float floor division by zero");
  return new PyFloat(floorOfFloats(above, below));
}

/** As Python divides floats: through the remainder, which is exact, so that 1.0 // 0.1 is 9.0. */
function floorOfFloats(above: number, below: number): number {
  const remainder = above % below;
  let quotient = (above - remainder) / below;
  if (remainder !== 0 && below < 0 !== remainder < 0) quotient -= 1;
  if (quotient === 0) return above / below < 0 || Object.is(above / below, -0) ? -0 : 0;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

function power(base: Value, exponent: Value): Value {
  if (isInt(base) && isInt(exponent) && exponent >= 0) {
    const size = BigInt(base);
    if (size * size > 1n) checkSize(Number(exponent) * Math.log10(Math.abs(Number(size)) || 1));
    if (size === 0n || size === 1n) return Number(exponent) === 0 ? 1 : int(size);
    if (size === -1n) return BigInt(exponent) % 2n === 0n ? 1 : -1;
    return int(size ** BigInt(exponent));
  }
  const [from, to] = [toFloat(base), toFloat(exponent)];
  if (from === 0 && to < 0) throw new PythonError("0.0 cannot be raised to a negative power");
  if (from === 1 || to === 0) return new PyFloat(1);
  if (from === -1 && Math.abs(to) === Number.POSITIVE_INFINITY) return new PyFloat(1);
  if (from < 0 && Number.isFinite(from) && Number.isFinite(to) && !Number.isInteger(to))
    throw new PythonError("float() argument must be a string or a real number, not 'complex'");
  const result = powerOfFloats(from, to);
  if (!Number.isFinite(result) && Number.isFinite(from) && Number.isFinite(to))
    throw new PythonError("(34, 'Numerical result out of range')");
  return new PyFloat(result);
}

/**
 * `from ** to`. JavaScript's own is often off by one in the last place, which Python's isn't: so whole exponents are
 * computed exactly and rounded once, and a square root has its own function. The rest may differ in the last place.
 */
function powerOfFloats(from: number, to: number): number {
  const near = from ** to;
  const size = Math.abs(near);
  if (to === 0.5 && from > 0) return Math.sqrt(from);
  if (!Number.isInteger(to) || Math.abs(to) > 400 || !(size > 1e-290 && size < 1e290)) return near;
  let [above, below] = [from, 1];
  while (!Number.isInteger(above)) [above, below] = [above * 2, below * 2];
  const exponent = BigInt(Math.abs(to));
  const [top, bottom] = [BigInt(above) ** exponent, BigInt(below) ** exponent];
  return to > 0 ? quotientOfInts(top, bottom) : quotientOfInts(bottom, top);
}
