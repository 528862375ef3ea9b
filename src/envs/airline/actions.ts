import { z } from "zod";
import { UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";
import { JsonError, parseJson } from "./data/python-json.ts";
import { str } from "./data/python-text.ts";
import { fromPlain, isDict, isList, type PyDict, type PyValue } from "./data/python-values.ts";
import { stateSha256 } from "./data/state-hash.ts";
import { databaseOf } from "./database.ts";
import { atEnd } from "./ends.ts";
import { findAirlineTask } from "./known-tasks.ts";
import type { AirlineOptions } from "./options.ts";
import { actionRecord, loggable } from "./prm/records.ts";
import { startLog } from "./protocol/turn.ts";
import { type AirlineState, beginState } from "./state.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { airlineToolNamed, runAction } from "./tools/index.ts";
import { endsDialogue, openScripted, type ScriptedState, stepScripted, type UserState } from "./users/index.ts";
import { openSilent, silentUser } from "./users/silent.ts";

// A list of actions on fresh data, without a dialogue: `play --env airline --actions FILE`. Actions run by airline.md 2.1
// and 4.5 alone: the guards against loops and the like belong to the text protocol.

/** What an action came to: a line of the result. */
export interface PlayedAction {
  id: unknown;
  /** The action's place in its list, from 0. */
  index: number;
  name: string;
  observation: string;
  /** Of all data after it. */
  state_sha256: string;
  /** The episode is over. */
  done: boolean;
  /** What the episode's end pays, at the action that ended it; else 0. null: no task says what is right. */
  reward: number | null;
}

interface GivenAction {
  name: string;
  kwargs: PyValue;
  /** What the user answers to `respond`; null: the script does. */
  user: string | null;
}

const lineSchema = z.looseObject({
  id: z.union([z.string(), z.number()]).nullish(),
  task_id: z.union([z.string(), z.int()]).nullish(),
  actions: z.array(z.looseObject({ name: z.string(), user: z.string().nullish() })),
});

/**
 * Plays a line `{id?, task_id?, actions: [{name, kwargs, user?}]}`: JSON in which 50 and 50.0 are two values.
 * @throws UserError for a text that is no such line, and for a task that nobody knows
 */
export function playLine(line: string, options: AirlineOptions): PlayedAction[] {
  const { id, task_id, actions } = readLine(line);
  const task = task_id === null ? null : (findAirlineTask(task_id, options) ?? null);
  if (task_id !== null && !task) throw new UserError(`there is no task '${task_id}'.`);
  const script = task?.script ? task : null;
  let state = beginState(databaseOf(options), {
    ...{ log: startLog([]), simulator: silentUser(), user_turns: 0 },
    user: script ? openScripted(script).state : openSilent({ id: "", instruction: "" }).state,
  });
  let over = false;
  return actions.map((action, index) => {
    const played = playAction(state, action, { task, over, options });
    state = played.state;
    over = played.done;
    const { observation, done, reward } = played;
    const state_sha256 = stateSha256(state.data, options.scoring.number_mode);
    return { id, index, name: action.name, observation, state_sha256, done, reward };
  });
}

function readLine(line: string): { id: unknown; task_id: string | number | null; actions: GivenAction[] } {
  const value = parsed(line);
  const checked = lineSchema.safeParse(loggable(value));
  if (!checked.success)
    throw new UserError(`${describeIssues(checked.error)}; expected {id?, task_id?, actions: [{name, kwargs}]}.`);
  const list = (value as PyDict).get("actions");
  const { id = null, task_id = null, actions } = checked.data;
  return {
    ...{ id, task_id },
    actions: actions.map(({ name, user = null }, index) => {
      const action = isList(list) ? list[index] : undefined;
      return { name, user, kwargs: (isDict(action) ? action.get("kwargs") : undefined) ?? new Map() };
    }),
  };
}

function parsed(line: string): PyValue {
  try {
    return parseJson(line);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new UserError(`not JSON at column ${error.offset + 1}: ${error.message}.`);
  }
}

interface Surroundings {
  task: AirlineTask | null;
  over: boolean;
  options: AirlineOptions;
}

type Played = Pick<PlayedAction, "observation" | "done" | "reward"> & { state: AirlineState };

function playAction(state: AirlineState, action: GivenAction, { task, over, options }: Surroundings): Played {
  const nothing = task ? 0 : null;
  if (over && options.done_latch)
    return { state, observation: "Error: the episode has ended", done: true, reward: nothing };
  if (action.name === "respond") {
    const { text, answer, user } = respond(state, action, task, options);
    const said: AirlineState = { ...state, user, writes: [], said: [...state.said, text] };
    return ending(said, answer, endsDialogue(answer) ? "stop" : null, { task, over, options });
  }
  const { state: data, observation, failed } = runAction(state.data, action, options.tools);
  const tool = airlineToolNamed(action.name);
  const parameters = isDict(action.kwargs) ? action.kwargs : new Map<string, PyValue>();
  const write = { name: action.name, kwargs: parameters };
  const record = actionRecord({ tool: action.name, parameters, observation, content: "" });
  const done: AirlineState = {
    ...{ ...state, data },
    writes: tool?.writes && !failed ? [...state.writes, write] : state.writes,
    log: tool ? { ...state.log, records: [...state.log.records, record] } : state.log,
  };
  return ending(done, observation, tool?.ends ? "transfer" : null, { task, over, options });
}

/** What the agent says, and what comes back: the text given, the script's answer, or nothing. */
function respond(
  { user, writes }: AirlineState,
  { kwargs, user: given }: GivenAction,
  task: AirlineTask | null,
  { user: { peek } }: AirlineOptions,
): { text: string; answer: string; user: UserState } {
  const content = isDict(kwargs) ? (kwargs.get("content") ?? "") : "";
  const text = str(fromPlain(content));
  if (given !== null) return { text, answer: given, user };
  if (!task?.script) return { text, answer: "", user };
  const next = stepScripted(task, user as ScriptedState, text, { writes }, { peek });
  return { text, answer: next.text, user: next.state };
}

function ending(state: AirlineState, observation: string, by: "stop" | "transfer" | null, given: Surroundings): Played {
  const { task, over, options } = given;
  if (!by) return { state, observation, done: over, reward: task ? 0 : null };
  if (!task) return { state, observation, done: true, reward: null };
  const ended = atEnd(state, by, task, options);
  return { state: ended, observation, done: true, reward: ended.ends.at(-1)!.outcome };
}
