import { ToolError, UserError } from "../../core/errors.ts";
import type { Outcome } from "../../core/trajectory.ts";
import { renderObservation, renderToolError } from "./observation.ts";
import type { Repair } from "./protocol.ts";
import { quoted } from "./refs.ts";
import { ArgumentError, SearchFallback, SnapshotMiss } from "./replay.ts";
import { counted, initialState } from "./state.ts";
import { arxivTools, TOOL_NAMES } from "./tools/index.ts";
import type { ArxivFacts, ArxivState, ArxivTask, Call, Paper, Snapshot } from "./types.ts";

// Calls against a session: an episode's own, and those that ran before it.

export type ArxivOutcome = Outcome & { payload: ArxivFacts };

/**
 * Runs one call. A tool's refusal is an outcome, and leaves all but the counters as they were; anything else that goes
 * wrong is thrown.
 */
export async function runCall(
  state: ArxivState,
  name: string,
  args: unknown,
  repairs: readonly Repair[] = [],
): Promise<{ state: ArxivState; outcome: ArxivOutcome }> {
  const failed = (kind: "tool_error" | "fallback", text: string, result: unknown = null): ArxivOutcome => ({
    kind,
    text,
    payload: { tool: name, paper_id: null, result, empty: false, answer: null, repairs },
  });
  try {
    const tool = arxivTools.find((candidate) => candidate.name === name);
    if (!tool) throw new ToolError(`There is no tool ${quoted(name)}. The tools are ${TOOL_NAMES.join(", ")}.`);
    const { state: next, output } = await tool.call(state, args);
    const text = renderObservation(name, output);
    return { state: next, outcome: { kind: "ok", text, payload: { ...factsOf(name, output), repairs } } };
  } catch (error) {
    if (error instanceof SearchFallback) {
      return {
        state: counted(counted(state, "miss"), "fallback"),
        outcome: failed("fallback", renderToolError(error), { ...listOf(error.papers), _mock_env: true }),
      };
    }
    if (!(error instanceof ToolError)) throw error;
    const counter = error instanceof ArgumentError ? "argument_errors" : error instanceof SnapshotMiss ? "miss" : null;
    return {
      state: counter ? counted(state, counter) : state,
      outcome: failed("tool_error", renderToolError(error)),
    };
  }
}

function factsOf(tool: string, output: unknown): Omit<ArxivFacts, "repairs"> {
  if (Array.isArray(output)) {
    // The papers themselves stand in the snapshot; a log needs only which they were.
    return { tool, paper_id: null, result: listOf(output as Paper[]), empty: output.length === 0, answer: null };
  }
  const result = output as Record<string, unknown>;
  return {
    tool,
    paper_id: typeof result.paper_id === "string" ? result.paper_id : null,
    result,
    empty: result.count === 0,
    answer: typeof result.answer === "string" ? result.answer : null,
  };
}

function listOf(papers: readonly Paper[]) {
  return { count: papers.length, paper_ids: papers.map((paper) => paper.id) };
}

/** The calls that an episode of the task finds already done. */
export function callsBefore(task: ArxivTask): Call[] {
  if (task.depends_on !== null && !task.prior) {
    throw new UserError(
      `task '${task.id}' depends on '${task.depends_on}', but the calls of that task were not loaded.`,
    );
  }
  return [...(task.prior ?? []), ...task.setup];
}

/**
 * The session in which a task begins.
 * @throws UserError for a call before it that fails: the task would not be what it says.
 */
export async function startSession(task: ArxivTask, snapshot: Snapshot, session_id: string): Promise<ArxivState> {
  let state = initialState(snapshot, session_id);
  for (const call of callsBefore(task)) {
    const result = await runCall(state, call.tool, call.args);
    if (result.outcome.kind !== "ok") throw new UserError(failure(task, "setup", call, result.outcome));
    state = result.state;
  }
  return state;
}

/** What a call that must not fail is reported by. */
export function failure(task: ArxivTask, what: string, call: Call, outcome: Outcome): string {
  return `task '${task.id}': its ${what} call ${call.tool} ${JSON.stringify(call.args)} fails: ${outcome.text}`;
}
