import { parseJson, toJson } from "../data/python-json.ts";
import { isDict, isList, type PyValue } from "../data/python-values.ts";
import { loggable } from "../prm/records.ts";
import { withoutThinking } from "../thinking.ts";

// Hermes tool calls: how a reply's text says what to do, and how it is read (airline.md 7.2, 7.3, column "ours").
//
//     <tool_call>
//     {"name": "NAME", "arguments": {…}}
//     </tool_call>

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** A call as it was read. `arguments` is whatever JSON value stood there, numbers as Python has them. */
export interface HermesCall {
  name: string;
  arguments: PyValue;
}

/** A reply as it was read. */
export interface HermesReply {
  /** `malformed`: a call that can't be read, and nothing said beside it. */
  kind: "calls" | "text" | "malformed";
  /** All that can be read, in order. */
  calls: HermesCall[];
  /** What it says, without thinking. Beside calls: what stands around them; `text`: all of it, broken calls included. */
  text: string;
  /** Without broken calls too: what the user may be told. */
  spoken: string;
  /** Calls that can't be read, one that is not closed included. */
  malformed: number;
  /** Calls that could be read once their JSON was mended. */
  repaired: number;
}

/** Reads a reply. Never throws, whatever the text. */
export function parseHermes(reply: string): HermesReply {
  const visible = withoutThinking(reply);
  const calls: HermesCall[] = [];
  let malformed = 0;
  let repaired = 0;
  let spoken = "";
  let at = 0;
  for (;;) {
    const open = visible.indexOf(OPEN, at);
    spoken += visible.slice(at, open < 0 ? undefined : open);
    if (open < 0) break;
    const close = visible.indexOf(CLOSE, open + OPEN.length);
    const read = close < 0 ? null : readCall(visible.slice(open + OPEN.length, close));
    if (!read) malformed++;
    else {
      calls.push(read.call);
      if (read.repaired) repaired++;
    }
    if (close < 0) break;
    at = close + CLOSE.length;
  }
  spoken = spoken.trim();
  const counts = { malformed, repaired };
  if (calls.length > 0) return { kind: "calls", calls, text: spoken, spoken, ...counts };
  if (malformed > 0 && spoken === "") return { kind: "malformed", calls, text: "", spoken, ...counts };
  return { kind: "text", calls, text: visible.trim(), spoken, ...counts };
}

/** How a reply is read, as `parse --protocol hermes` prints it. */
export function readHermes(text: string): Record<string, unknown> {
  const { kind, calls, text: said } = parseHermes(text);
  return { kind, calls: calls.map((call) => ({ name: call.name, arguments: loggable(call.arguments) })), text: said };
}

/** A call as the chat template writes it and `parseHermes` reads it back. */
export function renderCall({ name, arguments: given }: HermesCall): string {
  return `${OPEN}\n{"name": ${JSON.stringify(name)}, "arguments": ${callJson(given)}}\n${CLOSE}`;
}

/** JSON as chat templates write it: blanks after comma and colon, keys as they came, nothing escaped that need not be. */
export function callJson(value: PyValue): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (isList(value)) return `[${value.map(callJson).join(", ")}]`;
  if (!isDict(value)) return toJson(value);
  return `{${[...value].map(([key, inner]) => `${JSON.stringify(key)}: ${callJson(inner)}`).join(", ")}}`;
}

/** A reply of some text and calls; either may be missing. */
export function renderReply(text: string, calls: readonly HermesCall[] = []): string {
  return [...(text === "" ? [] : [text]), ...calls.map(renderCall)].join("\n");
}

/** A call between its tags, its JSON mended at most once. null: it can't be read. */
function readCall(body: string): { call: HermesCall; repaired: boolean } | null {
  if (!body.includes("{")) return null;
  const asWritten = callOf(body);
  if (asWritten) return { call: asWritten, repaired: false };
  const mended = mendJson(body);
  const call = mended === null ? null : callOf(mended);
  return call && { call, repaired: true };
}

function callOf(json: string): HermesCall | null {
  const call = jsonValue(json);
  const name = isDict(call) ? call.get("name") : undefined;
  if (!isDict(call) || typeof name !== "string" || name.trim() === "") return null;
  return { name, arguments: decoded(call.get("arguments")) };
}

/** Arguments may be a JSON text of an object, or of null where there are none. Other texts stay what they are. */
function decoded(value: PyValue | undefined): PyValue {
  if (value === undefined) return new Map();
  if (typeof value !== "string") return value;
  const inner = jsonValue(value);
  if (inner === null) return new Map();
  return isDict(inner) ? inner : value;
}

/** undefined: it is no JSON. */
function jsonValue(text: string): PyValue | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/**
 * The one repair: what stands around the first object or list is cut off, and brackets that were never closed are.
 * Brackets within strings count for nothing. null: there is no bracket, they do not match, or a string never ends.
 */
function mendJson(text: string): string | null {
  const start = text.search(/[{[]/);
  if (start < 0) return null;
  const open: string[] = [];
  for (let at = start; at < text.length; at++) {
    const char = text[at]!;
    if (char === '"') {
      at = stringEnd(text, at);
      if (at < 0) return null;
    } else if (char === "{") open.push("}");
    else if (char === "[") open.push("]");
    else if (char === "}" || char === "]") {
      if (open.pop() !== char) return null;
      if (open.length === 0) return text.slice(start, at + 1);
    }
  }
  return text.slice(start).trimEnd() + open.reverse().join("");
}

/** Where the string that begins at `start` ends; -1: nowhere. */
function stringEnd(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === "\\") at++;
    else if (text[at] === '"') return at;
  }
  return -1;
}
