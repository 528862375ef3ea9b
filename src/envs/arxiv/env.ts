import { type Continuation, defineEnv, type EnvSpec } from "../../core/env.ts";
import { arxivBadCases } from "./bad-cases.ts";
import { arxivBaselines } from "./baselines.ts";
import { arxivBenchmark } from "./measures.ts";
import { observationMessage } from "./observation.ts";
import { type ArxivOptions, arxivOptions } from "./options.ts";
import { arxivPairs } from "./pair-data.ts";
import { arxivPolicies } from "./policies.ts";
import { renderPrompt, renderSetupContext } from "./prompt.ts";
import { type ParsedReply, parseReact, parseReactLenient } from "./protocol.ts";
import { rescoreLine } from "./rescore.ts";
import { arxivComponents, scoreEpisode } from "./rewards.ts";
import { callsBefore, runCall, startSession } from "./session.ts";
import { expertRows, loadRlVariations } from "./sft-data.ts";
import { loadSnapshot } from "./snapshot.ts";
import { arxivSplits, loadArxivSplit, RL_VARIATIONS_SPLIT } from "./splits.ts";
import { arxivTools, TOOL_NAMES } from "./tools/index.ts";
import type { ArxivFacts, ArxivState, ArxivTask } from "./types.ts";

/** Replies a policy has; a task may say otherwise. The longest gold solution takes 5. */
const MAX_TURNS = 6;

/** The reference implementation's markers (arxiv.md 3.2); `observationMessage` writes the word that stops a reply. */
const CONTINUATION: Continuation = { separator: "\n", opening: "Thought:", stop: "Observation:" };

export const arxivSpec: EnvSpec<ArxivTask, ArxivState, ArxivOptions> = {
  id: "arxiv@1",
  summary: "ReAct over nine arXiv tools, replayed from a snapshot",
  options: arxivOptions,
  max_turns: (task) => task.max_iterations ?? MAX_TURNS,
  tools: arxivTools,
  stop: ["\nObservation:"],
  continuation: ({ protocol }) => (protocol.style === "continuation" ? CONTINUATION : null),
  components: arxivComponents,
  splits: [...arxivSplits, RL_VARIATIONS_SPLIT],
  eval_split: "dev",
  load: (split, options) =>
    split === RL_VARIATIONS_SPLIT ? loadRlVariations(options) : loadArxivSplit(split, options),

  async reset(task, { options, random }) {
    const stream = random.fork("session");
    const session_id = `grpo_${task.id}_${Array.from({ length: 10 }, () => stream.int(16).toString(16)).join("")}`;
    const state = await startSession(task, loadSnapshot(options.snapshot), session_id);
    const context = renderSetupContext(callsBefore(task));
    const { prompt, protocol } = options;
    const content = renderPrompt({ tools: arxivTools, task: task.task, context, prompt, style: protocol.style });
    return { state, messages: [{ role: "user", content }] };
  },

  async step(state, reply, { options }) {
    const parsed = options.parser === "lenient" ? parseReactLenient(reply, TOOL_NAMES) : parseReact(reply);
    const { thought, repairs } = parsed;
    if (parsed.kind !== "call") return { ...ending(parsed), state, thought };
    const { state: next, outcome } = await runCall(state, parsed.name, parsed.args, repairs);
    return {
      state: next,
      thought,
      action: { name: parsed.name, args: asArgs(parsed.args) },
      outcome,
      observations: [observationMessage(outcome.text, outcome.kind !== "ok")],
      terminated: false,
    };
  },

  score: scoreEpisode,
  policies: arxivPolicies,
  baselines: arxivBaselines(),
  expert: (split, options) => expertRows(arxivSpec, split, options),
  rescore: rescoreLine,
  bad_cases: arxivBadCases,
  pairs: arxivPairs,
  benchmark: arxivBenchmark,
  category: (task) => task.category,
  canary: { split: "smoke", task_ids: ["search_01", "composite_01"] }, // arxiv.md 10.6
};

export const arxiv = defineEnv(arxivSpec);

/** FINISH ends an episode, and so does a reply that can't be read: nothing true could be answered to it. */
function ending(parsed: Exclude<ParsedReply, { kind: "call" }>) {
  const facts: ArxivFacts = {
    tool: null,
    paper_id: null,
    result: null,
    empty: false,
    answer: null,
    repairs: parsed.repairs,
  };
  const outcome =
    parsed.kind === "finish"
      ? { kind: "terminal" as const, text: "", payload: facts }
      : { kind: "parse_error" as const, text: parsed.reason, payload: facts };
  return { action: null, outcome, observations: [], terminated: true };
}

/** What stood in place of arguments stays in the record, under the name it had. */
function asArgs(args: unknown): Record<string, unknown> {
  const isObject = typeof args === "object" && args !== null && !Array.isArray(args);
  return isObject ? (args as Record<string, unknown>) : { args };
}
