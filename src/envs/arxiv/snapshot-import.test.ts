import { expect, test } from "vitest";
import { keywordPapers, recordedAnswer, recordedContent, recordedFigures, recordedSummary } from "./replay.ts";
import { loadSnapshot, parseSnapshot, type Snapshot } from "./snapshot.ts";
import { importReferenceSnapshot } from "./snapshot-import.ts";
import { checkSnapshot } from "./snapshot-validator.ts";

const CREATED_AT = "2026-08-20 00:00:00";

/** Our snapshot as the reference would have recorded it. */
function referenceLayout({ papers, pools, content, summary, figures, figure_qa }: Snapshot): Record<string, unknown> {
  const keyed = (list: { args: Record<string, unknown>; result: unknown }[]) =>
    Object.fromEntries(list.map((entry) => [JSON.stringify(entry.args), entry]));
  const records = (ids: readonly string[]) => ids.map((id) => papers[id]!);
  return {
    get_recently_submitted_cs_papers: keyed(
      Object.entries(pools.recent).map(([aspect, ids]) => ({ args: { aspect, days: 30 }, result: records(ids) })),
    ),
    search_arxiv_papers: keyed(
      Object.values(pools.keyword).map(({ query, days, ids }) => ({ args: { query, days }, result: records(ids) })),
    ),
    get_paper_content: keyed(
      Object.entries(content).flatMap(([paper_id, sections]) =>
        Object.entries(sections).map(([name, text]) => {
          const section = name === "default" ? null : name;
          return { args: { paper_id, section }, result: { paper_id, title: "t", section, content: text } };
        }),
      ),
    ),
    summarize_paper: keyed(
      Object.entries(summary).flatMap(([paper_id, styles]) =>
        Object.entries(styles).flatMap(([style, budgets]) =>
          Object.entries(budgets).map(([words, text]) => {
            const args = { paper_id, style, max_words: Number(words) };
            return { args, result: { ...args, ...text } };
          }),
        ),
      ),
    ),
    extract_paper_figures: keyed(
      Object.entries(figures).map(([paper_id, record]) => ({ args: { paper_id }, result: { paper_id, ...record } })),
    ),
    analyze_figure: keyed(
      Object.entries(figure_qa).flatMap(([paper_id, numbers]) =>
        Object.entries(numbers).flatMap(([figure_no, questions]) =>
          Object.entries(questions).map(([question, answer]) => {
            const args = { paper_id, figure_no: Number(figure_no), question };
            return { args, result: { ...args, ...answer } };
          }),
        ),
      ),
    ),
    download_arxiv_pdf: {},
  };
}

test("a snapshot in the reference's layout comes back as it was", () => {
  const ours = loadSnapshot("data/arxiv/snapshot.json");
  const imported = importReferenceSnapshot(referenceLayout(ours), "old.json", CREATED_AT);
  const same = { recorder: "", sha256: "" };
  expect({ ...imported, ...same }).toEqual({ ...ours, ...same });
  checkSnapshot(parseSnapshot(imported, "new.json"), "new.json");
});

test("of an aspect recorded twice the last pool counts; a query may have several windows; odd entries stay out", () => {
  const paper = (id: string) => ({
    id,
    title: id,
    published: CREATED_AT,
    links: [{ href: "x" }],
    summary: "s".repeat(300),
  });
  const entry = (args: Record<string, unknown>, result: unknown) => ({ args, result });
  const snapshot = importReferenceSnapshot(
    {
      get_recently_submitted_cs_papers: {
        a: entry({ aspect: "cs.AI", days: 7 }, [paper("1v1")]),
        b: entry({ aspect: "AI", days: 30 }, [paper("2v1")]),
      },
      search_arxiv_papers: {
        a: entry({ query: "q", days: 7 }, [paper("1v1")]),
        b: entry({ query: "Q" }, [paper("2v1")]),
      },
      get_paper_content: {
        a: entry({ section: "METHOD" }, { paper_id: "1v1", content: "m" }),
        b: entry({ section: "appendix" }, { paper_id: "1v1", content: "x" }),
      },
      summarize_paper: {
        a: entry({ max_words: 60 }, { paper_id: "1v1", summary: "s" }),
        b: entry({ style: "poem" }, { paper_id: "1v1", summary: "s" }),
      },
      extract_paper_figures: {
        a: entry({}, { paper_id: "1v1", figures: [{ figure_no: 1 }] }),
        b: entry({}, { paper_id: "2v1" }),
      },
      analyze_figure: {
        a: entry({}, { paper_id: "1v1", answer: "a" }),
        b: entry({ question: "why" }, { paper_id: "1v1", answer: "b" }),
      },
    },
    "old.json",
    CREATED_AT,
  );
  expect(snapshot.pools.recent).toEqual({ AI: ["2v1"] });
  expect(snapshot.papers["1v1"]!.summary.length).toBe(203);
  expect(keywordPapers(snapshot, "q", 7, 5).map(({ id }) => id)).toEqual(["1v1"]);
  expect(keywordPapers(snapshot, "q", null, 5).map(({ id }) => id)).toEqual(["2v1"]);
  expect(recordedContent(snapshot, "1v1", "method")).toBe("m");
  expect(recordedSummary(snapshot, "1v1", "tldr", 60).summary).toBe("s");
  expect(recordedFigures(snapshot, "2v1").count).toBe(0);
  expect(recordedAnswer(snapshot, "1v1", 1, "describe").answer.answer).toBe("a");
});

test("another file is refused, and told why", () => {
  expect(() => importReferenceSnapshot({ get_paper_content: { a: 1 } }, "old.json", CREATED_AT)).toThrow(
    /old\.json: not a reference snapshot: get_paper_content\.a/,
  );
  expect(() => importReferenceSnapshot({}, "old.json", "today")).toThrow(/old\.json: created_at/);
});
