import { z } from "zod";
import { type FailureKind, LlmError } from "./errors.ts";
import type { HttpAnswer } from "./post.ts";

// Reads what an endpoint sent back: an answer, or what kind of failure it is.

export interface ChatAnswer {
  /**
   * What the model wrote; "" where it wrote nothing. Calls that the endpoint took out of the text stand in it again, as
   * <tool_call> blocks.
   */
  text: string;
  /** "stop", "length"; null: not told. */
  finish_reason: string | null;
  /** What the endpoint counted, and bills; null: it did not tell. */
  usage: { prompt_tokens: number; completion_tokens: number } | null;
}

const count = z.int().nonnegative();
const usageSchema = z.object({ prompt_tokens: count, completion_tokens: count });
const contentSchema = z.union([
  z.string(),
  z
    .array(z.object({ text: z.string() }).or(z.unknown().transform(() => ({ text: "" }))))
    .transform((parts) => parts.map(({ text }) => text).join("")),
]);
const messageSchema = z.looseObject({
  content: contentSchema.nullish(),
  refusal: z.string().nullish(),
  tool_calls: z.array(z.object({ function: z.object({ name: z.string(), arguments: z.unknown() }) })).nullish(),
});
const choiceSchema = z.looseObject({ message: messageSchema, finish_reason: z.string().nullish() });

/** @param now_ms the time of day, which a Retry-After with a date is counted from. @throws LlmError */
export function readAnswer({ status, headers, text }: HttpAnswer, now_ms: number): ChatAnswer {
  const value = parseJson(text);
  const told = errorOf(value);
  if (status < 200 || status > 299 || told) {
    const code = status >= 200 && status <= 299 ? (told?.status ?? 500) : status;
    const detail = shortText(told?.message ?? text);
    const moved = code >= 300 && code <= 399 ? `, go to ${place(headers.location)}` : "";
    throw new LlmError(
      failureKind(code, told?.code ?? "", detail),
      `the endpoint answered ${code}${moved}${detail ? `: ${detail}` : ""}`,
      { status: code, retry_after_ms: retryAfter(headers, now_ms) },
    );
  }
  if (!isObject(value)) {
    const stream = String(headers["content-type"] ?? "").includes("event-stream");
    throw new LlmError(
      "not_json",
      `the answer is ${stream ? "a stream, which was not asked for" : "no JSON object"}: ${shortText(text) || "nothing"}`,
    );
  }
  const first: unknown = Array.isArray(value.choices) ? value.choices[0] : undefined;
  if (first === undefined) throw new LlmError("no_answer", `the answer has no choices: ${shortText(text)}`);
  const choice = choiceSchema.safeParse(first);
  if (!choice.success) throw new LlmError("no_answer", `the answer's choice holds no message: ${shortText(text)}`);
  const { message, finish_reason = null } = choice.data;
  if (finish_reason === "content_filter")
    throw new LlmError("filtered", "the endpoint's content filter stopped the answer");
  const usage = usageSchema.safeParse(value.usage);
  return {
    text: replyText(message),
    finish_reason: finish_reason ?? null,
    usage: usage.success ? usage.data : null,
  };
}

function replyText({ content, refusal, tool_calls }: z.output<typeof messageSchema>): string {
  const calls = (tool_calls ?? []).map(({ function: { name, arguments: args } }) => {
    // A text as it is, so that a model's slips in it are seen by the environment's parser.
    const json = typeof args === "string" ? args : JSON.stringify(args ?? {});
    return `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${json}}\n</tool_call>`;
  });
  return [content || refusal || "", ...calls].filter((part) => part !== "").join("\n");
}

const TOO_LONG =
  /context[ _](length|window|size)|maximum context|prompt is too long|input is too long|too many input tokens/i;
const NO_BUDGET = /insufficient_quota|insufficient[ _](balance|credits)|billing_hard_limit/i;
const FILTERED = /content_filter|content management policy/i;

function failureKind(status: number, code: string, message: string): FailureKind {
  const told = `${code} ${message}`;
  if (status === 401 || status === 402 || NO_BUDGET.test(told)) return "refused";
  if (status === 429) return "rate_limited";
  if (status >= 500 || status === 408 || status === 425) return "server_error";
  if (TOO_LONG.test(told)) return "context";
  if (FILTERED.test(told)) return "filtered";
  if (status < 400 || status === 404 || status === 405) return "refused";
  return "bad_request";
}

interface ToldError {
  message: string;
  code: string;
  /** Some put the status into a body that comes with 200. */
  status: number | null;
}

/** The shapes in use: {"error": {message, code, type}}, {"error": "…"}, {"message": "…"}, {"detail": "…"}. */
function errorOf(value: unknown): ToldError | null {
  if (!isObject(value)) return null;
  if (value.choices !== undefined && !value.error) return null;
  const error = value.error ?? (value.object === "error" ? value : (value.message ?? value.detail));
  if (error === undefined || error === null) return null;
  if (!isObject(error))
    return { message: typeof error === "string" ? error : JSON.stringify(error), code: "", status: null };
  const { message, code, type } = error;
  return {
    message: typeof message === "string" ? message : JSON.stringify(error),
    code: [code, type].filter((part) => typeof part === "string").join(" "),
    status: typeof code === "number" && code >= 400 && code <= 599 ? code : null,
  };
}

/** Milliseconds to wait by the endpoint's own wish, at least 0; null: it has none, or none that can be read. */
export function retryAfter(headers: HttpAnswer["headers"], now_ms: number): number | null {
  const exact = headers["retry-after-ms"];
  if (typeof exact === "string" && /^\d+(\.\d+)?$/.test(exact)) return Number(exact);
  const wish = headers["retry-after"];
  if (wish === undefined) return null;
  if (/^\s*\d+(\.\d+)?\s*$/.test(wish)) return Number(wish) * 1000;
  const date = Date.parse(wish);
  return Number.isNaN(date) ? null : Math.max(0, date - now_ms);
}

/** Without the query, which may hold a key. */
function place(location: string | undefined): string {
  return location === undefined ? "nowhere" : location.replace(/[?#].*$/s, "");
}

const LONGEST = 200;

/** A server's text in one short line: no tags, no control characters. */
function shortText(text: string): string {
  const plain = text
    .slice(0, 20_000)
    .replace(/<(script|style)\b.*?<\/\1>/gis, " ")
    .replace(/<\/?[a-z!][^>]*>/gi, " ")
    .replace(/[\p{C}\s]+/gu, " ")
    .trim();
  return plain.length > LONGEST ? `${plain.slice(0, LONGEST)}…` : plain;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ""));
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
