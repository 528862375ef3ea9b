import { z } from "zod";
import { normalizeQuery } from "../snapshot.ts";
import { ASPECTS } from "../tools/get-recently-submitted-cs-papers.ts";
import { keywordQuery } from "./query.ts";

/** What arXiv asks of programs: a request every three seconds (https://info.arxiv.org/help/api/tou.html). */
export const COURTESY_S = 3;

const aspect = z.preprocess(
  (value) => (typeof value === "string" ? value.trim().toUpperCase().replace(/^CS\./, "") : value),
  z.enum(ASPECTS, { error: `expected fields of computer science: ${ASPECTS.join(" ")}` }),
);

/** What a user may set of a build; arxiv.md 1.6. */
export const buildSettings = z
  .object({
    base_url: z
      .url({ protocol: /^https?$/, error: "expected an address, as https://export.arxiv.org" })
      .default("https://export.arxiv.org")
      .transform((url) => url.replace(/\/+$/, ""))
      .describe("Where the API (/api/query) and the PDFs (/pdf) are."),
    aspects: z
      .array(aspect)
      .min(1)
      .refine((list) => new Set(list).size === list.length, "names a field twice")
      .default(["*", "AI", "LG", "CL", "CV", "RO", "CR"])
      .describe("Fields whose newest papers are recorded (default: *,AI,LG,CL,CV,RO,CR)."),
    keyword_queries: z
      .array(z.string().refine((query) => keywordQuery(query) !== null, "has no word to search for"))
      .refine((list) => new Set(list.map(normalizeQuery)).size === list.length, "has a search twice")
      .default(["all:agentic reinforcement learning", "all:large language model", "all:retrieval augmented generation"])
      .describe("Searches that are recorded."),
    max_results: z.int().min(1).max(2000).default(50).describe("Papers of a pool."),
    days: z.int().min(1).max(3650).default(30).describe("Window of days; a part of what a recorded search answers to."),
    page_size: z.int().min(1).max(2000).default(100).describe("Papers a request."),
    pin_references: z
      .boolean()
      .default(true)
      .describe("Put the papers that the tasks name first, and hold the snapshot to all that the tasks need."),
    allow_partial: z
      .boolean()
      .default(false)
      .describe("Write the snapshot also where something could not be had or the tasks miss something."),
    content_workers: z.int().min(1).max(32).default(8).describe("PDF downloads under way at once."),
    skip_prefetch: z.boolean().default(false).describe("Download each PDF when its paper's turn comes."),
    prefetch_budget_s: z
      .number()
      .nonnegative()
      .default(900)
      .describe("Time for downloads ahead; the rest comes in turn."),
    content_max_ref: z
      .int()
      .nonnegative()
      .default(0)
      .describe("Papers of each pool that get texts and figures; 0: all."),
    interval_s: z
      .number()
      .nonnegative()
      .default(COURTESY_S)
      .describe(`Between the starts of two requests; at arxiv.org not under ${COURTESY_S}.`),
    timeout_s: z
      .number()
      .positive()
      .max(3600)
      .default(45)
      .describe("Longest silence of the server (also ARXIV_TIMEOUT_S)."),
    retries: z.int().min(0).max(20).default(5).describe("Further tries after a fault."),
    max_pdf_mb: z.number().positive().default(50).describe("Larger PDFs are left out."),
  })
  .superRefine(({ base_url, interval_s }, context) => {
    if (interval_s < COURTESY_S && /(?:^|\.)arxiv\.org$/i.test(new URL(base_url).hostname))
      context.addIssue({ code: "custom", path: ["interval_s"], message: `arXiv asks for at least ${COURTESY_S} s` });
  });

export type BuildSettings = z.output<typeof buildSettings>;
