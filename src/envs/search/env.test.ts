import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { defineEnv } from "../../core/env.ts";
import { envContract } from "../../core/env-contract.ts";
import { createRandom } from "../../core/random.ts";
import { completion, json, startEndpoint } from "../../llm/fixtures/endpoint.ts";
import { type Checker, CheckerError, type Verdict } from "./checkers/types.ts";
import { search, searchSpec, searchSpecWith } from "./env.ts";
import { searchOptions } from "./options.ts";
import { renderReply } from "./prompt.ts";
import { quickCheck } from "./quick-check.ts";
import type { RoundFacts } from "./types.ts";

envContract(searchSpec, { disjoint: [["train", "eval"]], runs: 60 });
envContract(searchSpec, { splits: ["eval"], env_options: { max_rounds: 3, prompt: "compact" }, runs: 20 });

async function playGold(task_id: string, split = "train", env_options: object = {}) {
  const tasks = await search.load(split, env_options);
  const episode = await tasks.start(task_id, { seed: 1 });
  for (const reply of tasks.replies("gold", task_id, createRandom(1))) await episode.reply(reply);
  return episode;
}

function scriptedChecker(judge: (...args: Parameters<Checker["check"]>) => Verdict | Promise<Verdict>): Checker {
  return { check: async (...args) => judge(...args) };
}

const some = async (split = "train", env_options: object = {}) => (await search.load(split, env_options)).ids;

describe("a round", () => {
  test("lists documents with their labels in the outcome, and ends the episode", async () => {
    const [id] = await some();
    const episode = await playGold(id!);
    const { turns, ended_by, reward, parts } = await episode.finish();
    expect(ended_by).toBe("terminated");
    expect(turns[0]!.action).toEqual({ name: "search", args: { clues: expect.any(Array) } });
    expect(turns[0]!.outcome.text).toMatch(
      /^docid \| title \| label\n(?:d\d{4} \| .+ \| (?:IMPORTANT|LOCAL|DISCARD).*\n?)+$/,
    );
    const { documents } = turns[0]!.outcome.payload as RoundFacts;
    expect(new Set(documents.map(({ docid }) => docid)).size).toBe(documents.length);
    expect(parts.documents).toBe(documents.length);
    expect(reward).toBeGreaterThanOrEqual(2.5);
  });

  test("the order of clues does not change the documents or the reward", async () => {
    const tasks = await search.load("train");
    for (const id of tasks.ids.slice(0, 20)) {
      const [reply] = tasks.replies("gold", id, createRandom(1));
      const lines = reply!.match(/<clue>.*<\/clue>/g)!;
      const turned = reply!.replace(lines.join("\n"), [...lines].reverse().join("\n"));
      const results = await Promise.all(
        [reply!, turned].map(async (text) => {
          const episode = await tasks.start(id, { seed: 1 });
          await episode.reply(text);
          const { reward, turns } = await episode.finish();
          const facts = turns[0]!.outcome.payload as RoundFacts;
          return { reward, docids: facts.documents.map(({ docid }) => docid).sort() };
        }),
      );
      expect(results[1]).toEqual(results[0]);
    }
  });

  test("no clue: nothing is searched, and the reward is what the config says", async () => {
    const tasks = await search.load("train", { reward: { no_clues: -0.5 } });
    const episode = await tasks.start(tasks.ids[0]!, { seed: 1 });
    expect(await episode.reply("<think>hm")).toEqual({ observations: [], done: true });
    const { reward, turns, success } = await episode.finish();
    expect({ reward, success, kind: turns[0]!.outcome.kind, action: turns[0]!.action }).toEqual({
      reward: -0.5,
      success: false,
      kind: "parse_error",
      action: null,
    });
  });

  test("clues without a word find nothing, and the policy is told what to do (SE-08)", async () => {
    const tasks = await search.load("train");
    const episode = await tasks.start(tasks.ids[0]!, { seed: 1 });
    await episode.reply(renderReply("", ["!!!", "🕰️🕰️"]));
    const { reward, turns } = await episode.finish();
    expect(reward).toBe(0);
    expect(turns[0]!.outcome.text).toMatch(/found no document\. Write clues with words/);
  });
});

