import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson, JsonError, lineAndColumn, parseJson, toJson, toSortedJson } from "./python-json.ts";
import { arithmetic, equals, iterate, length, less, negated, parseInt10, sum } from "./python-ops.ts";
import { floatText, repr, roundToCents, str } from "./python-text.ts";
import { compareText, freeze, fromPlain, PyFloat, type PyValue, sameValue, toPlain } from "./python-values.ts";

const float = (value: number) => new PyFloat(value);

/** Any value as Python could hold it. */
const values = fc.letrec<{ value: PyValue }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom<PyValue>(null, true, false),
    fc.integer(),
    fc.bigInt({ min: 2n ** 53n, max: 2n ** 80n }),
    fc.double().map(float),
    fc.string({ unit: "binary" }),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.array(fc.tuple(fc.string(), tie("value")), { maxLength: 4 }).map((entries) => new Map(entries)),
  ),
})).value;

test.each([
  [0, "0.0"],
  [-0, "-0.0"],
  [100, "100.0"],
  [0.1, "0.1"],
  [-2.5, "-2.5"],
  [1e15, "1000000000000000.0"],
  [2 ** 53, "9007199254740992.0"],
  [9999999999999998, "9999999999999998.0"],
  [1e16, "1e+16"],
  [1.2345678901234568e17, "1.2345678901234568e+17"],
  [0.0001, "0.0001"],
  [0.000123, "0.000123"],
  [0.00001, "1e-05"],
  [1.5e-7, "1.5e-07"],
  [5e-324, "5e-324"],
  [1.7976931348623157e308, "1.7976931348623157e+308"],
  [Number.NaN, "nan"],
  [Number.NEGATIVE_INFINITY, "-inf"],
])("the float %d is printed %s", (value, text) => {
  expect(floatText(value)).toBe(text);
});

test.each<[PyValue, string]>([
  [null, "None"],
  [true, "True"],
  [50, "50"],
  [float(50), "50.0"],
  [2n ** 70n, "1180591620717411303424"],
  ["text", "text"],
  [["a", 1, float(2)], "['a', 1, 2.0]"],
  [new Map<string, PyValue>([["a", [false]]]), "{'a': [False]}"],
  [["it's"], '["it\'s"]'],
  [["both ' and \""], "['both \\' and \"']"],
  [["a\nb\\\u0000\u200b\u{1f600}é"], "['a\\nb\\\\\\x00\\u200b\u{1f600}é']"],
])("%o stands in a sentence as %s", (value, text) => {
  expect(str(value)).toBe(text);
});

test("a text alone has no quotes in a sentence, but has them as a missing key", () => {
  expect([str("first"), repr("first")]).toEqual(["first", "'first'"]);
});

test.each([
  [0.125, 0.12],
  [0.375, 0.38],
  [2.675, 2.67],
  [0.015, 0.01],
  [-0.125, -0.12],
  [1005, 1005],
  [0.005, 0.01],
  [-0.001, -0],
  [1e300, 1e300],
  [5e-324, 0],
  [4503599627370495.5, 4503599627370495.5],
])("%d is rounded to %d: half to even, on the exact value", (value, rounded) => {
  expect(roundToCents(value)).toBe(rounded);
});

describe("JSON", () => {
  test("keeps the order of keys that look like numbers, and how a number was spelled", () => {
    const text = '{"b": 1, "2": 50, "1": 50.0, "a": {"10": -0, "9": 1e2}, "big": 12345678901234567890123}';
    expect(toJson(parseJson(text))).toBe(
      '{"b": 1, "2": 50, "1": 50.0, "a": {"10": 0, "9": 100.0}, "big": 12345678901234567890123}',
    );
  });

  test("of a key that comes twice the last value counts, at the first one's place", () => {
    expect(toJson(parseJson('{"a": 1, "b": 2, "a": 3}'))).toBe('{"a": 3, "b": 2}');
  });

  test("tools write ASCII, hashes the characters themselves", () => {
    const value = parseJson('["\\u00e9\\ud83d\\ude00\\u007f\\"\\\\\\n/", NaN, -Infinity]');
    expect(toJson(value)).toBe('["\\u00e9\\ud83d\\ude00\\u007f\\"\\\\\\n/", NaN, -Infinity]');
    expect(canonicalJson(value)).toBe('["é😀\u007f\\"\\\\\\n/",NaN,-Infinity]');
  });

  test("canonical keys go by code points, which differs from JavaScript's order above U+FFFF", () => {
    const value = new Map<string, PyValue>([
      ["\u{10000}", 1],
      ["\uffff", 2],
      ["b", 3],
      ["a", 4],
    ]);
    expect(canonicalJson(value)).toBe('{"a":4,"b":3,"\uffff":2,"\u{10000}":1}');
    expect(toSortedJson(fromPlain({ b: [1, 2], a: "É" }))).toBe('{"a": "É", "b": [1, 2]}');
    expect(compareText("ab", "a")).toBeGreaterThan(0);
  });

  test("numbers count by value in normalized mode only", () => {
    const [whole, spelled] = [parseJson('{"a": [50, 1e16, 0]}'), parseJson('{"a": [50.0, 1e16, -0.0]}')];
    expect(canonicalJson(whole)).toBe('{"a":[50,1e+16,0]}');
    expect(canonicalJson(spelled)).toBe('{"a":[50.0,1e+16,-0.0]}');
    expect(canonicalJson(spelled, "normalized")).toBe('{"a":[50,10000000000000000,0]}');
    expect([sameValue(whole, spelled), sameValue(whole, spelled, "normalized")]).toEqual([false, true]);
  });

  test.each([
    ["", "a value"],
    ["{", "a key in double quotes"],
    ["[1,]", "a value"],
    ["[1 2]", "',' or ']'"],
    ['{"a" 1}', "':'"],
    ['{"a": 1,}', "a key in double quotes"],
    ["01", "nothing more"],
    ["1.", "nothing more"],
    ["tru", "a value"],
    ['"a', "a closing quote"],
    ['"\\x"', "an escape that JSON has"],
    ['"\\u12g4"', "four hex digits after \\u"],
    ['"a\nb"', "no control character inside a text"],
    ["[".repeat(600), "at most 500 levels"],
    ["1".repeat(5000), "an integer of at most 4300 digits"],
  ])("%s is refused", (text, expected) => {
    expect(() => parseJson(text)).toThrow(JsonError);
    expect(() => parseJson(text)).toThrow(`expected ${expected}`);
  });

  test("an offset is told as line and column", () => {
    expect(lineAndColumn("ab\ncd", 4)).toBe("line 2, column 2");
  });

  test("what is written is read back as the same value", () => {
    fc.assert(
      fc.property(values, (value) => {
        expect(canonicalJson(parseJson(toJson(value)))).toBe(canonicalJson(value));
        expect(toJson(parseJson(toJson(value)))).toBe(toJson(value));
      }),
    );
  });

  test("two values are the same where their canonical texts are", () => {
    fc.assert(
      fc.property(values, values, fc.constantFrom("python", "normalized"), (a, b, mode) => {
        expect(sameValue(a, a, mode)).toBe(true);
        expect(sameValue(a, fromPlain(a), mode)).toBe(true);
        expect(sameValue(a, b, mode)).toBe(canonicalJson(a, mode) === canonicalJson(b, mode));
      }),
    );
  });
});

