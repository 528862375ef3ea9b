import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { valuesMatch } from "./value-match.ts";

// predicted, expected, key, reference, project
const TABLE: [unknown, unknown, string, boolean, boolean, string][] = [
  [true, 1, "ref", true, false, "true is 1 in the reference's language, and no position"],
  [1.9, 1, "ref", true, false, "the reference truncates"],
  ["1.9", 1, "ref", true, false, "the reference finds the 1 in it"],
  [1, 1, "ref", true, true, "equal"],
  [1.0, 1, "ref", true, true, "1.0 is 1"],
  ["1", 1, "ref", true, true, "RW-04: a position as text"],
  [1, "1", "ref", true, true, "and the other way round"],
  ["#3", 3, "ref", true, true, "the first integer in a text"],
  ["3-4", 3, "ref", true, true, "the first of two"],
  ["第3篇", 3, "ref", true, true, "an ordinal"],
  ["-1", 1, "ref", false, false, "the minus sign counts"],
  ["paper -2", 2, "ref", false, false, "also inside a text"],
  [-1, 1, "ref", false, false, "and as a number"],
  ["Learning State", "learning state", "ref", true, true, "titles in any case"],
  ["learning state", "Learning State", "ref", true, true, "the other way round"],
  ["2608.14528v1", "2608.14528v1", "ref", true, true, "an id"],
  ["2608.14528v2", "2608.14528v1", "ref", false, false, "an id of another version: no text match"],
  ["null", null, "ref", false, false, "the word null is not null"],
  [undefined, null, "ref", true, true, "expected absent, absent"],
  [0, null, "x", false, false, "expected absent, but there"],
  [null, 1, "ref", false, false, "expected there, but null"],
  ["5.0", 5, "max_results", true, true, "a number as text"],
  ["5", 5, "max_results", true, true, "RW-04"],
  ["five", 5, "max_results", false, false, "a word is no number"],
  ["", 0, "days", false, false, "blank is not zero"],
  [0, false, "save_to_file", true, true, "0 is false"],
  ["0", false, "save_to_file", true, true, "as text too"],
  ["false", false, "save_to_file", true, true, "the word"],
  ["True", true, "force", true, true, "in any case"],
  ["no", false, "save_to_file", false, false, "but not any word"],
  ["yes", true, "force", false, false, "nor this"],
  [" cs.Cv", "CV", "aspect", true, true, "blanks, case and the cs. prefix"],
  ["cs.AI", "AI", "aspect", true, true, "RW-04"],
  ["CR", "AI", "aspect", false, false, "RW-04: another field stays another"],
  ["cs.cs.AI", "AI", "aspect", false, false, "one prefix, not two"],
  ["*", "*", "aspect", true, true, "all"],
  [" TLDR ", "tldr", "style", true, true, "texts by case and blanks"],
  [["a"], "a", "style", false, false, "a list is no text"],
  [{ a: [1, true] }, { a: [1, 1] }, "x", true, true, "equal all the way down, true being 1"],
  [[1], [2], "x", false, false, "or not"],
];

describe.each(TABLE)("%j for %j as %s", (predicted, expected, key, reference, project, why) => {
  test(why, () => {
    expect(valuesMatch(predicted, expected, key, "reference")).toBe(reference);
    expect(valuesMatch(predicted, expected, key, "project")).toBe(project);
  });
});

test("every JSON value matches itself, and none throws", () => {
  const key = fc.constantFrom("ref", "aspect", "days", "query");
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), key, fc.constantFrom("project", "reference"), (a, b, name, profile) => {
      expect(valuesMatch(b, b, name, profile as "project")).toBe(
        name === "ref" && profile === "project" && typeof b === "number" ? valuesMatch(b, b, name, "project") : true,
      );
      expect(typeof valuesMatch(a, b, name, profile as "project")).toBe("boolean");
    }),
  );
});
