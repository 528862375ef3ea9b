// What a search round is about. Names are those of the checkpoint files (spec section 6).

export const LABELS = ["IMPORTANT", "LOCAL", "DISCARD"] as const;
/** What the document checker makes of a document: of use to the question, to the present sub-goal alone, to neither. */
export type Label = (typeof LABELS)[number];

/** A document of the collection. */
export interface CorpusDocument {
  docid: string;
  title: string;
  text: string;
}

/** A document that a round found. */
export interface FoundDocument {
  docid: string;
  title: string;
  /** The beginning of its text. */
  snippet: string;
  /** BM25, the best of its clues; above 0. */
  score: number;
  /** Every clue that found it, in the order they were written. */
  clues: string[];
}

export interface EntityRow {
  name: string;
  type: string;
  facts: string[];
}
export interface TargetRow {
  name: string;
  /** "open", or what was found. */
  status: string;
}
export interface DocumentRow {
  docid: string;
  title: string;
  label: Label;
}
export interface ContextRow {
  source: string;
  text: string;
}

/** What the agents have written down so far, oldest row first. */
export interface Tables {
  entities: readonly EntityRow[];
  targets: readonly TargetRow[];
  documents: readonly DocumentRow[];
  context: readonly ContextRow[];
}

export const EMPTY_TABLES: Tables = { entities: [], targets: [], documents: [], context: [] };

/** All that the policy knows when a round begins. */
export interface RoundContext extends Tables {
  question_id: string;
  question: string;
  sub_goal: string;
  /** Found in the rounds before, whatever became of them. */
  seen_docids: readonly string[];
}

/** A state of a recorded run, to be played from: one sample of spec section 6. */
export interface SearchTask extends RoundContext {
  /** As "q017/run_002/round_001". */
  id: string;
  /** From 1. */
  round: number;
  /** The clues that were recorded for this round, and for the SEARCH round before it. */
  recorded_clues: readonly string[];
  previous_clues: readonly string[];
  /** One way to play the round. */
  gold_clues: readonly string[];
  /** Judgements tell that `gold_clues` find something IMPORTANT that is new. false: nobody knows of such clues. */
  solvable: boolean;
  /** Judged IMPORTANT for the question; none where there are no judgements. */
  important_docids: readonly string[];
  /** Rounds that are played. */
  max_rounds: number;
}

export interface SearchState extends RoundContext {
  /** Rounds played. */
  played: number;
}

/** A document of a round, judged. */
export interface JudgedDocument {
  docid: string;
  title: string;
  label: Label;
  /** It had been found before the round began. */
  seen: boolean;
  clues: string[];
  reason?: string;
}

/** What became of one reply: the payload of its outcome, and all that a reward reads. */
export interface RoundFacts {
  /** From 1, in this episode. */
  round: number;
  sub_goal: string;
  /** How the clues were written; null: the reply held none. */
  format: "xml" | "legacy" | "bare" | null;
  clues: string[];
  documents: JudgedDocument[];
}
