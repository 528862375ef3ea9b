import { z } from "zod";
import { UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";
import {
  FIGURE_QUESTIONS,
  normalizeQuery,
  SECTIONS,
  type Snapshot,
  SUMMARY_BUDGETS,
  SUMMARY_STYLES,
  sha256,
  snapshotHash,
  snapshotSchema,
} from "./snapshot.ts";

// Reads a snapshot in the layout of the reference implementation, `{ tool: { key: { args, result } } }`, into ours.
// What its entries say twice is kept once; what no tool of ours asks for is left out.

const entries = <Result extends z.ZodType>(result: Result) =>
  z.record(z.string(), z.looseObject({ args: z.record(z.string(), z.unknown()), result })).default({});

const paper = z.looseObject({
  id: z.string(),
  title: z.string(),
  authors: z.array(z.string()).default([]),
  summary: z.string().default(""),
  published: z.string(),
  updated: z.string().nullish(),
  pdf_url: z.string().nullish(),
  primary_category: z.string().nullish(),
  categories: z.array(z.string()).default([]),
  comment: z.string().nullish(),
  links: z.array(z.unknown()).default([]),
});

const figure = z.looseObject({
  figure_no: z.int(),
  page: z.int().default(1),
  path: z.string().nullish(),
  width: z.int().positive().default(1),
  height: z.int().positive().default(1),
  caption: z.string().nullish(),
});

const layout = z.looseObject({
  get_recently_submitted_cs_papers: entries(z.array(paper)),
  search_arxiv_papers: entries(z.array(paper)),
  get_paper_content: entries(z.looseObject({ paper_id: z.string(), content: z.string() })),
  summarize_paper: entries(
    z.looseObject({
      paper_id: z.string(),
      summary: z.string(),
      sections_used: z.array(z.string()).default([]),
      backend: z.string().default("unknown"),
    }),
  ),
  extract_paper_figures: entries(z.looseObject({ paper_id: z.string(), figures: z.array(figure).default([]) })),
  analyze_figure: entries(
    z.looseObject({ paper_id: z.string(), answer: z.string(), backend: z.string().default("unknown") }),
  ),
});

/**
 * Pools, papers, texts, summaries, figures and answers of a reference snapshot. Where a field was recorded twice, the
 * last pool counts, as in the reference. It is not checked against the constraints of the tasks: `checkSnapshot` does that.
 * @param created_at `YYYY-MM-DD HH:MM:SS`; also the session clock of episodes. null: the newest date of its papers, as
 *   the layout does not keep when it was recorded.
 * @throws UserError naming `source` and what does not fit.
 */
export function importReferenceSnapshot(value: unknown, source: string, created_at: string | null): Snapshot {
  const parsed = layout.safeParse(value);
  if (!parsed.success) throw new UserError(`${source}: not a reference snapshot: ${describeIssues(parsed.error)}`);
  const recorded = parsed.data;
  const snapshot: Snapshot = {
    version: 1,
    created_at: created_at ?? "",
    recorder: `imported from ${source}`,
    papers: {},
    pools: { recent: {}, keyword: {} },
    content: {},
    summary: {},
    figures: {},
    figure_qa: {},
    sha256: "",
  };

  for (const { args, result } of Object.values(recorded.get_recently_submitted_cs_papers)) {
    const aspect = String(args.aspect ?? "*").replace(/^cs\./i, "");
    snapshot.pools.recent[aspect] = addPapers(snapshot, result);
  }
  for (const { args, result } of Object.values(recorded.search_arxiv_papers)) {
    const query = typeof args.query === "string" ? args.query : null;
    if (query === null) throw new UserError(`${source}: a keyword search without a query.`);
    const days = typeof args.days === "number" ? args.days : null;
    const hash = sha256(normalizeQuery(query));
    const other = snapshot.pools.keyword[hash];
    // One query may be recorded for several windows.
    const key = other && other.days !== days ? `${hash}-${days ?? "any"}` : hash;
    snapshot.pools.keyword[key] = { query, days, ids: addPapers(snapshot, result) };
  }
  for (const { args, result } of Object.values(recorded.get_paper_content)) {
    const section =
      args.section === null || args.section === undefined ? "default" : String(args.section).toLowerCase();
    const content = snapshot.content[result.paper_id] ?? { default: "" };
    if (section === "default" || isOneOf(SECTIONS, section)) content[section] = result.content;
    snapshot.content[result.paper_id] = content;
  }
  for (const { args, result } of Object.values(recorded.summarize_paper)) {
    const style = String(args.style ?? "tldr").toLowerCase();
    const budget = SUMMARY_BUDGETS.find((words) => words === Number(args.max_words ?? 120));
    if (!isOneOf(SUMMARY_STYLES, style) || !budget) continue;
    const { paper_id, summary, sections_used, backend } = result;
    const styles = snapshot.summary[paper_id] ?? {};
    styles[style] = { ...styles[style], [`${budget}`]: { summary, sections_used, backend } };
    snapshot.summary[paper_id] = styles;
  }
  for (const { result } of Object.values(recorded.extract_paper_figures)) {
    const { paper_id } = result;
    const figures = result.figures.map(({ figure_no, page, path, width, height, caption }) => ({
      figure_no,
      page,
      path: path ?? `figures/${paper_id}/figure-${figure_no}.png`,
      width,
      height,
      caption: caption ?? "",
    }));
    snapshot.figures[paper_id] = { count: figures.length, figures };
    snapshot.figure_qa[paper_id] ??= {};
  }
  for (const { args, result } of Object.values(recorded.analyze_figure)) {
    const question = String(args.question ?? "describe");
    if (!isOneOf(FIGURE_QUESTIONS, question)) continue;
    const { paper_id, answer, backend } = result;
    const figure_no = String(args.figure_no ?? 1);
    const answers = snapshot.figure_qa[paper_id] ?? {};
    answers[figure_no] = { ...answers[figure_no], [question]: { answer, backend } };
    snapshot.figure_qa[paper_id] = answers;
  }

  if (created_at === null) {
    const dates = Object.values(snapshot.papers).flatMap(({ published, updated }) => [published, updated]);
    if (dates.length === 0) throw new UserError(`${source}: there is no paper in it.`);
    snapshot.created_at = dates.sort().at(-1)!;
  }
  const whole = snapshotSchema.safeParse({ ...snapshot, sha256: snapshotHash(snapshot) });
  if (!whole.success) throw new UserError(`${source}: ${describeIssues(whole.error)}`);
  return whole.data;
}

function addPapers(snapshot: Snapshot, papers: readonly z.output<typeof paper>[]): string[] {
  for (const {
    id,
    title,
    authors,
    summary,
    published,
    updated,
    pdf_url,
    categories,
    comment,
    links,
    ...rest
  } of papers) {
    snapshot.papers[id] = {
      id,
      title,
      authors,
      summary: summary.length > 203 ? `${summary.slice(0, 200)}...` : summary,
      published,
      updated: updated ?? published,
      pdf_url: pdf_url ?? `https://arxiv.org/pdf/${id}`,
      primary_category: rest.primary_category ?? categories[0] ?? "cs",
      categories,
      comment: comment ?? null,
      links: links.map((link) => (typeof link === "string" ? link : JSON.stringify(link))),
    };
  }
  return papers.map(({ id }) => id);
}

function isOneOf<Value extends string>(values: readonly Value[], value: string): value is Value {
  return (values as readonly string[]).includes(value);
}
