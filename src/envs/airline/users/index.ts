// The user's side of an airline dialogue. Source: spec section 6.

export { withoutThinking } from "../thinking.ts";
export {
  asksModel,
  createUserSimulator,
  readUserEndpoint,
  USER_STRATEGIES,
  type UserOptions,
  userOptions,
} from "./options.ts";
export { readScript, type Script, scriptSchema } from "./script.ts";
export { openScripted, type ScriptedState, stepScripted } from "./scripted.ts";
export {
  type EnvProbe,
  endsDialogue,
  STOP_TOKEN,
  type UserContext,
  type UserSimulator,
  UserSimulatorError,
  type UserState,
  type UserTask,
  type UserTurn,
  type WriteCall,
} from "./types.ts";
