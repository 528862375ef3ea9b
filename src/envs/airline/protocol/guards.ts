import type { Message } from "../../../core/message.ts";
import { fromPlain } from "../data/python-values.ts";
import { callJson, type HermesCall } from "./hermes.ts";

// What ends an episode before its time, or keeps a dialogue within bounds (airline.md 7.3).

/** The same call so often among the last so many ends the episode. */
const LOOP_TIMES = 3;
const LOOP_WINDOW = 20;

/** Characters of a dialogue that an endpoint is sent at most, messages that it keeps, characters that the last one keeps. */
export const CONTEXT_CHARACTERS = 35_000;
const CONTEXT_MESSAGES = 3;
const CONTEXT_LAST = 500;

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

/**
 * The evaluator's context guard, for an endpoint that is sent the whole dialogue anew each turn: beyond the limit the
 * oldest messages go, one by one, then the last one is shortened. Not for training: there the dialogue only ever grows.
 * @returns the messages to send; `contaminated` says that they are no longer the dialogue as it was
 */
export function guardContext(
  messages: readonly Message[],
  limit = CONTEXT_CHARACTERS,
): { messages: Message[]; contaminated: boolean } {
  const kept = [...messages];
  let length = contextLength(kept);
  while (length > limit && kept.length > CONTEXT_MESSAGES) {
    const oldest = kept.findIndex(({ role }) => role !== "system");
    if (oldest < 0) break;
    length -= messageLength(kept[oldest]!);
    kept.splice(oldest, 1);
  }
  const last = kept.at(-1);
  if (last && length > limit) {
    const characters = [...last.content];
    const room = Math.max(CONTEXT_LAST, characters.length - (length - limit));
    kept[kept.length - 1] = { ...last, content: characters.slice(0, room).join("") };
  }
  const changed = kept.length < messages.length || kept.at(-1) !== last;
  return { messages: kept, contaminated: changed };
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
