import fc from "fast-check";
import { expect, test } from "vitest";
import { PythonError } from "../data/python-values.ts";
import { evaluate } from "./calculator.ts";

/** The result, or "Error: " and the text, as the tool answers. */
function answer(expression: string): string {
  try {
    return evaluate(expression);
  } catch (error) {
    if (error instanceof PythonError) return `Error: ${error.message}`;
    throw error;
  }
}

test.each([
  ["2 + 2", "4.0"],
  ["10/3", "3.33"],
  ["1/8", "0.12"],
  ["0.125", "0.12"],
  ["0.375", "0.38"],
  ["2.675", "2.67"],
  ["0.015", "0.01"],
  ["1.005*1000", "1005.0"],
  ["100", "100.0"],
  ["2**3", "8.0"],
  ["10//3", "3.0"],
  ["-7//2", "-4.0"],
  ["7//-2.0", "-4.0"],
  ["1.0//0.1", "9.0"],
  ["2**-1", "0.5"],
  ["-2**2", "-4.0"],
  ["(-2)**2", "4.0"],
  ["2**3**2", "512.0"],
  ["2**-1**2", "0.5"],
  ["--2", "2.0"],
  ["+-+2", "-2.0"],
  ["2-3-4", "-5.0"],
  ["100/10/2", "5.0"],
  ["2+3*4-6/2", "11.0"],
  ["(1 + 2) * (3 + 4)", "21.0"],
  ["((((5))))", "5.0"],
  [".5 + 5.", "5.5"],
  ["05.5", "5.5"],
  ["00", "0.0"],
  ["  7 ", "7.0"],
  ["-0.001", "-0.0"],
  ["-0", "0.0"],
  ["100000000000000000", "1e+17"],
  ["0.1+0.2", "0.3"],
  ["3*(120 - 78)", "126.0"],
  ["10**20//10**18", "100.0"],
  ["(10**30+1)/10**28", "100.0"],
  ["9007199254740993/1", "9007199254740992.0"],
  ["289 - .5//224**-2", "-24799.0"],
  ["0**0", "1.0"],
  ["(-1)**3", "-1.0"],
  ["2.0**0.5", "1.41"],
])("%s is %s", (expression, result) => {
  expect(answer(expression)).toBe(result);
});

test.each([
  ["1/0", "division by zero"],
  ["1/0.0", "float division by zero"],
  ["1//0", "integer division or modulo by zero"],
  ["1.0//0", "float floor division by zero"],
  ["0**-1", "0.0 cannot be raised to a negative power"],
  ["(-8)**0.5", "float() argument must be a string or a real number, not 'complex'"],
  ["10.0**400", "(34, 'Numerical result out of range')"],
  ["10**400", "int too large to convert to float"],
  ["10**400/1", "integer division result too large for a float"],
  ["", "invalid syntax (<string>, line 0)"],
  ["   ", "invalid syntax (<string>, line 0)"],
  ["2+", "invalid syntax (<string>, line 1)"],
  ["1 2", "invalid syntax (<string>, line 1)"],
  ["1.2.3", "invalid syntax (<string>, line 1)"],
  ["*3", "invalid syntax (<string>, line 1)"],
  ["2* *3", "invalid syntax (<string>, line 1)"],
  ["(2+3", "'(' was never closed (<string>, line 1)"],
  ["2+3)", "unmatched ')' (<string>, line 1)"],
  [
    "05+1",
    "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers (<string>, line 1)",
  ],
  ["()", "float() argument must be a string or a real number, not 'tuple'"],
  ["2(3)", "'int' object is not callable"],
  ["2+2;process.exit()", "invalid characters in expression"],
  ["2 % 2", "invalid characters in expression"],
  ["1e5", "invalid characters in expression"],
  ["2\n", "invalid characters in expression"],
  ["9**9**9", "number too large"],
  ["2**99999", "number too large"],
  [`${"9**9999*".repeat(3)}1`, "number too large"],
])("%s: %s", (expression, message) => {
  expect(answer(expression)).toBe(`Error: ${message}`);
});

test("what is too long or too deep has an answer all the same", () => {
  expect(answer(`1${"0".repeat(400)}.`)).toBe("inf");
  const deep = "Error: too many nested parentheses (<string>, line 1)";
  expect(answer(`${"(".repeat(300)}1${")".repeat(300)}`)).toBe(deep);
  expect(answer(`${"-".repeat(100_000)}1`)).toBe(deep);
  expect(answer(`1${"()".repeat(100_000)}`)).toBe("Error: 'int' object is not callable");
  expect(answer("7".repeat(5000))).toMatch(/^Error: Exceeds the limit \(4300 digits\)/);
  expect(answer(Array(20_000).fill("1").join("+"))).toBe("20000.0");
});

test("any text of the allowed characters gives a number or an error text, and soon", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(..."0123456789+-*/(). "), maxLength: 40 }), (expression) => {
      expect(answer(expression)).toMatch(/^(?:-?(?:\d+\.\d+|\d(?:\.\d+)?e[+-]\d+|inf)|nan|Error: .+)$/);
    }),
    { numRuns: 2000 },
  );
});
