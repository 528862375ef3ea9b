import { UserError } from "../../../core/errors.ts";
import { costOf, type Prices } from "../../../llm/account.ts";
import type { LlmClient } from "../../../llm/client.ts";
import { LlmError } from "../../../llm/errors.ts";
import type { CachedAnswer, CacheKey, ChatMessage, UserCache } from "./cache.ts";
import { type Spent, type UserContext, UserSimulatorError } from "./types.ts";

/** Answers asked for before a rollout is given up: an empty or unreadable answer is no answer. */
export const ATTEMPTS = 3;
/** Milliseconds before the next try: 1 s, 2 s, 4 s, and more where the endpoint asks for more. */
export const backoff = (retry: number, retry_after_ms: number | null): number =>
  Math.max(1000 * 2 ** (retry - 1), retry_after_ms ?? 0);

export interface AskOptions {
  client: LlmClient;
  cache: UserCache;
  /** Of the answers' keys in the cache. */
  model: string;
  base_url: string;
  strategy: string;
  /** Sent beside the messages; empty: the server's defaults apply. */
  sampling: Record<string, unknown>;
  prices: Prices | null;
}

/** One user's questions to the model within one turn. */
export interface Asker {
  /**
   * An answer to the messages, as `read` makes it of the text.
   * @param read null: the text can't be used; it is asked for again, three times in all
   * @throws UserSimulatorError
   */
  ask<Answer>(messages: readonly ChatMessage[], read: (text: string) => Answer | null): Promise<Answer>;
  /** What the dialogue took, this turn included. */
  spent(): Spent;
}

export function startAsking(options: AskOptions, before: Spent, { draw, signal }: UserContext): Asker {
  const { client, cache, model, base_url, strategy, sampling, prices } = options;
  let spent = before;
  /** How often each question was asked: a strategy may ask the same again to get another answer. */
  const times = new Map<string, number>();

  function keyOf(messages: readonly ChatMessage[]): CacheKey {
    const question = JSON.stringify(messages);
    const time = times.get(question) ?? 0;
    times.set(question, time + 1);
    return { model, base_url, strategy, messages, sampling, draw: time === 0 ? draw : [draw, time] };
  }

  async function remote(messages: readonly ChatMessage[]): Promise<CachedAnswer> {
    try {
      const { text, usage } = await client.chat({ messages, ...sampling }, signal);
      const [prompt, completion] = [usage?.prompt_tokens ?? 0, usage?.completion_tokens ?? 0];
      spent = {
        ...spent,
        calls: spent.calls + 1,
        prompt_tokens: spent.prompt_tokens + prompt,
        completion_tokens: spent.completion_tokens + completion,
        cost: spent.cost + (prices ? costOf(prices, prompt, completion) : 0),
      };
      return { text, usage };
    } catch (error) {
      // A UserError says that no call can succeed; either way the rollout has failed, and says whose fault it is.
      if (error instanceof LlmError || error instanceof UserError) throw new UserSimulatorError(error.message, error);
      throw error;
    }
  }

  async function ask<Answer>(messages: readonly ChatMessage[], read: (text: string) => Answer | null): Promise<Answer> {
    const sent = mergeTurns(messages);
    const key = keyOf(sent);
    const stored = cached(key);
    const known = stored && read(stored.text);
    if (known !== null) {
      spent = { ...spent, cached: spent.cached + 1 };
      return known;
    }
    if (cache.mode === "replay")
      throw new UserSimulatorError("the cached answer can't be used by this strategy, and cache is replay");
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const answer = await remote(sent);
      const own = read(answer.text);
      if (own === null) continue;
      // Where another writer was faster, all go by its answer, and a replay gives the same.
      return read(cache.keep(key, answer).text) ?? own;
    }
    throw new UserSimulatorError(`${model} gave no answer that can be used (${ATTEMPTS} tries)`);
  }

  function cached(key: CacheKey): CachedAnswer | null {
    try {
      return cache.read(key);
    } catch (error) {
      if (error instanceof UserError) throw new UserSimulatorError(error.message, error);
      throw error;
    }
  }

  return { ask, spent: () => spent };
}

/** Messages of one role in a row as one: some servers refuse two of them. Only role and content go out. */
function mergeTurns(messages: readonly ChatMessage[]): ChatMessage[] {
  const merged: ChatMessage[] = [];
  for (const { role, content } of messages) {
    const last = merged.at(-1);
    if (last && last.role === role) merged[merged.length - 1] = { role, content: `${last.content}\n${content}` };
    else merged.push({ role, content });
  }
  return merged;
}
