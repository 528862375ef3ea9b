import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ToolError } from "../../../core/errors.ts";
import { deepFreeze, loadSnapshot } from "../snapshot.ts";
import { initialState } from "../state.ts";
import type { ArxivState } from "../types.ts";
import { ASPECTS } from "./get-recently-submitted-cs-papers.ts";
import { arxivTools, checkTools, TOOL_NAMES, type ToolName } from "./index.ts";

const snapshot = loadSnapshot("data/arxiv/snapshot.json");
const start = deepFreeze(initialState(snapshot, "session"));

async function call(state: ArxivState, name: ToolName, args: unknown) {
  const tool = arxivTools.find((candidate) => candidate.name === name)!;
  const { state: next, output } = await tool.call(state, args);
  return { state: deepFreeze(next), output: output as Record<string, unknown> & Record<string, unknown>[] };
}

const search = async (aspect = "AI", max_results = 5) =>
  (await call(start, "get_recently_submitted_cs_papers", { aspect, max_results })).state;

const refused = (state: ArxivState, name: ToolName, args: unknown) => expect(call(state, name, args)).rejects;

describe("the list of tools", () => {
  test("has all nine, and says which are missing otherwise", () => {
    expect(arxivTools.map((tool) => tool.name)).toEqual([...TOOL_NAMES]);
    expect(() => checkTools(arxivTools.slice(2, 8))).toThrow(
      "tools not registered: get_recently_submitted_cs_papers, search_arxiv_papers, analyze_figure",
    );
  });

  test.each<[ToolName, Record<string, unknown>]>([
    [
      "get_recently_submitted_cs_papers",
      { max_results: 50, aspect: "*", days: 7, output_path: null, save_to_file: true },
    ],
    ["search_arxiv_papers", { query: undefined, max_results: 10, days: null }],
    ["download_arxiv_pdf", { ref: 1, force: false }],
    [
      "translate_arxiv_pdf",
      {
        ref: null,
        force: false,
        service: "bing",
        threads: 4,
        keep_dual: false,
        paper_id: null,
        pdf_url: null,
        input_pdf_path: null,
      },
    ],
    ["get_paper_cache_status", { ref: null, paper_id: null }],
    ["get_paper_content", { ref: 1, section: null }],
    ["summarize_paper", { ref: 1, style: "tldr", max_words: 120 }],
    ["extract_paper_figures", { ref: 1 }],
    ["analyze_figure", { ref: 1, figure_no: 1, question: "describe" }],
  ])("%s takes these arguments, with these defaults", (name, defaults) => {
    const { properties } = arxivTools.find((tool) => tool.name === name)!.parameters as {
      properties: Record<string, { default?: unknown; description?: string }>;
    };
    const found = Object.entries(properties).map(([parameter, schema]) => [parameter, schema.default]);
    expect(Object.fromEntries(found)).toEqual(defaults);
    expect(Object.values(properties).filter(({ description }) => !description)).toEqual([]);
  });

  test("there are 40 fields and *", () => expect(ASPECTS.length).toBe(41));
});

