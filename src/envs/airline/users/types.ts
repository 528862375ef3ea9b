import type { PyDict } from "../data/python-values.ts";
import type { ChatState } from "./chat.ts";
import type { HumanState } from "./human.ts";
import type { Script } from "./script.ts";
import type { ScriptedState } from "./scripted.ts";
import type { SilentState } from "./silent.ts";

// What a user simulator is. It sees what the agent says to the user, and never a tool call; the probe is for the
// scripted one, which has no other way to know that its wish was met.

/** The dialogue is over when a user's text holds this. */
export const STOP_TOKEN = "###STOP###";

/** Whether a user's text ends the dialogue. */
export const endsDialogue = (user_text: string): boolean => user_text.includes(STOP_TOKEN);

/** What a simulator needs of a task. */
export interface UserTask {
  id: string;
  /** For the strategies with a language model, and for a person. */
  instruction: string;
  /** For the scripted one. */
  script?: Script | null;
}

/** A call of a tool that changes data, as it was made. */
export interface WriteCall {
  name: string;
  kwargs: PyDict | Record<string, unknown>;
}

export interface EnvProbe {
  /** Writes that succeeded since the last user turn, in order. */
  writes: readonly WriteCall[];
}

/** What a simulator gets from the episode it plays in. */
export interface UserContext {
  /** Which of a group's rollouts this is, from 0: keeps their answers apart in the cache. */
  draw: number;
  /** Ends remote calls with the episode. */
  signal: AbortSignal;
}

/** What an episode's user took. */
export interface Spent {
  /** Answers of the endpoint. */
  calls: number;
  /** Answers out of the cache: they cost nothing. */
  cached: number;
  prompt_tokens: number;
  completion_tokens: number;
  /** By the prices given; 0 without prices. */
  cost: number;
}

export const NOTHING_SPENT: Readonly<Spent> = {
  calls: 0,
  cached: 0,
  prompt_tokens: 0,
  completion_tokens: 0,
  cost: 0,
};

/** The user's side of an episode: plain data, never changed in place. */
export type UserState = ChatState | ScriptedState | SilentState | HumanState;

export interface UserTurn<State> {
  state: State;
  /** What the agent reads; with STOP_TOKEN in it the dialogue is over. */
  text: string;
}

/** A user: a fixed object. What changes is the state that goes in and comes out, so dialogues cannot disturb each other. */
export interface UserSimulator<State extends UserState = UserState> {
  strategy: string;
  /** Opens the dialogue. @throws UserSimulatorError, UserError for a task that lacks what the strategy needs */
  reset(task: UserTask, context: UserContext): Promise<UserTurn<State>>;
  /**
   * Answers the agent. Thinking in `agent_text` is left out before anybody reads it.
   * @throws UserSimulatorError where the user cannot be asked: the rollout has failed, and has no reward
   */
  step(
    task: UserTask,
    state: State,
    agent_text: string,
    probe: EnvProbe,
    context: UserContext,
  ): Promise<UserTurn<State>>;
  /** Cost of the dialogue so far, by the prices given; 0 without prices, and for answers out of the cache. */
  cost(state: State): number;
  /** Lets connections go. */
  close(): void;
}

/** The user's side failed for reasons of infrastructure: such an episode ends by `error`, never with a reward of 0. */
export class UserSimulatorError extends Error {
  override name = "UserSimulatorError";
  constructor(message: string, cause?: unknown) {
    super(`user_simulator: ${message}`, { cause });
  }
}
