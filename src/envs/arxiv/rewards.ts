// The arXiv reward: five weighted components and two diagnostic ones, each in [-1, 1], then gates that cap the total.
// Everything is judged from structured steps. Text of observations is read in import-history.ts alone.
import { UserError } from "../../core/errors.ts";
import type { FinishedEpisode, RewardComponent, Score } from "../../core/reward.ts";
import type { Turn } from "../../core/trajectory.ts";
import { type TerminalSemantics, terminalSemantics } from "./semantics.ts";
import type { ArxivFacts, ArxivState, ArxivTask, BlockedReason } from "./types.ts";
import { type RewardProfile, valuesMatch } from "./value-match.ts";

export type TerminalWord = "FINISH" | "FORCE_STOP" | "ERROR";

/** What a reply asked for. */
export type StepAction =
  /** `name` is "" where the call named none; `well_formed`: its name was a text. */
  | { type: "call"; name: string; args: Record<string, unknown>; well_formed: boolean }
  /**
   * `loose` (another case, blanks around it) and `wrapped` (`{"name": "FINISH"}`) occur in imported histories of the
   * reference profile only, which sees no end in them, and a call in the wrapped one.
   */
  | { type: "terminal"; word: TerminalWord; form: "bare" | "loose" | "wrapped" }
  | { type: "unreadable" };

/** What a call gave back. `fallback`: the environment made it up. `unrecognised`: not what the tool promises. */
export type CallResult = "good" | "empty" | "unrecognised" | "blank" | "fallback" | "failed";

/** One step of a history, ready to be judged. */
export interface ScoredStep {
  action: StepAction;
  thought: string;
  /** The framework, not the policy, wrote this FINISH. */
  forced: boolean;
  /** The reply could not be read: by its record, and by what the policy was told. Apart only in imported histories. */
  parse_failed: boolean;
  parse_reported: boolean;
  tool_failed: boolean;
  result: CallResult;
  /** An analyze_figure that named its paper and gave an answer. */
  answered: boolean;
  /** The paper that the call resolved to. */
  paper_id: string | null;
}

/** What a task expects, by the names of the score format. */
export interface Expectation {
  /** Empty: no call at all is right. */
  expected_tools: readonly string[];
  /** Aligned with the tools. null: arguments are not judged; an entry null: that call's are not; a value null: absent. */
  expected_tool_args: readonly (Readonly<Record<string, unknown>> | null)[] | null;
  /** Aligned with the tools; an entry null: that call has no paper. */
  expected_paper_ids: readonly (string | null)[] | null;
  /** Older tasks name one paper instead. */
  expected_paper: string | null;
  expected_terminal_mode: "completed" | "blocked";
  expected_terminal_reason: BlockedReason | null;
}

export interface ScoringOptions {
  profile: RewardProfile;
  /** By component; those left out keep their defaults. */
  reward_weights?: Readonly<Record<string, number>>;
  /** Below this training step the weights of tool, argument and outcome are scaled down. 0: never. */
  curriculum_steps?: number;
  curriculum_scale?: number;
  /** Optimizer steps taken; null: no curriculum. */
  training_step?: number | null;
}

/** A history as every component sees it: what was done beside what was expected. */
interface Judged {
  profile: RewardProfile;
  steps: readonly ScoredStep[];
  /** Steps that asked for a tool. */
  calls: readonly Step<"call">[];
  /** Steps that the reference's scorer takes for calls: a wrapped FINISH too. */
  callSteps: readonly ScoredStep[];
  sequence: readonly string[];
  expected: Expectation;
  /** Expected calls that were made, in order. */
  common: number;
  accurate: boolean;
  termination: TerminalWord | "INCOMPLETE" | "NO_HISTORY";
  parse_failures: number;
  tool_exec_failures: number;
  /** null: the task declares no arguments. */
  arg_match: number | null;
  /** null: the task declares no papers. */
  ref_match: number | null;
  /** null: the task is not a blocked one. */
  semantics: TerminalSemantics | null;
  false_finish: boolean;
}

type Step<Type extends StepAction["type"]> = ScoredStep & { action: Extract<StepAction, { type: Type }> };

interface Component extends RewardComponent {
  weight: number;
  /** Scaled down while the curriculum lasts: form comes first. */
  curriculum: boolean;
  /** null: the task gives it nothing to judge, and its weight drops out of the mean. */
  score(judged: Judged): number | null;
}

const RANGE = [-1, 1] as const;

