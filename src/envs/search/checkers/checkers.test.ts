import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { type Answer, completion, json, type StubEndpoint, startEndpoint } from "../../../llm/fixtures/endpoint.ts";
import type { CorpusDocument } from "../types.ts";
import { type CacheKey, createCache } from "./cache.ts";
import { readVerdict } from "./judge-prompt.ts";
import { labelsChecker } from "./labels.ts";
import { llmChecker } from "./llm.ts";
import { checkerOptions } from "./options.ts";
import { type Checker, CheckerError } from "./types.ts";

const folder = mkdtempSync(join(tmpdir(), "checker-"));
let caches = 0;
const open: StubEndpoint[] = [];
afterEach(async () => {
  for (const stub of open.splice(0)) await stub.close();
});

const question = { id: "q1", text: "Which river is it?" };
const document: CorpusDocument = { docid: "d1", title: "River Sorrel", text: "It rises on a hill." };
const label =
  (name: string): Answer =>
  (response) =>
    json(response, 200, completion(JSON.stringify({ label: name })));

async function checkerAt(answer: Answer, options: Record<string, unknown> = {}) {
  const stub = await startEndpoint(answer);
  open.push(stub);
  const parsed = checkerOptions.parse({
    backend: "llm",
    model: "judge",
    cache_dir: null,
    answer_timeout_ms: 2000,
    ...options,
  });
  const waits: number[] = [];
  const backoff = (retry: number) => {
    waits.push(retry);
    return 5;
  };
  const checker = llmChecker(parsed, {
    env: { CHECKER_BASE_URL: stub.url, CHECKER_API_KEY: "key-0123456789" },
    backoff,
  });
  return { stub, checker, waits };
}

const ask = (checker: Checker, docid = "d1", sub_goal = "Find the river.") =>
  checker.check(question, sub_goal, { ...document, docid });

test("labels: what is not listed is DISCARD", async () => {
  const checker = labelsChecker(new Map([["q1", new Map([["d1", "LOCAL" as const]])]]));
  expect(await ask(checker)).toEqual({ label: "LOCAL" });
  expect(await ask(checker, "d2")).toEqual({ label: "DISCARD" });
});

