import type { Message } from "../../../core/message.ts";
import { fromPlain } from "../data/python-values.ts";
import { callJson, type HermesCall } from "./hermes.ts";

// What ends an episode before its time, or keeps a dialogue within bounds (airline.md 7.3).

/** The same call so often among the last so many ends the episode. */
const LOOP_TIMES = 3;
const LOOP_WINDOW = 20;

/** Only the environment writes these: a reply that holds one has made up a tool's answer. */
const RESPONSE_TAGS = ["<tool_response>", "</tool_response>"];

export function isContaminated(reply: string): boolean {
  return RESPONSE_TAGS.some((tag) => reply.includes(tag));
}

/** The calls that the loop guard still looks at, oldest first, with one more. */
export function rememberCall(recent: readonly string[], call: HermesCall): string[] {
  return [...recent.slice(1 - LOOP_WINDOW), `${call.name} ${callJson(call.arguments)}`];
}

/** Whether some call is among the remembered ones so often that the episode goes round in circles. */
export function isLooping(recent: readonly string[]): boolean {
  const times = new Map<string, number>();
  for (const call of recent) times.set(call, (times.get(call) ?? 0) + 1);
  return [...times.values()].some((count) => count >= LOOP_TIMES);
}

/** Characters (code points) of the texts of a dialogue, names and arguments of structured calls included. */
export function contextLength(messages: readonly Message[]): number {
  return messages.reduce((sum, message) => sum + messageLength(message), 0);
}

function messageLength({ content, tool_calls = [] }: Message): number {
  return tool_calls.reduce(
    (sum, call) => sum + codePoints(call.name) + codePoints(callJson(fromPlain(call.arguments))),
    codePoints(content),
  );
}

export function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

const CUT_MARK = "...(truncated)...";

/**
 * A tool's text as the model reads it: beyond `limit` characters its middle is cut out. The reference trains with 256.
 * @param limit null: nothing is cut
 */
export function cutResponse(text: string, limit: number | null): string {
  if (limit === null || text.length <= limit) return text;
  const characters = [...text];
  if (characters.length <= limit) return text;
  const half = Math.floor(limit / 2);
  return `${characters.slice(0, half).join("")}${CUT_MARK}${characters.slice(characters.length - half).join("")}`;
}
