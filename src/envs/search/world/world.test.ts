import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { samplesOf } from "../checkpoints/samples.ts";
import { scanCheckpoints } from "../checkpoints/scan.ts";
import { readGold } from "../gold.ts";
import { searchRound } from "../index/merge.ts";
import { indexInMemory } from "../index/search.ts";
import { readJudgements } from "../judgements.ts";
import { readLines } from "../lines.ts";
import { searchOptions } from "../options.ts";
import { projectPath } from "../project-files.ts";
import { roundReward } from "../rewards.ts";
import { loadSamples } from "../tasks.ts";
import { candidateClues } from "./best-clues.ts";
import { worldProblems, writeWorld } from "./files.ts";
import { generateWorld, makeWorld, remembering } from "./generate.ts";

const folder = projectPath("data/search");
const files = generateWorld();

describe("the embedded world", () => {
  test("is what its seed gives, byte for byte; another seed gives another", () => {
    expect(worldProblems(folder, files)).toEqual([]);
    expect(generateWorld(1).get("corpus.jsonl")).not.toBe(files.get("corpus.jsonl"));
  }, 60_000);

  test("is written whole, and what differs from it is named", () => {
    const copy = join(mkdtempSync(join(tmpdir(), "world-")), "search");
    writeWorld(copy, files);
    expect(worldProblems(copy, files)).toEqual([]);
    writeFileSync(join(copy, "gold.jsonl"), "");
    rmSync(join(copy, "corpus.jsonl"));
    cpSync(join(copy, "checkpoints", "q001"), join(copy, "checkpoints", "q999"), { recursive: true });
    expect(worldProblems(copy, files).join("\n")).toMatch(
      /^corpus.jsonl is missing\ncheckpoints\/q999\/[^\n]+ is not of this world\n[\s\S]*\ngold.jsonl is not what the seed gives$/,
    );
    writeWorld(copy, files);
    expect(worldProblems(copy, files)).toEqual([]);
  });

  test("has about 2,000 short documents, 60 questions of two or three hops, and less than 3 MB", () => {
    const texts = [...readLines(join(folder, "corpus.jsonl"))].map(({ text }) => JSON.parse(text) as { text: string });
    expect(texts.length).toBeGreaterThan(1800);
    expect(texts.length).toBeLessThan(2300);
    expect(Math.max(...texts.map(({ text }) => text.length))).toBeLessThan(400);
    const judgements = readJudgements(join(folder, "judgements.jsonl"));
    expect(judgements.size).toBe(60);
    for (const labels of judgements.values()) {
      const important = [...labels.values()].filter((label) => label === "IMPORTANT").length;
      expect([2, 3]).toContain(important);
    }
    expect([...files.values()].reduce((sum, text) => sum + Buffer.byteLength(text), 0)).toBeLessThan(3e6);
  });

  test("no question shares an important document with another: none is told in training", () => {
    const owner = new Map<string, string>();
    for (const [question, labels] of readJudgements(join(folder, "judgements.jsonl")))
      for (const [docid, label] of labels) {
        if (label !== "IMPORTANT") continue;
        expect(owner.get(docid)).toBeUndefined();
        owner.set(docid, question);
      }
  });
});

describe("recorded runs", () => {
  const { runs, skipped } = scanCheckpoints(join(folder, "checkpoints"));

  test("are whole, some solved and some not, with rounds that are no samples", () => {
    expect(skipped).toEqual([]);
    expect(runs).toHaveLength(180);
    const solved = runs.filter(({ meta }) => meta.solved).length;
    expect(solved).toBeGreaterThan(30);
    expect(solved).toBeLessThan(150);
    const rounds = runs.flatMap((run) => run.rounds);
    expect(rounds.some(({ strategy }) => strategy === "ANSWER")).toBe(true);
    expect(rounds.some(({ strategy, clues }) => strategy === "SEARCH" && clues.length === 1)).toBe(true);
  });

  test("found what their clues find: a state is what the rounds before left", () => {
    const index = indexInMemory(join(folder, "corpus.jsonl"));
    for (const run of runs.filter((_, number) => number % 12 === 0))
      for (const { strategy, clues, seen_docids } of run.rounds)
        if (strategy === "SEARCH") expect(searchRound(index, clues, 5).map(({ docid }) => docid)).toEqual(seen_docids);
  });
});

