// Reads the search clues of a reply. Source: spec section 3.

export interface ParsedClues {
  clues: string[];
  /** How they were written; null: no clue was found. */
  format: "xml" | "legacy" | "bare" | null;
}

export const DEFAULT_MAX_CLUES = 5;
const SHORTEST = 2;
const LONGEST = 300;

/** The clean clues of a reply, at most `max_clues`, whatever the text is. None: the reply could not be parsed. */
export function parseClues(reply: string, max_clues: number = DEFAULT_MAX_CLUES): ParsedClues {
  const text = withoutAnalysis(withoutThinking(reply));
  for (const [format, read] of FORMATS) {
    const items = read(text);
    if (items.length === 0) continue; // the first format that holds any item wins, even where none of them is usable
    const clues = clean(items).slice(0, max_clues);
    return { clues, format: clues.length > 0 ? format : null };
  }
  return { clues: [], format: null };
}

/** Clues without what makes none: too short, too long, said before. */
export function clean(items: readonly string[]): string[] {
  const known = new Set<string>();
  return items.map(plainText).filter((clue) => {
    const { length } = [...clue];
    const folded = clue.toLowerCase();
    if (length < SHORTEST || length > LONGEST || known.has(folded)) return false;
    known.add(folded);
    return true;
  });
}

const ENTITIES: Record<string, string> = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

function plainText(item: string): string {
  return item
    .replace(/&(lt|gt|amp|quot|apos);/g, (_, name: string) => ENTITIES[name]!)
    .replace(/\p{Surrogate}/gu, "\ufffd")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();
}

/** Also drops what stands before an end mark that has no beginning: the template may have written that. */
function withoutThinking(text: string): string {
  const said = withoutBlocks(text, /<think>/gi, /<\/think>/gi, "");
  const ends = [...said.matchAll(/<\/think>/gi)];
  const last = ends.at(-1);
  return last ? said.slice(last.index + last[0].length) : said;
}

/** An analysis is no clue. One without an end goes on until the clues begin. */
function withoutAnalysis(text: string): string {
  return withoutBlocks(text, /<analysis>/gi, /<\/analysis>/gi, "\n", /<clues>|<search_clues>/gi);
}

/**
 * A text without what stands from an `open` to the next `close`; where none follows, up to the next `otherwise`, or the
 * end. Searches go forward only: a reply of a million open tags takes no longer than another.
 */
function withoutBlocks(text: string, open: RegExp, close: RegExp, instead: string, otherwise?: RegExp): string {
  let kept = "";
  for (let from = 0; ; ) {
    const start = next(open, text, from);
    if (!start) return kept + text.slice(from);
    kept += text.slice(from, start.index) + instead;
    const inside = start.index + start[0].length;
    const end = next(close, text, inside);
    if (end) from = end.index + end[0].length;
    else return kept + text.slice(otherwise ? (next(otherwise, text, inside)?.index ?? text.length) : text.length);
  }
}

/** @param pattern with the flag g */
function next(pattern: RegExp, text: string, from: number): RegExpExecArray | null {
  pattern.lastIndex = from;
  return pattern.exec(text);
}

const FORMATS: readonly ["xml" | "legacy" | "bare", (text: string) => string[]][] = [
  ["xml", readXml],
  ["legacy", readLegacy],
  ["bare", readBare],
];

function readXml(text: string): string[] {
  const start = /<clues>/i.exec(text);
  if (!start) return [];
  const block = text.slice(start.index + start[0].length).split(/<\/clues>/i)[0]!;
  return block
    .split(/<clue(?:\s[^<>]*)?>/i)
    .slice(1)
    .map((rest) => {
      const end = /<\/clue>/i.exec(rest);
      return end ? rest.slice(0, end.index) : rest.split(/<\/?[a-z][^<>]*>/i)[0]!;
    });
}

const HEADING = /^[ \t]*(?:[*#_]+[ \t]*)?(?:search[ \t]+)?clues[ \t]*:[*_]*[ \t]*/im;

function readLegacy(text: string): string[] {
  const tag = /<search_clues>/i.exec(text);
  const inTag = tag ? readList(text.slice(tag.index + tag[0].length).split(/<\/search_clues>/i)[0]!) : [];
  if (inTag.length > 0) return inTag;
  const heading = HEADING.exec(text);
  return heading ? readList(text.slice(heading.index + heading[0].length)) : [];
}

/** A JSON array of strings, or the lines that are numbered or have a bullet. */
function readList(text: string): string[] {
  const lines = text.split(/\r\n?|\n/).filter((line) => !isFence(line));
  const array = readArray(lines.join("\n").trim());
  if (array.length > 0) return array;
  return lines.flatMap((line) => {
    const item = withoutMarker(line);
    return item === null ? [] : [withoutQuotes(item)];
  });
}

/** Arrays of clues are short: a closing bracket further on belongs to other text. */
const MOST_BRACKETS = 20;

function readArray(text: string): string[] {
  if (!text.startsWith("[")) return [];
  let end = 0;
  for (let tries = 0; tries < MOST_BRACKETS; tries++) {
    end = text.indexOf("]", end) + 1;
    if (end === 0) return [];
    try {
      const value: unknown = JSON.parse(text.slice(0, end));
      return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
    } catch {} // a bracket inside a string
  }
  return [];
}

const TAGS = /<\/?(?:clues?|search_clues)(?:\s[^<>]*)?>/gi;

function readBare(text: string): string[] {
  return text
    .replace(TAGS, "\n")
    .split(/\r\n?|\n/)
    .filter((line) => !isFence(line))
    .map((line) => withoutQuotes(withoutMarker(line.replace(HEADING, "")) ?? line.replace(HEADING, "")))
    .filter((line) => line !== "");
}

const isFence = (line: string): boolean => /^\s*(?:```|~~~)[\w-]*\s*$/.test(line);

/** A line without its bullet or number; null: it has none. Four digits are a year. */
function withoutMarker(line: string): string | null {
  const marker = /^\s*(?:[-*•](?=\s)|\(\d{1,3}\)|\d{1,3}\)|\d{1,3}\.(?=\s|["'“]))\s*/;
  let rest = line;
  while (marker.test(rest)) rest = rest.replace(marker, "");
  return rest === line ? null : rest.trim();
}

const QUOTES = ['""', "''", "“”", "‘’", "«»", "``"];

function withoutQuotes(line: string): string {
  const text = line.trim();
  const inner = text.endsWith(",") ? text.slice(0, -1) : text;
  const pair = QUOTES.find((quotes) => inner.length >= 2 && inner[0] === quotes[0] && inner.at(-1) === quotes[1]);
  return pair ? inner.slice(1, -1).trim() : text;
}
