import type { BadCaseRules } from "../../core/bad-case.ts";
import type { Turn } from "../../core/trajectory.ts";

/** What is looked for in trajectories, and how a case's condition names it. */
export const arxivBadCases: BadCaseRules = {
  figures: {
    task_completed: "boolean",
    termination_type: ["FINISH", "FORCE_STOP", "ERROR", "INCOMPLETE", "NO_HISTORY"],
    tool_call_accurate: "boolean",
    false_finish: "boolean",
    arg_score: "number",
    ref_score: "number",
    terminal_semantics: ["explained_block", "false_completion", "ambiguous"],
  },
  eligible: { termination_type: "FINISH" },
  capture: [
    { false_finish: true },
    { ref_score: { lt: 1 } },
    { task_completed: true, tool_call_accurate: false },
    { arg_score: { lt: 1 } },
    { terminal_semantics: "ambiguous" },
  ],
  history: ({ turns }) => turns.map(historyStep),
};

function historyStep({ reply, thought, action, outcome }: Turn) {
  const step = { thought, action: action ?? (outcome.kind === "terminal" ? "FINISH" : "PARSE_ERROR") };
  const parse_failed = outcome.kind === "parse_error";
  return { ...step, observation: outcome.text, outcome, ...(parse_failed ? { parse_failed, reply } : {}) };
}
