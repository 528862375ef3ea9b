import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { observationMessage, renderObservation } from "./observation.ts";
import { loadSnapshot } from "./snapshot.ts";

const { papers, pools } = loadSnapshot("data/arxiv/snapshot.json");
const list = (count: number) => pools.recent.AI!.slice(0, count).map((id) => papers[id]!);
const long = "word ".repeat(1000);

describe("an observation", () => {
  test("of a search is a count and a numbered list", () => {
    expect(renderObservation("search_arxiv_papers", list(2))).toBe(
      "Found 2 papers:\n1. 2608.14539v1 Curriculum Learning for Visual Planning Agents\n" +
        "2. 2608.14530v1 Marionette: Finite State Control of Puppet Agents",
    );
    expect(renderObservation("search_arxiv_papers", list(1))).toMatch(/^Found 1 paper:\n1\. /);
    expect(renderObservation("search_arxiv_papers", [])).toBe("No papers found.");
  });

  test("of a long search shows ten and the number of the rest", () => {
    const lines = renderObservation("search_arxiv_papers", list(25)).split("\n");
    expect(lines.length).toBe(12);
    expect(lines[0]).toBe("Found 25 papers:");
    expect(lines[10]).toMatch(/^10\. /);
    expect(lines[11]).toBe("… and 15 more.");
    expect(renderObservation("search_arxiv_papers", list(10))).not.toContain("more");
  });

  test("of a figure has the answer first", () => {
    const output = { paper_id: "p", figure_no: 1, question: "axes", answer: "x by y", backend: "b", page: 2 };
    expect(renderObservation("analyze_figure", output)).toBe(
      '{"answer": "x by y", "paper_id": "p", "figure_no": 1, "question": "axes"}',
    );
  });

  test.each<[string, Record<string, unknown>]>([
    ["get_paper_content", { paper_id: "p", section: null, content: long }],
    ["summarize_paper", { paper_id: "p", style: "tldr", max_words: 250, summary: long }],
    ["analyze_figure", { paper_id: "p", figure_no: 1, question: "axes", answer: long }],
    [
      "extract_paper_figures",
      { paper_id: "p", count: 8, figures: Array.from({ length: 8 }, (_, i) => ({ figure_no: i + 1, caption: long })) },
    ],
  ])("of %s is whole JSON however long the texts in it are", (tool, output) => {
    const text = renderObservation(tool, output);
    expect(text.length).toBeLessThan(1200);
    expect(JSON.parse(text)).toMatchObject({ paper_id: "p" });
    expect(text).toContain("word …");
  });

  test("of any text parses", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 2000, unit: "binary" }), (content) => {
        const text = renderObservation("get_paper_content", { paper_id: "p", section: null, content });
        expect(JSON.parse(text).paper_id).toBe("p");
      }),
    );
  });

  test("is a turn of the user's", () => {
    expect(observationMessage("x", false)).toEqual({ role: "user", content: "Observation: x" });
    expect(observationMessage("x", true)).toEqual({ role: "user", content: "Observation: x", is_error: true });
  });
});
