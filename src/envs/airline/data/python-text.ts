import { isDict, isList, PyFloat, type PyValue } from "./python-values.ts";

/** How Python prints a float: the shortest digits that read back as the same number (airline.md, appendix B). */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  // toExponential without digits gives as many as are needed, the same ones that Python gives.
  const [mantissa, exponentText] = Math.abs(value).toExponential().split("e") as [string, string];
  const sign = value < 0 ? "-" : "";
  const digits = mantissa.replace(".", "");
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent > 15) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${mantissa}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, "0");
  return `${sign}${whole}.${digits.slice(exponent + 1) || "0"}`;
}

/** Python's `str`: how a value stands in a printed sentence. */
export function str(value: PyValue): string {
  return typeof value === "string" ? value : repr(value);
}

/** Python's `repr`: texts in quotes, None, True, dicts and lists in Python's spelling. */
export function repr(value: PyValue): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "string") return textRepr(value);
  if (value instanceof PyFloat) return floatText(value.value);
  if (isList(value)) return `[${value.map(repr).join(", ")}]`;
  if (isDict(value)) return `{${[...value].map(([key, item]) => `${textRepr(key)}: ${repr(item)}`).join(", ")}}`;
  return value.toString();
}

/** What Python doesn't print as it is: control, format, unassigned and private characters, and blanks but the space. */
const UNPRINTABLE = /[\p{C}\p{Z}]/u;

function textRepr(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  let written = quote;
  for (const char of text) {
    const code = char.codePointAt(0)!;
    if (char === quote || char === "\\") written += `\\${char}`;
    else if (char === "\n") written += "\\n";
    else if (char === "\r") written += "\\r";
    else if (char === "\t") written += "\\t";
    else if (char === " " || !UNPRINTABLE.test(char)) written += char;
    else if (code < 0x100) written += `\\x${code.toString(16).padStart(2, "0")}`;
    else if (code < 0x10000) written += `\\u${code.toString(16).padStart(4, "0")}`;
    else written += `\\U${code.toString(16).padStart(8, "0")}`;
  }
  return written + quote;
}

/**
 * Python's `round(value, 2)`: on the exact decimal expansion of the double, ties to even. (JavaScript's `toFixed` takes
 * the larger one on a tie, as for 0.125.)
 */
export function roundToCents(value: number): number {
  if (!Number.isFinite(value) || Math.abs(value) >= 2 ** 52) return value;
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, Math.abs(value));
  const raw = bits.getBigUint64(0);
  const exponent = Number(raw >> 52n);
  const fraction = raw & 0xfffffffffffffn;
  const mantissa = exponent === 0 ? fraction : fraction | 0x10000000000000n;
  // value = mantissa / 2^shift, and shift > 0 as value < 2^52
  const shift = BigInt(1075 - Math.max(exponent, 1));
  const cents = mantissa * 100n;
  let rounded = cents >> shift;
  const rest = cents - (rounded << shift);
  const half = 1n << (shift - 1n);
  if (rest > half || (rest === half && rounded % 2n === 1n)) rounded += 1n;
  const size = Number(`${rounded / 100n}.${String(rounded % 100n).padStart(2, "0")}`);
  return value < 0 || Object.is(value, -0) ? -size : size;
}
