import { z } from "zod";
import { UserError } from "./core/errors.ts";
import { type RowData, readRows } from "./expert-rows.ts";
import { readTextFile } from "./text-file.ts";
import { splitLines } from "./trajectory-log.ts";

// SFT rows that are whole conversations, in the shape of chat endpoints: JSON lines of {messages, tools?, id?}. Python
// takes from them what is learnt (py/trainers/conversations.py).

const called = z.looseObject({
  name: z.string(),
  arguments: z.union([z.record(z.string(), z.unknown()), z.string()]).nullish(),
});

const messageSchema = z.looseObject({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().nullish(),
  tool_calls: z
    .array(z.union([z.looseObject({ function: called }), called], "expected {function: {name, arguments}}"))
    .nullish(),
});

const conversationSchema = z.looseObject({
  id: z.string().optional(),
  messages: z.array(messageSchema).min(1),
  /** Function schemas. Left out: the environment's, where they go to the chat template; null or []: none. */
  tools: z
    .array(z.looseObject({ type: z.literal("function"), function: z.looseObject({ name: z.string() }) }))
    .nullish(),
});
export type Conversation = z.output<typeof conversationSchema>;

export interface ConversationData extends RowData<Conversation> {
  /** The lines as they stand in the file: numbers keep their spelling, 100.0 is not 100. */
  text: string;
}

/** Whether the first row of a file is a conversation. false where it can't be read: whoever reads the rows says why. */
export function isConversationFile(path: string): boolean {
  const first = splitLines(readTextFile(path))[0];
  try {
    const row: unknown = JSON.parse(first?.content ?? "");
    return typeof row === "object" && row !== null && "messages" in row;
  } catch {
    return false;
  }
}

/** @throws UserError naming file and line of a row that does not fit */
export function readConversationRows(path: string): ConversationData {
  const { rows, manifest } = readRows(path, conversationSchema);
  if (!rows.some(({ messages }) => messages.some(({ role }) => role === "assistant")))
    throw new UserError(`${path}: none of the ${rows.length} conversations has a message of the assistant to learn.`);
  return { rows, manifest, text: readTextFile(path) };
}