/** Diagnostics weigh nothing, whatever the config says: they only trigger gates. */
const COMPONENTS: readonly Component[] = [
  { name: "format", range: RANGE, weight: 1, curriculum: false, score: format },
  { name: "tool", range: RANGE, weight: 3, curriculum: true, score: tool },
  { name: "argument", range: RANGE, weight: 2, curriculum: true, score: argument },
  { name: "process", range: RANGE, weight: 1, curriculum: false, score: process },
  { name: "outcome", range: RANGE, weight: 3, curriculum: true, score: outcome },
  { name: "result_quality", range: RANGE, weight: 0, curriculum: false, score: resultQuality },
  { name: "efficiency", range: RANGE, weight: 0, curriculum: false, score: efficiency },
];

export const arxivComponents: RewardComponent[] = COMPONENTS.map(({ name, range }) => ({ name, range }));

/** Caps on the total: they never raise it. The first that is triggered counts; later ones are never lower. */
const GATES: readonly { name: string; cap: number; triggered(judged: Judged, parts: Parts): boolean }[] = [
  { name: "hard_invalid", cap: -0.75, triggered: hardInvalid },
  { name: "false_finish", cap: -0.25, triggered: ({ false_finish }) => false_finish },
  { name: "waste", cap: -0.25, triggered: (_, parts) => parts.efficiency! <= -0.75 },
];

type Parts = Record<string, number | null>;

/** Quality of one call's result. */
const QUALITY: Record<CallResult, number> = {
  good: 1,
  empty: 0,
  unrecognised: 0,
  blank: -0.5,
  fallback: -1,
  failed: -1,
};

const SEARCHES = ["get_recently_submitted_cs_papers", "search_arxiv_papers"];

/** What the outcome grants for finishing at all, and the least it grants for finishing with the right calls. */
const PARTIAL = 0.25;

/** Judges a played episode. Pure: it reads the record, runs nothing. */
export function scoreEpisode(
  episode: FinishedEpisode<ArxivState>,
  task: ArxivTask,
  options: Omit<ScoringOptions, "training_step">,
): Score {
  const scoring = { ...options, training_step: episode.training_step };
  const score = scoreSteps(episode.turns.map(stepOfTurn), expectationOf(task), scoring);
  // A curriculum changes them in the middle of a run: a reward is explained by its parts and these.
  const weights = Object.entries(weightsOf(scoring)).map(([name, weight]) => [`reward_weights/${name}`, weight]);
  return { ...score, metrics: { ...score.metrics, ...Object.fromEntries(weights) } };
}

/**
 * Judges a history. Reward and parts are in [-1, 1], rounded to 6 decimals; the reward's weighted mean before gates
 * stands in the metrics as `pre_gate`, and the gate that applied, if any, as `gate`.
 * @throws UserError for weights that are unknown, negative or all 0.
 */
export function scoreSteps(steps: readonly ScoredStep[], expected: Expectation, options: ScoringOptions): Score {
  const weights = weightsOf(options);
  const judged = judge(steps, expected, options.profile);
  const parts: Parts = Object.fromEntries(COMPONENTS.map(({ name, score }) => [name, score(judged)]));

  let sum = 0;
  let total = 0;
  for (const { name } of COMPONENTS) {
    const part = parts[name]!;
    if (part === null) continue;
    sum += weights[name]! * part;
    total += weights[name]!;
  }
  const preGate = total === 0 ? 0 : sum / total;
  const gate = GATES.find(({ triggered }) => triggered(judged, parts));
  const reward = clip(gate ? Math.min(preGate, gate.cap) : preGate);
  const success = strictSuccess(judged, gate?.name === "hard_invalid");

  return {
    reward: round(reward),
    parts: Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, part === null ? null : round(part)])),
    metrics: {
      profile: options.profile,
      termination_type: judged.termination,
      finished: judged.termination === "FINISH",
      strict: success,
      accurate: judged.accurate,
      arg_score: round(judged.arg_match ?? 1),
      arg_applicable: judged.arg_match !== null,
      ref_score: round(judged.ref_match ?? 1),
      ref_applicable: judged.ref_match !== null,
      false_finish: judged.false_finish,
      parse_failures: judged.parse_failures,
      tool_exec_failures: judged.tool_exec_failures,
      terminal_semantics: judged.semantics,
      calls: judged.sequence.length,
      pre_gate: round(preGate),
      gate: gate?.name ?? null,
    },
    success,
  };
}

/**
 * Reward of one step alone, in [-0.7, 0.1], for dense shaping and reports. The reference also takes the mere word
 * "Error" in an observation for a failure; a paper on error-correcting codes is none.
 */
