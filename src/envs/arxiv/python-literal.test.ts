import fc from "fast-check";
import { expect, test } from "vitest";
import { parsePythonLiteral } from "./python-literal.ts";

test.each<[string, unknown]>([
  ["{'paper_id': 'P1', 'count': 2, 'figures': []}", { paper_id: "P1", count: 2, figures: [] }],
  [`{"a": "it's", 'b': 'say "x"'}`, { a: "it's", b: 'say "x"' }],
  ["{'ok': True, 'no': False, 'none': None}", { ok: true, no: false, none: null }],
  ["[1, -2.5, 1e-3, (3, 4), (5,), ()]", [1, -2.5, 0.001, [3, 4], [5], []]],
  [String.raw`'a\n\'b\\\u4e2d\x41\U0001f600\d'`, "a\n'b\\中A😀\\d"],
  ["  {'a': {'b': [{'c': 1}]},}  ", { a: { b: [{ c: 1 }] } }],
  ["{1: 'one'}", { "1": "one" }],
])("%s", (text, value) => expect(parsePythonLiteral(text)).toEqual(value));

test.each(["", "{", "{'a'}", "{'a': 1", "{'a': 'cut", "{'a': 1} and more", "'a\nb'", "nan", "{'a': 1 'b': 2}", "[,]"])(
  "%j is none",
  (text) => expect(parsePythonLiteral(text)).toBeUndefined(),
);

test("plain JSON reads as JSON does; nothing throws, however deep or broken", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const text = JSON.stringify(value)
        .replaceAll("true", "True")
        .replaceAll("false", "False")
        .replaceAll("null", "None");
      const words = JSON.stringify(value).match(/true|false|null/) !== null;
      if (!words) expect(parsePythonLiteral(text)).toEqual(JSON.parse(JSON.stringify(value)));
      parsePythonLiteral(text.slice(0, text.length / 2));
    }),
  );
  expect(parsePythonLiteral("[".repeat(100_000))).toBeUndefined();
});
