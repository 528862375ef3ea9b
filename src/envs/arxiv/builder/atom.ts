import { XMLParser, XMLValidator } from "fast-xml-parser";
import { z } from "zod";
import { describeIssues } from "../../../core/tool.ts";
import type { Paper } from "../snapshot.ts";
import { timeText } from "./clock.ts";
import { parsePaperId } from "./paper-id.ts";

// The Atom feed of the arXiv API, read into papers.

/** A feed that can't be read: cut short, or something else altogether. */
export class FeedError extends Error {
  override name = "FeedError";
}

/** The API's own error, which comes as a feed with one entry, often with status 200. */
export class ApiError extends Error {
  override name = "ApiError";
}

/** A paper as the API tells it: the record, and the abstract whole. */
export interface Entry {
  paper: Paper;
  abstract: string;
}

export interface Feed {
  /** Papers that the query has in all. */
  total: number;
  entries: Entry[];
}

const link = z.looseObject({ "@href": z.string(), "@title": z.string().optional(), "@rel": z.string().optional() });

const entrySchema = z.looseObject({
  id: z.string(),
  title: z.string().min(1),
  summary: z.string(),
  published: z.iso.datetime({ offset: true }),
  updated: z.iso.datetime({ offset: true }),
  author: z.array(z.looseObject({ name: z.string() })).default([]),
  link: z.array(link).default([]),
  category: z.array(z.looseObject({ "@term": z.string() })).default([]),
  "arxiv:primary_category": z.looseObject({ "@term": z.string() }).optional(),
  "arxiv:comment": z.union([z.string(), z.looseObject({ "#text": z.string() })]).optional(),
});

const feedSchema = z.looseObject({
  feed: z.looseObject({
    "opensearch:totalResults": z
      .union([z.string(), z.looseObject({ "#text": z.string() })])
      .transform((value) => Number(typeof value === "string" ? value : value["#text"]))
      .pipe(z.int().nonnegative()),
    entry: z.array(z.record(z.string(), z.unknown())).default([]),
  }),
});

const LISTS = new Set(["entry", "author", "link", "category"]);

const parser = new XMLParser({
  ignoreAttributes: false,
  attributeNamePrefix: "@",
  parseTagValue: false, // a title may be a number
  parseAttributeValue: false,
  htmlEntities: true, // numeric ones too
  isArray: (name) => LISTS.has(name),
});

/** Characters that a summary record keeps of the abstract. */
const SUMMARY_LENGTH = 200;

/**
 * @throws FeedError for what is no whole feed of the API, ApiError for its own errors
 */
export function parseFeed(xml: string): Feed {
  const valid = XMLValidator.validate(xml);
  if (valid !== true) throw new FeedError(`no whole XML: line ${valid.err.line ?? 1}: ${valid.err.msg}`);
  const parsed = feedSchema.safeParse(parser.parse(xml));
  if (!parsed.success) throw new FeedError(`no feed of the arXiv API: ${describeIssues(parsed.error)}`);
  const { feed } = parsed.data;
  for (const entry of feed.entry) {
    if (typeof entry.id === "string" && entry.id.includes("/api/errors"))
      throw new ApiError(oneLine(String(entry.summary ?? entry.title ?? "no reason given")));
  }
  return { total: feed["opensearch:totalResults"], entries: feed.entry.flatMap(readEntry) };
}

/** Nothing for the bare entry that stands for an id which arXiv does not have. */
function readEntry(value: Record<string, unknown>): Entry[] {
  if (value.title === undefined && value.published === undefined) return [];
  const parsed = entrySchema.safeParse(value);
  if (!parsed.success) throw new FeedError(`entry ${String(value.id)}: ${describeIssues(parsed.error)}`);
  const entry = parsed.data;
  const id = parsePaperId(entry.id);
  if (!id || id.version === null)
    throw new FeedError(`entry '${entry.id}': expected the address of a paper with its version`);
  const name = `${id.base}v${id.version}`;
  const abstract = oneLine(entry.summary);
  const comment = entry["arxiv:comment"];
  const categories = entry.category.map((category) => category["@term"]);
  const pdf = entry.link.find((candidate) => candidate["@title"] === "pdf")?.["@href"];
  const paper: Paper = {
    id: name,
    title: oneLine(entry.title),
    authors: entry.author.map((author) => oneLine(author.name)),
    summary: cut(abstract),
    published: timeText(Date.parse(entry.published)),
    updated: timeText(Date.parse(entry.updated)),
    pdf_url: pdf ?? `https://arxiv.org/pdf/${name}`,
    primary_category: entry["arxiv:primary_category"]?.["@term"] ?? categories[0] ?? "cs",
    categories,
    comment: comment === undefined ? null : oneLine(typeof comment === "string" ? comment : comment["#text"]),
    links: entry.link.map((candidate) => candidate["@href"]),
  };
  return [{ paper, abstract }];
}

function cut(abstract: string): string {
  if (abstract.length <= SUMMARY_LENGTH) return abstract;
  const half = /[\uD800-\uDBFF]$/.test(abstract.slice(0, SUMMARY_LENGTH)); // of a letter that takes two units
  return `${abstract.slice(0, SUMMARY_LENGTH - (half ? 1 : 0))}...`;
}

/** Feeds break titles and abstracts into lines as they like. */
export function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
