import type { Paper, Snapshot } from "./snapshot.ts";

export type { Paper, Snapshot };

/** How a call names a paper: a 1-based position in the list, an id or a part of a title, or null for the last one. */
export type Ref = number | string | null;

/** A gold step or a setup step. */
export interface Call {
  tool: string;
  args: Record<string, unknown>;
}

/** Why a task can't be done. Each reason asks the closing thought for an object and the nature of the error. */
export type BlockedReason = "missing_context" | "invalid_reference" | "paper_not_found" | "unsupported_capability";

/** A task as the environment plays it; its schema stands in tasks.ts. */
export interface ArxivTask {
  id: string;
  /** What the user asks for. */
  task: string;
  /** Gold calls. Empty: the right thing is to call nothing. */
  steps: Call[];
  category: string;
  /** A label, not a measurement. */
  difficulty: "easy" | "medium" | "hard";
  /** Calls executed before the episode, outside the trajectory; the policy reads what state they left. */
  setup: Call[];
  /** Stands in for the category in the split key. */
  template?: string;
  /** Bound to what the snapshot holds. */
  requires_offline: boolean;
  /** What the task is there to catch. */
  note: string;
  termination: "FINISH";
  terminal_mode: "completed" | "blocked";
  terminal_reason: BlockedReason | null;
  /** Replies the policy has at most; null: the environment's default. */
  max_iterations: number | null;
  /** Id of the task that is played first, in the same session. */
  depends_on: string | null;
  /**
   * The setup and gold calls of the `depends_on` chain, earliest task first, filled in where tasks are loaded:
   * an episode executes `prior`, then `setup`. A task with `depends_on` but no `prior` is an error at reset.
   */
  prior?: Call[];
  /** The paper of each gold step (null: the step has none); attached by the semantic oracle at load. */
  expected_paper_ids: (string | null)[] | null;
}

export interface PdfAsset {
  paper_id: string;
  pdf_url: string;
  /** Where the PDF would lie, relative to the data folder. Replay writes no file. */
  local_path: string;
  status: "NOT_DOWNLOADED" | "DOWNLOADING" | "READY" | "FAILED";
  size_bytes: number;
  sha256: string | null;
  /** `YYYY-MM-DD HH:MM:SS`, as all times here. */
  downloaded_at: string | null;
  updated_at: string;
  error: string | null;
}

export interface TranslateAsset {
  paper_id: string;
  input_pdf_path: string;
  output_mono_path: string | null;
  output_dual_path: string | null;
  status: "NOT_TRANSLATED" | "TRANSLATING" | "READY" | "FAILED";
  service: string;
  threads: number;
  translated_at: string | null;
  updated_at: string;
  error: string | null;
}

export interface TranslateTask {
  task_id: string;
  session_id: string;
  paper_id: string;
  status: "PENDING" | "RUNNING" | "SUCCEEDED" | "FAILED";
  /** 0 to 1. */
  progress: number;
  input_pdf_url: string;
  input_pdf_path: string;
  output_pdf_path: string | null;
  error: string | null;
  meta: Record<string, unknown>;
}

/** Look-ups of recorded results, counted over an episode. */
export interface ReplayStats {
  hit: number;
  miss: number;
  /** Searches without a recorded pool, which got a made-up list. */
  fallback: number;
  /** Downloads and translations that stand in for real ones. */
  offline_stubs: number;
  /** Calls whose arguments did not fit the tool's schema. */
  argument_errors: number;
}

/** One session's world. Every field is a value that is never changed in place, so keeping a state is keeping a snapshot of it. */
export interface ArxivState {
  /** Recorded tool results, shared by all episodes. */
  readonly snapshot: Snapshot;
  readonly session_id: string;
  /** The current list, at most 50: what a position or a title refers to. */
  readonly papers: readonly Paper[];
  readonly last_active_paper_id: string | null;
  /** When the list was last replaced and a paper last used, as readings of `now_ms`. */
  readonly papers_at_ms: number;
  readonly last_active_at_ms: number;
  readonly pdf: Readonly<Record<string, PdfAsset>>;
  readonly translated: Readonly<Record<string, TranslateAsset>>;
  readonly translate_tasks: readonly TranslateTask[];
  readonly stats: ReplayStats;
  /** The session's clock, milliseconds since 1970. Frozen in replay: a session never expires in mid-episode. */
  readonly now_ms: number;
}

/** `outcome.payload` of an arXiv turn: what a scorer needs to know, so that it reads no text. */
export interface ArxivFacts {
  /** The tool that was asked for, known or not; null where there was no call. */
  tool: string | null;
  /** The paper that the call resolved to. */
  paper_id: string | null;
  /**
   * The tool's result object; null on errors. A search gives `{ count, paper_ids }`, also where the list was made up
   * (kind `fallback`).
   */
  result: unknown;
  /** A search that found nothing, or zero figures. */
  empty: boolean;
  /** The answer of analyze_figure. */
  answer: string | null;
  /** What the parser had to mend or cut to read the reply, a name a repair; see protocol.ts. */
  repairs: readonly string[];
}
