// Policies without a model. Each gives its replies in advance; an episode ends when they do.
import type { Random } from "../../core/random.ts";
import { type Action, renderReply } from "./protocol.ts";
import type { ArxivTask, Call } from "./types.ts";
import { stepThought, terminalThought } from "./wordings.ts";

const SEARCH: Call = {
  tool: "get_recently_submitted_cs_papers",
  args: { aspect: "AI", days: 7, max_results: 5 },
};

/** What `random_tool` picks from. */
const RANDOM_CALLS: readonly Call[] = [
  SEARCH,
  { tool: "download_arxiv_pdf", args: { ref: 1 } },
  { tool: "translate_arxiv_pdf", args: { ref: 1 } },
  { tool: "get_paper_cache_status", args: { ref: 1 } },
];

/** The right tools in the right order, and no argument that means anything. */
function wrongArgs({ tool }: Call): Call {
  return tool === SEARCH.tool
    ? { tool, args: { ...SEARCH.args, aspect: "nonexistent_topic" } }
    : { tool, args: { ref: -1 } };
}

function replies(calls: readonly Call[], closing: string): string[] {
  const turns: [string, Action][] = calls.map((call) => [stepThought(call), { name: call.tool, args: call.args }]);
  return [...turns, [closing, "FINISH"] as [string, Action]].map(([thought, action]) => renderReply(thought, action));
}

const STOP = "I stop here.";

/** `gold` solves the task; the others show what a reward pays to policies that don't try to. */
export const arxivPolicies = {
  gold: (task: ArxivTask) => replies(task.steps, terminalThought(task)),
  always_finish: () => replies([], STOP),
  always_search: () => replies([SEARCH], STOP),
  random_tool: (_task: ArxivTask, random: Random) => replies([random.pick(RANDOM_CALLS)], STOP),
  wrong_args: (task: ArxivTask) => replies(task.steps.map(wrongArgs), STOP),
};
