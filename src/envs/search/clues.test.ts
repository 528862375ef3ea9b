import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseClues } from "./clues.ts";

describe("examples of the spec", () => {
  test.each<[string, string[]]>([
    ["<clues><clue>A</clue><clue>b</clue></clues>", []],
    ["<analysis>x</analysis><clues><clue>river deltas</clue><clue>delta &amp; silt", ["river deltas", "delta & silt"]],
    ['Clues:\n1. "first bridge"\n2) second bridge', ["first bridge", "second bridge"]],
    ["- alpha beta\n- alpha  Beta\n\n- gamma", ["alpha beta", "gamma"]],
    ['Clues: ["x one", "y two"]', ["x one", "y two"]],
  ])("%j", (text, clues) => {
    expect(parseClues(text).clues).toEqual(clues);
  });
});

describe.each<[string, [string, string, string[]][]]>([
  [
    "xml",
    [
      ["no end of the list", "<clues>\n<clue>one two</clue>\n<clue>three</clue>", ["one two", "three"]],
      ["no ends at all", "<clues><clue>one two<clue>three four", ["one two", "three four"]],
      ["a clue without an end runs to the next tag", "<clues><clue>one <b>two</b></clues>", ["one"]],
      ["a closed clue keeps what looks like a tag", "<clues><clue>a <b> c</clue></clues>", ["a <b> c"]],
      ["what follows the list", "<clues><clue>one two</clue></clues>\n- not this", ["one two"]],
      ["any case, attributes", '<CLUES><Clue id="1">one two</CLUE></CLUES>', ["one two"]],
      [
        "a draft in the analysis",
        "<analysis><clues><clue>draft</clue></clues></analysis><clues><clue>real</clue>",
        ["real"],
      ],
      ["an analysis without an end", "<analysis>thinking about it\n<clues><clue>real one</clue></clues>", ["real one"]],
      [
        "entities are decoded once",
        "<clues><clue>&amp;lt; &quot;x&quot; &apos;y&apos;</clue></clues>",
        ["&lt; \"x\" 'y'"],
      ],
      [
        "the first five",
        `<clues>${"abcdefg".replace(/./g, "<clue>clue $&</clue>")}`,
        ["clue a", "clue b", "clue c", "clue d", "clue e"],
      ],
    ],
  ],
  [
    "legacy",
    [
      [
        "tags with bullets",
        "<search_clues>\n- one two\n* three\n• four\n</search_clues>\n- not this",
        ["one two", "three", "four"],
      ],
      ["tags with an array", '<search_clues>["one two", "three"]</search_clues>', ["one two", "three"]],
      ["a heading in bold", "I think.\n**Search clues:**\n(1) one two\n(2) three", ["one two", "three"]],
      ["any case", "search CLUES:\n1. one two", ["one two"]],
      [
        "an array in a fence, over lines",
        'Clues:\n```json\n[\n  "one, [two]",\n  "three"\n]\n```',
        ["one, [two]", "three"],
      ],
      ["only strings of an array", 'Clues: ["one two", 3, null]', ["one two"]],
    ],
  ],
  [
    "bare",
    [
      ["plain lines", "one two\nthree four", ["one two", "three four"]],
      ["fences and quotes", '```\n"one two"\n“three”\n```', ["one two", "three"]],
      ["a heading over plain lines", "Clues:\none two\nthree", ["one two", "three"]],
      ["a year is no number of a list", "1984. Orwell\n2.5 litres", ["1984. Orwell", "2.5 litres"]],
      [
        "thinking is no clue",
        "<think>maybe\n<clues><clue>thought</clue></clues></think>\nriver delta",
        ["river delta"],
      ],
    ],
  ],
])("%s", (format, cases) => {
  test.each(cases)("%s", (_, text, clues) => {
    expect(parseClues(text)).toEqual({ clues, format });
  });
});

test.each([
  ["nothing", ""],
  ["white space", " \n\t\n"],
  ["an open thought", "<think>- one two\n- three"],
  ["the end of a thought whose beginning the template wrote", "- one two</think>"],
  ["an empty list", "<clues></clues>"],
  ["an analysis alone", "<analysis>The river must be found.</analysis>"],
  ["an analysis that was cut", "<analysis>The river must be"],
  ["clues that are too long", `<clues><clue>${"x".repeat(301)}</clue></clues>`],
])("no clue: %s", (_, text) => {
  expect(parseClues(text)).toEqual({ clues: [], format: null });
});

test("300 characters are a clue, counted as characters", () => {
  expect(parseClues("😀".repeat(300)).clues).toHaveLength(1);
  expect(parseClues("😀".repeat(301)).clues).toEqual([]);
});

test("any text gives at most max_clues clean clues", () => {
  const piece = fc.oneof(
    fc.string({ unit: "binary", maxLength: 20 }),
    fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 10 }).map((units) => String.fromCharCode(...units)),
    fc.constantFrom("<clues>", "</clues>", "<clue>", "</clue>", "<think>", "</think>", "<analysis>", "</analysis>"),
    fc.constantFrom("<search_clues>", "Clues:", "\n- ", "\n1. ", '["', '", "', '"]', "```\n", "&amp;", "\n", "\0"),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), fc.integer({ min: 1, max: 8 }), (pieces, max_clues) => {
      const { clues, format } = parseClues(pieces.join(""), max_clues);
      expect(clues.length).toBeLessThanOrEqual(max_clues);
      expect(format === null).toBe(clues.length === 0);
      for (const clue of clues) {
        expect(clue).toBe(clue.replace(/\s+/g, " ").trim());
        expect([...clue].length).toBeGreaterThanOrEqual(2);
        expect([...clue].length).toBeLessThanOrEqual(300);
        expect(clue).not.toMatch(/[\p{Cc}\p{Surrogate}]/u);
      }
      expect(new Set(clues.map((clue) => clue.toLowerCase())).size).toBe(clues.length);
    }),
    { numRuns: 1000 },
  );
});

test("a megabyte of one thing over and over is read in no time", () => {
  const begin = performance.now();
  for (const tag of ["<clue>", "<think>", "<analysis>", "<clues>", "- ", "[", "</think>", " ", " \t", "\n", "*#_ "])
    parseClues(`${tag.repeat(1e6 / tag.length)}x`);
  expect(performance.now() - begin).toBeLessThan(3000);
});
