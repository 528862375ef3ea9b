// Policies without a model. Each gives its replies in advance; an episode ends when they do.
import type { Random } from "../../core/random.ts";
import { type Action, renderReply } from "./protocol.ts";
import type { ArxivTask, Call } from "./types.ts";
import { stepThought, terminalThought } from "./wordings.ts";

/** What a policy without a model does on a task. */
export interface Plan {
  calls: readonly Call[];
  /** The thought of the reply that finishes. */
  closing: string;
}

/** Draws an integer in [0, below). */
export type Choose = (below: number) => number;

const SEARCH: Call = {
  tool: "get_recently_submitted_cs_papers",
  args: { aspect: "AI", days: 7, max_results: 5 },
};

const download = (ref: number): Call => ({ tool: "download_arxiv_pdf", args: { ref } });

/** What `random_tool` picks from. */
const RANDOM_CALLS: readonly Call[] = [
  SEARCH,
  download(1),
  { tool: "translate_arxiv_pdf", args: { ref: 1 } },
  { tool: "get_paper_cache_status", args: { ref: 1 } },
];

/** The right tools in the right order, and no argument that means anything. */
function wrongArgs({ tool }: Call): Call {
  return tool === SEARCH.tool
    ? { tool, args: { ...SEARCH.args, aspect: "nonexistent_topic" } }
    : { tool, args: { ref: -1 } };
}

const STOP = "I stop here.";
/** True of one blocked task, and said of all. */
const REFUSAL = "Unable to do this: it is unsupported, no tool offers it.";

/** `gold` solves the task; the others show what a reward pays to policies that don't try to. */
export const arxivPlans = {
  gold: (task: ArxivTask) => ({ calls: task.steps, closing: terminalThought(task) }),
  always_finish: () => ({ calls: [], closing: STOP }),
  always_search: () => ({ calls: [SEARCH], closing: STOP }),
  random_tool: (_: ArxivTask, choose: Choose) => ({
    calls: [RANDOM_CALLS[choose(RANDOM_CALLS.length)]!],
    closing: STOP,
  }),
  wrong_args: (task: ArxivTask) => ({ calls: task.steps.map(wrongArgs), closing: STOP }),
  // Nothing to repeat on a blocked task: there it is right.
  repeat_last_call: (task: ArxivTask) => ({
    calls: [...task.steps, ...task.steps.slice(-1)],
    closing: terminalThought(task),
  }),
  download_everything: () => ({ calls: [1, 2, 3, 4, 5].map(download), closing: STOP }),
  finish_with_refusal: () => ({ calls: [], closing: REFUSAL }),
  format_only: () => ({ calls: [{ tool: "do_the_task", args: { ref: 1 } }], closing: STOP }),
} satisfies Record<string, (task: ArxivTask, choose: Choose) => Plan>;

type PolicyName = keyof typeof arxivPlans;

function replies({ calls, closing }: Plan): string[] {
  const turns: [string, Action][] = calls.map((call) => [stepThought(call), { name: call.tool, args: call.args }]);
  return [...turns, [closing, "FINISH"] as [string, Action]].map(([thought, action]) => renderReply(thought, action));
}

/** The same as replies. */
export const arxivPolicies = Object.fromEntries(
  Object.entries(arxivPlans).map(([name, plan]) => [
    name,
    (task: ArxivTask, random: Random) => replies(plan(task, (below) => random.int(below))),
  ]),
) as Record<PolicyName, (task: ArxivTask, random: Random) => string[]>;
