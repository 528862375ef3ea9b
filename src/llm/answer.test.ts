import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readAnswer, retryAfter } from "./answer.ts";
import { LlmError } from "./errors.ts";
import { completion } from "./fixtures/endpoint.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const read = (value: unknown, status = 200, headers: Record<string, string> = {}) =>
  readAnswer({ status, headers, text: typeof value === "string" ? value : JSON.stringify(value) }, NOW);
const withMessage = (message: unknown, more: Record<string, unknown> = {}) => ({ choices: [{ message, ...more }] });

describe("an answer", () => {
  test("of a healthy endpoint", () => {
    expect(read(completion("Hello"))).toEqual({
      text: "Hello",
      finish_reason: "stop",
      usage: { prompt_tokens: 100, completion_tokens: 10 },
    });
  });

  const call = { id: "1", type: "function", function: { name: "look", arguments: '{"ref": 1,}' } };
  test.each([
    ["content is null (TB-18)", { role: "assistant", content: null }, ""],
    ["content is missing", { role: "assistant" }, ""],
    [
      "content is a list of parts",
      { content: [{ type: "text", text: "a" }, { type: "x" }, { type: "text", text: "b" }] },
      "ab",
    ],
    ["a refusal stands for the content", { content: null, refusal: "I won't." }, "I won't."],
    ["thinking beside the content is left out", { content: "b", reasoning_content: "a" }, "b"],
    [
      "calls taken out of the text are put back, slips in their JSON too",
      { content: "Now:", tool_calls: [call] },
      'Now:\n<tool_call>\n{"name": "look", "arguments": {"ref": 1,}}\n</tool_call>',
    ],
    [
      "a call whose arguments are an object",
      { content: null, tool_calls: [{ function: { name: "look", arguments: { ref: 1 } } }] },
      '<tool_call>\n{"name": "look", "arguments": {"ref":1}}\n</tool_call>',
    ],
  ])("%s", (_, message, text) => {
    expect(read(withMessage(message)).text).toBe(text);
  });

  test.each([
    ["no usage", undefined],
    ["usage of texts", { prompt_tokens: "7", completion_tokens: "1" }],
    ["negative usage", { prompt_tokens: -1, completion_tokens: 2 }],
    ["half a usage", { prompt_tokens: 3 }],
  ])("%s is not counted", (_, usage) => {
    expect(read(completion("x", { usage })).usage).toBeNull();
  });
});