export function stepReward(step: ScoredStep): number {
  const readable = isBare(step) || isCallStep(step) ? 0.1 : -0.2;
  const unread = step.parse_failed || step.parse_reported ? -0.2 : 0;
  return round(readable + unread + (step.tool_failed ? -0.3 : 0));
}

/** Above this, a sum of weights could leave what a number holds. */
const MAX_WEIGHT = 1e6;

/** What is wrong with weights that a user gave; null: nothing. */
export function weightProblem(reward_weights: Readonly<Record<string, number>>): string | null {
  const names = COMPONENTS.filter(({ weight }) => weight > 0).map(({ name }) => name);
  for (const [name, weight] of Object.entries(reward_weights)) {
    if (!names.includes(name))
      return `reward_weights has '${name}'; the arXiv reward has weights for ${names.join(", ")}.`;
    if (!(weight >= 0)) return `reward_weights.${name} is ${weight}; expected a number ≥ 0.`;
    if (weight > MAX_WEIGHT) return `reward_weights.${name} is ${weight}; expected at most ${MAX_WEIGHT}.`;
  }
  return names.every((name) => (Object.hasOwn(reward_weights, name) ? reward_weights[name] : 1) === 0)
    ? `reward_weights are all 0; at least one of ${names.join(", ")} must count.`
    : null;
}

function weightsOf(options: ScoringOptions): Record<string, number> {
  const { reward_weights = {}, curriculum_steps = 0, curriculum_scale = 1 / 3, training_step = null } = options;
  const problem = weightProblem(reward_weights);
  if (problem) throw new UserError(problem);
  const early = training_step !== null && training_step < curriculum_steps;
  return Object.fromEntries(
    COMPONENTS.map(({ name, weight, curriculum }) => {
      const chosen = Object.hasOwn(reward_weights, name) ? reward_weights[name]! : weight;
      return [name, early && curriculum ? chosen * curriculum_scale : chosen];
    }),
  );
}

function judge(steps: readonly ScoredStep[], expected: Expectation, profile: RewardProfile): Judged {
  const calls = steps.filter((step): step is Step<"call"> => step.action.type === "call");
  const sequence = calls.map(({ action }) => action.name).filter((name) => name !== "");
  const { expected_tools } = expected;
  const common = commonLength(sequence, expected_tools);
  const accurate = sequence.length === expected_tools.length && common === sequence.length;
  const termination = terminationOf(steps);
  const semantics = semanticsOf(steps, expected, profile);
  const finished = termination === "FINISH";
  return {
    profile,
    steps,
    calls,
    callSteps: steps.filter(isCallStep),
    sequence,
    expected,
    common,
    accurate,
    termination,
    parse_failures:
      steps.slice(0, -1).filter((step) => isBare(step) && step.action.word === "FINISH").length +
      steps.filter(({ parse_reported }) => parse_reported).length,
    tool_exec_failures: steps.filter(
      ({ tool_failed, result }) => tool_failed || (profile === "project" && result === "fallback"),
    ).length,
    arg_match: argMatch(calls, expected, profile),
    ref_match: refMatch(steps, calls, expected),
    semantics,
    false_finish: finished && (common < expected_tools.length || semantics === "false_completion"),
  };
}

function strictSuccess(judged: Judged, hardInvalid: boolean): boolean {
  const { profile, termination, accurate, arg_match, ref_match, semantics, callSteps } = judged;
  const strict =
    termination === "FINISH" &&
    accurate &&
    (arg_match ?? 1) === 1 &&
    (ref_match ?? 1) === 1 &&
    judged.parse_failures === 0 &&
    judged.tool_exec_failures === 0 &&
    (semantics === null || semantics === "explained_block");
  // The reference leaves out the last two, and so counts as successes what it rewards with -0.75.
  return strict && (profile === "reference" || (!hardInvalid && !callSteps.some(({ result }) => result === "blank")));
}

function terminationOf(steps: readonly ScoredStep[]): Judged["termination"] {
  const last = steps.at(-1);
  if (!last) return "NO_HISTORY";
  return isBare(last) ? last.action.word : "INCOMPLETE";
}

function semanticsOf(
  steps: readonly ScoredStep[],
  { expected_terminal_mode, expected_terminal_reason }: Expectation,
  profile: RewardProfile,
): TerminalSemantics | null {
  if (expected_terminal_mode !== "blocked" || expected_terminal_reason === null) return null;
  const finish = steps.findLast((step) => isBare(step) && step.action.word === "FINISH");
  return terminalSemantics(finish?.thought ?? "", expected_terminal_reason, profile);
}

