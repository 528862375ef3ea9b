import type { AirlineDb } from "../data/db.ts";
import { type DataState, startState } from "../data/state.ts";
import type { ToolOptions } from "../tools/define.ts";
import { runAction } from "../tools/index.ts";
import { TRANSFER_TOOL } from "../users/script.ts";
import { openScripted, stepScripted } from "../users/scripted.ts";
import { endsDialogue, type UserTask, type WriteCall } from "../users/types.ts";
import { isWrite, type TeacherTask } from "./plan.ts";
import { DEFAULT_TEACHER, type Observation, startTeacher, type TeacherReply, teacherTurn } from "./teacher.ts";

/** A dialogue of the scripted teacher with the scripted user. */
export interface TeacherPlay {
  /** The user's first message. */
  opening: string;
  /** The teacher's messages, each with what came of it; the user's last text is the stop token. */
  turns: { reply: TeacherReply; observation: Observation }[];
  /** `turns`: the limit came first. */
  ended_by: "stop" | "transfer" | "turns";
  /** The data at the end. */
  state: DataState;
}

export interface PlayOptions {
  max_turns?: number;
  /** The user sees the writes; false: it goes by the teacher's words. */
  peek?: boolean;
  tools?: ToolOptions;
}

/**
 * Plays a task without a model and without I/O, so equal tasks give equal dialogues: what the teacher says is known
 * before an episode begins, as for `policies`.
 * @throws UserError for a task without a script
 */
export function playTeacher(
  task: TeacherTask & UserTask,
  db: AirlineDb,
  { max_turns = DEFAULT_TEACHER.max_turns, peek = true, tools = {} }: PlayOptions = {},
): TeacherPlay {
  let teacher = startTeacher(task);
  let { state: user, text: opening } = openScripted(task);
  let data = startState(db);
  let writes: WriteCall[] = [];
  let observation: Observation = { from: "user", text: opening };
  const turns: TeacherPlay["turns"] = [];
  while (turns.length < max_turns) {
    const { state, reply } = teacherTurn(task, teacher, observation, { max_turns });
    teacher = state;
    if (reply.kind === "call") {
      const { name } = reply.call;
      const result = runAction(data, reply.call, tools);
      data = result.state;
      if (isWrite(name) && !result.failed) writes.push(reply.call);
      observation = { from: "tool", text: result.observation };
      turns.push({ reply, observation });
      if (name === TRANSFER_TOOL) return { opening, turns, ended_by: "transfer", state: data };
    } else {
      const next = stepScripted(task, user, reply.text, { writes }, { peek });
      user = next.state;
      writes = [];
      observation = { from: "user", text: next.text };
      turns.push({ reply, observation });
      if (endsDialogue(next.text)) return { opening, turns, ended_by: "stop", state: data };
    }
  }
  return { opening, turns, ended_by: "turns", state: data };
}
