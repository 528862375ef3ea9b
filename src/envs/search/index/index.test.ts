import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { UserError } from "../../../core/errors.ts";
import { buildIndex } from "./build.ts";
import { mergeHits, searchRound, snippetOf } from "./merge.ts";
import { indexInMemory, openIndex, type SearchIndex } from "./search.ts";

const folder = mkdtempSync(join(tmpdir(), "index-"));
let files = 0;

function corpusOf(documents: readonly (object | string)[]): string {
  const path = join(folder, `corpus-${files++}.jsonl`);
  writeFileSync(path, documents.map((item) => (typeof item === "string" ? item : JSON.stringify(item))).join("\n"));
  return path;
}

const indexOf = (...texts: string[]): SearchIndex =>
  indexInMemory(corpusOf(texts.map((text, number) => ({ docid: `d${number}`, title: "", text }))));

const found = (index: SearchIndex, clue: string, top_k = 5) => index.search(clue, top_k).map(({ docid }) => docid);

describe("ranking", () => {
  test("common words score above 0 too (SE-01)", () => {
    const index = indexOf("windy in london", "hello there");
    expect(found(index, "windy")).toEqual(["d0"]);
    const everywhere = indexOf("the river", "the town", "the bridge");
    for (const { score } of [...index.search("windy", 5), ...everywhere.search("the river", 5)])
      expect(score).toBeGreaterThan(0);
    expect(found(everywhere, "the river")[0]).toBe("d0");
  });

  test("a word in the title counts twice", () => {
    const index = indexInMemory(
      corpusOf([
        { docid: "a", title: "one two", text: "amber clock three" },
        { docid: "b", title: "amber clock", text: "one two three" },
        { docid: "c", title: "other", text: "words here now" },
      ]),
    );
    expect(found(index, "amber clock")).toEqual(["b", "a"]);
  });

  test("ties by docid, whatever order the lines have (SE-07)", () => {
    const index = indexInMemory(corpusOf(["b", "a", "c", "B"].map((docid) => ({ docid, text: "the same" }))));
    expect(found(index, "same")).toEqual(["B", "a", "b", "c"]);
  });

  test("words of most documents are left out only where that changes nothing", () => {
    const texts = Array.from(
      { length: 40 },
      (_, n) => `${n % 4 ? "the the" : "a"} ${["amber", "clock", "bell"][n % 3]} ${n % 5 ? "of the" : ""} w${n}`,
    );
    const path = corpusOf(texts.map((text, number) => ({ docid: `d${number}`, text })));
    const output = join(folder, "frequent.sqlite");
    buildIndex(path, output);
    const index = openIndex(output, path);
    const plain = new Database(output, { readonly: true })
      .prepare<[string, number], string>(
        "SELECT docid FROM fts JOIN documents ON documents.id = fts.rowid WHERE fts MATCH ? ORDER BY bm25(fts, 2.0, 1.0), docid LIMIT ?",
      )
      .pluck();
    const word = fc.constantFrom("the", "of", "The", "amber", "clock", "bell", "w3", "w17", "a", "nothing");
    fc.assert(
      fc.property(fc.array(word, { minLength: 1, maxLength: 5 }), fc.integer({ min: 1, max: 20 }), (words, top_k) => {
        expect(found(index, words.join(" "), top_k)).toEqual(
          plain.all(words.map((one) => `"${one}"`).join(" OR "), top_k),
        );
      }),
      { numRuns: 300 },
    );
  });

  test("more asked for than there is; and what is no number of documents (SE-05)", () => {
    const index = indexOf("one", "one two", "one three");
    expect(found(index, "one", 10)).toHaveLength(3);
    for (const top_k of [0, -1, 2.5, Number.NaN]) expect(() => index.search("one", top_k)).toThrow(UserError);
  });

  test.each([
    ["认证系统使用JWT令牌", "认证", "jwt"],
    ["Амбер часы на башне", "ЧАСЫ", "башне"],
    ["ساعة الكهرمان في البرج", "الكهرمان", "ساعة"],
    ["Église de Zürich", "eglise", "zurich"],
    ["東京タワーの時計", "時計", "タワー"],
  ])("words of every script: %s (SE-03)", (text, ...clues) => {
    const index = indexOf(text, "something else");
    for (const clue of clues) expect(found(index, clue)).toEqual(["d0"]);
  });
});