/** Mean over the expected calls, by position: one call too many at the front shifts all that follow. In [0, 1]. */
function argMatch(calls: readonly Step<"call">[], expected: Expectation, profile: RewardProfile): number | null {
  const { expected_tools, expected_tool_args, expected_paper_ids } = expected;
  if (expected_tool_args === null) return null;
  if (expected_tool_args.length === 0) return calls.length === 0 ? 1 : 0;
  const scores = expected_tool_args.flatMap((wanted, i) => {
    if (wanted === null) return [];
    const call = calls[i];
    if (!call || call.action.name !== expected_tools[i]) return [0];
    const { args } = call.action;
    const keys = Object.keys(wanted);
    if (keys.length === 0) return [Object.keys(args).length === 0 ? 1 : 0];
    const paper = expected_paper_ids?.[i] ?? null;
    const matching = keys.filter((key) => {
      if (key === "ref" && paper !== null) return samePaper(call.paper_id, paper); // however the policy spelled it
      return valuesMatch(Object.hasOwn(args, key) ? args[key] : undefined, wanted[key], key, profile);
    });
    return [matching.length / keys.length];
  });
  return scores.length === 0 ? 1 : mean(scores);
}

/** Share of the expected papers that the call at the same place resolved to. In [0, 1]. */
function refMatch(
  steps: readonly ScoredStep[],
  calls: readonly Step<"call">[],
  { expected_tools, expected_paper_ids, expected_paper }: Expectation,
): number | null {
  const wanted = expected_paper_ids ?? (expected_paper !== null && expected_tools.length === 1 ? [expected_paper] : []);
  const scores = wanted.flatMap((paper, i) => {
    if (paper === null) return [];
    const call = calls[i];
    return call?.action.name === expected_tools[i] && samePaper(call?.paper_id ?? null, paper) ? [1] : [0];
  });
  if (scores.length > 0) return mean(scores);
  if (expected_paper === null) return null;
  const resolved = steps.flatMap(({ paper_id }) => (paper_id === null ? [] : [paper_id]));
  return resolved.length === 0 ? 0 : mean(resolved.map((paper_id) => (samePaper(paper_id, expected_paper) ? 1 : 0)));
}

function samePaper(paper_id: string | null, expected: string): boolean {
  return paper_id !== null && withoutVersion(paper_id) === withoutVersion(expected);
}

function withoutVersion(paper_id: string): string {
  return paper_id.replace(/v\d+$/, "");
}

function format({ steps }: Judged): number {
  if (steps.length === 0) return -1;
  const valid = steps.filter(
    (step) => isBare(step) || (isCallStep(step) && (step.action.type !== "call" || step.action.well_formed)),
  );
  return (2 * valid.length) / steps.length - 1;
}

/** F1 of the longest common subsequence of called and expected tools. */
function tool({ sequence, expected: { expected_tools }, common }: Judged): number {
  if (expected_tools.length === 0) return sequence.length === 0 ? 1 : -1;
  return common === 0 ? -1 : (4 * common) / (sequence.length + expected_tools.length) - 1;
}

function argument({ arg_match }: Judged): number | null {
  return arg_match === null ? null : 2 * arg_match - 1;
}

function process(judged: Judged): number {
  const { steps, sequence, expected } = judged;
  if (steps.length === 0) return -1;
  let good = 0;
  for (const step of steps) {
    if (isBare(step) || isCallStep(step)) good += 1;
    if (step.parse_failed || step.parse_reported) good -= 1;
  }
  const extra = Math.max(0, sequence.length - expected.expected_tools.length);
  return clip(good / steps.length - 0.25 * failures(judged) - 0.1 * extra);
}

function outcome(judged: Judged): number {
  const { termination, tool_exec_failures, semantics, accurate, steps } = judged;
  if (termination === "ERROR") return -1;
  if (termination === "FORCE_STOP") return -0.5;
  if (tool_exec_failures > 0) return -1;
  if (termination !== "FINISH") return -0.25;
  if (!accurate) return PARTIAL;
  if (semantics !== null) return { explained_block: 1, false_completion: -0.25, ambiguous: 0 }[semantics];
  const earned = Math.max(PARTIAL, 2 * Math.min(judged.arg_match ?? 1, judged.ref_match ?? 1) - 1);
  // Forced: capped here and not on the total, which once made all members of a group equal.
  return steps.at(-1)!.forced ? Math.min(PARTIAL, earned) : earned;
}

