import { describe, expect, test } from "vitest";
import { renderPrompt, renderSetupContext } from "./prompt.ts";
import { arxivTools, TOOL_NAMES } from "./tools/index.ts";
import type { Call } from "./types.ts";

const search: Call = { tool: "get_recently_submitted_cs_papers", args: { aspect: "AI", days: 7, max_results: 5 } };
const render = (
  prompt: "full" | "compact",
  context = renderSetupContext([]),
  style: "chat" | "continuation" = "chat",
) => renderPrompt({ tools: arxivTools, task: "Download the second paper.", context, prompt, style });

describe.each(["full", "compact"] as const)("the %s prompt", (prompt) => {
  const text = render(prompt);

  test("keeps its order: tools, task, form, refusal, rules, examples, state", () => {
    const places = [
      "get_recently_submitted_cs_papers",
      "analyze_figure",
      "\nTask: Download the second paper.\n",
      "Thought:",
      "Action: FINISH",
      "cannot be done",
      "strict JSON",
      '{"name": "download_arxiv_pdf"',
      "There is no paper list",
    ].map((piece) => text.indexOf(piece));
    expect(places).not.toContain(-1);
    expect(places).toEqual([...places].sort((a, b) => a - b));
  });

  test("names every tool, in a line of its own", () => {
    const lines = text.split("\n").filter((line) => line.startsWith("- "));
    for (const name of TOOL_NAMES) expect(lines.filter((line) => line.startsWith(`- ${name}`)).length).toBe(1);
  });

  test("does not speak of sessions' ids, and ends with the state", () => {
    expect(text).not.toContain("session_id");
    expect(text.endsWith(renderSetupContext([]))).toBe(true);
  });
});

test("the compact prompt is short", () => {
  const setup = renderSetupContext([search, { tool: "download_arxiv_pdf", args: { ref: 2 } }]);
  expect(render("compact", setup).split(/\s+/).length).toBeLessThanOrEqual(260);
});

test("in the continuation style only the sentence about what follows a reply is another", () => {
  const [chat, continuation] = (["chat", "continuation"] as const).map((style) =>
    render("full", undefined, style).split("\n"),
  );
  expect(chat!.filter((line) => !continuation!.includes(line))).toEqual([expect.stringMatching(/^The next message/)]);
  expect(continuation!.filter((line) => !chat!.includes(line))).toEqual([expect.stringMatching(/of the same message/)]);
  expect(render("compact", undefined, "continuation")).toBe(render("compact"));
});

test("its signatures show defaults, and short lists of values", () => {
  expect(render("compact")).toContain('- summarize_paper(ref=1, style="tldr"|"structured"|"bullet", max_words=120)\n');
  expect(render("compact")).toContain(
    '- get_recently_submitted_cs_papers(max_results=50, aspect="*", days=7, output_path=null, save_to_file=true)\n',
  );
  expect(render("compact")).toContain("- search_arxiv_papers(query, max_results=10, days=null)\n");
});

test("the full prompt shortens a long list of values to three and the count", () => {
  expect(render("full")).toContain(
    'aspect (string): Field; * is all of them. One of "*", "AI", "AR", … (41 values). Default "*".',
  );
  expect(render("full")).toContain(
    'section (string or null): Section; null is title and abstract. One of null, "abstract",',
  );
  expect(render("full")).toContain("paper_id (string or null): Id; goes before ref. Default null.");
});

describe("the state before an episode", () => {
  test("none", () => {
    expect(renderSetupContext([])).toBe("There is no paper list and no paper was used yet, so null refers to nothing.");
  });

  test("a list, then a paper that was used", () => {
    expect(renderSetupContext([search, { tool: "download_arxiv_pdf", args: { ref: 2 } }])).toBe(
      "The list holds the newest AI papers of the last 7 days, at most 5.\n" +
        "Downloaded paper 2: the paper used last, which null refers to.\n" +
        "This state exists already: do not repeat it.",
    );
  });

  test("arguments that were left out are told by their defaults", () => {
    expect(renderSetupContext([{ tool: "get_recently_submitted_cs_papers", args: {} }])).toContain(
      "newest * papers of the last 7 days, at most 50",
    );
    expect(renderSetupContext([{ tool: "download_arxiv_pdf", args: {} }])).toContain("Downloaded paper 1:");
  });

  test("a keyword search, a translation, a check", () => {
    const text = renderSetupContext([
      { tool: "search_arxiv_papers", args: { query: "all:soup", max_results: 3 } },
      { tool: "translate_arxiv_pdf", args: { ref: "Soup" } },
      { tool: "get_paper_cache_status", args: { paper_id: "1" } },
    ]);
    expect(text).toContain('results of the search "all:soup", at most 3.');
    expect(text).toContain('Translated paper "Soup":');
    expect(text).toContain('Checked paper "1":');
  });

  test("a paper without a list", () => {
    const text = renderSetupContext([{ tool: "get_paper_cache_status", args: { paper_id: "2608.14528v1" } }]);
    expect(text).toContain("There is no paper list.");
  });
});

test("the minimal prompt is the task and the state alone", () => {
  const text = renderPrompt({
    tools: [],
    task: "Do it.",
    context: renderSetupContext([]),
    prompt: "minimal",
    style: "chat",
  });
  expect(text).toBe(`Task: Do it.\n${renderSetupContext([])}`);
});
