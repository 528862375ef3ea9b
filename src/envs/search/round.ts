import { type Checker, CheckerError } from "./checkers/types.ts";
import { parseClues } from "./clues.ts";
import { searchRound } from "./index/merge.ts";
import type { SearchIndex } from "./index/search.ts";
import type { SearchOptions } from "./options.ts";
import type { FoundDocument, JudgedDocument, RoundContext, RoundFacts } from "./types.ts";

export interface RoundParts {
  index: SearchIndex;
  checker: Checker;
}

/**
 * One round: a reply's clues are searched, and what they find is judged.
 * @throws CheckerError where a document could not be judged
 */
export async function playRound(
  context: RoundContext,
  reply: string,
  round: number,
  { index, checker }: RoundParts,
  { max_clues, top_k }: Pick<SearchOptions, "max_clues" | "top_k">,
): Promise<RoundFacts> {
  const { clues, format } = parseClues(reply, max_clues);
  const { question_id, question, sub_goal } = context;
  const known = new Set(context.seen_docids);
  const judge = async ({ docid, title, clues: by }: FoundDocument): Promise<JudgedDocument> => {
    const document = index.document(docid);
    if (!document) throw new CheckerError(`the collection has no document '${docid}'`);
    const { label, reason } = await checker.check({ id: question_id, text: question }, sub_goal, document);
    return { docid, title, label, seen: known.has(docid), clues: by, ...(reason === undefined ? {} : { reason }) };
  };
  const documents = await Promise.all(searchRound(index, clues, top_k).map(judge));
  return { round, sub_goal, format, clues, documents };
}
