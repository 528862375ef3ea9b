/**
 * Why a call came to nothing. What may pass is tried again: `rate_limited` (429), `server_error` (5xx, 408), `connection`
 * (no way there, or reset), `cut` (an answer without its end), `timeout`, `not_json` (an HTML page, half a JSON),
 * `no_answer` (JSON without a choice). What will not pass is told at once: `too_large`, `bad_request`, `context` (the
 * dialogue is longer than the model takes), `filtered` (the endpoint's content filter), `stopped` (by us). And
 * `refused`: no other call will fare better (wrong key, wrong model, no budget left).
 */
export type FailureKind =
  | "rate_limited"
  | "server_error"
  | "connection"
  | "cut"
  | "timeout"
  | "not_json"
  | "no_answer"
  | "too_large"
  | "bad_request"
  | "context"
  | "filtered"
  | "refused"
  | "stopped";

const PASSING: readonly FailureKind[] = [
  "rate_limited",
  "server_error",
  "connection",
  "cut",
  "timeout",
  "not_json",
  "no_answer",
];

/** A call to an endpoint failed. The message never holds the key. */
export class LlmError extends Error {
  override name = "LlmError";
  readonly kind: FailureKind;
  /** Of the answer; null: there was none. */
  readonly status: number | null;
  /** The endpoint's own wish for the next try (Retry-After), milliseconds from now; null: it has none. */
  readonly retry_after_ms: number | null;
  constructor(
    kind: FailureKind,
    message: string,
    { status = null, retry_after_ms = null }: { status?: number | null; retry_after_ms?: number | null } = {},
  ) {
    super(message);
    this.kind = kind;
    this.status = status;
    this.retry_after_ms = retry_after_ms;
  }
  get may_pass(): boolean {
    return PASSING.includes(this.kind);
  }
}
