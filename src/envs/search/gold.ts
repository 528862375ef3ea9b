import { z } from "zod";
import { errorText, UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";
import { searchRound } from "./index/merge.ts";
import type { SearchIndex } from "./index/search.ts";
import type { Judgements } from "./judgements.ts";
import { readLines } from "./lines.ts";
import type { SearchOptions } from "./options.ts";
import type { RoundContext } from "./types.ts";

// Clue lists that are known to find something: a file of them, or made from the judgements.

export const goldSchema = z.strictObject({
  task_id: z.string().min(1),
  clues: z.array(z.string().min(2)).min(1),
  /** What the clues earn with the default options. */
  reward: z.number(),
});
export type GoldRow = z.output<typeof goldSchema>;

/** @throws UserError naming file and line */
export function readGold(path: string): Map<string, GoldRow> {
  const gold = new Map<string, GoldRow>();
  for (const { line, text } of readLines(path)) {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new UserError(`${path}, line ${line}: not JSON (${errorText(error)}).`);
    }
    const parsed = goldSchema.safeParse(value);
    if (!parsed.success) throw new UserError(`${path}, line ${line}: ${describeIssues(parsed.error)}.`);
    if (gold.has(parsed.data.task_id))
      throw new UserError(`${path}, line ${line}: '${parsed.data.task_id}' is there twice.`);
    gold.set(parsed.data.task_id, parsed.data);
  }
  return gold;
}

const LONGEST_CLUE = 300;

/**
 * A way to play a round: the first of these lists that finds something IMPORTANT that is new: the worked one, the titles
 * of judged documents that were not seen yet, the recorded clues. `solvable: false`: none of them does, by the judgements.
 */
export function goldClues(
  context: RoundContext,
  worked: readonly string[],
  recorded: readonly string[],
  parts: { index: SearchIndex; judgements: Judgements | null },
  { max_clues, top_k }: Pick<SearchOptions, "max_clues" | "top_k">,
): { clues: string[]; solvable: boolean } {
  const judged = parts.judgements?.get(context.question_id);
  const seen = new Set(context.seen_docids);
  const titles = [...(judged ?? [])].flatMap(([docid, label]) => {
    const title = label === "IMPORTANT" && !seen.has(docid) ? parts.index.document(docid)?.title : undefined;
    return title && title.length >= 2 && title.length <= LONGEST_CLUE ? [title] : [];
  });
  const discovers = (clues: readonly string[]): boolean =>
    searchRound(parts.index, clues, top_k).some(({ docid }) => judged?.get(docid) === "IMPORTANT" && !seen.has(docid));
  const lists = [worked, [...new Set(titles)], recorded].map((clues) => clues.slice(0, max_clues));
  const found = lists.find((clues) => clues.length > 0 && discovers(clues));
  if (found) return { clues: found, solvable: true };
  return {
    clues: lists.find((clues) => clues.length > 0) ?? [context.question.slice(0, LONGEST_CLUE)],
    solvable: false,
  };
}
