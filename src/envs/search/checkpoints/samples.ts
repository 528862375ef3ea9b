import { UserError } from "../../../core/errors.ts";
import { clean } from "../clues.ts";
import { EMPTY_TABLES, type RoundContext } from "../types.ts";
import type { RecordedRun } from "./scan.ts";

// Samples of recorded runs, and which of them are trained on. Source: spec section 6.

/** A SEARCH round, with the state before it. */
export interface Sample {
  /** As "q017/run_002/round_001". */
  id: string;
  round: number;
  context: RoundContext;
  /** Clean, as recorded. */
  clues: readonly string[];
  /** Of the SEARCH round before it in its run; none before the first. */
  previous_clues: readonly string[];
}

const SEARCH = "SEARCH";

/** Samples of a run: its SEARCH rounds with enough clues. */
export function samplesOf({ folder, run, meta, rounds }: RecordedRun, min_clues_per_round: number): Sample[] {
  const samples: Sample[] = [];
  const seen = new Set<string>();
  let previous: readonly string[] = [];
  for (const [index, { round, strategy, sub_goal, clues: written, seen_docids }] of rounds.entries()) {
    const clues = clean(written);
    if (strategy === SEARCH && clues.length >= min_clues_per_round) {
      const { entities, targets, documents, context } = rounds[index - 1] ?? EMPTY_TABLES;
      samples.push({
        id: `${folder}/${run}/round_${String(round).padStart(3, "0")}`,
        round,
        context: {
          question_id: meta.question_id,
          question: meta.question,
          sub_goal,
          entities,
          targets,
          documents,
          context,
          seen_docids: [...seen],
        },
        clues,
        previous_clues: previous,
      });
    }
    for (const docid of seen_docids) seen.add(docid);
    if (strategy === SEARCH) previous = clues;
  }
  return samples;
}

/** At most `most` items, spread evenly from the first to the last. */
export function evenlySpread<Item>(items: readonly Item[], most: number): Item[] {
  if (items.length <= most) return [...items];
  if (most === 1) return [items[0]!];
  return Array.from({ length: most }, (_, index) => items[Math.round((index * (items.length - 1)) / (most - 1))]!);
}

export interface QuestionRuns {
  question_id: string;
  runs: readonly RecordedRun[];
}

export function byQuestion(runs: readonly RecordedRun[]): QuestionRuns[] {
  const questions = new Map<string, RecordedRun[]>();
  for (const run of runs) {
    const { question_id } = run.meta;
    questions.set(question_id, [...(questions.get(question_id) ?? []), run]);
  }
  return [...questions].map(([question_id, list]) => ({ question_id, runs: list }));
}

export interface Difficulty {
  question_id: string;
  question: string;
  solved: boolean;
  mean_rounds: number;
}

export function difficultyOf({ question_id, runs }: QuestionRuns): Difficulty {
  return {
    question_id,
    question: runs[0]!.meta.question,
    solved: runs.some(({ meta }) => meta.solved),
    mean_rounds: runs.reduce((sum, { rounds }) => sum + rounds.length, 0) / runs.length,
  };
}

/**
 * Splits by question: the hardest ones (no run solved it, then most rounds on average, then by id) are kept for
 * evaluation, until it holds 1 − `train_ratio` of them. One question under several ids is on one side.
 * @throws UserError where a side would be empty
 */
export function splitQuestions(
  questions: readonly Difficulty[],
  train_ratio: number,
): { train: string[]; eval: string[] } {
  const hardest = [...questions].sort(
    (a, b) =>
      Number(a.solved) - Number(b.solved) || b.mean_rounds - a.mean_rounds || (a.question_id < b.question_id ? -1 : 1),
  );
  const wanted = Math.max(1, Math.ceil((1 - train_ratio) * questions.length - 1e-9)); // 0.2 of 60 is 12.000000000000002
  if (wanted >= questions.length)
    throw new UserError(
      `${questions.length} question${questions.length === 1 ? "" : "s"} with samples can't be split: train_ratio ${train_ratio} keeps ${wanted} for ` +
        "evaluation, and training needs one too. Record more questions, or raise train_ratio.",
    );
  const groups = new Map<string, string[]>();
  for (const { question_id, question } of hardest) {
    const text = asAsked(question);
    const group = groups.get(text);
    if (group) group.push(question_id);
    else groups.set(text, [question_id]);
  }
  const sides: { train: string[]; eval: string[] } = { train: [], eval: [] };
  for (const ids of groups.values()) sides[sides.eval.length < wanted ? "eval" : "train"].push(...ids);
  if (sides.train.length === 0)
    throw new UserError(`${questions.length} questions can't be split: they are one question under several ids.`);
  return sides;
}

/** A question's text without what makes it no other question. */
function asAsked(question: string): string {
  return question.normalize("NFKC").toLowerCase().replace(/\s+/g, " ").trim();
}
