import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { canonicalJson } from "../../core/canonical-json.ts";
import { UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";

export { canonicalJson };

// A snapshot holds every answer that the tools can give, recorded once, so that an episode needs no network and is
// the same on every machine.

export const SECTIONS = ["abstract", "method", "result", "conclusion"] as const;
export const SUMMARY_STYLES = ["tldr", "structured", "bullet"] as const;
/** Word budgets that summaries are recorded for. */
export const SUMMARY_BUDGETS = [60, 120, 250] as const;
export const FIGURE_QUESTIONS = ["describe", "axes", "trend"] as const;

export type Section = (typeof SECTIONS)[number];
export type SummaryStyle = (typeof SUMMARY_STYLES)[number];
export type SummaryBudget = (typeof SUMMARY_BUDGETS)[number];
export type FigureQuestion = (typeof FIGURE_QUESTIONS)[number];

const time = z.string().regex(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/, "expected YYYY-MM-DD HH:MM:SS");

export const paperSchema = z.strictObject({
  /** Short arXiv id with its version, as 2608.14528v1. */
  id: z.string().min(1),
  title: z.string().min(1),
  authors: z.array(z.string()),
  /** The abstract's first 200 characters and "...". */
  summary: z.string().max(203),
  published: time,
  updated: time,
  pdf_url: z.string(),
  primary_category: z.string(),
  categories: z.array(z.string()),
  comment: z.string().nullable(),
  links: z.array(z.string()),
});

const summarySchema = z.strictObject({
  summary: z.string().min(1),
  sections_used: z.array(z.string()),
  backend: z.string(),
});

const figureSchema = z.strictObject({
  figure_no: z.int().min(1).max(8),
  page: z.int().min(1),
  path: z.string(),
  /** Pixels, as the height. */
  width: z.int().positive(),
  height: z.int().positive(),
  caption: z.string(),
});

const answerSchema = z.strictObject({ answer: z.string(), backend: z.string() });

export const snapshotSchema = z.strictObject({
  version: z.literal(1),
  created_at: time,
  /** What made it. */
  recorder: z.string(),
  papers: z.record(z.string(), paperSchema),
  pools: z.strictObject({
    /** By aspect ("*" for all of computer science): ids, newest first. */
    recent: z.record(z.string(), z.array(z.string())),
    /** By the SHA-256 of the normalised query; `days` is part of what a query must match. */
    keyword: z.record(
      z.string(),
      z.strictObject({ query: z.string(), days: z.int().positive().nullable(), ids: z.array(z.string()) }),
    ),
  }),
  /** By paper id. A section that the paper lacks is left out. */
  content: z.record(
    z.string(),
    z.strictObject({
      default: z.string(),
      abstract: z.string().optional(),
      method: z.string().optional(),
      result: z.string().optional(),
      conclusion: z.string().optional(),
    }),
  ),
  /** By paper id, style, word budget. */
  summary: z.record(
    z.string(),
    z.partialRecord(z.enum(SUMMARY_STYLES), z.partialRecord(z.enum(["60", "120", "250"]), summarySchema)),
  ),
  /** By paper id. No figures at all is a result too. */
  figures: z.record(z.string(), z.strictObject({ count: z.int().min(0).max(8), figures: z.array(figureSchema) })),
  /** By paper id, figure number, question. */
  figure_qa: z.record(z.string(), z.record(z.string(), z.partialRecord(z.enum(FIGURE_QUESTIONS), answerSchema))),
  /** By paper id: the pages of its translation. */
  translated: z.record(z.string(), z.array(z.string())).optional(),
  /** Of the canonical JSON of all the rest. */
  sha256: z.string(),
});

export type Paper = z.output<typeof paperSchema>;
export type Snapshot = z.output<typeof snapshotSchema>;
export type FigureRecord = z.output<typeof figureSchema>;

export function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

export function snapshotHash(snapshot: Omit<Snapshot, "sha256"> & { sha256?: string }): string {
  return sha256(canonicalJson({ ...snapshot, sha256: undefined }));
}

/** The snapshot as its file holds it: one record a line, so that a difference can be read. */
export function snapshotText(snapshot: Snapshot): string {
  const { pools, ...rest } = snapshot;
  const fields = Object.entries({ ...rest, pools: null }).map(([name, value]) => {
    if (name === "pools") {
      return `"pools": {\n"recent": ${lines(pools.recent)},\n"keyword": ${lines(pools.keyword)}\n}`;
    }
    return `${JSON.stringify(name)}: ${typeof value === "object" && value !== null ? lines(value) : JSON.stringify(value)}`;
  });
  return `{\n${fields.join(",\n")}\n}\n`;
}

function lines(record: object): string {
  const entries = Object.entries(record).map(([key, value]) => `${JSON.stringify(key)}: ${JSON.stringify(value)}`);
  return `{\n${entries.join(",\n")}\n}`;
}

/** A query as recorded pools are found by: blanks collapsed, case folded. */
export function normalizeQuery(query: string): string {
  return query.trim().replace(/\s+/g, " ").toLowerCase();
}

/**
 * Checks a snapshot's shape and its hash.
 * @throws UserError naming `source` and each fault.
 */
export function parseSnapshot(value: unknown, source: string): Snapshot {
  const parsed = snapshotSchema.safeParse(value);
  if (!parsed.success) throw new UserError(`${source}: not an arXiv snapshot: ${describeIssues(parsed.error)}`);
  const hash = snapshotHash(parsed.data);
  if (hash !== parsed.data.sha256) {
    throw new UserError(
      `${source}: its sha256 is ${parsed.data.sha256}, but its content hashes to ${hash}. ` +
        "It was changed by hand or cut short; make it again.",
    );
  }
  return deepFreeze(parsed.data);
}

const loaded = new Map<string, Snapshot>();

/**
 * Reads a snapshot, once a process and path. A relative path is looked for in the working directory, then in the project.
 * @throws UserError for a file that is missing, unreadable or broken.
 */
export function loadSnapshot(path: string): Snapshot {
  const file = resolveDataFile(path);
  const known = loaded.get(file);
  if (known) return known;
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UserError(`${path}: cannot read the snapshot: ${(error as Error).message}`);
  }
  const snapshot = parseSnapshot(value, path);
  loaded.set(file, snapshot);
  return snapshot;
}

const PROJECT_ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");

/** The absolute path of a data file: relative to the working directory where it exists there, else to the project. */
export function resolveDataFile(path: string): string {
  const here = resolve(path);
  return existsSync(here) ? here : resolve(PROJECT_ROOT, path);
}

export function deepFreeze<Value>(value: Value): Value {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
