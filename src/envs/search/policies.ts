// Policies without a model. Source: spec section 11.
import { goldClues } from "./gold.ts";
import { searchRound } from "./index/merge.ts";
import { folded, termsOf } from "./index/words.ts";
import type { SearchOptions } from "./options.ts";
import { goesOn, updateContext } from "./planner.ts";
import { renderReply } from "./prompt.ts";
import { indexOf, judgementsOf } from "./resources.ts";
import type { RoundContext, SearchTask } from "./types.ts";

const RAREST_WORDS = 5;
const FREQUENT_WORDS = 5;

type CluesOf = (task: SearchTask, options: SearchOptions) => readonly string[];

const sameEachRound =
  (cluesOf: CluesOf) =>
  (task: SearchTask, _: unknown, options: SearchOptions): string[] =>
    Array.from({ length: task.max_rounds }, () => renderReply("", cluesOf(task, options)));

export const searchPolicies = {
  gold: goldReplies,
  /** The question itself. */
  question: sameEachRound(({ question }) => [question.slice(0, 300)]),
  /** What the round before searched for: all of it was seen. */
  repeat: sameEachRound(({ previous_clues }) => previous_clues),
  /** The question's rarest words, each a clue. */
  keywords: sameEachRound(({ question }, options) => {
    const index = indexOf(options);
    const words = [...new Set(termsOf(question).map(folded))].filter((word) => [...word].length > 1);
    const counted = words.map((word) => ({ word, documents: index.document_frequency(word) }));
    return counted
      .filter(({ documents }) => documents > 0)
      .sort((a, b) => a.documents - b.documents)
      .slice(0, RAREST_WORDS)
      .map(({ word }) => word);
  }),
  /** Frequent words, each a clue. */
  flood: sameEachRound((_, options) =>
    indexOf(options)
      .frequent_words(4 * FREQUENT_WORDS)
      .filter((word) => [...word].length > 1)
      .slice(0, FREQUENT_WORDS),
  ),
  empty: sameEachRound(() => []),
};

/** The task's own clues; in later rounds, by the judgements, titles of what is left to find. */
function goldReplies(task: SearchTask, _: unknown, options: SearchOptions): string[] {
  const replies = [goldReply(task, task.gold_clues)];
  const judgements = options.checker.backend === "labels" ? judgementsOf(options) : null;
  const parts = { index: indexOf(options), judgements };
  let context: RoundContext = task;
  let clues = task.gold_clues;
  while (replies.length < task.max_rounds) {
    const seen = new Set(context.seen_docids);
    const found = searchRound(parts.index, clues, options.top_k).map((document) => ({
      ...document,
      label: judgements?.get(task.question_id)?.get(document.docid) ?? ("DISCARD" as const),
      seen: seen.has(document.docid),
    }));
    context = updateContext(context, found, parts.index.document);
    if (judgements && !goesOn(context)) break;
    clues = goldClues(context, [], task.recorded_clues, parts, options).clues;
    replies.push(goldReply(context, clues));
  }
  return replies;
}

function goldReply({ sub_goal }: RoundContext, clues: readonly string[]): string {
  return renderReply(sub_goal, clues);
}
