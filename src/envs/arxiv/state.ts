import type { ArxivState, Paper, PdfAsset, Snapshot, TranslateAsset, TranslateTask } from "./types.ts";

// A session is one value that is never changed in place: each function gives back the next one. So an episode can't
// disturb another, and to capture or restore a session is to keep the value.

/** A session's list holds no more papers than this. */
export const MAX_LISTED = 50;

/** A list or a last-used paper that is older than this is forgotten. */
export const SESSION_TTL_MS = 60 * 60 * 1000;

/** @param now_ms The session's clock; left out: the moment the snapshot was made, so that replay never expires. */
export function initialState(snapshot: Snapshot, session_id: string, now_ms = snapshotTime(snapshot)): ArxivState {
  return {
    snapshot,
    session_id,
    papers: [],
    last_active_paper_id: null,
    papers_at_ms: now_ms,
    last_active_at_ms: now_ms,
    pdf: {},
    translated: {},
    translate_tasks: [],
    stats: { hit: 0, miss: 0, fallback: 0, offline_stubs: 0, argument_errors: 0 },
    now_ms,
  };
}

function snapshotTime(snapshot: Snapshot): number {
  return Date.parse(`${snapshot.created_at.replace(" ", "T")}Z`);
}

/** The list as a call sees it: empty once the session has expired. */
export function currentPapers(state: ArxivState): readonly Paper[] {
  return state.now_ms - state.papers_at_ms > SESSION_TTL_MS ? [] : state.papers;
}

/** The paper used last, whether or not it is in the list. null: none, or expired. */
export function lastActive(state: ArxivState): string | null {
  return state.now_ms - state.last_active_at_ms > SESSION_TTL_MS ? null : state.last_active_paper_id;
}

export function withPapers(state: ArxivState, papers: readonly Paper[]): ArxivState {
  return { ...state, papers: papers.slice(0, MAX_LISTED), papers_at_ms: state.now_ms };
}

export function withActive(state: ArxivState, paper_id: string): ArxivState {
  return { ...state, last_active_paper_id: paper_id, last_active_at_ms: state.now_ms };
}

export function withPdf(state: ArxivState, asset: PdfAsset): ArxivState {
  return { ...state, pdf: { ...state.pdf, [asset.paper_id]: asset } };
}

export function withTranslation(state: ArxivState, task: TranslateTask, asset: TranslateAsset): ArxivState {
  return {
    ...state,
    translated: { ...state.translated, [asset.paper_id]: asset },
    translate_tasks: [...state.translate_tasks, task],
  };
}

export function counted(state: ArxivState, what: keyof ArxivState["stats"]): ArxivState {
  return { ...state, stats: { ...state.stats, [what]: state.stats[what] + 1 } };
}

export function isDownloaded(state: ArxivState, paper_id: string): boolean {
  return Object.hasOwn(state.pdf, paper_id) && state.pdf[paper_id]!.status === "READY";
}
