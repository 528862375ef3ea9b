import type { AirlineDb } from "../data/db.ts";
import { type DataState, startState } from "../data/state.ts";
import { sameData } from "../data/state-hash.ts";
import { playTeacher, type TeacherPlay } from "../teacher/index.ts";
import { runAction } from "../tools/index.ts";
import { TRANSFER_TOOL } from "../users/script.ts";
import type { AirlineTask } from "./task.ts";

/** The data that a task's gold leads to; errors of its calls change nothing, as in scoring (airline.md 4.3). */
export function replayGold(task: AirlineTask, db: AirlineDb): DataState {
  const calls = task.actions.filter(({ name }) => name !== TRANSFER_TOOL);
  return calls.reduce((state, action) => runAction(state, action).state, startState(db));
}

/** Whether a dialogue of the scripted teacher's solves its task: the data is the gold's, and all outputs were said. */
export function isSolved(task: AirlineTask, play: TeacherPlay, db: AirlineDb): boolean {
  const said = play.turns.map(({ reply }) =>
    reply.kind === "say" ? reply.text.toLowerCase().replaceAll(",", "") : "",
  );
  return (
    play.ended_by !== "turns" &&
    sameData(play.state, replayGold(task, db)) &&
    task.outputs.every((text) => said.some((one) => one.includes(text.toLowerCase())))
  );
}

/** Whether the scripted teacher solves a task. @throws UserError for a task without a script */
export function teacherSolves(task: AirlineTask, db: AirlineDb): boolean {
  return isSolved(task, playTeacher(task, db), db);
}
