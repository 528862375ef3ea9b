import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { byQuestion, difficultyOf, evenlySpread, samplesOf, splitQuestions } from "./samples.ts";
import { scanCheckpoints } from "./scan.ts";

const root = mkdtempSync(join(tmpdir(), "checkpoints-"));
let folders = 0;

function round(number: number, fields: Record<string, unknown> = {}) {
  return {
    round: number,
    strategy: "SEARCH",
    sub_goal: `goal ${number}`,
    clues: [`clue a${number}`, `clue b${number}`],
    entities: [{ name: `entity ${number}`, type: "person", facts: [] }],
    targets: [],
    documents: [],
    context: [],
    seen_docids: [`d${number}`],
    ...fields,
  };
}

/** A folder of runs, by "question/run": their rounds. */
function record(runs: Record<string, Record<string, unknown>[]>, solved = true): string {
  const folder = join(root, `c${folders++}`);
  for (const [path, rounds] of Object.entries(runs)) {
    const question_id = path.split("/")[0]!;
    const files = rounds.map((_, index) => `round_${index + 1}.json`);
    mkdirSync(join(folder, path), { recursive: true });
    const meta = {
      question_id,
      question: `Question ${question_id}?`,
      solved,
      rounds: rounds.map((value, index) => ({ round: index + 1, strategy: value.strategy, file: files[index] })),
    };
    writeFileSync(join(folder, path, "meta.json"), JSON.stringify(meta));
    for (const [index, value] of rounds.entries())
      writeFileSync(join(folder, path, files[index]!), JSON.stringify(value));
  }
  return folder;
}

