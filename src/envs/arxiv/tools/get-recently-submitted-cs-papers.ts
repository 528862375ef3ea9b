import { z } from "zod";
import { recentPapers } from "../replay.ts";
import { counted, withPapers } from "../state.ts";
import { arxivTool, input, oneOf, whole } from "./define.ts";

export const ASPECTS = (
  "* AI AR CC CE CG CL CR CV CY DB DC DL DM DS ET FL GL GR GT HC IR IT LG LO MA MM MS NA NE NI OH OS PF PL RO SC SD " +
  "SE SI SY"
).split(" ");

export const getRecentlySubmittedCsPapers = arxivTool({
  name: "get_recently_submitted_cs_papers",
  description: "List the newest computer science papers of a field; they become the current list.",
  input: input({
    max_results: whole(z.int().min(1).max(100).default(50)).describe("How many papers at most."),
    aspect: z
      .preprocess(
        (value) => (typeof value === "string" ? value.trim().toUpperCase().replace(/^CS\./, "") : value),
        z.enum(ASPECTS, { error: oneOf(ASPECTS) }).default("*"),
      )
      .describe("Field; * is all of them."),
    days: whole(z.int().min(1).max(30).default(7)).describe("Window in days."),
    output_path: z.string().nullable().default(null).describe("File to save the list to."),
    save_to_file: z.boolean().default(true).describe("Whether to save the list to a file."),
  }),
  writes: true,
  // Replay saves nothing, so the last two arguments have no effect on the result.
  run(state, { aspect, max_results }) {
    const papers = recentPapers(state.snapshot, aspect, max_results);
    return { state: counted(withPapers(state, papers), "hit"), output: papers };
  },
});