function resultQuality({ callSteps, expected: { expected_tools }, profile }: Judged): number {
  if (expected_tools.length === 0) return callSteps.length === 0 ? 1 : -1;
  if (callSteps.length === 0) return -1;
  const extra = Math.max(0, callSteps.length - expected_tools.length);
  const sum = callSteps.reduce((total, step) => total + quality(step, profile), 0) - extra;
  return clip(sum / (callSteps.length + extra));
}

function quality(step: ScoredStep, profile: RewardProfile): number {
  const { action, result, answered, parse_failed } = step;
  const name = action.type === "call" ? action.name : "";
  if (parse_failed) return -1;
  if (result === "empty" && profile === "reference" && SEARCHES.includes(name)) return 1; // its text speaks of papers
  if (name === "analyze_figure" && QUALITY[result] >= 0) return answered ? 1 : -1;
  return QUALITY[result];
}

function efficiency(judged: Judged): number {
  const { sequence, expected } = judged;
  const count = expected.expected_tools.length;
  if (count === 0) return sequence.length === 0 ? 1 : -1;
  const penalty = Math.max(0, sequence.length - count) / count + 0.25 * failures(judged);
  return clip(1 - 2 * penalty);
}

/** The unanswered figure is looked for a step at a time: in the mean, good steps before it would hide it. */
function hardInvalid(judged: Judged, parts: Parts): boolean {
  return (
    judged.termination === "ERROR" ||
    failures(judged) > 0 ||
    parts.result_quality! <= -0.75 ||
    judged.calls.some(({ action, answered }) => action.name === "analyze_figure" && !answered)
  );
}

function failures({ parse_failures, tool_exec_failures }: Judged): number {
  return parse_failures + tool_exec_failures;
}

function isBare(step: ScoredStep): step is Step<"terminal"> {
  return step.action.type === "terminal" && step.action.form === "bare";
}

function isCallStep(step: ScoredStep): boolean {
  return step.action.type === "call" || (step.action.type === "terminal" && step.action.form === "wrapped");
}

/** What a task of the family expects: names and arguments from one list of steps, so that they can't drift apart. */
export function expectationOf(task: ArxivTask): Expectation {
  return {
    expected_tools: task.steps.map(({ tool }) => tool),
    expected_tool_args: task.steps.map(({ args }) => args),
    expected_paper_ids: task.expected_paper_ids,
    expected_paper: null,
    expected_terminal_mode: task.terminal_mode,
    expected_terminal_reason: task.terminal_reason,
  };
}

/** A step from what the environment recorded. Total: a record that lacks the facts counts as an unrecognised result. */
export function stepOfTurn({ thought, action, outcome }: Pick<Turn, "thought" | "action" | "outcome">): ScoredStep {
  const facts = (outcome.payload ?? {}) as Partial<ArxivFacts>;
  const unread = outcome.kind === "parse_error" || (outcome.kind !== "terminal" && action === null);
  const answered = outcome.kind === "ok" && isFilled(facts.paper_id) && isFilled(facts.answer);
  return {
    action:
      outcome.kind === "terminal"
        ? { type: "terminal", word: "FINISH", form: "bare" }
        : unread || action === null
          ? { type: "unreadable" }
          : { type: "call", name: action.name, args: action.args, well_formed: true },
    thought,
    forced: false,
    parse_failed: unread,
    parse_reported: unread,
    tool_failed: outcome.kind === "tool_error",
    result: resultOf(outcome, facts),
    answered,
    paper_id: facts.paper_id ?? null,
  };
}

function resultOf({ kind, text }: Turn["outcome"], facts: Partial<ArxivFacts>): CallResult {
  if (kind === "tool_error" || kind === "parse_error") return "failed";
  if (kind === "fallback") return "fallback";
  if (text.trim() === "") return "blank";
  if (facts.empty) return "empty";
  return facts.result === null || facts.result === undefined ? "unrecognised" : "good";
}

function isFilled(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "";
}

/** Length of the longest common subsequence. */
function commonLength(left: readonly string[], right: readonly string[]): number {
  let row = new Array<number>(right.length + 1).fill(0);
  for (const item of left) {
    const next = [0];
    for (let j = 0; j < right.length; j++) {
      next.push(item === right[j] ? row[j]! + 1 : Math.max(row[j + 1]!, next[j]!));
    }
    row = next;
  }
  return row[right.length]!;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function clip(value: number): number {
  return Math.min(1, Math.max(-1, value));
}

/** To 6 decimals, and never -0. */
function round(value: number): number {
  return Math.round(value * 1e6) / 1e6 + 0;
}