describe("scan", () => {
  test("runs come in the order of their numbers (CK-02); other names are nothing of ours", () => {
    const folder = record({ "q1/run_1000": [round(1)], "q1/run_900": [round(1)], "q1/run_9": [round(1)] });
    mkdirSync(join(folder, "q1", "run_best"));
    mkdirSync(join(folder, "notes"));
    writeFileSync(join(folder, "readme.txt"), "x");
    const { runs, skipped } = scanCheckpoints(folder);
    expect(runs.map(({ run }) => run)).toEqual(["run_9", "run_900", "run_1000"]);
    expect(skipped).toEqual([]);
  });

  const good = record({ "q1/run_001": [round(1), round(2)], "q1/run_002": [round(1)] });
  const second = "q1/run_001/round_2.json";
  test.each<[string, (folder: string) => void, RegExp]>([
    ["a round that was cut", (folder) => truncateSync(join(folder, second), 40), /round_2.json: not JSON/],
    ["an empty round", (folder) => truncateSync(join(folder, second), 0), /round_2.json: not JSON/],
    ["a round that is missing", (folder) => rmSync(join(folder, second)), /round_2.json: there is no such file/],
    [
      "a round that is a folder",
      (folder) => {
        rmSync(join(folder, second));
        mkdirSync(join(folder, second));
      },
      /it is a folder/,
    ],
    ["no meta.json", (folder) => rmSync(join(folder, "q1/run_001/meta.json")), /meta.json: there is no such file/],
    [
      "a key that is missing",
      (folder) => write(folder, second, { ...round(2), clues: undefined }),
      /round_2.json: clues/,
    ],
    [
      "a label that there is not",
      (folder) => write(folder, second, round(2, { documents: [{ docid: "d", title: "", label: "GOOD" }] })),
      /documents\.0\.label/,
    ],
    [
      "another round's file",
      (folder) => write(folder, second, round(3)),
      /round_2.json is round 3 \(SEARCH\); meta.json says round 2/,
    ],
    ["a round too many", (folder) => write(folder, "q1/run_001/meta.json", meta([1, 3])), /round 3 is out of order/],
    [
      "a file elsewhere",
      (folder) =>
        write(folder, "q1/run_001/meta.json", {
          ...meta([1]),
          rounds: [{ round: 1, strategy: "SEARCH", file: "../run_002/round_1.json" }],
        }),
      /without a folder/,
    ],
    ["no rounds", (folder) => write(folder, "q1/run_001/meta.json", meta([])), /meta.json: rounds/],
    ["a list in place of an object", (folder) => write(folder, second, []), /round_2.json: /],
  ])("%s: that run is skipped with its reason", (_, damage, reason) => {
    const folder = join(root, `c${folders++}`);
    cpSync(good, folder, { recursive: true });
    damage(folder);
    const { runs, skipped } = scanCheckpoints(folder);
    expect(runs.map(({ run }) => run)).toEqual(["run_002"]);
    expect(skipped).toEqual([{ path: join("q1", "run_001"), reason: expect.stringMatching(reason) }]);
  });

  test("a run that asks something else under the same id is skipped; links to nowhere and files are nothing of ours", () => {
    const folder = record({ "q1/run_001": [round(1)], "q1/run_002": [round(1)] });
    write(folder, "q1/run_002/meta.json", { ...meta([1]), question: "Another?" });
    symlinkSync(join(folder, "nowhere"), join(folder, "q2"));
    symlinkSync(join(folder, "q3"), join(folder, "q3"));
    symlinkSync(join(folder, "q1", "run_001", "meta.json"), join(folder, "q1", "run_003"));
    const { runs, skipped } = scanCheckpoints(folder);
    expect(runs).toHaveLength(1);
    expect(skipped).toEqual([
      {
        path: join("q1", "run_002"),
        reason: "meta.json: question 'q1' is 'Another?'; in a run before it is 'Question q1?'.",
      },
    ]);
  });

  test("any bytes in a file never crash it", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.constantFrom("meta.json", "round_2.json"), (bytes, file) => {
        const folder = join(root, `c${folders++}`);
        cpSync(good, folder, { recursive: true });
        writeFileSync(join(folder, "q1/run_001", file), bytes);
        expect(scanCheckpoints(folder).skipped).toHaveLength(1);
      }),
      { numRuns: 30 },
    );
  });

  test("nothing left is an error that names the reasons", () => {
    const folder = record({ "q1/run_001": [round(1)] });
    truncateSync(join(folder, "q1/run_001/meta.json"), 3);
    expect(() => scanCheckpoints(folder)).toThrow(
      /no run that can be used; 1 were skipped:\n {2}- q1\/run_001: meta.json: not JSON/,
    );
    expect(() => scanCheckpoints(join(root, "nowhere"))).toThrow(/no such folder/);
    mkdirSync(join(root, "empty"));
    expect(() => scanCheckpoints(join(root, "empty"))).toThrow(/expected <question>\/run_<number>\/meta.json/);
  });
});

const meta = (rounds: number[]) => ({
  question_id: "q1",
  question: "Question q1?",
  solved: true,
  rounds: rounds.map((number) => ({ round: number, strategy: "SEARCH", file: `round_${number}.json` })),
});

function write(folder: string, path: string, value: unknown): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), JSON.stringify(value));
}

