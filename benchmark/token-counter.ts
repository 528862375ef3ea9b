import { type Python, startPython } from "../src/bridge/python.ts";
import { countTokens } from "../src/token-counts.ts";
import { isApi } from "./api.ts";
import type { PlayConfig } from "./config.ts";
import { modelOf } from "./play.ts";

/** Counts tokens by a policy's own tokenizer. */
export interface TokenCounter {
  /** A text says why they can't be counted. */
  count: ((texts: readonly string[]) => Promise<number[]>) | string;
  close(): Promise<void>;
}

/** The counter of the policy that a benchmark played. Python starts when it is first asked. */
export function tokenCounter({ policy, python: interpreter }: Pick<PlayConfig, "policy" | "python">): TokenCounter {
  if (isApi(policy)) return noCounter("the policy is behind an API, and its tokenizer is not known");
  const model = modelOf(policy);
  if (model === null) return noCounter("the policy is no model, and has no tokens");
  let python: Promise<Python> | null = null;
  return {
    async count(texts) {
      python ??= startPython({ interpreter: interpreter ?? undefined });
      return countTokens(await python, model, texts);
    },
    close: async () => (await python)?.close(),
  };
}

const noCounter = (why: string): TokenCounter => ({ count: why, close: async () => {} });
