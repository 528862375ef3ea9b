import { errorText, GuardError } from "../../../core/errors.ts";
import type { Clock } from "./clock.ts";
import { createPacer } from "./pacer.ts";

// Requests to arXiv: spaced, tried again after faults that pass, and stopped with a reason after those that do not.

/** A fault that may pass: the request is made again. */
export class Fault extends Error {
  override name = "Fault";
  /** What the server asked to wait; null: it did not say. */
  readonly retry_after_ms: number | null;

  constructor(message: string, retry_after_ms: number | null = null) {
    super(message);
    this.retry_after_ms = retry_after_ms;
  }
}

/** The build can't go on now. What is done is kept, and the same command goes on from there. */
export class BuildStopped extends GuardError {
  override name = "BuildStopped";
}

/** An answer that will be the same however often one asks, as a PDF that is not there. */
export class Refused extends Error {
  override name = "Refused";
}

export interface HttpOptions {
  clock: Clock;
  /** Between the starts of two requests. arXiv asks for 3 s. */
  interval_ms: number;
  /** Longest silence: until the answer begins, and between two pieces of it. */
  timeout_ms: number;
  /** Further tries after the first. */
  retries: number;
  /** Told of every fault that is waited out. */
  tell(line: string): void;
}

/** A response whose body is read in pieces, each within the time-out. */
export interface Answer {
  status: number;
  header(name: string): string | null;
  /** @throws Fault where the connection breaks or falls silent */
  body(): AsyncGenerator<Uint8Array>;
}

export interface Ask<Result> {
  url: string;
  /** How messages name it: "page 2 of cs.AI". */
  what: string;
  /** Made anew for each try. */
  headers?: () => Record<string, string>;
  /**
   * Reads the answer, whatever its status, except those that are tried again anyway.
   * @throws Fault to try again; Refused and others to stop
   */
  read(answer: Answer): Promise<Result>;
  /** Further tries; left out: those of the client. */
  retries?: number;
}

export interface Http {
  /** @throws BuildStopped where every try failed; what `read` threw, where that is no Fault */
  ask<Result>(request: Ask<Result>): Promise<Result>;
}

const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504]);

/** The first wait after a fault; it doubles with each further one. */
const BACK_OFF_MS = 5_000;
const LONGEST_BACK_OFF_MS = 120_000;
/** A server that asks for more than this is left alone until the user comes back. */
const LONGEST_RETRY_AFTER_MS = 15 * 60_000;

export function createHttp(options: HttpOptions): Http {
  const { clock } = options;
  const pacer = createPacer(clock, options.interval_ms);
  return {
    async ask(request) {
      const retries = request.retries ?? options.retries;
      for (let tries = 1; ; tries++) {
        await pacer.turn();
        try {
          return await askOnce(request, options);
        } catch (error) {
          if (!(error instanceof Fault)) throw error;
          const { retry_after_ms } = error;
          if (retry_after_ms !== null && retry_after_ms > LONGEST_RETRY_AFTER_MS)
            throw new BuildStopped(
              `${request.what}: ${error.message}, and the server asks to wait ${Math.ceil(retry_after_ms / 60_000)} minutes.`,
            );
          const wait_ms = Math.max(retry_after_ms ?? 0, Math.min(LONGEST_BACK_OFF_MS, BACK_OFF_MS * 2 ** (tries - 1)));
          if (retry_after_ms !== null) pacer.hold(retry_after_ms); // it counts for all that ask, this one or others
          if (tries > retries)
            throw new BuildStopped(
              `${request.what}: ${error.message} (${tries} ${tries === 1 ? "try" : "tries"}, ${request.url}).`,
            );
          options.tell(`${request.what}: ${error.message}; again in ${Math.ceil(wait_ms / 1000)} s`);
          await clock.sleep(wait_ms);
        }
      }
    },
  };
}

async function askOnce<Result>({ url, headers, read }: Ask<Result>, options: HttpOptions): Promise<Result> {
  const abort = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  /** Waits for a piece of the answer; what goes wrong with it is a fault. Of the network alone: a full disk is none. */
  async function piece<Value>(wait: () => Promise<Value>): Promise<Value> {
    timer = setTimeout(() => abort.abort(), options.timeout_ms);
    try {
      return await wait();
    } catch (error) {
      if (abort.signal.aborted) throw new Fault(`nothing came for ${options.timeout_ms / 1000} s`);
      throw new Fault(`the connection failed: ${causeText(error)}`);
    } finally {
      clearTimeout(timer);
    }
  }
  try {
    const response = await piece(() =>
      fetch(url, {
        headers: { "user-agent": "trestle (arXiv snapshot builder)", ...headers?.() },
        signal: abort.signal,
      }),
    );
    if (RETRIED.has(response.status))
      throw new Fault(
        `HTTP ${response.status}`,
        retryAfter(response.headers.get("retry-after"), options.clock.now_ms()),
      );
    return await read({
      status: response.status,
      header: (name) => response.headers.get(name),
      async *body() {
        if (!response.body) return;
        const reader = response.body.getReader();
        for (;;) {
          const { done, value } = await piece(() => reader.read());
          if (done) return;
          yield value;
        }
      },
    });
  } finally {
    abort.abort(); // what was not read is not waited for
  }
}

/** What a `Retry-After` header asks for in milliseconds, from seconds or a date; null: nothing that can be read. */
export function retryAfter(header: string | null, now_ms: number): number | null {
  if (header === null) return null;
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1000;
  const date_ms = /[a-z]/i.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(date_ms) ? null : Math.max(0, date_ms - now_ms);
}

/** fetch hides why it failed in the cause. */
function causeText(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return errorText(cause ?? error) || "no reason given";
}

/**
 * A body as text.
 * @throws Fault where it is longer than the limit or cut short
 */
export async function bodyText(answer: Answer, limit_bytes: number): Promise<string> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of answer.body()) {
    size += piece.length;
    if (size > limit_bytes) throw new Fault(`the answer is longer than ${limit_bytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString("utf8");
}
