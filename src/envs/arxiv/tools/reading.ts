import { ToolError } from "../../../core/errors.ts";
import { requirePaper } from "../refs.ts";
import { isDownloaded } from "../state.ts";
import type { ArxivState, Paper, Ref } from "../types.ts";

/**
 * The paper that a reading tool works on.
 * @throws ToolError where ref resolves to nothing, or the PDF is not there yet.
 */
export function requireDownloaded(state: ArxivState, ref: Ref): Paper {
  const paper = requirePaper(state, ref);
  if (!isDownloaded(state, paper.id)) {
    throw new ToolError(`${paper.id} is not downloaded yet: call download_arxiv_pdf first.`);
  }
  return paper;
}