describe("arguments", () => {
  const recent = "get_recently_submitted_cs_papers";

  test.each<[string, Record<string, unknown>, RegExp]>([
    ["AX-11: no papers", { max_results: 0 }, /max_results: .*>=1/],
    ["AX-11: -1 papers", { max_results: -1 }, /max_results: .*>=1/],
    ["AX-11: 1000 papers", { max_results: 1000 }, /max_results: .*<=100/],
    ["AX-11: 0 days", { days: 0 }, /days: .*>=1/],
    ["AX-11: 31 days", { days: 31 }, /days: .*<=30/],
    ["an unknown field", { aspect: "QQ" }, /aspect: expected one of \*, AI, AR/],
    ["half a paper", { max_results: 1.5 }, /max_results/],
    ["true is no number", { max_results: true }, /max_results/],
    ["words are no number", { max_results: "many" }, /max_results/],
    ["1 is not true", { save_to_file: 1 }, /save_to_file/],
    ["an unknown argument", { limit: 5 }, /unknown argument "limit"; it takes max_results, aspect, days/],
  ])("%s: refused", async (_, args, message) => {
    await refused(start, recent, args).toThrow(message);
    await refused(start, recent, args).toBeInstanceOf(ToolError);
  });

  test.each<[string, Record<string, unknown>, string, number]>([
    ["AX-11: the text 5 is 5", { aspect: "AI", max_results: "5" }, "AI", 5],
    ["AX-11: cs.AI is AI", { aspect: "cs.AI", max_results: 5 }, "AI", 5],
    ["in any case", { aspect: " Cs.ai", max_results: 5 }, "AI", 5],
    ["a window changes nothing at replay", { aspect: "AI", max_results: 5, days: 1 }, "AI", 5],
    ["nothing is saved either way", { aspect: "AI", max_results: 5, save_to_file: false, output_path: "x" }, "AI", 5],
    ["the framework's arguments are dropped", { aspect: "AI", max_results: 5, session_id: "x" }, "AI", 5],
    ["all defaults: what the pool has, 50 at most", {}, "*", 16],
  ])("%s", async (_, args, pool, count) => {
    const { state, output } = await call(start, recent, args);
    expect(output.map(({ id }) => id)).toEqual(snapshot.pools.recent[pool]!.slice(0, count));
    expect(state.papers).toEqual(output);
    expect(state.stats.hit).toBe(1);
  });

  test("a search takes words, and only fails where they are not recorded", async () => {
    const query = "all:retrieval augmented generation";
    const { state } = await call(start, "search_arxiv_papers", { query, max_results: 3, days: 30 });
    expect(state.papers.length).toBe(3);
    for (const empty of ["", "  ", "all: "]) {
      await refused(start, "search_arxiv_papers", { query: empty }).toThrow("query: must not be empty");
    }
    await refused(start, "search_arxiv_papers", {}).toThrow("query");
    await refused(start, "search_arxiv_papers", { query: "soup" }).toThrow("not recorded");
  });

  test.each(["get_paper_content", "download_arxiv_pdf", "translate_arxiv_pdf"] as const)(
    "%s: a reference is an integer, a text or null",
    async (name) => {
      const state = await search();
      for (const ref of [true, 1.5, [1], { id: 1 }]) {
        await refused(state, name, { ref }).toThrow("ref: expected a position (an integer), a text");
      }
    },
  );

  test("whatever is sent, a tool answers or throws a ToolError, and leaves the state it got alone", async () => {
    const state = await search();
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...arxivTools),
        fc.oneof(
          fc.jsonValue(),
          fc.dictionary(
            fc.constantFrom("ref", "aspect", "max_results", "days", "query", "section", "style", "max_words", "x"),
            fc.oneof(fc.jsonValue(), fc.integer({ min: -2, max: 9 }), fc.constantFrom("AI", "method", "tldr", null)),
          ),
        ),
        async (tool, args) => {
          try {
            await tool.call(state, args);
          } catch (error) {
            expect(error).toBeInstanceOf(ToolError);
          }
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe("a download", () => {
  test("is a stub with fixed times, and tells whether it was there", async () => {
    const first = await call(await search(), "download_arxiv_pdf", { ref: 2 });
    const paper_id = "2608.14530v1";
    expect(first.output).toMatchObject({ paper_id, status: "READY", existed: false, size_bytes: 38, sha256: null });
    expect(first.output.session_id).toBe("session");
    expect(first.state.pdf[paper_id]!.downloaded_at).toBe("2000-01-01 00:00:00");
    expect(first.state.last_active_paper_id).toBe(paper_id);
    const again = await call(first.state, "download_arxiv_pdf", { ref: 2 });
    expect(again.output.existed).toBe(true);
    expect((await call(again.state, "download_arxiv_pdf", { ref: 2, force: true })).output.existed).toBe(false);
  });

  test("of null is of the paper used last, in the list or not; without one it fails", async () => {
    const { state } = await call(await search(), "download_arxiv_pdf", { ref: 2 });
    const { state: later } = await call(state, "get_recently_submitted_cs_papers", { aspect: "CV", max_results: 3 });
    expect((await call(later, "download_arxiv_pdf", { ref: null })).output.paper_id).toBe("2608.14530v1");
    await refused(await search(), "download_arxiv_pdf", { ref: null }).toThrow("no paper was used yet");
  });

  test.each<[number | string, RegExp]>([
    [20, /list holds 5 papers: position 20 is out of range, 1 to 5/],
    [0, /position 0 is out of range/],
    ["2999.99999v1", /none has the position, id or title words "2999.99999v1"/],
  ])("of %j fails, and says what the list holds", async (ref, message) => {
    await refused(await search(), "download_arxiv_pdf", { ref }).toThrow(message);
  });

  test("without a list fails", async () => {
    await refused(start, "download_arxiv_pdf", {}).toThrow("There is no paper list");
  });
});

describe("a translation", () => {
  test("is done at once, leaves an asset and a task, and has the PDF too", async () => {
    const { state, output } = await call(await search(), "translate_arxiv_pdf", {
      ref: 1,
      keep_dual: true,
      threads: "8",
    });
    const paper_id = "2608.14539v1";
    expect(output).toMatchObject({ paper_id, task_id: "task0001", status: "READY", keep_dual: true, threads: 8 });
    expect(state.translated[paper_id]).toMatchObject({ status: "READY", output_dual_path: expect.any(String) });
    expect(state.translate_tasks[0]).toMatchObject({ status: "SUCCEEDED", progress: 1, session_id: "session" });
    expect(state.last_active_paper_id).toBe(paper_id);
    const cache = await call(state, "get_paper_cache_status", { ref: null });
    expect(cache.output).toMatchObject({ paper_id, pdf_ready: true, translated_ready: true });
    const again = await call(state, "translate_arxiv_pdf", { ref: null });
    expect(again.output).toMatchObject({ task_id: "task0002", existed: true });
  });

  test("of nothing is an error, and leaves no task", async () => {
    await refused(start, "translate_arxiv_pdf", {}).toThrow("There is no paper list");
    await refused(await search(), "translate_arxiv_pdf", { ref: 20 }).toThrow("out of range");
    await refused(await search(), "translate_arxiv_pdf", { ref: null }).toThrow("used last");
  });

  test("by id goes before ref, and the id must exist", async () => {
    const { output } = await call(await search(), "translate_arxiv_pdf", { ref: 20, paper_id: "2608.14543v1" });
    expect(output.paper_id).toBe("2608.14543v1");
    await refused(start, "translate_arxiv_pdf", { paper_id: "2999.99999v1" }).toThrow("no paper with the id");
    await refused(start, "translate_arxiv_pdf", { paper_id: "constructor" }).toThrow("no paper with the id");
  });
});

describe("the cache status", () => {
  test("tells what is there, by id, by reference, or of the paper used last", async () => {
    const { state } = await call(await search(), "download_arxiv_pdf", { ref: 3 });
    const ready = { paper_id: "2608.14528v1", pdf_ready: true, translated_ready: false, translate: null };
    expect((await call(state, "get_paper_cache_status", {})).output).toMatchObject(ready);
    expect((await call(state, "get_paper_cache_status", { ref: "Learning State" })).output).toMatchObject(ready);
    const other = await call(state, "get_paper_cache_status", { ref: 3, paper_id: "2608.14530v1" });
    expect(other.output).toMatchObject({ paper_id: "2608.14530v1", pdf: null, pdf_ready: false });
    expect(other.state.last_active_paper_id).toBe("2608.14530v1");
    await refused(start, "get_paper_cache_status", {}).toThrow("no paper was used yet");
  });
});

describe("reading", () => {
  const readers: [ToolName, Record<string, unknown>][] = [
    ["get_paper_content", { section: "method" }],
    ["summarize_paper", { style: "bullet", max_words: 60 }],
    ["extract_paper_figures", {}],
    ["analyze_figure", { figure_no: 2, question: "axes" }],
  ];

  test.each(readers)("%s needs the download first, then makes the paper the one used last", async (name, args) => {
    const listed = await search("RO");
    await refused(listed, name, { ref: 2, ...args }).toThrow("call download_arxiv_pdf first");
    const { state } = await call(listed, "download_arxiv_pdf", { ref: 2 });
    const { state: other } = await call(state, "download_arxiv_pdf", { ref: 1 });
    const { state: read, output } = await call(other, name, { ref: 2, ...args });
    expect(output.paper_id).toBe(snapshot.pools.recent.RO![1]);
    expect(read.last_active_paper_id).toBe(output.paper_id);
    await refused(other, name, { ref: 20, ...args }).toThrow("out of range");
  });

  test("without a section gives title and abstract; one in capitals is understood, an unknown one is not", async () => {
    const { state } = await call(await search(), "download_arxiv_pdf", { ref: 2 });
    const { output } = await call(state, "get_paper_content", { ref: 2 });
    expect(output).toMatchObject({ section: null, content: expect.stringContaining("Marionette") });
    expect((await call(state, "get_paper_content", { ref: 2, section: "METHOD" })).output.section).toBe("method");
    await refused(state, "get_paper_content", { ref: 2, section: "figures" }).toThrow("abstract, method, result");
  });

  test.each([
    [1, 60],
    [60, 60],
    [61, 120],
    ["200", 250],
    [9999, 250],
  ])("a summary of %j words is one of %i", async (max_words, budget) => {
    const { state } = await call(await search(), "download_arxiv_pdf", {});
    const { output } = await call(state, "summarize_paper", { style: " Structured", max_words });
    expect(output).toMatchObject({ style: "structured", max_words: budget, backend: "extractive" });
  });

  test.each([0, -5, true, 1.5, null])("a summary of %j words is refused", async (max_words) => {
    const { state } = await call(await search(), "download_arxiv_pdf", {});
    await refused(state, "summarize_paper", { max_words }).toThrow("max_words");
  });

  test("a paper without figures has none, which is an answer; asking about one is a mistake", async () => {
    const id = snapshot.pools.recent.AI!.find((candidate) => snapshot.figures[candidate]!.count === 0)!;
    const { state } = await call(await search("AI", 26), "download_arxiv_pdf", { ref: id });
    expect((await call(state, "extract_paper_figures", { ref: id })).output).toMatchObject({ count: 0, figures: [] });
    await refused(state, "analyze_figure", { ref: id }).toThrow("has 0 figures: there is no figure 1");
    await refused(state, "analyze_figure", { ref: id, figure_no: 9 }).toThrow("figure_no");
  });
});
