import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { canonicalJson } from "../../../core/canonical-json.ts";
import { backoff } from "./asking.ts";
import { type CacheKey, createCache } from "./cache.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "usercache-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const key: CacheKey = {
  model: "m",
  base_url: "http://127.0.0.1:8001/v1/chat/completions",
  strategy: "llm",
  messages: [{ role: "user", content: "Hé" }],
  sampling: {},
  draw: 0,
};
const answer = { text: "Hi.", usage: { prompt_tokens: 3, completion_tokens: 1 } };

function pathOf(of: CacheKey): string {
  const hash = createHash("sha256").update(canonicalJson(of)).digest("hex");
  return join(folder, hash.slice(0, 2), `${hash}.json`);
}
const files = () =>
  readdirSync(folder, { recursive: true })
    .map(String)
    .filter((name) => /\./.test(name));

test("one file a key, named by the SHA-256 of its canonical JSON, and nothing beside it", () => {
  const cache = createCache("readwrite", folder);
  expect(cache.read(key)).toBeNull();
  expect(cache.keep(key, answer)).toEqual(answer);
  expect(cache.read(key)).toEqual(answer);
  expect(JSON.parse(readFileSync(pathOf(key), "utf8"))).toEqual({ key, answer });
  expect(files()).toHaveLength(1);
});

test.each<[string, Partial<CacheKey>]>([
  ["model", { model: "n" }],
  ["address", { base_url: "http://other" }],
  ["strategy", { strategy: "react" }],
  ["dialogue", { messages: [{ role: "user", content: "Ha" }] }],
  ["sampling", { sampling: { temperature: 0 } }],
  ["draw", { draw: 1 }],
  ["time", { draw: [0, 1] }],
])("another %s is another answer", (_, change) => {
  const cache = createCache("readwrite", folder);
  cache.keep(key, answer);
  expect(cache.read({ ...key, ...change })).toBeNull();
});

test("off neither reads nor writes, replay writes nothing", () => {
  createCache("readwrite", folder).keep(key, answer);
  const off = createCache("off", folder);
  expect(off.read(key)).toBeNull();
  off.keep({ ...key, draw: 7 }, answer);
  createCache("replay", folder).keep({ ...key, draw: 8 }, answer);
  expect(files()).toHaveLength(1);
});

test("of two writers the first one's answer is what both go by", () => {
  const [one, two] = [createCache("readwrite", folder), createCache("readwrite", folder)];
  expect([one.read(key), two.read(key)]).toEqual([null, null]);
  one.keep(key, answer);
  expect(two.keep(key, { text: "Later.", usage: null })).toEqual(answer);
  expect(one.read(key)).toEqual(answer);
  expect(files()).toHaveLength(1);
});

test("replay: an answer that is not there is an error that says what to do", () => {
  expect(() => createCache("replay", folder).read(key)).toThrow(
    /has no answer for draw 0 of m to this dialogue \(.*\.json\), and cache is replay\. Play with cache readwrite once/,
  );
});

test.each([
  ["half a file", (text: string) => text.slice(0, text.length / 2), /is no whole record of an answer/],
  ["an empty file", () => "", /is no whole record/],
  ["another shape", () => '{"key": 1, "answer": "Hi."}', /is no whole record/],
  ["another key's answer", (text: string) => text.replace('"m"', '"n"'), /is the answer to another question/],
])("%s: asked for again and mended by readwrite, an error in replay", (_, spoil, message) => {
  const cache = createCache("readwrite", folder);
  cache.keep(key, answer);
  writeFileSync(pathOf(key), spoil(readFileSync(pathOf(key), "utf8")));
  expect(() => createCache("replay", folder).read(key)).toThrow(message);
  expect(cache.read(key)).toBeNull();
  expect(cache.keep(key, answer)).toEqual(answer);
  expect(createCache("replay", folder).read(key)).toEqual(answer);
});

test("a folder that can't be made is named", () => {
  mkdirSync(dirname(pathOf(key)), { recursive: true });
  const blocked = join(folder, "file");
  writeFileSync(blocked, "");
  expect(() => createCache("readwrite", join(blocked, "cache")).read(key)).toThrow(/a part of its path is a file/);
});

test("waits between tries: 1 s, 2 s, 4 s, and longer where the endpoint asks for it", () => {
  expect([1, 2, 3].map((retry) => backoff(retry, null))).toEqual([1000, 2000, 4000]);
  expect(backoff(1, 5000)).toBe(5000);
});
