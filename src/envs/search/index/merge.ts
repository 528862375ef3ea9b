import type { FoundDocument } from "../types.ts";
import type { Hit, SearchIndex } from "./search.ts";

const SNIPPET_CHARACTERS = 240;

/**
 * What the clues of a round find: rank 1 of every clue, then rank 2, and so on, each document once, with every clue that
 * found it. Source: spec section 4.1.
 */
export function searchRound(index: SearchIndex, clues: readonly string[], top_k: number): FoundDocument[] {
  return mergeHits(clues.map((clue) => ({ clue, hits: index.search(clue, top_k) })));
}

export function mergeHits(lists: readonly { clue: string; hits: readonly Hit[] }[]): FoundDocument[] {
  const found = new Map<string, FoundDocument>();
  const deepest = Math.max(0, ...lists.map(({ hits }) => hits.length));
  for (let rank = 0; rank < deepest; rank++)
    for (const { hits } of lists) {
      const hit = hits[rank];
      if (!hit) continue;
      const known = found.get(hit.docid);
      if (known) known.score = Math.max(known.score, hit.score);
      else
        found.set(hit.docid, {
          docid: hit.docid,
          title: hit.title,
          snippet: snippetOf(hit.text),
          score: hit.score,
          clues: [],
        });
    }
  for (const { clue, hits } of lists) for (const { docid } of hits) found.get(docid)!.clues.push(clue);
  return [...found.values()];
}

/** The beginning of a text on one line, cut at a word. */
export function snippetOf(text: string, characters: number = SNIPPET_CHARACTERS): string {
  const line = text.replace(/\s+/g, " ").trim();
  const all = [...line.slice(0, 4 * characters)];
  if (all.length <= characters && line.length <= 4 * characters) return line;
  return `${all
    .slice(0, characters)
    .join("")
    .replace(/\s+\S*$/, "")}…`;
}