describe("samples", () => {
  const runs = scanCheckpoints(
    record({
      "q1/run_001": [
        round(1),
        round(2, { clues: ["only one", "x", "only  one"] }), // one clean clue
        round(3, { strategy: "REFLECT", clues: ["not a", "search"], seen_docids: ["d9", "d1"] }),
        round(4, { seen_docids: ["d4"] }),
      ],
    }),
  ).runs;
  const samples = samplesOf(runs[0]!, 2);

  test("are SEARCH rounds with enough clean clues", () => {
    expect(samples.map(({ id }) => id)).toEqual(["q1/run_001/round_001", "q1/run_001/round_004"]);
    expect(samplesOf(runs[0]!, 1)).toHaveLength(3);
    expect(samplesOf(runs[0]!, 3)).toEqual([]);
  });

  test("hold the state before the round: the round before it, and what all rounds before found", () => {
    const [first, last] = samples;
    expect(first!.context).toMatchObject({ entities: [], seen_docids: [], sub_goal: "goal 1" });
    expect(last!.context).toMatchObject({
      entities: [{ name: "entity 3" }],
      seen_docids: ["d1", "d2", "d9"],
      sub_goal: "goal 4",
    });
    expect(first!.previous_clues).toEqual([]);
    expect(last!.previous_clues).toEqual(["only one"]);
  });

  test("are capped evenly, from the first to the last", () => {
    expect(evenlySpread([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 3)).toEqual([0, 5, 10]);
    expect(evenlySpread([1, 2], 3)).toEqual([1, 2]);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 20 }), (count, most) => {
        const items = Array.from({ length: count }, (_, index) => index);
        const chosen = evenlySpread(items, most);
        expect(chosen).toHaveLength(Math.min(count, most));
        expect(new Set(chosen).size).toBe(chosen.length);
        expect(chosen[0]).toBe(0);
        if (most > 1) expect(chosen.at(-1)).toBe(count - 1);
      }),
    );
  });
});

describe("split", () => {
  const question = (question_id: string, solved: boolean, mean_rounds: number, text = `Question ${question_id}?`) => ({
    question_id,
    question: text,
    solved,
    mean_rounds,
  });

  test("the hardest questions are kept for evaluation", () => {
    const questions = [
      question("a", true, 2),
      question("b", true, 5),
      question("c", false, 1),
      question("d", true, 3),
      question("e", true, 5),
    ];
    expect(splitQuestions(questions, 0.8)).toEqual({ eval: ["c"], train: ["b", "e", "d", "a"] });
    expect(splitQuestions(questions, 0.5).eval).toEqual(["c", "b", "e"]);
    expect(
      splitQuestions(
        Array.from({ length: 60 }, (_, n) => question(`q${n}`, true, 1)),
        0.8,
      ).eval,
    ).toHaveLength(12);
  });

  test("one question can't be split, and two can", () => {
    expect(() => splitQuestions([question("a", true, 2)], 0.8)).toThrow(/1 question with samples can't be split/);
    expect(() => splitQuestions([question("a", true, 2), question("b", true, 2)], 0.2)).toThrow(/raise train_ratio/);
    expect(splitQuestions([question("a", true, 2), question("b", true, 2)], 0.99)).toEqual({
      eval: ["a"],
      train: ["b"],
    });
  });

  test("one question under several ids is on one side", () => {
    const questions = [
      question("a", false, 2, "Who made it?"),
      question("b", true, 5),
      question("c", true, 1, "who  made it? "),
      question("d", true, 3),
    ];
    expect(splitQuestions(questions, 0.75)).toEqual({ eval: ["a", "c"], train: ["b", "d"] });
    expect(() => splitQuestions([questions[0]!, questions[2]!], 0.8)).toThrow(/one question under several ids/);
  });

  test("both sides together are all questions, and share none", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(fc.string({ minLength: 1 }), fc.boolean(), fc.integer({ min: 1, max: 9 })), {
          minLength: 2,
          maxLength: 40,
          selector: ([id]) => id,
        }),
        fc.double({ min: 0.5, max: 0.99, noNaN: true }),
        (list, ratio) => {
          const sides = splitQuestions(
            list.map(([id, solved, rounds], place) => question(id, solved, rounds, String(place))),
            ratio,
          );
          expect([...sides.train, ...sides.eval].sort()).toEqual(list.map(([id]) => id).sort());
          expect(sides.train.length).toBeGreaterThan(0);
          expect(sides.eval.length).toBeGreaterThan(0);
        },
      ),
    );
  });

  test("difficulty is told by all runs", () => {
    const { runs } = scanCheckpoints(
      record({ "q1/run_001": [round(1)], "q1/run_002": [round(1), round(2)], "q2/run_001": [round(1)] }, false),
    );
    expect(byQuestion(runs).map(difficultyOf)).toEqual([question("q1", false, 1.5), question("q2", false, 1)]);
  });
});
