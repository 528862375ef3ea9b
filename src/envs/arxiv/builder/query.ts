// Search texts of the arXiv API (https://info.arxiv.org/help/api/user-manual.html).

/**
 * The newest papers of a field of computer science.
 * @param aspect Without "cs."; "*" is all of them.
 */
export function recentQuery(aspect: string): string {
  return `cat:cs.${aspect}`;
}

/**
 * A keyword search: a prefix `all:`, `ti:` or `au:` in any case, without one all fields; several words are a phrase.
 * @returns null where no word is left
 */
export function keywordQuery(text: string): string | null {
  const [, prefix = "all", rest = ""] = /^\s*(?:(all|ti|au):)?(.*)$/is.exec(text) ?? [];
  const words = rest.replaceAll('"', " ").split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const phrase = words.length === 1 ? words[0]! : `"${words.join(" ")}"`;
  return `${prefix.toLowerCase()}:${phrase}`;
}

/** Whole days, both included, in GMT. A date without a time of day would leave the last day out. */
export function submittedBetween(first: Date, last: Date): string {
  const day = (date: Date) => date.toISOString().slice(0, 10).replaceAll("-", "");
  return `submittedDate:[${day(first)}0000 TO ${day(last)}2359]`;
}

/** A query for the days up to `end_ms`; the day of `end_ms` is one more than `days`, since it has only begun. */
export function within(query: string, days: number, end_ms: number): string {
  return `${query} AND ${submittedBetween(new Date(end_ms - days * 86_400_000), new Date(end_ms))}`;
}
