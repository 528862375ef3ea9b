import type { ChatAnswer } from "./answer.ts";
import type { FailureKind } from "./errors.ts";

/** Of a million tokens, in whatever currency the user counts. */
export interface Prices {
  prompt: number;
  completion: number;
}

/** What was asked of an endpoint, and what it took. */
export interface LlmAccount {
  /** Calls that brought an answer. */
  answered: number;
  /** Calls that brought none, after all tries. */
  gave_up: number;
  retries: number;
  /** Tries that failed, by kind. */
  failures: Partial<Record<FailureKind, number>>;
  /** As the endpoint counts them, the whole dialogue anew in each call. */
  prompt_tokens: number;
  completion_tokens: number;
  /** Answers that did not tell their tokens: the sums lack these. */
  answers_without_usage: number;
  /** null: no prices were given. */
  cost: number | null;
  /** Of answers, milliseconds, without waiting for limits and retries; null: there was none. */
  latency_ms: { p50: number; p95: number; max: number } | null;
}

export interface AccountBook {
  answered(answer: ChatAnswer, latency_ms: number): void;
  failed(kind: FailureKind): void;
  retried(): void;
  gaveUp(): void;
  total(): LlmAccount;
}

/** Cost of tokens by the prices of a million. */
export function costOf(prices: Prices, prompt_tokens: number, completion_tokens: number): number {
  return (prompt_tokens * prices.prompt + completion_tokens * prices.completion) / 1e6;
}

export function createAccount(prices: Prices | null): AccountBook {
  const counts = {
    answered: 0,
    gave_up: 0,
    retries: 0,
    prompt_tokens: 0,
    completion_tokens: 0,
    answers_without_usage: 0,
  };
  const failures: LlmAccount["failures"] = {};
  const latencies: number[] = [];
  return {
    answered({ usage }, latency_ms) {
      counts.answered++;
      latencies.push(latency_ms);
      if (!usage) counts.answers_without_usage++;
      counts.prompt_tokens += usage?.prompt_tokens ?? 0;
      counts.completion_tokens += usage?.completion_tokens ?? 0;
    },
    failed(kind) {
      failures[kind] = (failures[kind] ?? 0) + 1;
    },
    retried() {
      counts.retries++;
    },
    gaveUp() {
      counts.gave_up++;
    },
    total() {
      const sorted = [...latencies].sort((a, b) => a - b);
      const { answered, gave_up, retries, prompt_tokens, completion_tokens, answers_without_usage } = counts;
      return {
        answered,
        gave_up,
        retries,
        failures: { ...failures },
        prompt_tokens,
        completion_tokens,
        answers_without_usage,
        cost: prices && costOf(prices, prompt_tokens, completion_tokens),
        latency_ms:
          sorted.length === 0
            ? null
            : { p50: round(quantile(sorted, 0.5)), p95: round(quantile(sorted, 0.95)), max: round(sorted.at(-1)!) },
      };
    },
  };
}

/** The smallest value that at least this share of the values does not exceed (nearest rank). `sorted` is not empty. */
export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}

const round = (ms: number): number => Math.round(ms * 10) / 10;
