import type { Message } from "../../core/message.ts";
import { isDict } from "./data/python-values.ts";
import { loggable } from "./prm/records.ts";
import { parseHermes } from "./protocol/hermes.ts";

/** A message as chat templates take it. */
export interface ChatMessage {
  role: Message["role"];
  content: string;
  tool_calls?: { type: "function"; function: { name: string; arguments: unknown } }[];
}

/**
 * A dialogue with its calls as calls instead of as text, so that a student with another template learns to call in its own
 * way. A reply with anything that can't be read stays text, as do calls without an object as arguments.
 */
export function toConversation(messages: readonly Message[]): ChatMessage[] {
  return messages.map(({ role, content }) => (role === "assistant" ? readReply(content) : { role, content }));
}

function readReply(content: string): ChatMessage {
  const { calls, malformed, repaired } = parseHermes(content);
  const readable =
    calls.length > 0 && malformed === 0 && repaired === 0 && calls.every((call) => isDict(call.arguments));
  if (!readable) return { role: "assistant", content };
  const tool_calls = calls.map((call) => ({
    type: "function" as const,
    function: { name: call.name, arguments: loggable(call.arguments) },
  }));
  return { role: "assistant", content: withoutCalls(content), tool_calls };
}

/** What stands around the calls of a reply, its thinking included. */
function withoutCalls(content: string): string {
  const thought = content.lastIndexOf("</think>") + 1; // a call in there is none
  const spoken = content.slice(thought).replaceAll(/<tool_call>.*?<\/tool_call>/gs, "");
  return (content.slice(0, thought) + spoken).trim();
}