describe("any text is a clue", () => {
  const index = indexOf('title: NEAR(amber clock) "quoted" text*', "amber bell", "clock tower");

  test.each([['"', "*", "-", "()", "🕰️", "\0", "", "  ", "!!!", "^", ":", "‮"]])(
    "without a word it finds nothing (SE-08)",
    (...clues) => {
      for (const clue of clues) expect(index.search(clue, 5)).toEqual([]);
    },
  );

  test.each([
    "NEAR(amber clock, 2)",
    '"amber clock',
    "amber* -clock",
    "title:amber AND NOT clock",
    "{title text}: amber",
    "amber + clock",
    'a"b""c amber',
    "amber\0clock",
    "amber AND",
    "OR amber",
    "🕰️amber🔔",
    "\u202eamber",
    "amber\ud83d clock",
  ])("operators are words: %j", (clue) => {
    expect(index.search(clue, 5).map(({ docid }) => docid)).toContain("d1");
  });

  test("100 KB", () => {
    expect(found(index, "amber ".repeat(17_000))).toHaveLength(2);
    expect(index.search("x".repeat(100_000), 5)).toEqual([]);
    expect(index.search('"('.repeat(50_000), 5)).toEqual([]);
    expect(found(index, `${Array.from({ length: 20_000 }, (_, n) => `w${n}`).join(" ")} amber`)).toEqual([]); // cut before it
  });

  test("no text throws, and scores go down", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 60 }),
      fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 30 }).map((units) => String.fromCharCode(...units)),
      fc
        .array(
          fc.constantFrom(
            "amber",
            "clock",
            "NEAR",
            "OR",
            "AND",
            "NOT",
            '"',
            "(",
            ")",
            "*",
            ":",
            "^",
            "-",
            "+",
            "{",
            "}",
            ",",
            "\0",
          ),
        )
        .map((parts) => parts.join(" ")),
    );
    fc.assert(
      fc.property(text, (clue) => {
        const scores = index.search(clue, 3).map(({ score }) => score);
        expect(scores).toEqual([...scores].sort((a, b) => b - a));
        expect(scores.every((score) => score > 0)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

describe("a file", () => {
  const corpus = corpusOf([
    { docid: "b", title: "Second", text: "amber bell" },
    { _id: 7, text: "amber clock" },
    "",
    { docid: "a", title: null, text: "" },
  ]);
  const output = join(folder, "made", "one.sqlite");

  test("is built with its collection's hash, and opened again", () => {
    const shares: number[] = [];
    const built = buildIndex(corpus, output, { progress: (share) => shares.push(share) });
    expect(built).toMatchObject({ documents: 3, corpus_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(shares.at(-1)).toBe(1);
    const index = openIndex(output, corpus);
    expect(found(index, "amber")).toEqual(["7", "b"]);
    expect(index.document("b")).toEqual({ docid: "b", title: "Second", text: "amber bell" });
    expect(index.document("nowhere")).toBe(null);
    expect(index.document_frequency("Amber")).toBe(2);
    expect(index.frequent_words(1)).toEqual(["amber"]);
    index.close();
    expect(readdirSync(join(folder, "made"))).toEqual(["one.sqlite"]);
  });

  test("of another collection is refused", () => {
    expect(() => openIndex(output, corpusOf([{ docid: "x", text: "y" }]))).toThrow(/index of another collection/);
    expect(openIndex(output, null).documents).toBe(3);
  });

  test("that was damaged is told as such, not as a query's fault", () => {
    const path = join(folder, "damaged.sqlite");
    buildIndex("data/search/corpus.jsonl", path);
    const bytes = readFileSync(path);
    for (const share of [0, 0.1, 0.9, 0.9999]) {
      writeFileSync(path, bytes.subarray(0, Math.floor(share * bytes.length)));
      expect(() => openIndex(path, null)).toThrow(/is no index of a collection .* Build it again/);
    }
    writeFileSync(path, bytes.fill(0, bytes.length >> 2, (3 * bytes.length) >> 2));
    const index = openIndex(path, null, "damaged.sqlite");
    expect(() => index.search("river", 5)).toThrow(/^damaged.sqlite can't be read .* Build the index again/);
  });

  test("never replaces the collection, and says where it can't be written", () => {
    const before = readFileSync(corpus);
    symlinkSync(corpus, join(folder, "link.jsonl"));
    for (const place of [corpus, join(folder, "link.jsonl")])
      expect(() => buildIndex(corpus, place)).toThrow(/is the collection itself/);
    expect(readFileSync(corpus)).toEqual(before);
    expect(() => buildIndex(corpus, join(corpus, "x.sqlite"))).toThrow(UserError);
  });

  test("takes away what a killed build left, and nothing of one that is at work", () => {
    const place = mkdtempSync(join(tmpdir(), "killed-"));
    const gone = spawnSync(process.execPath, ["-e", ""]).pid;
    for (const name of [`x.sqlite.${gone}.tmp`, `x.sqlite.${process.ppid}.tmp`, "x.sqlite.notes.tmp"])
      writeFileSync(join(place, name), "");
    buildIndex(corpus, join(place, "x.sqlite"));
    expect(readdirSync(place).sort()).toEqual(
      ["x.sqlite", `x.sqlite.${process.ppid}.tmp`, "x.sqlite.notes.tmp"].sort(),
    );
  });

  test("half an emoji is U+FFFD in a document (BR-23), so a docid is found again", () => {
    const index = indexInMemory(corpusOf(['{"docid": "a\\ud83d", "text": "amber\\ud83d"}']));
    expect(index.search("amber", 1)).toMatchObject([{ docid: "a\ufffd", text: "amber\ufffd" }]);
    expect(index.document("a\ufffd")).not.toBeNull();
  });

  test.each([
    ["no such file", join(folder, "nowhere.sqlite"), /no such index/],
    ["another file", corpus, /is no index of a collection/],
  ])("%s", (_, path, message) => {
    expect(() => openIndex(path, null)).toThrow(message);
  });

  test.each<[string, (object | string)[], RegExp]>([
    [
      "a docid twice, with both lines",
      [{ docid: "a", text: "x" }, "", { docid: "b", text: "x" }, { _id: "a", text: "y" }],
      /docid 'a' is on line 1 and on line 4/,
    ],
    ["no document", [], /holds no document/],
    ["a line that is no JSON (DT-02)", [{ docid: "a", text: "x" }, "{"], /line 2: not JSON/],
    ["a line that is no document", [[]], /line 1: /],
    ["no id", [{ text: "x" }], /neither docid nor _id/],
  ])("%s: refused, and nothing is left", (_, documents, message) => {
    const target = join(folder, `refused-${files}`, "x.sqlite");
    expect(() => buildIndex(corpusOf(documents), target)).toThrow(message);
    expect(readdirSync(join(target, ".."))).toEqual([]);
  });

  test("a byte order mark and CRLF (DT-01), and bytes that are no text", () => {
    const path = join(folder, "bom.jsonl");
    writeFileSync(path, '\ufeff{"docid": "a", "text": "amber"}\r\n{"docid": "b", "text": "clock"}\r\n');
    expect(found(indexInMemory(path), "amber clock")).toEqual(["a", "b"]);
    writeFileSync(path, Buffer.from([0x7b, 0xff, 0xfe]));
    expect(() => indexInMemory(path)).toThrow(/not UTF-8/);
  });
});

describe("a round", () => {
  const hit = (docid: string, score: number) => ({ docid, title: docid, text: docid, score });

  test("goes rank by rank, and knows every clue of a document", () => {
    const merged = mergeHits([
      { clue: "one", hits: [hit("a", 3), hit("b", 2), hit("c", 1)] },
      { clue: "two", hits: [hit("d", 9), hit("a", 8)] },
      { clue: "three", hits: [] },
    ]);
    expect(merged.map(({ docid, clues, score }) => [docid, clues, score])).toEqual([
      ["a", ["one", "two"], 8],
      ["d", ["two"], 9],
      ["b", ["one"], 2],
      ["c", ["one"], 1],
    ]);
  });

  test("the order of clues does not change the set of documents", () => {
    const index = indexOf("amber clock tower", "amber bell", "clock hand", "bell tower", "river", "amber river clock");
    const words = fc.constantFrom("amber", "clock", "tower", "bell", "river", "hand");
    fc.assert(
      fc.property(
        fc
          .uniqueArray(words, { minLength: 1 })
          .chain((clues) => fc.tuple(fc.constant(clues), fc.shuffledSubarray(clues, { minLength: clues.length }))),
        ([clues, shuffled]) => {
          const docids = (list: string[]) =>
            searchRound(index, list, 2)
              .map(({ docid }) => docid)
              .sort();
          expect(docids(shuffled)).toEqual(docids(clues));
        },
      ),
    );
  });

  test("snippets are cut at a word", () => {
    expect(snippetOf("one\n two", 20)).toBe("one two");
    expect(snippetOf("one two three", 9)).toBe("one two…");
  });
});
