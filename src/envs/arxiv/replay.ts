import { createHash } from "node:crypto";
import { ToolError } from "../../core/errors.ts";
import {
  type FigureQuestion,
  normalizeQuery,
  type Section,
  type SummaryBudget,
  type SummaryStyle,
} from "./snapshot.ts";
import type { Paper, Snapshot } from "./types.ts";

// How recorded results stand in for the live service. Arguments are checked before anything is looked up here, so a
// bad argument and a missing recording are different errors.

/** Arguments that don't fit a tool's schema. */
export class ArgumentError extends ToolError {
  override name = "ArgumentError";
}

/** Good arguments whose answer nobody recorded. */
export class SnapshotMiss extends ToolError {
  override name = "SnapshotMiss";
}

/** A search that was not recorded: what it would list is made up, so it fails and nothing is kept of it. */
export class SearchFallback extends ToolError {
  override name = "SearchFallback";
  readonly papers: readonly FallbackPaper[];

  constructor(message: string, papers: readonly FallbackPaper[]) {
    super(message);
    this.papers = papers;
  }
}

/** The first paper of a made-up list is marked as such. */
export type FallbackPaper = Paper & { _mock_env?: { offline_fallback: true; message: string } };

/**
 * The newest papers of a field: its pool, else that of all fields, else any. The window of days is ignored: whatever it
 * is, the same first papers come, because tasks refer to their positions.
 * @param aspect Without "cs."; "*" is all fields.
 */
export function recentPapers(snapshot: Snapshot, aspect: string, max_results: number): Paper[] {
  const { recent } = snapshot.pools;
  const pool = own(recent, aspect) ?? own(recent, "*") ?? Object.values(recent)[0];
  if (!pool || pool.length === 0) throw new SnapshotMiss(`No recent papers of ${aspect} are recorded.`);
  const count = Math.min(Math.max(1, max_results), pool.length);
  return pool.slice(0, count).map((id) => snapshot.papers[id]!);
}

/**
 * What a recorded query found, in order.
 * @throws SearchFallback for a query (with its window of days) that was not recorded.
 */
export function keywordPapers(snapshot: Snapshot, query: string, days: number | null, max_results: number): Paper[] {
  const wanted = searchText(query);
  const limit = Math.max(1, max_results);
  const pool = Object.values(snapshot.pools.keyword).find(
    (candidate) => candidate.days === days && searchText(candidate.query) === wanted,
  );
  if (pool) return pool.ids.slice(0, limit).map((id) => snapshot.papers[id]!);
  const recorded = Object.values(snapshot.pools.keyword).map((candidate) => candidate.query);
  const sameQuery = Object.values(snapshot.pools.keyword).find((candidate) => searchText(candidate.query) === wanted);
  const message = sameQuery
    ? `This search is recorded only for ${sameQuery.days === null ? "no window of days" : `the last ${sameQuery.days} days`}.`
    : `This search is not recorded. Recorded: ${recorded.map((text) => JSON.stringify(text)).join(", ") || "none"}.`;
  throw new SearchFallback(message, fallbackPapers(snapshot, query, limit, message));
}

/** A query without a field prefix searches all fields. */
function searchText(query: string): string {
  const text = normalizeQuery(query);
  return /^(?:all|ti|au):/.test(text) ? text.replace(/^(\w+):\s+/, "$1:") : `all:${text}`;
}

/** The recorded papers of all queries, turned by the query's hash: arbitrary, but always the same for a query. */
function fallbackPapers(snapshot: Snapshot, query: string, limit: number, message: string): FallbackPaper[] {
  const { keyword } = snapshot.pools;
  const keys = Object.keys(keyword).sort();
  const ids = [...new Set(keys.flatMap((key) => keyword[key]!.ids))];
  if (ids.length === 0) return [];
  const digest = createHash("sha256").update(normalizeQuery(query)).digest();
  const start = Number(digest.readBigUInt64BE(0) % BigInt(ids.length));
  const turned = [...ids.slice(start), ...ids.slice(0, start)].slice(0, limit);
  return turned.map((id, index) => ({
    ...snapshot.papers[id]!,
    ...(index === 0 ? { _mock_env: { offline_fallback: true as const, message } } : {}),
  }));
}

/** @throws ToolError for a section that the paper lacks, naming those it has. */
export function recordedContent(snapshot: Snapshot, paper_id: string, section: Section | null): string {
  const content = own(snapshot.content, paper_id);
  if (!content) throw new SnapshotMiss(`The text of ${paper_id} is not recorded.`);
  const text = section === null ? content.default : content[section];
  if (!text) {
    const has = Object.keys(content).filter((name) => name !== "default");
    throw new ToolError(`${paper_id} has no section ${section}. It has: ${has.join(", ") || "none"}.`);
  }
  return text;
}

export function recordedSummary(snapshot: Snapshot, paper_id: string, style: SummaryStyle, budget: SummaryBudget) {
  const summary = own(snapshot.summary, paper_id)?.[style]?.[`${budget}`];
  if (!summary) throw new SnapshotMiss(`A ${style} summary of ${paper_id} in ${budget} words is not recorded.`);
  return summary;
}

export function recordedFigures(snapshot: Snapshot, paper_id: string) {
  const figures = own(snapshot.figures, paper_id);
  if (!figures) throw new SnapshotMiss(`The figures of ${paper_id} are not recorded.`);
  return figures;
}

/** @throws ToolError for a figure that the paper lacks. */
export function recordedAnswer(snapshot: Snapshot, paper_id: string, figure_no: number, question: FigureQuestion) {
  const { count, figures } = recordedFigures(snapshot, paper_id);
  const figure = figures.find((candidate) => candidate.figure_no === figure_no);
  if (!figure) {
    throw new ToolError(
      `${paper_id} has ${count} ${count === 1 ? "figure" : "figures"}: there is no figure ${figure_no}.`,
    );
  }
  const answer = own(own(snapshot.figure_qa, paper_id) ?? {}, String(figure_no))?.[question];
  if (!answer) throw new SnapshotMiss(`'${question}' for figure ${figure_no} of ${paper_id} is not recorded.`);
  return { figure, answer };
}

/** A record's own entry: ids come from models, and "constructor" is a text too. */
function own<Value>(record: Readonly<Record<string, Value>>, key: string): Value | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
