import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { replayGold } from "../core/env.ts";
import { envs, loadEnv, protocols } from "./index.ts";

const example = join(import.meta.dirname, "../../examples/guess-the-number.ts");
const envFile = join(import.meta.dirname, "../core/env.ts");

function file(text: string): string {
  const path = join(mkdtempSync(join(tmpdir(), "env-")), "my-env.ts");
  writeFileSync(path, text);
  return path;
}

describe("environments by name or file", () => {
  test("the project's own", async () => {
    for (const [name, env] of Object.entries(envs)) expect((await loadEnv(name)).id).toBe(env.id);
  });

  test("a user's file: its gold replies solve every task of every split, and the splits share none", async () => {
    const env = await loadEnv(example);
    expect(env.name).toBe("guess-the-number");
    const sets = await Promise.all(env.splits.map((split) => env.load(split)));
    for (const tasks of sets) expect((await replayGold(tasks)).rows).toHaveLength(50);
    expect(new Set(sets.flatMap(({ ids }) => ids)).size).toBe(100);
  });

  test("what the policy may get wrong in the example", async () => {
    const tasks = await (await loadEnv(example)).load("train");
    const episode = await tasks.start("n42", { seed: 1 });
    expect((await episode.reply("compare 0")).observations[0]).toMatchObject({ is_error: true });
    expect((await episode.reply("compare 50")).observations[0]!.content).toBe("lower");
    expect((await episode.reply("what?")).done).toBe(true);
    expect(await episode.finish()).toMatchObject({ reward: 0, success: false, ended_by: "terminated" });
  });

  test.each([
    ["a misspelt name (TR-09)", "arxib", /no environment 'arxib'; did you mean 'arxiv'\? Expected arxiv, or a file/],
    ["a name that every object has", "toString", /no environment 'toString'/],
    ["a file that is not there", "./nowhere/my-env.ts", /my-env.ts: there is no such file/],
  ])("%s", async (_, name, message) => {
    await expect(loadEnv(name)).rejects.toThrow(message);
  });

  test.each([
    [
      "a file without an environment",
      "export const x = 1;",
      /exports no environment; expected 'export const myEnv = defineEnv/,
    ],
    ["a file that throws", "throw new Error('broken');", /my-env.ts can't be loaded: broken/],
    [
      "two environments",
      `import { defineEnv } from ${JSON.stringify(envFile)};
       const env = (id) => ({ ...defineEnv({ id, options: {}, tools: [], components: [], splits: [], policies: {} }) });
       export const a = env("a@1"); export const b = env("b@1");`,
      /exports 2 environments \(a@1, b@1\); expected one/,
    ],
  ])("%s", async (_, text, message) => {
    await expect(loadEnv(file(text))).rejects.toThrow(message);
  });
});

describe("protocols", () => {
  test("react reads a call, an end, and says why a text can't be read", () => {
    expect(protocols.react!('Thought: look\nAction: {"name": "search", "args": {"a": 1}}')).toEqual({
      kind: "call",
      thought: "look",
      name: "search",
      args: { a: 1 },
    });
    expect(protocols.react!("Thought: done\nAction: FINISH")).toEqual({ kind: "finish", thought: "done" });
    expect(protocols.react!("hello")).toMatchObject({ kind: "parse_error" });
  });
});
