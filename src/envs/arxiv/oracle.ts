import { UserError } from "../../core/errors.ts";
import { failure, runCall, startSession } from "./session.ts";
import type { ArxivTask, Snapshot } from "./types.ts";

/**
 * The semantic oracle: replays what comes before a task and its gold calls, and attaches the paper that each gold call
 * works on (null: a search). With it, any spelling of a reference that hits the right paper is right.
 * @throws UserError for a call that fails: the task can't be solved in this snapshot.
 */
export async function attachExpectedPaperIds(task: ArxivTask, snapshot: Snapshot): Promise<ArxivTask> {
  let state = await startSession(task, snapshot, "oracle");
  const expected_paper_ids: (string | null)[] = [];
  for (const call of task.steps) {
    const result = await runCall(state, call.tool, call.args);
    if (result.outcome.kind !== "ok") throw new UserError(failure(task, "gold", call, result.outcome));
    expected_paper_ids.push(result.outcome.payload.paper_id);
    state = result.state;
  }
  return { ...task, expected_paper_ids };
}
