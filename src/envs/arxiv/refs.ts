import { ToolError } from "../../core/errors.ts";
import { currentPapers, lastActive } from "./state.ts";
import type { ArxivState, Paper, Ref } from "./types.ts";

/** A position as text: "3", "第3篇". */
const ORDINAL = /^(?:第\s*)?(\d+)\s*(?:篇)?$/;

/**
 * The paper that `ref` names in the current list, or null. In this order: null is the paper used last, if it is listed;
 * an integer counts from 1; a text is a position, then an exact id (its version included), then a part of a title in
 * any case, where the first in the list wins.
 */
export function resolvePaper(state: ArxivState, ref: Ref): Paper | null {
  const papers = currentPapers(state);
  if (papers.length === 0) return null;
  if (ref === null) {
    const active = lastActive(state);
    return papers.find((paper) => paper.id === active) ?? null;
  }
  if (typeof ref === "number") return at(papers, ref);
  const text = ref.trim();
  const ordinal = ORDINAL.exec(text);
  if (ordinal) return at(papers, Number(ordinal[1]));
  if (text === "") return null; // every title contains the empty text
  const title = text.toLowerCase();
  return (
    papers.find((paper) => paper.id === text) ??
    papers.find((paper) => paper.title.toLowerCase().includes(title)) ??
    null
  );
}

function at(papers: readonly Paper[], position: number): Paper | null {
  return (Number.isInteger(position) && position >= 1 && papers[position - 1]) || null;
}

/** @throws ToolError that says what the list holds. */
export function requirePaper(state: ArxivState, ref: Ref): Paper {
  const paper = resolvePaper(state, ref);
  if (!paper) throw new ToolError(unresolved(state, ref));
  return paper;
}

/**
 * As `requirePaper`, but null is the paper used last even where the list no longer has it.
 * @throws ToolError where nothing was used yet.
 */
export function requirePaperOrLast(state: ArxivState, ref: Ref): Paper {
  if (ref !== null) return requirePaper(state, ref);
  const active = lastActive(state);
  if (active === null) throw new ToolError("ref null is the paper used last, and no paper was used yet.");
  return requireKnown(state, active);
}

/** @throws ToolError for an id that no paper has. */
export function requireKnown(state: ArxivState, paper_id: string): Paper {
  const { papers } = state.snapshot;
  if (!Object.hasOwn(papers, paper_id)) throw new ToolError(`There is no paper with the id ${quoted(paper_id)}.`);
  return papers[paper_id]!;
}

function unresolved(state: ArxivState, ref: Ref): string {
  const count = currentPapers(state).length;
  if (count === 0) return "There is no paper list, so ref resolves to nothing. Search first.";
  if (ref === null) return "ref null is the paper used last, and the list has no such paper.";
  const range = `The list holds ${count} ${count === 1 ? "paper" : "papers"}`;
  if (typeof ref === "number") return `${range}: position ${ref} is out of range, 1 to ${count}.`;
  return `${range}, and none has the position, id or title words ${quoted(ref)}.`;
}

/** A model's text in an error message, kept short. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
