import type { Tool } from "../../../core/tool.ts";
import type { ArxivState } from "../types.ts";
import { analyzeFigure } from "./analyze-figure.ts";
import { downloadArxivPdf } from "./download-arxiv-pdf.ts";
import { extractPaperFigures } from "./extract-paper-figures.ts";
import { getPaperCacheStatus } from "./get-paper-cache-status.ts";
import { getPaperContent } from "./get-paper-content.ts";
import { getRecentlySubmittedCsPapers } from "./get-recently-submitted-cs-papers.ts";
import { searchArxivPapers } from "./search-arxiv-papers.ts";
import { summarizePaper } from "./summarize-paper.ts";
import { translateArxivPdf } from "./translate-arxiv-pdf.ts";

export const TOOL_NAMES = [
  "get_recently_submitted_cs_papers",
  "search_arxiv_papers",
  "download_arxiv_pdf",
  "translate_arxiv_pdf",
  "get_paper_cache_status",
  "get_paper_content",
  "summarize_paper",
  "extract_paper_figures",
  "analyze_figure",
] as const;

export type ToolName = (typeof TOOL_NAMES)[number];

export const arxivTools: readonly Tool<ArxivState>[] = [
  getRecentlySubmittedCsPapers,
  searchArxivPapers,
  downloadArxivPdf,
  translateArxivPdf,
  getPaperCacheStatus,
  getPaperContent,
  summarizePaper,
  extractPaperFigures,
  analyzeFigure,
];

/**
 * Tasks and prompt assume all nine. A policy that is trained with one missing from its prompt just invents names, and
 * nothing else shows it.
 * @throws Error naming those that are missing.
 */
export function checkTools(tools: readonly { name: string }[]): void {
  const missing = TOOL_NAMES.filter((name) => !tools.some((tool) => tool.name === name));
  if (missing.length > 0) throw new Error(`arxiv: tools not registered: ${missing.join(", ")}`);
}

checkTools(arxivTools);
