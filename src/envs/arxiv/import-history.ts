// Turns stored histories, whose outcomes are texts, into structured steps. All that reads a text for a marker is here:
// the reference implementation tells success from failure by (mostly Chinese) words in the observation.
//
// `reference` keeps its quirks, which golden trajectories depend on: markers count anywhere in the text, so a title may
// hold one; a JSON-wrapped FINISH is a call; "no papers" speaks of papers and is a good result.
// `project` reads the same texts soberly: markers count at the start alone, and every spelling of FINISH finishes.
import type { Outcome } from "../../core/trajectory.ts";
import { parsePythonLiteral } from "./python-literal.ts";
import { type CallResult, type ScoredStep, type StepAction, stepOfTurn, type TerminalWord } from "./rewards.ts";
import type { RewardProfile } from "./value-match.ts";

/** A step of the score format. */
export interface HistoryStep {
  thought?: string | null;
  /** A terminal word, a call as an object, or a call as its JSON text. Anything else is an action nobody could read. */
  action: unknown;
  /** Text; anything else is judged by its JSON. */
  observation?: unknown;
  /** The environment could not read the reply. */
  parse_failed?: boolean | null;
  /** The framework added this FINISH. */
  forced_finish?: boolean | null;
  /** What our environment records; where it is there, no text is read. */
  outcome?: Pick<Outcome, "kind" | "payload"> & { text?: string };
}

const TERMINAL_WORDS: readonly string[] = ["FINISH", "FORCE_STOP", "ERROR"];

const TOOL_FAILURE = /错误:|工具执行失败:|命令失败|命令执行超时|命令执行异常/;
/** What the reference's result_quality takes for a failure: without the colon. */
const FAILED_RESULT = /工具执行失败|无法解析/;
const PARSE_FAILURE = /无法解析/;
const FALLBACK = /offline_fallback|回退结果/;

