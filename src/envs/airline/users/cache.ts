import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { canonicalJson } from "../../../core/canonical-json.ts";
import { pathProblem, UserError } from "../../../core/errors.ts";
import { writeNew, writeWhole } from "../../../core/whole-file.ts";

// Answers of a user model, one file each, so that a replay is free and gives the same. Source: spec section 6.2.

export const CACHE_MODES = ["off", "readwrite", "replay"] as const;
/** `replay`: an answer that is not there is an error, and no endpoint is asked. */
export type CacheMode = (typeof CACHE_MODES)[number];

export interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string;
}

/** All that an answer depends on. */
export interface CacheKey {
  model: string;
  /** Without its query, which may hold a key. */
  base_url: string;
  strategy: string;
  messages: readonly ChatMessage[];
  sampling: Record<string, unknown>;
  /** Which of a group's rollouts; and, where one of them asks the same again, which time from 1. */
  draw: number | readonly [number, number];
}

const answerSchema = z.strictObject({
  text: z.string(),
  usage: z.strictObject({ prompt_tokens: z.int(), completion_tokens: z.int() }).nullable(),
});
export type CachedAnswer = z.output<typeof answerSchema>;
const fileSchema = z.object({ key: z.unknown(), answer: answerSchema });

export interface UserCache {
  mode: CacheMode;
  /** null: it is not there, or (in `readwrite`) is no whole record. @throws UserError in `replay` for both */
  read(key: CacheKey): CachedAnswer | null;
  /** Keeps an answer, and gives the one to use: another writer's, where that came first. */
  keep(key: CacheKey, answer: CachedAnswer): CachedAnswer;
}

/** @param folder holds `ab/<SHA-256 of the key's canonical JSON>.json`, `ab` being its first two digits */
export function createCache(mode: CacheMode, folder: string): UserCache {
  function load(key: CacheKey): { path: string; answer: CachedAnswer | null; problem: string | null } {
    const text = canonicalJson(key);
    const hash = createHash("sha256").update(text).digest("hex");
    const path = join(folder, hash.slice(0, 2), `${hash}.json`);
    let content: string;
    try {
      content = readFileSync(path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return { path, answer: null, problem: null };
      throw pathProblem(error, path) ?? error;
    }
    const file = fileSchema.safeParse(parseJson(content));
    if (!file.success) return { path, answer: null, problem: "is no whole record of an answer" };
    if (canonicalJson(file.data.key) !== text)
      return { path, answer: null, problem: "is the answer to another question" };
    return { path, answer: file.data.answer, problem: null };
  }

  return {
    mode,
    read(key) {
      if (mode === "off") return null;
      const { path, answer, problem } = load(key);
      if (!answer && mode === "replay")
        throw new UserError(
          problem
            ? `${path} ${problem}. Delete it and play with cache readwrite once, or copy the cache anew.`
            : `the cache ${folder} has no answer for draw ${String(key.draw)} of ${key.model} to this dialogue ` +
                `(${path}), and cache is replay. Play with cache readwrite once, with the same settings.`,
        );
      return answer;
    },
    keep(key, answer) {
      if (mode !== "readwrite") return answer;
      const { path } = load(key);
      const content = `${JSON.stringify({ key, answer })}\n`;
      try {
        writeNew(path, content);
        return answer;
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        const now = load(key);
        if (now.answer) return now.answer;
        // There is a broken file, or links are not to be had here.
        writeWhole(path, content);
        return answer;
      }
    },
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
