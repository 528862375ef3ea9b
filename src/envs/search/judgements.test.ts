import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { UserError } from "../../core/errors.ts";
import { readJudgements } from "./judgements.ts";

const folder = mkdtempSync(join(tmpdir(), "judgements-"));
let files = 0;

function file(text: string | Uint8Array, ending = "tsv"): string {
  const path = join(folder, `qrels-${files++}.${ending}`);
  writeFileSync(path, text);
  return path;
}

const rows = (path: string) =>
  [...readJudgements(path)].flatMap(([question, labels]) =>
    [...labels].map(([docid, label]) => [question, docid, label]),
  );

test("scores: 2 and more is IMPORTANT, 1 LOCAL, less DISCARD; with and without a heading", () => {
  const table = "q\ta\t3\nq\tb\t2\nq\tc\t1\nq\td\t0\nr\ta\t-1\n";
  const expected = [
    ["q", "a", "IMPORTANT"],
    ["q", "b", "IMPORTANT"],
    ["q", "c", "LOCAL"],
    ["q", "d", "DISCARD"],
    ["r", "a", "DISCARD"],
  ];
  expect(rows(file(table))).toEqual(expected);
  expect(rows(file(`\ufeffquery-id\tcorpus-id\tscore\r\n${table.replaceAll("\n", "\r\n")}`))).toEqual(expected);
});

test("JSON lines, and every table of a folder", () => {
  expect(rows(file('{"question_id": 1, "docid": "a", "label": "LOCAL"}', "jsonl"))).toEqual([["1", "a", "LOCAL"]]);
  const beir = join(folder, "beir");
  mkdirSync(join(beir, "qrels"), { recursive: true });
  writeFileSync(join(beir, "qrels", "dev.tsv"), "q\ta\t1\n");
  writeFileSync(join(beir, "qrels", "test.tsv"), "r\ta\t2\n");
  expect(rows(beir)).toEqual([
    ["q", "a", "LOCAL"],
    ["r", "a", "IMPORTANT"],
  ]);
});

test.each<[string, string, string, RegExp]>([
  ["a score that is no whole number, on the first line too", "tsv", "q\td\t1.5\n", /line 1: expected query-id/],
  ["blanks for tabs", "tsv", "q d 1\n", /line 1: expected .* tabs between/],
  ["four columns", "tsv", "q\t0\td\t1\n", /line 1: expected/],
  ["junk further down", "tsv", "q\td\t1\n\n?\n", /line 3: expected/],
  ["a heading alone", "tsv", "query-id\tcorpus-id\tscore\n", /holds no judgement/],
  ["nothing", "jsonl", "", /holds no judgement/],
  ["a label that there is not", "jsonl", '{"question_id": "q", "docid": "d", "label": "GOOD"}', /line 1: label/],
  ["a list", "jsonl", "[]", /line 1: .*Expected \{"question_id"/],
  ["no JSON (DT-02)", "jsonl", "\n{", /line 2: not JSON/],
  ["two labels of one document", "tsv", "q\td\t1\nq\td\t2\n", /line 2: document 'd' .* is IMPORTANT, and LOCAL/],
])("%s: refused with its line", (_, ending, text, message) => {
  expect(() => readJudgements(file(text, ending))).toThrow(message);
});

test("any bytes are judgements or the user's mistake", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), fc.constantFrom("tsv", "jsonl"), (bytes, ending) => {
      try {
        readJudgements(file(bytes, ending));
      } catch (error) {
        expect(error).toBeInstanceOf(UserError);
      }
    }),
    { numRuns: 100 },
  );
});
