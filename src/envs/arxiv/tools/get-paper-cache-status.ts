import { z } from "zod";
import { requireKnown, requirePaperOrLast } from "../refs.ts";
import { isDownloaded, withActive } from "../state.ts";
import { arxivTool, input, REF_DESCRIPTION, ref } from "./define.ts";

export const getPaperCacheStatus = arxivTool({
  name: "get_paper_cache_status",
  description: "Tell whether a paper's PDF and translation are there.",
  input: input({
    ref: ref.default(null).describe(REF_DESCRIPTION),
    paper_id: z.string().nullable().default(null).describe("Id; goes before ref."),
  }),
  writes: true, // it becomes the paper used last
  run(state, { ref, paper_id }) {
    const paper = paper_id === null ? requirePaperOrLast(state, ref) : requireKnown(state, paper_id);
    const translate = Object.hasOwn(state.translated, paper.id) ? state.translated[paper.id]! : null;
    return {
      state: withActive(state, paper.id),
      output: {
        paper_id: paper.id,
        pdf: Object.hasOwn(state.pdf, paper.id) ? state.pdf[paper.id]! : null,
        translate,
        pdf_ready: isDownloaded(state, paper.id),
        translated_ready: translate?.status === "READY",
      },
    };
  },
});
