import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { replayGold } from "../core/env.ts";
import { UserError } from "../core/errors.ts";
import { createRandom } from "../core/random.ts";
import { envs, loadEnv, protocols } from "./index.ts";

const example = join(import.meta.dirname, "../../examples/guess-the-number.ts");

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
    ["a misspelt name (TR-09)", "arxib", /no environment 'arxib'; did you mean 'arxiv'\? Expected arxiv, .*or a file/],
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
    ["a file that throws", "throw new Error('broken');", /my-env.ts can't be loaded: broken$/],
    ["an import of a package that is not there", 'import "no-such-package";', /no-such-package.*npm install zod/s],
    ["an import of a file that is not there", 'import "../src/core/env.ts";', /Imports are looked up from that file/],
    [
      "two environments",
      `import { guessTheNumber } from ${JSON.stringify(example)};
       export const a = { ...guessTheNumber, id: "a@1" }; export const b = { ...guessTheNumber, id: "b@1" };`,
      /exports 2 environments \(a@1, b@1\); expected one/,
    ],
  ])("%s", async (_, text, message) => {
    await expect(loadEnv(file(text))).rejects.toThrow(message);
  });
});

describe("what a user's file throws outside an episode is the user's to mend", () => {
  const broken = (changes: string) =>
    file(`import { defineEnv } from ${JSON.stringify(join(import.meta.dirname, "../core/env.ts"))};
import { z } from ${JSON.stringify(join(import.meta.dirname, "../../node_modules/zod/index.js"))};
class UserError extends Error { name = "UserError"; } // of another copy of ours, by its name alone
export const env = defineEnv({
  id: "own@1", summary: "", options: z.strictObject({}), max_turns: 1, tools: [], components: [], splits: ["train"],
  load: () => ({ tasks: [{ id: "a" }], sources: {} }),
  reset: () => ({ state: {}, messages: [] }),
  step: (state) => ({ state, thought: "", action: null, outcome: { kind: "ok", text: "" }, observations: [], terminated: true }),
  score: () => ({ reward: 0, parts: {}, metrics: {}, success: false }),
  policies: { gold: () => [] },
  ${changes}
});`);

  test.each([
    ["load throws", 'load() { throw new Error("no database"); }', /my-env.ts:\d+:\d+: load failed: no database$/],
    ["load throws a text", 'async load() { throw "no database"; }', /my-env.ts: load failed: no database$/],
    ["load throws a UserError", 'load() { throw new UserError("no split"); }', /^no split$/],
    ["expert throws", 'async expert() { throw new Error("no rows"); }', /my-env.ts:\d+:\d+: expert failed: no rows$/],
    ["rescore throws", 'rescore() { throw new Error("odd"); }', /my-env.ts:\d+:\d+: rescore failed: odd$/],
    ["gold does not solve its task", "", /^own@1: the gold replies of task 'a' do not solve it/],
  ])("%s", async (_, changes, message) => {
    const env = await loadEnv(broken(changes));
    const used = env.load("train").then(async () => (env.rescore ? env.rescore({}) : env.expert("train")));
    await expect(used).rejects.toThrow(UserError);
    await expect(used).rejects.toThrow(message);
  });

  test("category throws", async () => {
    const env = await loadEnv(broken('category() { throw new Error("none"); }'));
    const tasks = await env.load("train");
    expect(() => tasks.category("a")).toThrow(/my-env.ts:\d+:\d+: category failed: none$/);
  });

  test("the texts of its continuation style do not fit", async () => {
    const styled = async (style: string) => loadEnv(broken(`continuation() { ${style} },`));
    expect((await loadEnv(broken(""))).continuation()).toBe(null);
    expect((await styled("return null;")).continuation()).toBe(null);
    const good = await styled('return { separator: "", opening: "A:", stop: "B:" };');
    expect(good.continuation()).toEqual({ separator: "", opening: "A:", stop: "B:" });
    for (const [text, message] of [
      ['return { separator: "", opening: "A:" };', /own@1: continuation: .*stop/],
      ['return { separator: "", opening: "", stop: "B:" };', /own@1: continuation: opening/],
      ['return { separator: "", opening: "AB:", stop: "B:" };', /the opening 'AB:' holds the stop 'B:'/],
      ['throw new Error("no style");', /my-env.ts:\d+:\d+: continuation failed: no style$/],
    ] as const) {
      const env = await styled(text);
      expect(() => env.continuation()).toThrow(message);
      expect(() => env.continuation()).toThrow(expect.objectContaining({ name: "UserError" }));
    }
  });

  test("template_tools: false where nothing is said, and what it throws has its place", async () => {
    expect((await loadEnv(broken(""))).template_tools()).toBe(false);
    expect((await loadEnv(broken("template_tools: () => true,"))).template_tools()).toBe(true);
    const env = await loadEnv(broken('template_tools() { throw new Error("which?"); },'));
    expect(() => env.template_tools()).toThrow(/my-env.ts:\d+:\d+: template_tools failed: which\?$/);
  });

  test("the gate's play throws", async () => {
    const env = await loadEnv(broken('baselines: { play() { throw new Error("no world"); } }'));
    const request = { policies: [], split: "train", seed: 1, samples: 1, training_step: 1, options: {} };
    await expect(env.baselines.play(request)).rejects.toThrow(/my-env.ts:\d+:\d+: baselines failed: no world$/);
  });

  test("a policy throws", async () => {
    const env = await loadEnv(broken('policies: { gold() { throw new Error("lost"); } }'));
    const tasks = await env.load("train");
    expect(() => tasks.replies("gold", "a", createRandom(1))).toThrow(/my-env.ts:\d+:\d+: policy 'gold' failed: lost$/);
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