describe("a failure", () => {
  const page = "<html><head><style>p {}</style></head><body><h1>502 Bad Gateway</h1></body></html>";
  test.each<[string, unknown, number, string, RegExp]>([
    ["429", { error: { message: "Slow down" } }, 429, "rate_limited", /answered 429: Slow down/],
    ["500 without a body", "", 500, "server_error", /answered 500$/],
    ["an HTML page with its 502", page, 502, "server_error", /answered 502: 502 Bad Gateway$/],
    ["an HTML page with 200", page, 200, "not_json", /no JSON object: 502 Bad Gateway/],
    ["half a JSON", '{"choices": [{"mess', 200, "not_json", /no JSON object/],
    ["nothing", "", 200, "not_json", /nothing/],
    ["a JSON list", [1], 200, "not_json", /no JSON object/],
    ["empty choices", { choices: [] }, 200, "no_answer", /no choices/],
    ["no choices", { id: 1 }, 200, "no_answer", /no choices/],
    ["choices that are none", { choices: "x" }, 200, "no_answer", /no choices/],
    ["a choice that is null", { choices: [null] }, 200, "no_answer", /no message/],
    ["a choice without a message", { choices: [{ text: "x" }] }, 200, "no_answer", /no message/],
    ["a message that is a text", withMessage("x"), 200, "no_answer", /no message/],
    ["content that is a number", withMessage({ content: 1 }), 200, "no_answer", /no message/],
    [
      "an error that comes with 200",
      { error: { message: "down", code: 503 } },
      200,
      "server_error",
      /answered 503: down/,
    ],
    ["an error text that comes with 200", { error: "down" }, 200, "server_error", /answered 500: down/],
    [
      "wrong key",
      { error: { message: "Incorrect API key", code: "invalid_api_key" } },
      401,
      "refused",
      /401: Incorrect/,
    ],
    ["wrong model", { error: { message: "no model 'x'" } }, 404, "refused", /404/],
    ["vLLM's wrong model", { object: "error", message: "no model 'x'", code: 404 }, 404, "refused", /no model 'x'/],
    [
      "an account without money",
      { error: { message: "You exceeded", code: "insufficient_quota" } },
      429,
      "refused",
      /429/,
    ],
    ["a redirect", "", 308, "refused", /308/],
    ["a parameter it does not know", { detail: "top_k?" }, 422, "bad_request", /422: top_k\?/],
    ["too long", { error: { message: "…", code: "context_length_exceeded" } }, 400, "context", /400/],
    ["too long, vLLM", { message: "This model's maximum context length is 4096 tokens" }, 400, "context", /4096/],
    ["filtered", { error: { message: "…", code: "content_filter" } }, 400, "filtered", /400/],
    [
      "filtered in mid-answer",
      withMessage({ content: "x" }, { finish_reason: "content_filter" }),
      200,
      "filtered",
      /filter/,
    ],
    ["an error text of its own shape", { error: { why: [1] } }, 500, "server_error", /\{"why":\[1\]\}/],
  ])("%s", (_, body, status, kind, message) => {
    const failure = () => read(body, status);
    expect(failure).toThrow(message);
    expect(failure).toThrow(expect.objectContaining({ kind, name: "LlmError" }));
  });

  test("a redirect's address is told without its query", () => {
    expect(() => read("", 302, { location: "https://login.example/x?key=secret" })).toThrow(
      /answered 302, go to https:\/\/login.example\/x$/,
    );
  });

  test("a stream that nobody asked for is named", () => {
    expect(() => read('data: {"choices": []}\n\n', 200, { "content-type": "text/event-stream" })).toThrow(/a stream/);
  });

  test("a server's long text is cut to one line", () => {
    const error = (() => {
      try {
        read({ error: { message: `a\u0000\n${"b".repeat(100_000)}` } }, 500);
      } catch (thrown) {
        return thrown as LlmError;
      }
      return null;
    })();
    expect(error!.message).toMatch(/: a b{198}…$/);
  });

  test("whatever comes back is an answer or an LlmError", () => {
    fc.assert(
      fc.property(fc.anything(), fc.integer({ min: 200, max: 599 }), fc.boolean(), (body, status, inChoice) => {
        let text: string;
        try {
          text = JSON.stringify(inChoice ? { choices: [{ message: body }] } : body) ?? "";
        } catch {
          return; // bigint
        }
        try {
          expect(typeof readAnswer({ status, headers: {}, text }, NOW).text).toBe("string");
        } catch (error) {
          expect(error).toBeInstanceOf(LlmError);
        }
      }),
      { numRuns: 500 },
    );
  });
});

test.each<[Record<string, string>, number | null]>([
  [{ "retry-after": "7" }, 7000],
  [{ "retry-after": "0" }, 0],
  [{ "retry-after": "1.5" }, 1500],
  [{ "retry-after": "Thu, 01 Jan 2026 00:00:30 GMT" }, 30_000],
  [{ "retry-after": "Wed, 31 Dec 2025 23:00:00 GMT" }, 0],
  [{ "retry-after": "soon" }, null],
  [{ "retry-after": "-5" }, expect.any(Number)],
  [{ "retry-after-ms": "250", "retry-after": "1" }, 250],
  [{}, null],
])("Retry-After: %j", (headers, expected) => {
  const wait = retryAfter(headers, NOW);
  expect(wait).toEqual(expected);
  expect(wait ?? 0).toBeGreaterThanOrEqual(0);
});
