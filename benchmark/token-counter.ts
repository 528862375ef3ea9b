import { isApi } from "./api.ts";
import type { PlayConfig } from "./config.ts";
import { modelOf } from "./play.ts";

/** Counts tokens by a policy's own tokenizer. */
export interface TokenCounter {
  /** A text says why they can't be counted. */
  count: ((texts: readonly string[]) => Promise<number[]>) | string;
  close(): Promise<void>;
}

/** The counter of the policy that a benchmark played. Nothing is started before it is asked. */
export function tokenCounter({ policy }: Pick<PlayConfig, "policy">): TokenCounter {
  const none = (why: string): TokenCounter => ({ count: why, close: async () => {} });
  if (isApi(policy)) return none("the policy is behind an API, and its tokenizer is not known");
  return modelOf(policy) === null
    ? none("the policy is no model, and has no tokens")
    : none("its tokens were not counted");
}
