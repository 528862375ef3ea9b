import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  keywordPapers,
  recentPapers,
  recordedAnswer,
  recordedContent,
  SearchFallback,
  SnapshotMiss,
} from "./replay.ts";
import { loadSnapshot } from "./snapshot.ts";

const snapshot = loadSnapshot("data/arxiv/snapshot.json");
const { recent, keyword } = snapshot.pools;
const ids = (papers: readonly { id: string }[]) => papers.map((paper) => paper.id);

describe("recent papers", () => {
  test("are the first of the field's pool", () => {
    expect(ids(recentPapers(snapshot, "CL", 5))).toEqual(recent.CL!.slice(0, 5));
  });

  test("come from the pool of all fields where the field has none, and from any where that is missing", () => {
    expect(ids(recentPapers(snapshot, "DB", 3))).toEqual(recent["*"]!.slice(0, 3));
    const only = { ...snapshot, pools: { ...snapshot.pools, recent: { RO: recent.RO! } } };
    expect(ids(recentPapers(only, "DB", 3))).toEqual(recent.RO!.slice(0, 3));
    expect(() => recentPapers({ ...only, pools: { ...only.pools, recent: {} } }, "DB", 3)).toThrow(SnapshotMiss);
  });

  test("are at most all there are", () => {
    expect(recentPapers(snapshot, "CL", 100).length).toBe(recent.CL!.length);
    expect(recentPapers(snapshot, "CL", 0).length).toBe(1);
  });
});

describe("a keyword search", () => {
  const pool = Object.values(keyword).find(({ query }) => query === "all:large language model")!;

  test.each(["all:large language model", "ALL:  Large language   MODEL ", "large language model"])(
    "finds %j",
    (query) => {
      expect(ids(keywordPapers(snapshot, query, 30, 5))).toEqual(pool.ids.slice(0, 5));
    },
  );

  test("its window of days is part of what was recorded", () => {
    expect(() => keywordPapers(snapshot, pool.query, 7, 5)).toThrow("recorded only for the last 30 days");
    expect(() => keywordPapers(snapshot, pool.query, null, 5)).toThrow(SearchFallback);
  });

  test("another field is another search", () => {
    expect(() => keywordPapers(snapshot, "ti:large language model", 30, 5)).toThrow(SearchFallback);
  });

  test("one that was not recorded fails, with a made-up list that is the same every time and marked", () => {
    const failure = (query: string) => {
      try {
        keywordPapers(snapshot, query, null, 4);
      } catch (error) {
        return error as SearchFallback;
      }
      throw new Error("it did not fail");
    };
    const first = failure("Protein  folding");
    expect(ids(first.papers)).toEqual(ids(failure("protein folding").papers));
    expect(first.papers[0]).toHaveProperty("_mock_env.offline_fallback", true);
    expect(first.papers[1]).not.toHaveProperty("_mock_env");
    const all = [
      ...new Set(
        Object.keys(keyword)
          .sort()
          .flatMap((key) => keyword[key]!.ids),
      ),
    ];
    const start = createHash("sha256").update("protein folding").digest().readBigUInt64BE() % BigInt(all.length);
    expect(first.papers[0]!.id).toBe(all[Number(start)]);
    expect(first.papers.length).toBe(4);
  });
});

test("what a paper lacks is told; what was not recorded is a miss", () => {
  const id = recent.AI![0]!;
  const holes = {
    ...snapshot,
    content: { [id]: { default: "t", abstract: "a" } },
    figure_qa: {},
    figures: { [id]: snapshot.figures[id]! },
  };
  expect(() => recordedContent(holes, id, "method")).toThrow(`${id} has no section method. It has: abstract.`);
  expect(() => recordedContent(holes, recent.AI![1]!, "method")).toThrow(SnapshotMiss);
  expect(() => recordedAnswer(holes, id, 8, "axes")).toThrow("there is no figure 8");
  expect(() => recordedAnswer(holes, id, 1, "axes")).toThrow(SnapshotMiss);
});
