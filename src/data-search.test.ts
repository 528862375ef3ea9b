import { cpSync, existsSync, mkdtempSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runCommand } from "./fixtures/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "data-search-"));

async function run(...argv: string[]) {
  const result = await runCommand(...argv);
  const rows = result.stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { ...result, rows };
}

describe("data search index", () => {
  test("builds an index that the environment plays on", async () => {
    const output = join(folder, "world.sqlite");
    const { code, rows } = await run(
      "data",
      "search",
      "index",
      "data/search/corpus.jsonl",
      "--output",
      output,
      "--json",
    );
    expect([code, rows[0]]).toEqual([
      0,
      expect.objectContaining({ output, documents: expect.any(Number), corpus_sha256: expect.any(String) }),
    ]);
    const options = {
      corpus: "data/search/corpus.jsonl",
      index: output,
      judgements: "data/search/judgements.jsonl",
      checkpoints: "data/search/checkpoints",
      gold: "data/search/gold.jsonl",
    };
    const checked = await run("check", "--env", "search", "--env-options", JSON.stringify(options), "--json");
    const embedded = await run("check", "--env", "search", "--json");
    expect(checked.rows[0]).toEqual(embedded.rows[0]);
  });

  test.each([
    [["data/search/corpus.jsonl"], /takes one collection: data search index corpus.jsonl --output corpus.sqlite/],
    [["a.jsonl", "b.jsonl", "--output", join(folder, "x")], /takes one collection/],
    [[join(folder, "nowhere.jsonl"), "--output", join(folder, "x")], /nowhere.jsonl: there is no such file/],
    [["data/search/corpus.jsonl", "--output", join(folder, "x"), "--seed", "1"], /takes neither --seed nor --check/],
    [["data/search/corpus.jsonl", "--output", join(folder, "x"), "--by", "bands"], /--by is of data arxiv rates/],
  ])("%j", async (argv, message) => {
    const { code, stderr } = await run("data", "search", "index", ...argv);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
    expect(existsSync(join(folder, "x"))).toBe(false);
  });
});

describe("data search world", () => {
  test("--check tells the committed world from another", async () => {
    expect((await run("data", "search", "world", "--check", "--json")).rows[0]).toEqual({
      path: "data/search",
      ok: true,
      problems: [],
    });
    const other = await run("data", "search", "world", "--check", "--seed", "2");
    expect([other.code, other.stdout]).toEqual([1, expect.stringMatching(/corpus.jsonl is not what the seed gives/)]);
  }, 60_000);

  test.each([
    [["world", "x.jsonl"], /takes no files/],
    [["world", "--split", "train"], /takes no --split/],
    [["worlds"], /expected one of index, world, collect, sft, dpo/],
  ])("%j", async (argv, message) => {
    const { code, stderr } = await run("data", "search", ...argv);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  });
});

test("check names the runs that were skipped, shows a prompt, and reads a recorded reply", async () => {
  const checkpoints = join(folder, "checkpoints");
  cpSync("data/search/checkpoints", checkpoints, { recursive: true });
  truncateSync(join(checkpoints, "q003", "run_001", "round_001.json"), 100);
  writeFileSync(join(checkpoints, "q005", "run_002", "meta.json"), "[]");
  const { code, stdout } = await run("check", "--env", "search", "--checkpoints", checkpoints);
  expect(code).toBe(0);
  expect(stdout).toMatch(/questions: 60; runs: 178; rounds: \d+; samples: \d+/);
  expect(stdout).toMatch(/skipped: 2\n {2}q003\/run_001: round_001.json: not JSON .*\n {2}q005\/run_002: meta.json: /);
  expect(stdout).toMatch(/--- prompt of q\d+\/run_\d+\/round_\d+\nYou are the Executor/);
  expect(stdout).toMatch(/--- is read as [2-5] clues\n {2}\w/);
});

test("check of data that can't be used is the user's mistake", async () => {
  const { code, stderr } = await run("check", "--env-options", '{"checkpoints": "/nowhere"}');
  expect([code, stderr]).toEqual([2, expect.stringMatching(/no such folder of checkpoints/)]);
  expect((await run("check", "--env-options", '{"topk": 5}')).stderr).toMatch(/topk/);
});

test("parse --protocol clues", async () => {
  const input = join(folder, "texts.jsonl");
  const texts = ["<clues><clue>river deltas</clue><clue>delta &amp; silt", "<clues><clue>A</clue></clues>"];
  writeFileSync(input, texts.map((text, id) => JSON.stringify({ id, text })).join("\n"));
  const { rows } = await run("parse", input, "--protocol", "clues", "--json");
  expect(rows).toEqual([
    { id: 0, kind: "clues", clues: ["river deltas", "delta & silt"] },
    { id: 1, kind: "parse_error", clues: [] },
  ]);
});

test("data search sft: a worked row a sample of the training questions", async () => {
  const output = join(folder, "rows.jsonl");
  const { code, rows } = await run(
    "data",
    "search",
    "sft",
    "--output",
    output,
    "--env-options",
    '{"prompt": "compact"}',
    "--json",
  );
  expect([code, rows[0]!.rows]).toEqual([0, 310]);
});

describe("check --model", () => {
  test("loads the model and reads its answer to the prompt that is shown", async () => {
    const { code, rows } = await run(
      "check",
      "--model",
      "models/tiny",
      "--env-options",
      '{"prompt": "compact"}',
      "--json",
    );
    const { example, model } = rows[0] as { example: { task_id: string }; model: Record<string, unknown> };
    expect([code, model]).toEqual([
      0,
      {
        model: "models/tiny",
        task_id: example.task_id,
        reply: expect.stringMatching(/\S/),
        reward: expect.any(Number),
        ended_by: expect.any(String),
        clues: expect.any(Array),
      },
    ]);
  }, 120_000);

  test("one that is not there is the user's mistake", async () => {
    const { code, stderr } = await run("check", "--model", join(folder, "nowhere"));
    expect([code, stderr]).toEqual([2, expect.stringMatching(/nowhere/)]);
  });
});
