import type { Message } from "../../../core/message.ts";
import { isDict, type PyDict } from "../data/python-values.ts";
import { type ActionRecord, actionRecord, implicitThink } from "../prm/records.ts";
import { codePoints, contextLength, cutResponse, isContaminated, isLooping, rememberCall } from "./guards.ts";
import { type HermesReply, parseHermes } from "./hermes.ts";

// A turn of the dialogue: a reply's text in, what to do out, and the account that is kept of it (airline.md 7.3, 8.2).

/** Calls of one message that are run; the rest are counted. */
export const MAX_CALLS_PER_MESSAGE = 1;

export interface ProtocolOptions {
  /** Left out: 1. */
  max_calls_per_message?: number;
  /** Characters of a tool's text that the model reads. Left out or null: all. */
  tool_response_max_chars?: number | null;
  /** Characters of the whole dialogue at which it ends. Left out or null: tokens alone limit it. */
  max_context_chars?: number | null;
}

/** Why the protocol ends an episode. All of them pay nothing. */
export type ProtocolEnd = "contaminated" | "loop" | "context";

/** How an episode of this family ended (airline.md 7.4). Only `stop` and `transfer` are the task's own ends. */
export type TerminatedBy = "stop" | "transfer" | "max_turns" | "max_tokens" | ProtocolEnd | "error";

/** What is kept of a dialogue beside its messages. A value: each turn gives a new one. */
export interface DialogueLog {
  /** All records so far: what process rewards read. */
  records: readonly ActionRecord[];
  /** Calls that the loop guard still looks at. */
  recent_calls: readonly string[];
  /** Characters of the dialogue. */
  characters: number;
  malformed: number;
  repaired: number;
  extra_calls: number;
}

/**
 * One thing that a reply asks for.
 * `call`: run the tool and hand its text to `afterCall`. `answer`: the model is told `text`, and nothing is run.
 * `respond`: the user is told `text`, which may be empty. `end`: the episode is over and pays nothing.
 */
export type Move =
  | { kind: "call"; name: string; arguments: PyDict; content: string }
  | { kind: "answer"; name: string | null; text: string }
  | { kind: "respond"; text: string }
  | { kind: "end"; by: ProtocolEnd };

export interface ReadTurn {
  log: DialogueLog;
  reply: HermesReply;
  /** In order, at least one. `respond` and `end` stand alone. */
  moves: Move[];
}

/** The log of a dialogue that begins with these messages. */
export function startLog(messages: readonly Message[]): DialogueLog {
  return {
    records: [],
    recent_calls: [],
    characters: contextLength(messages),
    malformed: 0,
    repaired: 0,
    extra_calls: 0,
  };
}

/**
 * Reads a reply: any text at all. Nothing is run here.
 * @param tools names of the tools there are
 */
export function readTurn(
  log: DialogueLog,
  text: string,
  tools: ReadonlySet<string>,
  options: ProtocolOptions = {},
): ReadTurn {
  const reply = parseHermes(text);
  const said = reply.kind === "text" ? implicitThink(reply.text, log.records.at(-1)) : null;
  const most = options.max_calls_per_message ?? MAX_CALLS_PER_MESSAGE;
  const run = reply.calls.slice(0, most);
  const extra = reply.calls.slice(most);
  let recent_calls = log.recent_calls;
  let looping = false;
  for (const call of run) {
    recent_calls = rememberCall(recent_calls, call);
    looping ||= isLooping(recent_calls);
  }
  const next: DialogueLog = {
    records: said ? [...log.records, said] : log.records,
    recent_calls,
    characters: log.characters + codePoints(text),
    malformed: log.malformed + reply.malformed,
    repaired: log.repaired + reply.repaired,
    extra_calls: log.extra_calls + extra.length,
  };
  const end = (by: ProtocolEnd): ReadTurn => ({ log: next, reply, moves: [{ kind: "end", by }] });
  if (isContaminated(text)) return end("contaminated");
  if (looping) return end("loop");
  if (next.characters > (options.max_context_chars ?? Number.POSITIVE_INFINITY)) return end("context");
  if (reply.kind === "malformed")
    return { log: next, reply, moves: [{ kind: "answer", name: null, text: "Error: malformed tool call" }] };
  if (reply.kind === "text") return { log: next, reply, moves: [{ kind: "respond", text: reply.spoken }] };
  // Ids that were sampled stay in the dialogue, so a call that is not run is there too and has its answer.
  const limit = `Error: only ${most === 1 ? "one call" : `${most} calls`} of a message can be run`;
  const moves: Move[] = [
    ...run.map((call): Move => {
      const { name, arguments: given } = call;
      if (!tools.has(name)) return { kind: "answer", name, text: `Unknown action ${name}` };
      if (!isDict(given)) return { kind: "answer", name, text: "Error: arguments must be an object" };
      return { kind: "call", name, arguments: given, content: reply.text };
    }),
    ...extra.map(({ name }): Move => ({ kind: "answer", name, text: limit })),
  ];
  return { log: next, reply, moves };
}

/** The log once a tool has given its whole text. */
export function afterCall(log: DialogueLog, move: Extract<Move, { kind: "call" }>, observation: string): DialogueLog {
  const { name: tool, arguments: parameters, content } = move;
  return { ...log, records: [...log.records, actionRecord({ tool, parameters, observation, content })] };
}

/** What one turn added to a log: the facts that stand in the turn's record. */
export interface TurnFacts {
  records: ActionRecord[];
  malformed: number;
  repaired: number;
  extra_calls: number;
  /** null: the protocol has not ended the episode. */
  ended_by: ProtocolEnd | null;
}

/** @param moves what the turn's reply asked for */
export function turnFacts(before: DialogueLog, after: DialogueLog, moves: readonly Move[]): TurnFacts {
  const end = moves.find((move) => move.kind === "end");
  return {
    records: after.records.slice(before.records.length),
    malformed: after.malformed - before.malformed,
    repaired: after.repaired - before.repaired,
    extra_calls: after.extra_calls - before.extra_calls,
    ended_by: end?.kind === "end" ? end.by : null,
  };
}

/** The log once the policy has been told these messages. */
export function afterObservations(log: DialogueLog, observations: readonly Message[]): DialogueLog {
  return { ...log, characters: log.characters + contextLength(observations) };
}

/** A tool's text as the model is told it. */
export function toolMessage(text: string, options: ProtocolOptions = {}): Message {
  const is_error = text.startsWith("Error:") || text.startsWith("Unknown action ");
  return {
    role: "tool",
    content: cutResponse(text, options.tool_response_max_chars ?? null),
    ...(is_error ? { is_error } : {}),
  };
}
