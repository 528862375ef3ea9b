// The scripted agent that solves tasks with a script. Source: spec section 6.3.

export { planOf, type TeacherTask } from "./plan.ts";
export { type PlayOptions, playTeacher, type TeacherPlay } from "./play.ts";
export {
  DEFAULT_TEACHER,
  type Observation,
  startTeacher,
  type TeacherOptions,
  type TeacherReply,
  type TeacherState,
  teacherTurn,
} from "./teacher.ts";
