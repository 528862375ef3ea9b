import type { Section } from "../snapshot.ts";

// Sections of a paper, found by their headings (arxiv.md 2.2).

type Found = Exclude<Section, "abstract">;

/** Headings, their numbers taken off, in lower case and without blanks (letters of small capitals stand apart). */
const HEADINGS: Record<Found, readonly string[]> = {
  method: ["method", "methods", "methodology", "approach", "proposed method"],
  result: ["result", "results", "experiment", "experiments", "experimental results", "evaluation"],
  conclusion: ["conclusion", "conclusions", "concluding remarks", "discussion and conclusion"],
};

/** Headings that end a section and begin none of ours. */
const OTHERS = [
  "abstract",
  "introduction",
  "related work",
  "background",
  "preliminaries",
  "discussion",
  "limitations",
  "experiments and analysis",
];

/** After these come no sections of the paper's own. */
const LAST = [
  "references",
  "bibliography",
  "acknowledgement",
  "acknowledgements",
  "acknowledgment",
  "acknowledgments",
  "appendix",
];

const LONGEST_HEADING = 80;
/** More than any tool shows, and a bound to what a snapshot may grow to. */
const LONGEST_SECTION = 20_000;

const kinds = new Map<string, Found | "other" | "last">([
  ...Object.entries(HEADINGS).flatMap(([kind, names]) => names.map((name) => [squeeze(name), kind as Found] as const)),
  ...OTHERS.map((name) => [squeeze(name), "other"] as const),
  ...LAST.map((name) => [squeeze(name), "last"] as const),
]);

/** What kind of heading a line is: a section of ours, another one, one of the end; null: no heading that we know. */
export function headingKind(line: string): Found | "other" | "last" | null {
  if (line.length > LONGEST_HEADING) return null;
  const name = line
    .trim()
    .replace(/^(?:[Ss]ection\s+)?(?:\d+(?:\.\d+)*|[IVXLC]+(?=[.):\s])|[A-Z](?=[.):]))[.):]?\s+/, "")
    .replace(/[.:]\s*$/, "");
  return kinds.get(squeeze(name)) ?? null;
}

/**
 * Method, result and conclusion. A section goes from its heading to the next one that is known; where a kind comes again
 * (Experiments, then Results), both belong to it. A section without text is none.
 */
export function findSections(lines: readonly string[]): Partial<Record<Found, string>> {
  const parts: Partial<Record<Found, string[]>> = {};
  let current: Found | null = null;
  for (const line of lines) {
    const kind = headingKind(line);
    if (kind === "last" && Object.keys(parts).length > 0) break; // in a table of contents nothing has come yet
    if (kind !== null) current = kind === "other" || kind === "last" ? null : kind;
    else if (current) {
      parts[current] ??= [];
      parts[current]!.push(line);
    }
  }
  const texts = Object.entries(parts).map(([kind, list]) => [kind, cutText(joinLines(list))] as const);
  return Object.fromEntries(texts.filter(([, text]) => text !== ""));
}

/** Lines as running text; a word that was broken at the end of a line is whole again. */
export function joinLines(lines: readonly string[]): string {
  let text = "";
  for (const line of lines) {
    if (text === "") text = line;
    else if (/\p{L}-$/u.test(text) && /^\p{Ll}/u.test(line)) text = text.slice(0, -1) + line;
    else text += ` ${line}`;
  }
  return text.replace(/\s+/g, " ").trim();
}

function cutText(text: string): string {
  if (text.length <= LONGEST_SECTION) return text;
  const end = text.lastIndexOf(" ", LONGEST_SECTION);
  return `${text.slice(0, end > 0 ? end : LONGEST_SECTION)}...`;
}

function squeeze(text: string): string {
  return text.toLowerCase().replace(/\s+/g, "");
}
