import type { Sample } from "../checkpoints/samples.ts";
import { searchRound } from "../index/merge.ts";
import type { SearchIndex } from "../index/search.ts";
import type { SearchOptions } from "../options.ts";
import { roundReward } from "../rewards.ts";
import type { JudgedDocument } from "../types.ts";
import { openHops, type WorldQuestion } from "./questions.ts";

// The gold clues of a sample: what earns most among all lists of clues that can be made of what its prompt shows.

/** Names that the compact prompt shows. */
const VISIBLE_ENTITIES = 8;

export interface BestClues {
  clues: string[];
  reward: number;
}

/** Clues that a reader of the prompt could write: a name, alone or with what is asked of it. */
export function candidateClues(question: WorldQuestion, { context }: Sample): string[] {
  const visible = context.entities.slice(-VISIBLE_ENTITIES).map(({ name }) => name);
  const open = openHops(question, new Set(context.seen_docids));
  const named = question.branches.map(([first]) => first!.subject.name);
  const names = [...new Set([...open.map(({ subject }) => subject.name), ...named, ...visible.reverse()])];
  const asked = open.map(({ link }) => link.noun);
  const nouns = [...new Set([...asked, ...question.branches.flat().map(({ link }) => link.noun)])];
  const goals = open.map(({ subject, link }) => `${subject.name} ${link.noun}`);
  return [...new Set([...goals, ...names, ...names.flatMap((name) => nouns.map((noun) => `${name} ${noun}`))])];
}

/**
 * The best list of at least two clues, by adding what earns most and then by exchanging single clues until none helps.
 * Equal lists: the one with fewer clues, then the one whose clues come first among the candidates.
 */
export function bestClues(
  question: WorldQuestion,
  sample: Sample,
  index: SearchIndex,
  { max_clues, top_k, reward }: Pick<SearchOptions, "max_clues" | "top_k" | "reward">,
): BestClues {
  const seen = new Set(sample.context.seen_docids);
  const found = new Map<string, JudgedDocument[]>();
  const documentsOf = (clue: string): JudgedDocument[] => {
    const known = found.get(clue);
    if (known) return known;
    const documents = searchRound(index, [clue], top_k).map(({ docid, title, clues }) => ({
      docid,
      title,
      label: question.judgements.get(docid) ?? ("DISCARD" as const),
      seen: seen.has(docid),
      clues,
    }));
    found.set(clue, documents);
    return documents;
  };
  const earned = (clues: readonly string[]): number => {
    const documents = new Map(clues.flatMap(documentsOf).map((document) => [document.docid, document]));
    return roundReward({ clues: [...clues], documents: [...documents.values()] }, reward);
  };
  const candidates = candidateClues(question, sample);
  const better = (a: number, b: number): boolean => a > b + 1e-9;

  let best: BestClues = { clues: [], reward: 0 };
  for (;;) {
    let next: BestClues | null = null;
    const options =
      best.clues.length < max_clues
        ? candidates.map((clue) => [...best.clues, clue])
        : best.clues.flatMap((_, place) => candidates.map((clue) => best.clues.with(place, clue)));
    for (const clues of options) {
      if (new Set(clues).size < clues.length) continue;
      const value = earned(clues);
      if (!next || better(value, next.reward)) next = { clues, reward: value };
    }
    if (!next || (best.clues.length >= 2 && !better(next.reward, best.reward))) return exchanged(best);
    best = next;
  }

  function exchanged(list: BestClues): BestClues {
    let kept = list;
    for (let improved = true; improved; ) {
      improved = false;
      for (const place of kept.clues.keys())
        for (const clue of candidates) {
          if (kept.clues.includes(clue)) continue;
          const clues = kept.clues.with(place, clue);
          const value = earned(clues);
          if (better(value, kept.reward)) [kept, improved] = [{ clues, reward: value }, true];
        }
    }
    return kept;
  }
}
