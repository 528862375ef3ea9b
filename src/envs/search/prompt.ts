import { readFileSync } from "node:fs";
import { UserError } from "../../core/errors.ts";
import type { SearchOptions } from "./options.ts";
import { projectPath } from "./project-files.ts";
import { markdownTable, newest } from "./tables.ts";
import type { JudgedDocument, RoundContext } from "./types.ts";

// What the policy reads: the prompt of a round, and what a round came to.

type PromptOptions = Pick<SearchOptions, "prompt" | "table_rows" | "max_clues" | "top_k">;

/** Of a table's row limit: ids are short. */
const SEEN_PER_ROW = 5;
const COMPACT_ITEMS = 8;

const templates = new Map<string, string>();

function template(name: string): string {
  const known = templates.get(name);
  if (known !== undefined) return known;
  const text = readFileSync(projectPath(`data/search/${name}.md`), "utf8").trimEnd();
  templates.set(name, text);
  return text;
}

/** The user message that opens a round. */
export function renderPrompt(context: RoundContext, options: PromptOptions): string {
  const { table_rows, max_clues, top_k } = options;
  const { question, sub_goal, entities, targets, documents, context: notes, seen_docids } = context;
  const texts: Record<string, string> = { question, sub_goal, clue_count: clueCount(max_clues), top_k: String(top_k) };
  if (options.prompt === "compact") {
    const limit = Math.min(table_rows, COMPACT_ITEMS);
    const names = entities.map(({ name }) => name);
    const titles = documents.map(({ title, docid }) => title || docid);
    return fill(template("prompt-compact"), {
      ...texts,
      names: newest(names, limit, "; "),
      titles: newest(titles, limit, "; "),
    });
  }
  return fill(template("prompt"), {
    ...texts,
    entities: markdownTable(
      ["name", "type", "facts"],
      entities.map(({ name, type, facts }) => [name, type, facts.join("; ")]),
      table_rows,
    ),
    targets: markdownTable(
      ["target", "status"],
      targets.map(({ name, status }) => [name, status]),
      table_rows,
    ),
    documents: markdownTable(
      ["docid", "title", "label"],
      documents.map(({ docid, title, label }) => [docid, title, label]),
      table_rows,
    ),
    context: markdownTable(
      ["source", "text"],
      notes.map(({ source, text }) => [source, text]),
      table_rows,
    ),
    seen: newest(seen_docids, table_rows * SEEN_PER_ROW, ", "),
  });
}

/** Values are put in as they are: a question may hold braces. */
function fill(text: string, values: Record<string, string>): string {
  return text.replace(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new UserError(`the prompt's template asks for '${name}', which there is not`);
    return value;
  });
}

export function renderDocuments(documents: readonly JudgedDocument[]): string {
  if (documents.length === 0)
    return "The search found no document. Write clues with words that a document about it would hold.";
  const lines = documents.map(
    ({ docid, title, label, seen }) => `${docid} | ${title} | ${label}${seen ? " (seen before)" : ""}`,
  );
  return ["docid | title | label", ...lines].join("\n");
}

/** What a reply without a clue is answered. */
export function renderNoClues(max_clues: number): string {
  return `There is no clue in your reply. Write ${clueCount(max_clues)}, each as <clue>…</clue>, between <clues> and </clues>.`;
}

function clueCount(max_clues: number): string {
  if (max_clues === 1) return "1 clue";
  return max_clues === 2 ? "2 clues" : `2 to ${max_clues} clues`;
}

/** A reply as the prompt asks for it. */
export function renderReply(analysis: string, clues: readonly string[]): string {
  const lines = clues.map((clue) => `<clue>${escapeXml(clue)}</clue>`);
  return [`<analysis>${escapeXml(analysis)}</analysis>`, "<clues>", ...lines, "</clues>"].join("\n");
}

function escapeXml(text: string): string {
  return text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]!);
}
