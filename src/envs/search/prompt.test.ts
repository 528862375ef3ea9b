import { describe, expect, test } from "vitest";
import { parseClues } from "./clues.ts";
import { taskOf } from "./fixtures/rounds.ts";
import { searchOptions } from "./options.ts";
import { namesIn, nextGoal, updateContext } from "./planner.ts";
import { renderPrompt, renderReply } from "./prompt.ts";
import { markdownTable, newest } from "./tables.ts";

const options = searchOptions.parse({});
const entity = (name: string) => ({ name, type: "town", facts: ["a | b", "two\nlines"] });

describe("tables", () => {
  test("show the newest rows, and say how many were left out", () => {
    expect(
      markdownTable(
        ["a", "b"],
        [
          ["1", "x"],
          ["2", "y"],
          ["3", "z"],
        ],
        2,
      ),
    ).toBe("(1 older row left out)\n| a | b |\n| --- | --- |\n| 2 | y |\n| 3 | z |");
    expect(markdownTable(["a"], [], 2)).toBe("None yet.");
    expect(newest(["1", "2", "3"], 2, ", ")).toBe("(1 left out), 2, 3");
  });

  test("keep a cell in its cell", () => {
    expect(markdownTable(["a"], [["one | two\nthree"]], 9)).toContain("| one \\| two three |");
  });
});

describe("the prompt", () => {
  const task = taskOf({
    question: "Which {{sub_goal}} $& is it?",
    entities: Array.from({ length: 25 }, (_, number) => entity(`Town ${number}`)),
    targets: [{ name: "the river of Town 3", status: "open" }],
    documents: [{ docid: "d7", title: "Town 3", label: "IMPORTANT" }],
    context: [{ source: "d7", text: "It lies on a river." }],
    seen_docids: ["d7", "d8"],
  });

  test("holds all of the state, table by table", () => {
    const text = renderPrompt(task, options);
    for (const part of [
      "Which {{sub_goal}} $& is it?",
      "Find the river.",
      "(5 older rows left out)",
      "| Town 24 | town | a \\| b; two lines |",
      "| the river of Town 3 | open |",
      "| d7 | Town 3 | IMPORTANT |",
      "| d7 | It lies on a river. |",
      "d7, d8",
      "Then\n2 to 5 clues.",
    ])
      expect(text).toContain(part);
    expect(text).not.toContain("| Town 4 |");
  });

  test("compact is a few lines", () => {
    const text = renderPrompt(task, { ...options, prompt: "compact" });
    expect(text).toContain("Goal: Find the river.");
    expect(text).toContain("(17 left out); Town 17;");
    expect(text.length).toBeLessThan(500);
  });

  test("a reply as the prompt asks for it is read as it was meant", () => {
    const clues = ["a < b & c", "<clue>", "plain one"];
    expect(parseClues(renderReply("x </analysis> y", clues))).toEqual({ clues, format: "xml" });
  });
});

describe("the rules between rounds", () => {
  const documents: Record<string, { docid: string; title: string; text: string }> = {
    d1: {
      docid: "d1",
      title: "The Amber Clock",
      text: "It is the work of Kara Venn. It is kept at the House of Tolen.",
    },
    d2: { docid: "d2", title: "Markets of Velmark", text: "They open before dawn." },
  };
  const found = (docid: string, label: "IMPORTANT" | "LOCAL" | "DISCARD", seen = false) => ({
    docid,
    title: documents[docid]?.title ?? docid,
    label,
    seen,
    clues: [],
  });
  const before = taskOf({
    targets: [
      { name: "the composer", status: "open" },
      { name: "the birthplace", status: "open" },
    ],
    seen_docids: ["d9"],
  });
  const lookUp = (docid: string) => documents[docid] ?? null;

  test("what is new and of use is written down, and the next open target is the goal", () => {
    const after = updateContext(
      before,
      [found("d1", "IMPORTANT"), found("d2", "LOCAL"), found("d3", "DISCARD"), found("d9", "IMPORTANT", true)],
      lookUp,
    );
    expect(after.entities.map(({ name }) => name)).toEqual(["The Amber Clock", "Kara Venn", "House of Tolen"]);
    expect(after.targets.map(({ status }) => status)).toEqual(["found in The Amber Clock", "open"]);
    expect(after.documents.map(({ docid }) => docid)).toEqual(["d1", "d2"]);
    expect(after.context).toEqual([{ source: "d1", text: documents.d1!.text }]);
    expect(after.seen_docids).toEqual(["d9", "d1", "d2", "d3"]);
    expect(after.sub_goal).toBe("Find the birthplace.");
    expect(updateContext(after, [found("d1", "IMPORTANT", true)], lookUp)).toEqual(after);
  });

  test("nothing open: the planner would answer", () => {
    expect(nextGoal(before, { ...before, targets: [{ name: "x", status: "found" }] })).toBe(null);
    expect(nextGoal(before, { ...before, targets: [] })).toBe("Find documents for: Which river is it?");
  });

  test("names are capitals in a row", () => {
    expect(namesIn("In 1850 Kara Venn met the Lord of Tolen. The River Sorrel was low. It Rains.")).toEqual([
      "Kara Venn",
      "Lord of Tolen",
      "River Sorrel",
      "It Rains",
    ]);
    const begin = performance.now();
    for (const text of ["ACGT", "A'", "Aa ", "of "]) namesIn(`Aa ${text.repeat(40_000)}`);
    expect(performance.now() - begin).toBeLessThan(2000);
  });
});
