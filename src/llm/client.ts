import { setTimeout as sleep } from "node:timers/promises";
import { UserError } from "../core/errors.ts";
import type { Random } from "../core/random.ts";
import { createAccount, type LlmAccount, type Prices } from "./account.ts";
import { type ChatAnswer, readAnswer } from "./answer.ts";
import { type Endpoint, LLM_NAMES, SHORTEST_SECRET, shownUrl } from "./endpoint.ts";
import { LlmError } from "./errors.ts";
import { createLimiter, type Limits } from "./limiter.ts";
import { createPoster, type HttpAnswer, isUnreachable, type PostLimits } from "./post.ts";

export interface ClientOptions extends Limits, Omit<PostLimits, "max_bytes"> {
  endpoint: Endpoint;
  /** Tries after the first, for failures that may pass. */
  max_retries: number;
  /** null: cost is not counted. */
  prices: Prices | null;
  /** Of the back-off's jitter. */
  random: Random;
  /** Milliseconds before try number `retry`. Left out: `backoff_ms`. */
  backoff?: typeof backoff_ms;
}

export interface CallAnswer extends ChatAnswer {
  /** Of the try that succeeded, from the request's start to the answer's last byte, milliseconds. */
  latency_ms: number;
  /** Tries before it. */
  retries: number;
}

/** An OpenAI-compatible endpoint, asked within its limits. */
export interface LlmClient {
  /**
   * Asks for one answer, trying again what may pass.
   * @param body the request's JSON but for the model
   * @throws LlmError: this call failed, each try of it; UserError: no call can succeed
   */
  chat(body: Record<string, unknown>, signal?: AbortSignal): Promise<CallAnswer>;
  account(): LlmAccount;
  close(): void;
}

/** An answer is a turn of a dialogue: what is larger is no answer, and every later turn would carry it. */
const MAX_ANSWER_BYTES = 4 * 2 ** 20;
const FIRST_BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 30_000;
/** An endpoint that wants a longer pause is out of budget for this run. */
const LONGEST_PAUSE_MS = 300_000;

/**
 * Milliseconds to wait before try number `retry` (1 is the first retry): doubled each time up to 30 s, the upper half
 * of it by chance, so that callers who failed together don't come back together; never less than the endpoint asked for.
 */
export function backoff_ms(retry: number, retry_after_ms: number | null, random: Random): number {
  const step = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (retry - 1));
  const wait = step * (0.5 + random.next() / 2);
  return retry_after_ms === null ? wait : Math.max(wait, retry_after_ms + random.next() * FIRST_BACKOFF_MS);
}

export function createClient(options: ClientOptions): LlmClient {
  const { endpoint, max_retries, random, backoff = backoff_ms } = options;
  const limiter = createLimiter(options);
  const poster = createPoster(endpoint.url, { ...options, max_bytes: MAX_ANSWER_BYTES });
  const account = createAccount(options.prices);
  const names = endpoint.names ?? LLM_NAMES;
  const headers: Record<string, string> = endpoint.api_key ? { authorization: `Bearer ${endpoint.api_key}` } : {};
  /** Somebody has answered, whatever it was. */
  let reached = false;

  /** A server may send the key back, in an error or from a debug page: it goes no further. */
  function hide(text: string): string {
    return endpoint.api_key.length < SHORTEST_SECRET ? text : text.replaceAll(endpoint.api_key, `[${names.api_key}]`);
  }

  async function once(body: string, signal?: AbortSignal): Promise<ChatAnswer> {
    const answer: HttpAnswer = await poster.post(headers, body, signal);
    reached = true;
    const read = readAnswer({ ...answer, text: hide(answer.text) }, Date.now());
    return { ...read, text: wholeText(hide(read.text)) };
  }

  async function chat(request: Record<string, unknown>, signal?: AbortSignal): Promise<CallAnswer> {
    const body = JSON.stringify({ model: endpoint.model, ...request }, (_, item: unknown) =>
      typeof item === "string" ? wholeText(item) : item,
    );
    for (let retry = 0; ; retry++) {
      try {
        await limiter.enter(signal);
      } catch {
        throw new LlmError("stopped", "the run was stopped");
      }
      const begin = performance.now();
      let tokens = 0;
      let failure: LlmError;
      try {
        const answer = await once(body, signal);
        const latency_ms = performance.now() - begin;
        tokens = (answer.usage?.prompt_tokens ?? 0) + (answer.usage?.completion_tokens ?? 0);
        account.answered(answer, latency_ms);
        return { ...answer, latency_ms, retries: retry };
      } catch (error) {
        if (!(error instanceof LlmError)) throw error;
        failure = new LlmError(error.kind, hide(error.message), error);
        failure.cause = error.cause;
        if (failure.retry_after_ms !== null && failure.retry_after_ms <= LONGEST_PAUSE_MS)
          limiter.pause(failure.retry_after_ms);
      } finally {
        limiter.leave(tokens);
      }
      account.failed(failure.kind);
      refuseIfHopeless(failure);
      const tooLong = (failure.retry_after_ms ?? 0) > LONGEST_PAUSE_MS;
      if (!failure.may_pass || retry >= max_retries || tooLong) {
        account.gaveUp();
        throw new LlmError(failure.kind, giveUpText(failure, retry, tooLong), failure);
      }
      account.retried();
      await sleep(backoff(retry + 1, failure.retry_after_ms, random), undefined, { signal }).catch(() => {
        throw new LlmError("stopped", "the run was stopped");
      });
    }
  }

  /** @throws UserError in one sentence, where no call will fare better than this one. */
  function refuseIfHopeless({ kind, status, message, cause }: LlmError): void {
    const { url, api_key, model } = endpoint;
    const where = shownUrl(url);
    if (kind === "connection" && !reached && isUnreachable(cause))
      throw new UserError(`${where} can't be reached: ${message}. Check ${names.base_url}, and that the server runs.`);
    // Once an answer came, it is this dialogue that is refused, and not how we ask.
    if (kind === "bad_request" && account.total().answered === 0)
      throw new UserError(
        `${where} refuses what it is asked for model '${model}': ${message}. ` +
          "--extra-body changes keys of the request; null there leaves one out.",
      );
    if (kind !== "refused") return;
    const address = `${names.base_url}, which mostly ends in /v1`;
    const check =
      status === 401
        ? `${names.api_key}${api_key ? "" : ", which is not set"}`
        : status === 404
          ? `the model '${model}', and ${address}`
          : status === 405 || (status !== null && status < 400)
            ? address
            : `the account that ${names.api_key} belongs to`;
    throw new UserError(`${where} refuses every call: ${message}. Check ${check}.`);
  }

  return { chat, account: account.total, close: poster.close };
}

function giveUpText({ message, retry_after_ms }: LlmError, retry: number, tooLong: boolean): string {
  if (tooLong)
    return `${message} (it asks to wait ${Math.round(retry_after_ms! / 1000)} s, more than ${LONGEST_PAUSE_MS / 1000} s)`;
  return retry === 0 ? message : `${message} (${retry + 1} tries)`;
}

/** Half a surrogate pair is not text, and other languages' readers choke on it: U+FFFD instead. */
function wholeText(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}