describe("llm", () => {
  test("asks with temperature 0 and thinking off, and gives the label and the reason", async () => {
    const { stub, checker } = await checkerAt((response) =>
      json(response, 200, completion('<think>\n\n</think>\n{"label": "LOCAL", "reason": "the river alone"}')),
    );
    expect(await ask(checker)).toEqual({ label: "LOCAL", reason: "the river alone" });
    expect(stub.requests[0]!.body).toMatchObject({
      model: "judge",
      temperature: 0,
      chat_template_kwargs: { enable_thinking: false },
    });
    expect(stub.requests[0]!.body.messages[1]!.content).toContain("River Sorrel");
  });

  test.each<[string, Answer]>([
    ["the endpoint fails", (response) => json(response, 500, { error: "down" })],
    ["it says too many", (response) => json(response, 429, {})],
    ["it drops the connection", (response) => void response.destroy()],
    ["a page in place of JSON", (response) => void response.end("<html>")],
    ["nonsense", (response) => json(response, 200, completion("This document is important."))],
    ["a label there is not", label("GOOD")],
    ["an empty answer", (response) => json(response, 200, completion(""))],
    ["no answer in time", () => {}],
  ])("three tries with back-off, then the checker has failed, and never DISCARD: %s (TR-19)", async (_, bad) => {
    const { stub, checker, waits } = await checkerAt(bad, { answer_timeout_ms: 150 });
    await expect(ask(checker)).rejects.toThrow(CheckerError);
    expect(stub.requests).toHaveLength(3);
    expect(waits).toEqual([1, 2]);
  });

  test("a second try may do", async () => {
    const { checker } = await checkerAt((...args) => (args[2] === 0 ? label("NO") : label("IMPORTANT"))(...args));
    expect(await ask(checker)).toEqual({ label: "IMPORTANT" });
  });

  test("what will not pass is not tried again; nobody there is told by name", async () => {
    const { stub, checker } = await checkerAt((response) => json(response, 401, { error: { message: "wrong key" } }));
    await expect(ask(checker)).rejects.toThrow(/judge can't judge document 'd1': .*CHECKER_API_KEY/);
    expect(stub.requests).toHaveLength(1);
    await stub.close();
    open.splice(0);
    const env = { CHECKER_BASE_URL: stub.url };
    const gone = llmChecker(checkerOptions.parse({ model: "judge", cache_dir: null }), { env, backoff: () => 5 });
    await expect(ask(gone)).rejects.toThrow(/CHECKER_BASE_URL/);
  });

  test("no more calls at once than allowed, and equal questions are asked once", async () => {
    const { stub, checker } = await checkerAt(
      (response, ...rest) => void setTimeout(() => label("LOCAL")(response, ...rest), 20),
      { concurrency: 3 },
    );
    const verdicts = await Promise.all(Array.from({ length: 24 }, (_, index) => ask(checker, `d${index % 12}`)));
    expect(verdicts.every((verdict) => verdict.label === "LOCAL")).toBe(true);
    expect(stub.requests).toHaveLength(12);
    expect(stub.most_in_flight()).toBe(3);
  });

  test("keys of the request can be changed or left out, but for those that are ours", async () => {
    const { stub, checker } = await checkerAt(label("LOCAL"), { extra_body: { chat_template_kwargs: null, seed: 3 } });
    await ask(checker);
    expect(stub.requests[0]!.body).toMatchObject({ seed: 3 });
    expect(stub.requests[0]!.body).not.toHaveProperty("chat_template_kwargs");
    const options = checkerOptions.parse({ model: "m", extra_body: { messages: [] } });
    expect(() => llmChecker(options, { env: { CHECKER_BASE_URL: "http://127.0.0.1:1/v1" } })).toThrow(
      /extra_body holds 'messages'/,
    );
    expect(() => llmChecker(checkerOptions.parse({ dotenv: join(folder, "none") }), { env: {} })).toThrow(
      /no such file/,
    );
  });
});

describe("the cache", () => {
  const key: CacheKey = { model: "m", prompt_version: 1, question: "q", sub_goal: "s", docid: "d1" };

  test("makes a second run free", async () => {
    const cache_dir = join(folder, `cache-${caches++}`);
    const first = await checkerAt(label("LOCAL"), { cache_dir });
    for (const docid of ["d1", "d2", "d1"]) await ask(first.checker, docid);
    expect(first.stub.requests).toHaveLength(2);
    const second = await checkerAt((response) => json(response, 500, {}), { cache_dir });
    expect(await ask(second.checker)).toEqual({ label: "LOCAL" });
    expect(second.stub.requests).toHaveLength(0);
    await expect(ask(second.checker, "d1", "another sub-goal")).rejects.toThrow(CheckerError);
  });

  test.each([
    ["another model", { model: "n" }],
    ["another prompt", { prompt_version: 2 }],
    ["another question", { question: "r" }],
    ["another sub-goal", { sub_goal: "t" }],
    ["another document", { docid: "d2" }],
  ])("does not answer for %s", (_, change) => {
    const cache = createCache(join(folder, `cache-${caches++}`));
    cache.keep(key, { label: "LOCAL" });
    expect(cache.read(key)).toEqual({ label: "LOCAL" });
    expect(cache.read({ ...key, ...change })).toBe(null);
  });

  test.each([
    ["cut", (text: string) => text.slice(0, 20)],
    ["empty", () => ""],
    ["another question's", (text: string) => text.replace('"docid":"d1"', '"docid":"d9"')],
    ["of a label there is not", (text: string) => text.replace("LOCAL", "GOOD")],
  ])("a record that is %s is asked for again", (_, damage) => {
    const path = join(folder, `cache-${caches++}`);
    const cache = createCache(path);
    cache.keep(key, { label: "LOCAL" });
    const [file] = readdirSync(path, { recursive: true })
      .map(String)
      .filter((name) => name.endsWith(".json"));
    writeFileSync(join(path, file!), damage(readFileSync(join(path, file!), "utf8")));
    expect(cache.read(key)).toBe(null);
    cache.keep(key, { label: "LOCAL" });
    expect(cache.read(key)).toEqual({ label: "LOCAL" });
  });

  test("two processes that write it at once leave whole records, and nothing else", async () => {
    const path = join(folder, `cache-${caches++}`);
    const program = `
      import { createCache } from ${JSON.stringify(join(import.meta.dirname, "cache.ts"))};
      const cache = createCache(process.argv[1]);
      for (let round = 0; round < 10; round++)
        for (let n = 0; n < 20; n++) {
          const key = { model: "m", prompt_version: 1, question: "q", sub_goal: "s", docid: "d" + n };
          cache.keep(key, { label: "LOCAL", reason: "x".repeat(2000) });
          if (cache.read(key)?.label !== "LOCAL") throw new Error("half a record");
        }`;
    const run = () =>
      promisify(execFile)(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program, path]);
    await Promise.all([run(), run()]);
    const files = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    expect(files).toHaveLength(20);
    const cache = createCache(path);
    for (let n = 0; n < 20; n++) expect(cache.read({ ...key, docid: `d${n}` })?.label).toBe("LOCAL");
  }, 60_000);
});

test.each<[string, unknown]>([
  ['{"label": "LOCAL"}', { label: "LOCAL" }],
  [' {"label": "DISCARD", "reason": "no", "score": 3}\n', { label: "DISCARD", reason: "no" }],
  ['<think>it is IMPORTANT</think>{"label": "LOCAL"}', { label: "LOCAL" }],
  ['{"label": "local"}', null],
  ['```json\n{"label": "LOCAL"}\n```', null],
  ['The label: {"label": "LOCAL"}', null],
  ['{"label": "LOCAL"} {"label": "DISCARD"}', null],
  ["LOCAL", null],
  ['["LOCAL"]', null],
  ["null", null],
  ["", null],
])("an answer is one JSON object and nothing beside it: %j", (text, verdict) => {
  expect(readVerdict(text)).toEqual(verdict);
});
