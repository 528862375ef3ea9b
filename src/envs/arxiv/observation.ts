import type { ToolError } from "../../core/errors.ts";
import type { Message } from "../../core/message.ts";
import { spacedJson } from "./protocol.ts";
import type { Paper } from "./types.ts";

// The one rendering of results, the same in SFT data, training and benchmark. Short, since a policy pays for every
// token of it; texts are cut at a word inside their field, so that the JSON around them always parses.

/** Papers of a search that are shown; of the rest only the number is. */
export const LISTED = 10;

/** Longest text of a paper or a summary, and longest caption, in characters. */
const TEXT_LENGTH = 600;
const CAPTION_LENGTH = 80;

/** What a tool gave back, as the policy reads it, without the word "Observation:". */
export function renderObservation(tool: string, output: unknown): string {
  if (Array.isArray(output)) return paperList(output as Paper[]);
  const fields = SHOWN[tool];
  const result = output as Record<string, unknown>;
  return spacedJson(fields ? fields(result) : result);
}

export function renderToolError(error: ToolError): string {
  return `Error: ${error.message}`;
}

/** The turn that follows a reply. */
export function observationMessage(text: string, is_error: boolean): Message {
  return { role: "user", content: `Observation: ${text}`, ...(is_error ? { is_error } : {}) };
}

function paperList(papers: readonly Paper[]): string {
  if (papers.length === 0) return "No papers found.";
  const rest = papers.length - LISTED;
  return [
    `Found ${papers.length} ${papers.length === 1 ? "paper" : "papers"}:`,
    ...papers.slice(0, LISTED).map((paper, index) => `${index + 1}. ${paper.id} ${paper.title}`),
    ...(rest > 0 ? [`… and ${rest} more.`] : []),
  ].join("\n");
}

type Result = Record<string, unknown>;

/** The fields of a result that a policy has a use for, in the order in which it reads them. */
const SHOWN: Record<string, (result: Result) => Result> = {
  download_arxiv_pdf: ({ paper_id, status, existed }) => ({ paper_id, status, existed }),
  translate_arxiv_pdf: ({ paper_id, status, task_id }) => ({ paper_id, status, task_id }),
  get_paper_cache_status: ({ paper_id, pdf_ready, translated_ready }) => ({ paper_id, pdf_ready, translated_ready }),
  get_paper_content: ({ paper_id, section, content }) => ({ paper_id, section, content: cut(content, TEXT_LENGTH) }),
  summarize_paper: ({ paper_id, style, max_words, summary }) => ({
    paper_id,
    style,
    max_words,
    summary: cut(summary, TEXT_LENGTH),
  }),
  extract_paper_figures: ({ paper_id, count, figures }) => ({
    paper_id,
    count,
    figures: (figures as Result[]).map(({ figure_no, caption }) => ({
      figure_no,
      caption: cut(caption, CAPTION_LENGTH),
    })),
  }),
  // The answer comes first: whatever else is lost, it must be read.
  analyze_figure: ({ answer, paper_id, figure_no, question }) => ({
    answer: cut(answer, TEXT_LENGTH),
    paper_id,
    figure_no,
    question,
  }),
};

/** A text of at most `length` characters, cut between words. */
function cut(text: unknown, length: number): string {
  const whole = String(text);
  if (whole.length <= length) return whole;
  const head = whole.slice(0, length);
  const blank = head.lastIndexOf(" ");
  // Without a blank to cut at, half of a surrogate pair may be left over.
  return `${blank > length / 2 ? head.slice(0, blank) : head.replace(/[\uD800-\uDBFF]$/, "")} …`;
}
