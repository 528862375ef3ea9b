import { z } from "zod";
import { isConversationFile, readConversationRows } from "../conversation-rows.ts";
import type { Env, TaskSet } from "../core/env.ts";
import { UserError } from "../core/errors.ts";
import type { ExpertRow } from "../core/task.ts";
import { readExpertRows, writeExpertRows, writeRowText } from "../expert-rows.ts";
import { fileHash, longestRows } from "./shared.ts";

// What SFT learns from: worked solutions of a split, or of a file, or whole conversations of a file.

/** Keys that only conversations read. */
export const conversationKeys = {
  decode_arguments: z
    .boolean()
    .default(true)
    .describe("Conversations: arguments of calls that are JSON text are written as objects, not as quoted text."),
  mask_final_newline: z
    .boolean()
    .default(false)
    .describe("Conversations: the newline behind an end of turn, which no sampler goes on to, is not learnt."),
  write_tools: z
    .boolean()
    .default(true)
    .describe("Conversations: the chat template gets the row's tools, or the environment's where it names none."),
};

/** Rows that may be left out because they are longer than max_length. */
const MAX_SHARE_TOO_LONG = 0.01;

export interface SftRows {
  count: number;
  conversations: boolean;
  /** Worked solutions to be measured before a model loads: the longest, one more than may be left out. */
  measured: ExpertRow[];
  /** SHA-256 by name of what they were made of. */
  data: Record<string, string>;
  /** Writes them with their manifest. */
  write(path: string): void;
}

/**
 * @param given keys that the user set
 * @throws UserError for rows that do not fit, and for options that these rows would not read
 */
export async function loadSftRows(
  config: { rows: string | null; env_options: Record<string, unknown> },
  given: ReadonlySet<string>,
  { env, tasks }: { env: Env; tasks: TaskSet },
): Promise<SftRows> {
  const file = config.rows;
  if (file !== null && isConversationFile(file)) {
    if (env.continuation(config.env_options))
      throw new UserError(
        `${file}: its rows are conversations, and env_options ask for the continuation style. Leave that out.`,
      );
    const { rows, manifest, text } = readConversationRows(file);
    return {
      count: rows.length,
      conversations: true,
      measured: [],
      data: { [file]: fileHash(file) },
      write: (path) => writeRowText(path, text, rows.length, manifest),
    };
  }
  const unread = Object.keys(conversationKeys).find((key) => given.has(key));
  if (unread)
    throw new UserError(
      `${unread} is set, which only conversations read, and ${file ?? `the rows of ${tasks.split}`} ` +
        `${file ? "holds" : "are"} worked solutions. Leave it out, or give rows with messages.`,
    );
  const made = file === null ? await env.expert(tasks.split, config.env_options) : readExpertRows(file);
  return {
    count: made.rows.length,
    conversations: false,
    measured: longestRows(made.rows, Math.floor(MAX_SHARE_TOO_LONG * made.rows.length) + 1),
    data: file === null ? tasks.sources : { [file]: fileHash(file) },
    write: (path) => writeExpertRows(path, made),
  };
}
