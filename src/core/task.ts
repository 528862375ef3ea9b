import { z } from "zod";
import { type Message, messageSchema } from "./message.ts";
import type { MeasuredRates } from "./rates.ts";

/** The least a task is: an id. A family's own fields stand beside it, checked by the family's schema. */
export interface TaskBase {
  id: string;
}

/** The tasks of one split, as a family loads them. */
export interface LoadedTasks<Task extends TaskBase> {
  tasks: readonly Task[];
  /** Files read, by path relative to the project, with the SHA-256 of each: the manifest's account of the data. */
  sources: Record<string, string>;
  /** How often a policy solved them, where that was measured. */
  rates?: MeasuredRates | null;
}

/** A worked solution of a task, reply by reply: proves that it can be solved, and is SFT data. */
export interface ExpertRow {
  id: string;
  /** The task it solves. */
  task_id: string;
  /** What the policy sees first. */
  prompt: Message[];
  /** The policy's replies with what the environment answered; the last one has no observations. */
  turns: { reply: string; observations: Message[] }[];
  /** The family's own account of where the row comes from. */
  meta: Record<string, unknown>;
}

export const expertRowSchema: z.ZodType<ExpertRow> = z.strictObject(
  {
    id: z.string(),
    task_id: z.string(),
    prompt: z.array(messageSchema).min(1),
    turns: z.array(z.strictObject({ reply: z.string(), observations: z.array(messageSchema) })).min(1),
    meta: z.record(z.string(), z.unknown()).default({}),
  },
  { error: (issue) => (issue.code === "invalid_type" ? "row must be an object" : undefined) },
);
