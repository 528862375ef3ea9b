import { describe, expect, test } from "vitest";
import { findSections, headingKind, joinLines } from "./sections.ts";

describe("headings", () => {
  test.each([
    ["Method", "method"],
    ["3 Method", "method"],
    ["3. Methodology", "method"],
    ["3.2 Proposed Method", "method"],
    ["III. APPROACH", "method"],
    ["IV EVALUATION", "result"],
    ["4 E XPERIMENTS", "result"], // small capitals
    ["Experimental Results:", "result"],
    ["A. Results", "result"],
    ["Section 5 Conclusions", "conclusion"],
    ["6 Discussion and Conclusion", "conclusion"],
    ["Concluding remarks.", "conclusion"],
    ["1 Introduction", "other"],
    ["2 Related Work", "other"],
    ["Experiments and Analysis", "other"],
    ["Discussion", "other"],
    ["References", "last"],
    ["Acknowledgements", "last"],
    ["Acknowledgment", "last"],
    ["Appendix", "last"],
    ["Methods of the state", null],
    ["Our approach is simple", null],
    ["Civil Results", null],
    ["3 Method . . . . . . . . 4", null],
    [`Method${" ".repeat(80)}`, null],
    ["", null],
  ])("'%s' is %s", (line, kind) => {
    expect(headingKind(line)).toBe(kind);
  });
});

describe("sections", () => {
  test("go from their heading to the next known one", () => {
    const lines = ["Title", "1 Introduction", "Why.", "2 Method", "How.", "2.1 Details", "More.", "3 Results", "What."];
    expect(findSections([...lines, "4 Conclusion", "So.", "References", "[1] Method"])).toEqual({
      method: "How. 2.1 Details More.",
      result: "What.",
      conclusion: "So.",
    });
  });

  test("a kind that comes again belongs to the first; after the references comes nothing", () => {
    const lines = ["Experiments", "One.", "Discussion", "Aside.", "Results", "Two.", "References", "Method", "Late."];
    expect(findSections(lines)).toEqual({ result: "One. Two." });
  });

  test("a table of contents is none; a section without text is none; no section is none", () => {
    const contents = ["Introduction", "Method", "Results", "References", "Introduction", "Why.", "Method", "How."];
    expect(findSections(contents)).toEqual({ method: "How." });
    expect(findSections(["Method", "Results", "What."])).toEqual({ result: "What." });
    expect(findSections(["Only words."])).toEqual({});
  });

  test("a very long one is cut between words", () => {
    const { method } = findSections(["Method", ...Array(5000).fill("words and")]);
    expect(method!.length).toBeLessThanOrEqual(20_003);
    expect(method).toMatch(/ (?:words|and)\.\.\.$/);
  });
});

test("a word that a line's end broke is whole again, a real hyphen before a capital stays", () => {
  expect(joinLines(["an effi-", "cient way", "of Monte-", "Carlo trees", "at 3-", "4 places"])).toBe(
    "an efficient way of Monte- Carlo trees at 3- 4 places",
  );
});
