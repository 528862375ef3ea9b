import { z } from "zod";

/** A tool call as a model asks for it. */
export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** One message of a dialogue, in the shape that chat templates take. */
export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  tool_calls?: ToolCall[];
  /** A tool message that reports an error. Never rendered; for logs and tests. */
  is_error?: boolean;
}

export const messageSchema: z.ZodType<Message> = z.object({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string(),
  tool_calls: z.array(z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) })).optional(),
  is_error: z.boolean().optional(),
});
