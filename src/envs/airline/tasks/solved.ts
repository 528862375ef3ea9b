import type { AirlineDb } from "../data/db.ts";
import { outcomeOf } from "../scoring.ts";
import { playTeacher, type TeacherPlay } from "../teacher/index.ts";
import type { AirlineTask } from "./task.ts";

/** Whether a dialogue of the scripted teacher's solves its task, by the scoring of the benchmark. */
export function isSolved(task: AirlineTask, play: TeacherPlay): boolean {
  const said = play.turns.flatMap(({ reply }) => (reply.kind === "say" ? [reply.text] : []));
  const terminated_by = play.ended_by === "turns" ? null : play.ended_by;
  return outcomeOf(task, { data: play.state, said, calls: [], terminated_by }, AS_BENCHMARK) === 1;
}

const AS_BENCHMARK = { number_mode: "python", strict_refusal: false } as const;

/** Whether the scripted teacher solves a task. @throws UserError for a task without a script */
export function teacherSolves(task: AirlineTask, db: AirlineDb): boolean {
  return isSolved(task, playTeacher(task, db));
}