describe("gold clues", () => {
  const options = searchOptions.parse({});
  const gold = readGold(join(folder, "gold.jsonl"));
  const { samples, split } = loadSamples(options);
  const index = remembering(indexInMemory(join(folder, "corpus.jsonl")));
  const judgements = readJudgements(join(folder, "judgements.jsonl"));

  function earn({ context }: (typeof samples)[number], clues: readonly string[]): number {
    const seen = new Set(context.seen_docids);
    const documents = searchRound(index, [...new Set(clues)], options.top_k).map(({ docid, title, clues: by }) => ({
      docid,
      title,
      clues: by,
      label: judgements.get(context.question_id)!.get(docid) ?? ("DISCARD" as const),
      seen: seen.has(docid),
    }));
    return roundReward({ clues: [...clues], documents }, options.reward);
  }

  test("are there for every sample, two to five, and earn what is written", () => {
    expect([...gold.keys()].sort()).toEqual(samples.map(({ id }) => id).sort());
    for (const sample of samples) {
      const { clues, reward } = gold.get(sample.id)!;
      expect(clues.length).toBeGreaterThanOrEqual(2);
      expect(clues.length).toBeLessThanOrEqual(5);
      expect(earn(sample, clues)).toBeCloseTo(reward, 9);
      expect(reward).toBeGreaterThanOrEqual(2.5);
    }
  });

  test("no two or three clues that a reader of the prompt could write earn more", () => {
    const questions = new Map(makeWorld().questions.map((question) => [question.question_id, question]));
    for (const sample of samples.filter((_, number) => number % 25 === 0)) {
      const candidates = candidateClues(questions.get(sample.context.question_id)!, sample);
      const { clues, reward } = gold.get(sample.id)!;
      expect(candidates).toEqual(expect.arrayContaining(clues));
      for (const first of candidates)
        for (const second of candidates) {
          expect(earn(sample, [first, second])).toBeLessThanOrEqual(reward + 1e-9);
          const third = candidates[(candidates.indexOf(first) * 7 + candidates.indexOf(second)) % candidates.length]!;
          expect(earn(sample, [first, second, third])).toBeLessThanOrEqual(reward + 1e-9);
        }
    }
  });

  test("can be written by a reader of the prompt: every name in them stands there", () => {
    for (const { id, context } of samples) {
      const shown = [context.question, context.sub_goal, ...context.entities.map(({ name }) => name)]
        .join(" ")
        .toLowerCase();
      for (const clue of gold.get(id)!.clues)
        for (const word of clue.toLowerCase().split(" ")) expect(shown, `${id}: ${clue}`).toContain(word);
    }
  });

  test("the hard questions are the ones that are kept for evaluation", () => {
    expect(split.eval).toHaveLength(12);
    expect(split.train).toHaveLength(48);
    const solved = (id: string) =>
      scanCheckpoints(join(folder, "checkpoints")).runs.some(({ meta }) => meta.question_id === id && meta.solved);
    const unsolvedInTraining = split.train.filter((id) => !solved(id)).length;
    if (unsolvedInTraining > 0) expect(split.eval.some(solved)).toBe(false);
  });

  test("samples of a run keep its order", () => {
    const { runs } = scanCheckpoints(join(folder, "checkpoints"));
    for (const run of runs) {
      const rounds = samplesOf(run, 2).map(({ round }) => round);
      expect(rounds).toEqual([...rounds].sort((a, b) => a - b));
    }
  });
});
