import { z } from "zod";
import { recordedSummary } from "../replay.ts";
import { SUMMARY_BUDGETS, SUMMARY_STYLES, type SummaryBudget } from "../snapshot.ts";
import { counted, withActive } from "../state.ts";
import { arxivTool, input, oneOf, REF_DESCRIPTION, ref, whole, word } from "./define.ts";
import { requireDownloaded } from "./reading.ts";

export const summarizePaper = arxivTool({
  name: "summarize_paper",
  description: "Summarize a downloaded paper.",
  input: input({
    ref: ref.default(1).describe(REF_DESCRIPTION),
    style: word(z.enum(SUMMARY_STYLES, { error: oneOf(SUMMARY_STYLES) }).default("tldr")).describe(
      "How it is written.",
    ),
    max_words: whole(z.int().positive().default(120)).describe("Longest length in words: 60, 120 or 250."),
  }),
  writes: true, // it becomes the paper used last
  run(state, { ref, style, max_words }) {
    const paper = requireDownloaded(state, ref);
    const budget = wordBudget(max_words);
    const { summary, sections_used, backend } = recordedSummary(state.snapshot, paper.id, style, budget);
    return {
      state: counted(withActive(state, paper.id), "hit"),
      output: { paper_id: paper.id, title: paper.title, style, max_words: budget, summary, sections_used, backend },
    };
  },
});

/** Summaries are recorded for three budgets: the next one up, or the largest. */
export function wordBudget(max_words: number): SummaryBudget {
  return SUMMARY_BUDGETS.find((budget) => max_words <= budget) ?? 250;
}
