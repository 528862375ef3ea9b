import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readEndpoint, shownUrl } from "./endpoint.ts";

const folder = mkdtempSync(join(tmpdir(), "dotenv-"));
const KEY = "sk-test-0123456789abcdef";

function read(text: string | null, env: Record<string, string> = {}, model = "", given = true) {
  const dotenv = join(folder, text === null ? "missing.env" : "some.env");
  if (text !== null) writeFileSync(dotenv, text);
  const { url, ...rest } = readEndpoint({ dotenv, dotenv_given: given, model, env });
  return { url: url.href, ...rest };
}

describe(".env", () => {
  test.each([
    ["plain", `LLM_BASE_URL=https://x.example/v1\nLLM_API_KEY=${KEY}\nMODEL=m\n`],
    [
      "a BOM, CRLF, quotes, export, comments",
      `\ufeff# mine\r\nexport LLM_BASE_URL="https://x.example/v1"\r\nLLM_API_KEY='${KEY}' # not this\r\nMODEL=m\r\n`,
    ],
    ["a slash at the end", `LLM_BASE_URL=https://x.example/v1/\nLLM_API_KEY=${KEY}\nMODEL=m`],
    ["the whole path", `LLM_BASE_URL=https://x.example/v1/chat/completions\nLLM_API_KEY=${KEY}\nMODEL=m`],
  ])("%s", (_, text) => {
    expect(read(text)).toEqual({ url: "https://x.example/v1/chat/completions", api_key: KEY, model: "m" });
  });

  test("the environment wins over the file, api:<model> over both, and nothing is put into the environment", () => {
    const text = `LLM_BASE_URL=https://x.example/v1\nLLM_API_KEY=${KEY}\nMODEL=m`;
    expect(read(text, { LLM_API_KEY: "sk-other-one", MODEL: "n" })).toMatchObject({
      api_key: "sk-other-one",
      model: "n",
    });
    expect(read(text, { MODEL: "n" }, "org/o")).toMatchObject({ api_key: KEY, model: "org/o" });
    expect(process.env.LLM_API_KEY).not.toBe(KEY);
  });

  test("a missing file is a mistake only where it was named", () => {
    const env = { LLM_BASE_URL: "http://localhost:8000/v1", MODEL: "m" };
    expect(read(null, env, "", false)).toMatchObject({ api_key: "", model: "m" });
    expect(() => read(null, env)).toThrow(/missing.env: there is no such file/);
  });

  test("a query stays in the address and out of what is shown", () => {
    const env = { LLM_BASE_URL: `https://x.example/openai?api-version=1&key=${KEY}`, MODEL: "m" };
    const { url } = readEndpoint({ dotenv: join(folder, "missing.env"), dotenv_given: false, model: "", env });
    expect(url.href).toBe(`https://x.example/openai/chat/completions?api-version=1&key=${KEY}`);
    expect(shownUrl(url)).toBe("https://x.example/openai/chat/completions");
  });
});

const BASE = "https://x.example/v1";
test.each<[string, Record<string, string>, RegExp]>([
  ["no address", { LLM_API_KEY: KEY, MODEL: "m" }, /LLM_BASE_URL is not set/],
  ["no model", { LLM_BASE_URL: BASE, LLM_API_KEY: KEY }, /'api:', without a model.*MODEL/],
  ["the key in place of the address", { LLM_BASE_URL: KEY, MODEL: "m" }, /LLM_BASE_URL is no http/],
  ["another protocol", { LLM_BASE_URL: `ftp://${KEY}@x`, MODEL: "m" }, /LLM_BASE_URL is no http/],
  [
    "the key in the address",
    { LLM_BASE_URL: `https://me:${KEY}@x.example`, MODEL: "m" },
    /Put the key into LLM_API_KEY/,
  ],
  [
    "a key with a line break in it",
    { LLM_BASE_URL: BASE, LLM_API_KEY: `${KEY}\n${KEY}`, MODEL: "m" },
    /LLM_API_KEY holds a blank/,
  ],
  ["a key beyond ASCII", { LLM_BASE_URL: BASE, LLM_API_KEY: `${KEY}…`, MODEL: "m" }, /LLM_API_KEY holds/],
])("%s is told without the key", (_, env, message) => {
  const reading = () => read(null, env, "", false);
  expect(reading).toThrow(message);
  expect(reading).toThrow(expect.objectContaining({ name: "UserError", message: expect.not.stringContaining(KEY) }));
});
