import { toSortedJson } from "../data/python-json.ts";
import { fromPlain, isDict, isList, type PyDict, PyFloat, type PyValue } from "../data/python-values.ts";

// What process rewards read: one record a tool call that reached its tool, and one a long reply without a call
// (airline.md 8.1, 8.2).

export const READ_TOOLS: ReadonlySet<string> = new Set([
  "list_all_airports",
  "search_direct_flight",
  "search_onestop_flight",
  "get_user_details",
  "get_reservation_details",
  "calculate",
]);

export const WRITE_TOOLS: ReadonlySet<string> = new Set([
  "book_reservation",
  "cancel_reservation",
  "update_reservation_baggages",
  "update_reservation_passengers",
  "update_reservation_flights",
  "send_certificate",
]);

export const ESCALATE_TOOL = "transfer_to_human_agents";

/** The record of a long reply without a call: it counts as thinking. */
export const IMPLICIT_THINK = "implicit_think";

export const THINK_TOOLS: ReadonlySet<string> = new Set(["think", IMPLICIT_THINK]);

/** A reply without calls is an implicit think above this many code points; its record keeps so many of them. */
export const IMPLICIT_THINK_ABOVE = 100;
const IMPLICIT_THINK_KEPT = 300;

/** What a text may name, each found by its own pattern. */
export const entityKinds = ["reservation_id", "user_id", "payment_id", "flight_number", "date"] as const;
export type EntityKind = (typeof entityKinds)[number];
export type Entities = Record<EntityKind, string[]>;

/** One executed tool call, or an implicit think. Its keys are those it has on disk. */
export interface ActionRecord {
  tool: string;
  /** The arguments as a log holds them; how their numbers were written is in `param_str` alone. */
  parameters: Record<string, unknown>;
  /** The arguments as lower-cased Python JSON with sorted keys: equal texts are equal calls. */
  param_str: string;
  /** The whole text of the tool, before anything of it is cut. */
  observation: string;
  is_error: boolean;
  extracted_entities: Entities;
  /** The text of the same message. */
  content: string;
}

/** The patterns of 8.2. Word boundaries are Python's: letters and digits of every script are part of a word. */
const entityPatterns: Record<EntityKind, RegExp> = {
  reservation_id: wholeWord("[A-Z0-9]{6}"),
  user_id: wholeWord("[a-z]+_[a-z]+_[0-9]+"),
  payment_id: wholeWord("(?:credit_card|gift_card|certificate)_[0-9]+"),
  flight_number: wholeWord("[A-Z]{3}[0-9]{3}"),
  date: wholeWord("[0-9]{4}-[0-9]{2}-[0-9]{2}"),
};

function wholeWord(pattern: string): RegExp {
  return new RegExp(`(?<![\\p{L}\\p{N}_])(?:${pattern})(?![\\p{L}\\p{N}_])`, "gu");
}

/** The record of a call that reached its tool. `observation`: the tool's whole text; `content`: what the message said beside the call. */
export function actionRecord(call: {
  tool: string;
  parameters: PyDict | Record<string, unknown>;
  observation: string;
  content: string;
}): ActionRecord {
  const { tool, observation, content } = call;
  const parameters = fromPlain(call.parameters);
  const is_error = observation.startsWith("Error:");
  return {
    tool,
    parameters: loggable(parameters) as Record<string, unknown>,
    param_str: toSortedJson(parameters).toLowerCase(),
    observation,
    is_error,
    extracted_entities: extractEntities(is_error ? "" : observation),
    content,
  };
}

/** A value that JSON.stringify takes, whatever its keys are called; an integer beyond JavaScript's is rounded. */
export function loggable(value: PyValue): unknown {
  if (isDict(value)) return Object.fromEntries([...value].map(([key, inner]) => [key, loggable(inner)]));
  if (isList(value)) return value.map(loggable);
  if (value instanceof PyFloat) return value.value;
  return typeof value === "bigint" ? Number(value) : value;
}

/** What a text names, by kind: each once, in the order of its first place. */
export function extractEntities(text: string): Entities {
  const found = entityKinds.map((kind) => [kind, [...new Set(text.match(entityPatterns[kind]) ?? [])]] as const);
  return Object.fromEntries(found) as Entities;
}

/**
 * The record that a reply without calls adds; null: it is too short, or repeats the record before it.
 * @param text what the reply says
 * @param previous the last record so far
 */
export function implicitThink(text: string, previous: ActionRecord | undefined): ActionRecord | null {
  const characters = [...text];
  if (characters.length <= IMPLICIT_THINK_ABOVE) return null;
  const content = characters.slice(0, IMPLICIT_THINK_KEPT).join("");
  if (previous?.tool === IMPLICIT_THINK && previous.content === content) return null;
  return {
    tool: IMPLICIT_THINK,
    parameters: {},
    param_str: "",
    observation: "",
    is_error: false,
    extracted_entities: extractEntities(""),
    content,
  };
}