test("plain values become Python's, and back", () => {
  const plain = { b: [1, 2.5, "x", null, true], "7": { a: -0 }, n: undefined };
  expect(toJson(fromPlain(plain))).toBe('{"7": {"a": 0}, "b": [1, 2.5, "x", null, true], "n": null}');
  expect(toPlain(parseJson('{"a": [1.0, {"__proto__": 2}]}'))).toEqual({ a: [1, JSON.parse('{"__proto__": 2}')] });
  expect(JSON.stringify({ amount: float(50) })).toBe('{"amount":50}');
  const circle: unknown[] = [];
  circle.push(circle);
  expect(() => fromPlain(circle)).toThrow("maximum recursion depth exceeded");
});

test("a frozen value can't be written to", () => {
  const value = freeze(parseJson('{"a": {"b": [1]}}')) as Map<string, Map<string, PyValue[]>>;
  expect(() => value.set("x", new Map())).toThrow("never changed");
  expect(() => value.get("a")!.delete("b")).toThrow("never changed");
  expect(() => value.get("a")!.clear()).toThrow("never changed");
  expect(() => value.get("a")!.get("b")!.push(2)).toThrow(TypeError);
  expect(new Map(value).set("x", new Map()).size).toBe(2);
});

describe("operations", () => {
  test.each<[PyValue, "+" | "-" | "*", PyValue, string]>([
    [1, "+", 2, "3"],
    [1, "+", float(2), "3.0"],
    [true, "+", 1, "2"],
    [0, "*", -1, "0"],
    [9007199254740991, "+", 1, "9007199254740992"],
    [2n ** 60n, "-", 2n ** 60n, "0"],
    [2n ** 60n, "*", float(1), "1.152921504606847e+18"],
  ])("%s %s %s is %s", (a, operator, b, result) => {
    expect(str(arithmetic(a, operator, b))).toBe(result);
  });

  test.each<[() => unknown, string]>([
    [() => arithmetic(1, "+", "2", "+="), "unsupported operand type(s) for +=: 'int' and 'str'"],
    [() => arithmetic([], "*", null), "unsupported operand type(s) for *: 'list' and 'NoneType'"],
    [() => less(1, "2"), "'<' not supported between instances of 'int' and 'str'"],
    [() => negated("2"), "bad operand type for unary -: 'str'"],
    [() => length(null), "object of type 'NoneType' has no len()"],
    [() => iterate(true), "'bool' object is not iterable"],
    [() => parseInt10("b7"), "invalid literal for int() with base 10: 'b7'"],
    [() => parseInt10(["7"]), "int() argument must be a string, a bytes-like object or a real number, not 'list'"],
    [() => arithmetic(10n ** 400n, "*", float(1)), "int too large to convert to float"],
  ])("%s fails with Python's words", (run, message) => {
    expect(run).toThrow(message);
  });

  test("numbers are equal by value across kinds, texts never are", () => {
    expect(equals(255, float(255))).toBe(true);
    expect(equals(2n ** 60n, float(2 ** 60))).toBe(true);
    expect(equals(1, true)).toBe(true);
    expect(equals(100, "100")).toBe(false);
    expect(equals(fromPlain({ a: 1, b: [2] }), parseJson('{"b": [2.0], "a": 1}'))).toBe(true);
    expect(less("\uffff", "\u{10000}")).toBe(true);
  });

  test("int() takes blanks, signs and underscores", () => {
    expect([" 7 ", "+08", "1_0", "-3"].map(parseInt10)).toEqual([7, 8, 10, -3]);
    expect(str(sum([1, float(0.5), true]))).toBe("2.5");
  });
});