describe("several rounds", () => {
  test("what was found stands in the next prompt, and what was seen earns less", async () => {
    const tasks = await search.load("train", { max_rounds: 2 });
    const id = tasks.ids.find(
      (task_id) =>
        tasks.category(task_id) === "first_round" && tasks.replies("gold", task_id, createRandom(1)).length === 2,
    )!;
    const episode = await tasks.start(id, { seed: 1 });
    const [reply] = tasks.replies("gold", id, createRandom(1));
    const { observations, done } = await episode.reply(reply!);
    expect(done).toBe(false);
    expect(observations).toEqual([
      { role: "user", content: expect.stringMatching(/IMPORTANT[\s\S]*## Entities\n\n\| name/) },
    ]);
    await episode.reply(reply!);
    const { turns, parts, ended_by } = await episode.finish();
    expect(ended_by).toBe("terminated");
    const [first, second] = turns.map(({ outcome }) => outcome.payload as RoundFacts);
    expect(first!.documents.some(({ seen }) => seen)).toBe(false);
    expect(second!.documents.every(({ seen }) => seen)).toBe(true);
    expect(parts.important_seen).toBe(parts.important_new);
  });

  test("a reply without clues costs its round alone", async () => {
    const tasks = await search.load("train", { max_rounds: 2 });
    const id = tasks.ids[0]!;
    const episode = await tasks.start(id, { seed: 1 });
    const { observations, done } = await episode.reply("");
    expect([done, observations[0]!.content]).toEqual([false, expect.stringMatching(/There is no clue in your reply/)]);
    await episode.reply(tasks.replies("gold", id, createRandom(1))[0]!);
    expect(await episode.finish()).toMatchObject({ success: true, metrics: { parse_failure_share: 0.5, rounds: 2 } });
  });
});

describe("the checker", () => {
  const playWith = async (checker: Checker, timeout_ms?: number) => {
    const env = defineEnv(searchSpecWith(() => checker));
    const tasks = await env.load("train");
    const episode = await tasks.start(tasks.ids[0]!, { seed: 1, timeout_ms });
    await episode.reply(tasks.replies("gold", tasks.ids[0]!, createRandom(1))[0]!);
    return episode.finish();
  };

  test("that fails makes the rollout invalid, never a round of DISCARD (TR-19)", async () => {
    let calls = 0;
    const failing = scriptedChecker(() => {
      if (++calls === 3) throw new CheckerError("m gave no label for document 'd3' (3 tries)");
      return { label: "DISCARD" };
    });
    expect(await playWith(failing)).toMatchObject({
      ended_by: "error",
      ended_why: expect.stringMatching(/gave no label/),
      reward: null,
    });
  });

  test("that never answers runs into the episode's time limit (TR-21)", async () => {
    expect(
      await playWith(
        scriptedChecker(() => new Promise(() => {})),
        100,
      ),
    ).toMatchObject({ ended_by: "timeout", reward: null });
  });

  test("that is a model may label otherwise than the judgements: no task is taken for solvable by them", async () => {
    const stub = await startEndpoint((response) => json(response, 200, completion('{"label": "LOCAL"}')));
    process.env.CHECKER_BASE_URL = stub.url;
    try {
      const tasks = await search.load("eval", { checker: { backend: "llm", model: "judge", cache_dir: null } });
      const episode = await tasks.start(tasks.ids[0]!, { seed: 1 });
      await episode.reply(tasks.replies("gold", tasks.ids[0]!, createRandom(1))[0]!);
      const { parts, success, reward } = await episode.finish();
      expect({ success, discovery: parts.discovery, local: parts.local_new }).toEqual({
        success: true,
        discovery: null,
        local: stub.requests.length,
      });
      expect(reward).toBeCloseTo(0.3 * stub.requests.length, 9);
      await stub.close();
      const next = await tasks.start(tasks.ids[0]!, { seed: 1 });
      await next.reply("- river");
      expect(await next.finish()).toMatchObject({ ended_by: "error", reward: null });
    } finally {
      delete process.env.CHECKER_BASE_URL;
      await stub.close();
    }
  }, 30_000);

  test("is asked with question, sub-goal and the whole document, once for each", async () => {
    const asked: unknown[][] = [];
    const trajectory = await playWith(
      scriptedChecker((...args) => {
        asked.push(args);
        return { label: "LOCAL", reason: "so" };
      }),
    );
    expect(asked).toHaveLength(trajectory.parts.documents!);
    expect(asked[0]).toEqual([
      { id: expect.any(String), text: expect.any(String) },
      expect.stringMatching(/^Find /),
      { docid: expect.any(String), title: expect.any(String), text: expect.any(String) },
    ]);
    expect(trajectory.parts.local_new).toBe(trajectory.parts.documents);
  });
});

describe("a user's own data", () => {
  const folder = mkdtempSync(join(tmpdir(), "beir-"));
  const lines = (rows: object[]) => rows.map((row) => JSON.stringify(row)).join("\n");
  mkdirSync(join(folder, "qrels"));
  writeFileSync(
    join(folder, "corpus.jsonl"),
    lines([
      { _id: "a", title: "Amber Clock", text: "A clock in a tower." },
      { _id: "b", title: "Amber Bell", text: "A bell in a tower." },
      { _id: "c", title: "", text: "Nothing of the kind." },
    ]),
  );
  writeFileSync(
    join(folder, "queries.jsonl"),
    lines([
      { _id: "1", text: "Which clock is it?" },
      { _id: 2, text: "Which bell is it?" },
    ]),
  );
  writeFileSync(join(folder, "qrels", "test.tsv"), "query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t1\n2\tb\t2\n2\tc\t0\n");

  test("a BEIR folder is played as it is: queries, judgements by score", async () => {
    const tasks = await search.load("all", { corpus: folder });
    expect(tasks.ids).toEqual(["1/round_001", "2/round_001"]);
    const episode = await tasks.start("1/round_001", { seed: 1 });
    await episode.reply("- amber tower\n- kind");
    expect(await episode.finish()).toMatchObject({
      reward: 2.8,
      parts: { important_new: 1, local_new: 1, discard_new: 1 },
      success: true,
    });
    expect((await search.load("train", { corpus: folder })).ids).toHaveLength(1);
  });

  const beir = (queries: object[], qrels: string | null): string => {
    const other = mkdtempSync(join(tmpdir(), "beir-"));
    cpSync(join(folder, "corpus.jsonl"), join(other, "corpus.jsonl"));
    writeFileSync(join(other, "queries.jsonl"), lines(queries));
    if (qrels !== null) {
      mkdirSync(join(other, "qrels"));
      writeFileSync(join(other, "qrels", "test.tsv"), qrels);
    }
    return other;
  };
  const queries = ["1", "2", "3"].map((_id) => ({ _id, text: `Which is ${_id}?` }));

  test("queries that nobody judged are left out and counted: all they find would be DISCARD", async () => {
    const corpus = beir(queries, "1\ta\t2\n2\tb\t1\n");
    expect((await search.load("all", { corpus })).ids).toEqual(["1/round_001", "2/round_001"]);
    expect(quickCheck(searchOptions.parse({ corpus })).skipped).toEqual([
      { path: join(corpus, "queries.jsonl"), reason: "1 queries have no judgement." },
    ]);
  });

  test.each<[string, () => string, RegExp]>([
    ["a query twice", () => beir([...queries, queries[0]!], "1\ta\t2\n"), /query '1' is on line 1 and on line 4/],
    ["qrels of other queries", () => beir(queries, "x\ta\t2\n"), /none of its 3 queries has a judgement/],
    ["no query", () => beir([], "x\ta\t2\n"), /queries.jsonl holds no query/],
    ["no judgement, and a checker that goes by them", () => beir(queries, null), /'labels' goes by judgements/],
  ])("a BEIR folder with %s", async (_, make, message) => {
    await expect(search.load("train", { corpus: make() })).rejects.toThrow(message);
  });

  test("a checker without an endpoint is told before anything is played", async () => {
    for (const name of ["CHECKER_BASE_URL", "LLM_BASE_URL"]) vi.stubEnv(name, "");
    const dotenv = join(folder, "empty.env");
    writeFileSync(dotenv, "");
    try {
      const options = { checker: { backend: "llm", model: "judge", dotenv } };
      await expect(search.load("train", options)).rejects.toThrow(/CHECKER_BASE_URL is not set/);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test.each<[string, object, RegExp]>([
    ["an index that is not there", { index: join(folder, "nowhere.sqlite") }, /no such file/],
    ["a reward beyond all bounds", { reward: { local_new: 1e308 } }, /reward.local_new/],
    ["a collection alone", { corpus: join(folder, "corpus.jsonl") }, /set the option 'checkpoints'/],
    ["checkpoints that are not there", { checkpoints: join(folder, "nowhere") }, /no such folder of checkpoints/],
    [
      "a collection that is not there",
      { corpus: join(folder, "nowhere.jsonl"), checkpoints: "data/search/checkpoints" },
      /no such file/,
    ],
    ["no round with so many clues", { min_clues_per_round: 9 }, /no SEARCH round has 9 clues/],
    ["an option that there is not", { topk: 3 }, /topk/],
    ["top_k of 0 (SE-05)", { top_k: 0 }, /top_k/],
  ])("%s", async (_, options, message) => {
    await expect(search.load("train", options)).rejects.toThrow(message);
  });

  test("samples without judgements are played with a checker that needs none, and by recorded clues", async () => {
    const env = defineEnv(searchSpecWith(() => scriptedChecker(() => ({ label: "DISCARD" }))));
    const tasks = await env.load("train", {
      corpus: join(folder, "corpus.jsonl"),
      checkpoints: "data/search/checkpoints",
    });
    const episode = await tasks.start(tasks.ids[0]!, { seed: 1 });
    await episode.reply(tasks.replies("gold", tasks.ids[0]!, createRandom(1))[0]!);
    expect(await episode.finish()).toMatchObject({ success: true, parts: { discovery: null } });
  });
});
