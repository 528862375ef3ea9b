import { z } from "zod";
import { keywordPapers } from "../replay.ts";
import { counted, withPapers } from "../state.ts";
import { arxivTool, input, whole } from "./define.ts";

export const searchArxivPapers = arxivTool({
  name: "search_arxiv_papers",
  description: "Search all of arXiv by words, best match first; what it finds becomes the current list.",
  input: input({
    query: z
      .string()
      .refine((query) => query.replace(/^\s*(?:all|ti|au):/i, "").trim() !== "", "must not be empty")
      .describe("Words, with a prefix all:, ti: or au: for all fields, title or author."),
    max_results: whole(z.int().min(1).max(100).default(10)).describe("How many papers at most."),
    days: whole(z.int().min(1).nullable().default(null)).describe("Window in days; null is any time."),
  }),
  writes: true,
  run(state, { query, max_results, days }) {
    const papers = keywordPapers(state.snapshot, query, days, max_results);
    return { state: counted(withPapers(state, papers), "hit"), output: papers };
  },
});
