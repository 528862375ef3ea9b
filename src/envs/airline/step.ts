import type { StepResult } from "../../core/env.ts";
import type { Message } from "../../core/message.ts";
import { sameData } from "./data/state-hash.ts";
import { atEnd, isFinal, refuseAfterEnd } from "./ends.ts";
import type { AirlineFacts } from "./facts.ts";
import type { AirlineOptions } from "./options.ts";
import { loggable } from "./prm/records.ts";
import {
  afterCall,
  afterObservations,
  type DialogueLog,
  type Move,
  type ReadTurn,
  readTurn,
  toolMessage,
  turnFacts,
} from "./protocol/turn.ts";
import type { AirlineState } from "./state.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { airlineToolNamed, airlineTools, runAction } from "./tools/index.ts";
import { type EnvProbe, endsDialogue, type UserState, type UserTurn } from "./users/index.ts";

const TOOL_NAMES: ReadonlySet<string> = new Set(airlineTools.map(({ name }) => name));

/** The user's answer to what the agent said. */
export type AskUser = (state: AirlineState, text: string, probe: EnvProbe) => Promise<UserTurn<UserState>>;

/** A turn under way: what its moves have come to so far. */
interface Draft {
  state: AirlineState;
  log: DialogueLog;
  observations: Message[];
  said: string | null;
  user: string | null;
  terminated_by: AirlineFacts["terminated_by"];
  unknown_tools: string[];
}

/**
 * Plays one reply: any text at all.
 * @throws EpisodeEnded after the end; UserSimulatorError where the user can't be asked
 */
export async function playReply(
  state: AirlineState,
  reply: string,
  task: AirlineTask,
  options: AirlineOptions,
  askUser: AskUser,
): Promise<StepResult<AirlineState>> {
  refuseAfterEnd(state, options);
  const turn = readTurn(state.log, reply, TOOL_NAMES, options.protocol);
  let draft: Draft = {
    ...{ state, log: turn.log, observations: [], said: null, user: null, terminated_by: null, unknown_tools: [] },
  };
  for (const [index, move] of turn.moves.entries()) {
    const beyond = index >= options.protocol.max_calls_per_message;
    draft = beyond ? answered(draft, move, options) : await playMove(draft, move, task, options, askUser);
    if (draft.terminated_by && isFinal(draft.terminated_by, options)) break;
  }
  return resultOf(state.log, draft, turn, options);
}

async function playMove(
  draft: Draft,
  move: Move,
  task: AirlineTask,
  options: AirlineOptions,
  askUser: AskUser,
): Promise<Draft> {
  switch (move.kind) {
    case "call":
      return playCall(draft, move, task, options);
    case "respond":
      return playWords(draft, move.text, task, options, askUser);
    case "answer":
      return answered(refused(draft, move.name), move, options);
    case "end":
      return endedBy(draft, move.by, task, options);
  }
}

function playCall(draft: Draft, move: Extract<Move, { kind: "call" }>, task: AirlineTask, options: AirlineOptions) {
  const { state } = draft;
  const call = { name: move.name, kwargs: move.arguments };
  const { state: data, observation, failed } = runAction(state.data, call, options.tools);
  const tool = airlineToolNamed(move.name)!;
  const wrote = tool.writes && !failed;
  const next: Draft = {
    ...draft,
    log: afterCall(draft.log, move, observation),
    state: {
      ...state,
      data,
      writes: wrote ? [...state.writes, call] : state.writes,
      changes: state.changes + (sameData(state.data, data) ? 0 : 1),
    },
    observations: [...draft.observations, toolMessage(observation, options.protocol)],
  };
  return tool.ends ? endedBy(next, "transfer", task, options) : next;
}

async function playWords(
  draft: Draft,
  text: string,
  task: AirlineTask,
  options: AirlineOptions,
  askUser: AskUser,
): Promise<Draft> {
  const { state } = draft;
  const answer = await askUser(state, text, { writes: state.writes });
  const stops = endsDialogue(answer.text);
  const next: Draft = {
    ...draft,
    state: {
      ...state,
      user: answer.state,
      writes: [],
      said: [...state.said, text],
      user_turns: state.user_turns + (stops ? 0 : 1),
    },
    said: text,
    user: answer.text,
  };
  if (stops) return endedBy(next, "stop", task, options);
  return { ...next, observations: [...draft.observations, { role: "user", content: answer.text }] };
}

/** A call that is not run has its answer all the same: the sampled ids stay in the dialogue. */
function answered(draft: Draft, move: Move, options: AirlineOptions): Draft {
  if (move.kind !== "answer") return draft;
  return { ...draft, observations: [...draft.observations, toolMessage(move.text, options.protocol)] };
}

/** Counts a call that reaches no tool. null: it could not be read, and the log has counted it. */
function refused(draft: Draft, name: string | null): Draft {
  if (name === null) return draft;
  return {
    ...draft,
    state: { ...draft.state, refused_calls: draft.state.refused_calls + 1 },
    unknown_tools: TOOL_NAMES.has(name) ? draft.unknown_tools : [...draft.unknown_tools, name],
  };
}

function endedBy(
  draft: Draft,
  by: NonNullable<AirlineFacts["terminated_by"]>,
  task: AirlineTask,
  options: AirlineOptions,
): Draft {
  const state = atEnd({ ...draft.state, log: draft.log }, by, task, options);
  return { ...draft, state, terminated_by: by };
}

function resultOf(
  before: DialogueLog,
  draft: Draft,
  { reply, moves }: ReadTurn,
  options: AirlineOptions,
): StepResult<AirlineState> {
  const { terminated_by, said, user, unknown_tools } = draft;
  const terminated = terminated_by !== null && isFinal(terminated_by, options);
  const observations = terminated ? [] : draft.observations;
  const facts: AirlineFacts = {
    ...turnFacts(before, draft.log, moves),
    ...{ said, user, terminated_by, unknown_tools },
  };
  const [first] = reply.calls;
  return {
    state: { ...draft.state, log: afterObservations(draft.log, observations) },
    thought: reply.kind === "calls" ? reply.text : "",
    action: first ? { name: first.name, args: argumentsOf(first.arguments) } : null,
    outcome: {
      kind: terminated ? "terminal" : kindOf(reply.kind, observations),
      payload: facts,
      text: observations.map(({ content }) => content).join("\n"),
    },
    observations,
    terminated,
  };
}

function kindOf(kind: ReadTurn["reply"]["kind"], observations: readonly Message[]) {
  if (kind === "malformed") return "parse_error";
  return observations.some(({ is_error }) => is_error) ? "tool_error" : "ok";
}

/** What stood in place of arguments stays in the record, under the name it had. */
function argumentsOf(value: Parameters<typeof loggable>[0]): Record<string, unknown> {
  const plain = loggable(value);
  const isObject = typeof plain === "object" && plain !== null && !Array.isArray(plain);
  return isObject ? (plain as Record<string, unknown>) : { arguments: plain };
}
