import type { CorpusDocument, Label } from "../types.ts";

export interface Verdict {
  label: Label;
  reason?: string;
}

export interface Question {
  id: string;
  text: string;
}

/** Sorts documents by their use. One for all episodes. */
export interface Checker {
  /**
   * Takes no signal: rollouts of a group share answers, and one that ends must not take them from the others.
   * @throws CheckerError: nobody knows the label, and the rollout is invalid
   */
  check(question: Question, sub_goal: string, document: CorpusDocument): Promise<Verdict>;
}

/** The checker failed, which says nothing about the document: such a rollout must not be trained on. */
export class CheckerError extends Error {
  override name = "CheckerError";
}