/** The same, in the texts of our own environment too, where they open the observation. */
const OPENS_WITH_TOOL_FAILURE = /^\s*(Observation:\s*)?(错误:|工具执行失败:|命令失败|命令执行超时|命令执行异常|Error:)/;
const OPENS_WITH_PARSE_FAILURE = /^\s*(Observation:\s*)?无法解析/;
const MARKED_FALLBACK = /["']offline_fallback["']\s*:\s*true|^\s*回退结果/i;

const EMPTY_SEARCH = /^\s*(Observation:\s*)?(未获取到任何论文记录|\[\]\s*$|(Found )?(no|0) papers)/i;
const NO_FIGURES = /["']count["']\s*:\s*0(?![.\d])/;

/** What a good result of a tool shows. A tool that is not here can't be told, and counts as good. */
const SHOWS: Record<string, (observation: string) => boolean> = {
  get_recently_submitted_cs_papers: showsPapers,
  search_arxiv_papers: showsPapers,
  download_arxiv_pdf: showsStatus,
  translate_arxiv_pdf: showsStatus,
  get_paper_cache_status: showsStatus,
  get_paper_content: showsText,
  summarize_paper: showsText,
  extract_paper_figures: (observation) => observation.includes("paper_id"),
  analyze_figure: () => true, // judged by its answer
};

function showsPapers(observation: string): boolean {
  return /成功获取|论文|paper|["']id["']/i.test(observation);
}

function showsStatus(observation: string): boolean {
  return /READY|成功|已创建|status|pdf_ready/.test(observation);
}

function showsText(observation: string): boolean {
  return observation.includes("paper_id") && /["'](summary|content|answer)["']/.test(observation);
}

/** `forced_finish`: the flag of the whole trajectory, which speaks of its last step. */
export function importHistory(
  history: readonly HistoryStep[],
  profile: RewardProfile,
  forced_finish = false,
): ScoredStep[] {
  const steps = history.map((step) => importStep(step, profile));
  const last = steps.at(-1);
  return forced_finish && last ? [...steps.slice(0, -1), { ...last, forced: true }] : steps;
}

function importStep(step: HistoryStep, profile: RewardProfile): ScoredStep {
  const thought = step.thought ?? "";
  const forced = step.forced_finish ?? false;
  const action = readAction(step.action, profile);
  const observation = asText(step.observation);
  if (step.outcome) {
    const call = action.type === "call" ? { name: action.name, args: action.args } : null;
    const outcome = { ...step.outcome, text: step.outcome.text ?? observation };
    return { ...stepOfTurn({ thought, action: call, outcome }), forced };
  }

  const sober = profile === "project";
  const flagged = step.parse_failed ?? false;
  const reported = sober
    ? flagged || action.type === "unreadable" || OPENS_WITH_PARSE_FAILURE.test(observation)
    : PARSE_FAILURE.test(observation);
  const tool_failed = action.type !== "terminal" && (sober ? OPENS_WITH_TOOL_FAILURE : TOOL_FAILURE).test(observation);
  const failed = sober ? reported || tool_failed : FAILED_RESULT.test(observation);
  return {
    action,
    thought,
    forced,
    parse_failed: flagged || (sober && reported),
    parse_reported: reported,
    tool_failed,
    result: failed ? "failed" : resultOf(action.type === "call" ? action.name : "", observation, sober),
    answered: action.type === "call" && action.name === "analyze_figure" && answers(observation),
    paper_id: paperIdIn(observation),
  };
}

/** An action as the record holds it. Two parsers of the reference differ on it, hence the forms of a terminal word. */
export function readAction(action: unknown, profile: RewardProfile): StepAction {
  const project = profile === "project";
  if (typeof action === "string") {
    const word = terminalWord(action);
    if (word) return { type: "terminal", word, form: action === word || project ? "bare" : "loose" };
  }
  const call = typeof action === "string" ? parseJson(action) : action;
  if (!isObject(call) || Object.keys(call).length === 0) return { type: "unreadable" };
  const named = typeof call.name === "string";
  const name = named ? (call.name as string) : "";
  const word = terminalWord(name);
  if (word) return { type: "terminal", word, form: project ? "bare" : "wrapped" };
  if (project && name === "") return { type: "unreadable" };
  const args = call.parameters || call.args;
  return { type: "call", name, args: isObject(args) ? args : {}, well_formed: named };
}

function terminalWord(text: string): TerminalWord | null {
  const word = text.trim().toUpperCase();
  return TERMINAL_WORDS.includes(word) ? (word as TerminalWord) : null;
}

function resultOf(tool: string, observation: string, sober: boolean): CallResult {
  if ((sober ? MARKED_FALLBACK : FALLBACK).test(observation)) return "fallback";
  if (observation.trim() === "") return "blank";
  const search = SHOWS[tool] === showsPapers;
  if (search && EMPTY_SEARCH.test(observation)) return sober || showsPapers(observation) ? "empty" : "unrecognised";
  if (Object.hasOwn(SHOWS, tool) && !SHOWS[tool]!(observation)) return "unrecognised";
  return tool === "extract_paper_figures" && NO_FIGURES.test(observation) ? "empty" : "good";
}

/** Whether the whole text is an object with a paper and an answer: JSON, or Python's way to write it. */
function answers(observation: string): boolean {
  const result = parseJson(observation) ?? parsePythonLiteral(observation);
  return isObject(result) && isFilled(result.paper_id) && isFilled(result.answer);
}

/** `'paper_id': '2608.14546v1'` or `paper_id=2608.14546v1`, the first of them. */
function paperIdIn(observation: string): string | null {
  const found = /["']paper_id["']\s*:\s*["']([^"']*)["']/.exec(observation) ?? /paper_id=([\w./-]+)/.exec(observation);
  const paper_id = found?.[1]?.trim() ?? "";
  return ["", "none", "null"].includes(paper_id.toLowerCase()) ? null : paper_id;
}

function asText(observation: unknown): string {
  if (observation === null || observation === undefined) return "";
  return typeof observation === "string" ? observation : JSON.stringify(observation);
}

/** undefined: not JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isFilled(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "";
}
