import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decode, encode, MAX_TEXT_LENGTH, replacedSurrogates, wellFormed } from "./codec.ts";

test("BR-05, BR-06: numbers that JSON lacks keep their value, never null", () => {
  const values = [0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0];
  const text = encode({ reward: values });
  expect(text).not.toContain("null");
  expect(decode(text)).toEqual({ reward: [0.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0] });
});

test("BR-09: typed arrays become plain lists", () => {
  const value = { ids: new Int32Array([1, 2]), logprobs: new Float32Array([0.5, -1]), big: new BigInt64Array([3n]) };
  expect(JSON.parse(encode(value))).toEqual({ ids: [1, 2], logprobs: [0.5, -1], big: [3] });
});

class Custom {
  x = 1;
}
const loop: Record<string, unknown> = {};
loop.self = { back: loop };

test.each<[string, unknown, RegExp]>([
  ["BR-09 a Map", { columns: new Map() }, /^sft\.columns is a Map; only plain objects/],
  ["BR-09 a Set", { rows: [{}, { x: new Set() }] }, /^sft\.rows\[1\]\.x is a Set;/],
  ["BR-09 a Date", { at: new Date(0) }, /^sft\.at is a Date;/],
  ["an instance of a class", { item: new Custom() }, /^sft\.item is a Custom;/],
  ["a function", { f: () => 1 }, /^sft\.f is a function, which cannot cross/],
  ["undefined in a list", [1, undefined], /^sft\[1\] is undefined/],
  ["a hole in a list", new Array(1), /^sft\[0\] is undefined/],
  ["nothing at all", undefined, /^sft is undefined/],
  ["a symbol", [Symbol("x")], /^sft\[0\] is a symbol/],
  ["2^53", { ids: [1, 2 ** 53] }, /^sft\.ids\[1\] is 9007199254740992, beyond 2\^53/],
  ["a BigInt beyond 2^53", { id: 2n ** 60n }, /^sft\.id is 1152921504606846976, beyond 2\^53/],
  ["a typed array with one", { ids: new BigUint64Array([2n ** 60n]) }, /^sft\.ids\[0\] is 1152921504606846976/],
  ["a circle", loop, /^sft\.self\.back refers back to an object that holds it/],
])("refused with its path: %s", (_label, value, message) => {
  expect(() => encode(value, "sft")).toThrow(message);
});

test("the same object twice is no circle, and a missing property is left out", () => {
  const shared = { a: 1 };
  expect(encode([shared, shared, { b: undefined }])).toBe('[{"a":1},{"a":1},{}]');
});

test("BR-23: half a surrogate pair becomes U+FFFD and is counted, in keys too; whole pairs stay", () => {
  const before = replacedSurrogates();
  expect(decode(encode({ "k\udc00": "a\ud83dz 🙂" }))).toEqual({ "k\ufffd": "a\ufffdz 🙂" });
  expect(decode('"a\\ud83dz"')).toBe("a\ufffdz");
  expect(replacedSurrogates() - before).toBe(3);
  expect(wellFormed("plain")).toBe("plain");
});

test("BR-26: a text that is too long for one crossing is refused by name and size", () => {
  expect(() => encode({ text: "x".repeat(MAX_TEXT_LENGTH) }, "sft")).toThrow(
    /^sft is 64 MiB as JSON; .* pass the file's path/,
  );
});

test.each([
  ["our own mark", { $float: "NaN" }],
  ["a mark within a mark", { $float: { $float: "NaN" } }],
  ["the mark's key among others", { $float: "NaN", x: 1 }],
  ["a mark that marks nothing", { $float: [1, { $float: "other" }] }],
  ["a prototype's name", JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}') as unknown],
])("data that looks like %s comes back as it was", (_label, value) => {
  expect(decode(encode(value))).toEqual(value);
});

test.each(['{"$float": "nan"}', '{"$float": 1}', '{"$float": null}'])("decode refuses %s", (text) => {
  expect(() => decode(text)).toThrow(/is no number/);
});

describe("properties", () => {
  const data = fc.jsonValue({ maxDepth: 4, stringUnit: "binary" });
  test("whatever JSON can hold comes back equal, and its text is plain JSON", () => {
    fc.assert(
      fc.property(data, (value) => {
        const safe = JSON.parse(JSON.stringify(value), (_key, item: unknown) =>
          typeof item === "number" && Number.isInteger(item) && !Number.isSafeInteger(item) ? 0.5 : item,
        ) as unknown;
        expect(decode(encode(safe))).toEqual(safe);
      }),
    );
  });

  test("any text at all comes back well-formed, and twice is as once", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 0xffff })), (units) => {
        const text = String.fromCharCode(...units);
        const once = decode(encode(text)) as string;
        expect(once).toBe(Buffer.from(once, "utf8").toString("utf8"));
        expect(once.length).toBe(text.length);
        expect(decode(encode(once))).toBe(once);
      }),
    );
  });
});
