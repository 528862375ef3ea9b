import { readFileSync, statSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { DEFAULT_SNAPSHOT } from "./options.ts";
import { loadSnapshot, parseSnapshot, resolveDataFile, type Snapshot, snapshotHash, snapshotText } from "./snapshot.ts";
import { generateSnapshot } from "./snapshot-generator.ts";
import { checkSnapshot, snapshotProblems } from "./snapshot-validator.ts";

const file = resolveDataFile(DEFAULT_SNAPSHOT);
const good = generateSnapshot();

describe("the committed snapshot", () => {
  test("is what its generator makes, byte for byte", () => {
    expect(readFileSync(file, "utf8") === snapshotText(good)).toBe(true);
  });

  test("is small, and meets every constraint of the tasks", () => {
    expect(statSync(file).size).toBeLessThan(1_500_000);
    expect(snapshotProblems(loadSnapshot(DEFAULT_SNAPSHOT))).toEqual([]);
  });

  test("is frozen once loaded", () => {
    expect(() => (loadSnapshot(DEFAULT_SNAPSHOT).pools.recent.AI as string[]).push("x")).toThrow(TypeError);
  });
});

test("any seed gives a snapshot that meets the constraints, and another one", () => {
  const hashes = [1, 2, 3].map((seed) => {
    const snapshot = generateSnapshot(seed);
    checkSnapshot(snapshot, `seed ${seed}`);
    return snapshot.sha256;
  });
  expect(new Set(hashes).size).toBe(3);
});

describe("a snapshot file is refused", () => {
  test("when its content does not fit its hash", () => {
    const changed = JSON.parse(readFileSync(file, "utf8")) as Snapshot;
    changed.papers["2608.14528v1"]!.title = "Another";
    expect(() => parseSnapshot(changed, "x.json")).toThrow(/x\.json: its sha256 is .* but its content hashes to/);
  });

  test("when it has another shape", () => {
    expect(() => parseSnapshot({ get_paper_content: {} }, "x.json")).toThrow(/x\.json: not an arXiv snapshot: version/);
  });

  test("when it is not there", () => {
    expect(() => loadSnapshot("no/such.json")).toThrow(/no\/such\.json: cannot read the snapshot/);
  });
});

describe("the validator names", () => {
  const pool = (aspect: string, change: (ids: string[]) => string[]) => (snapshot: Snapshot) => {
    snapshot.pools.recent[aspect] = change(snapshot.pools.recent[aspect]!);
  };
  const at = (snapshot: Snapshot, aspect: string, position: number) => snapshot.pools.recent[aspect]![position - 1]!;
  const retitle = (aspect: string, position: number, title: string) => (snapshot: Snapshot) => {
    snapshot.papers[at(snapshot, aspect, position)]!.title = title;
  };
  const withoutSection = (
    aspect: string,
    position: number,
    section: "method" | "result" | "conclusion" | "abstract",
  ) => {
    return (snapshot: Snapshot) => {
      delete snapshot.content[at(snapshot, aspect, position)]![section];
    };
  };
  const figureCount = (aspect: string, position: number, count: number) => (snapshot: Snapshot) => {
    const record = snapshot.figures[at(snapshot, aspect, position)]!;
    snapshot.figures[at(snapshot, aspect, position)] = { count, figures: record.figures.slice(0, count) };
  };

  test.each<[string, (snapshot: Snapshot) => void]>([
    ["pool AI has 24 papers, needs 25", pool("AI", (ids) => ids.slice(0, 24))],
    ["pool CV has 8 papers, needs 9", pool("CV", (ids) => ids.slice(0, 8))],
    ["pool CL has 11 papers, needs 12", pool("CL", (ids) => ids.slice(0, 11))],
    ["pool LG has 9 papers, needs 10", pool("LG", (ids) => ids.slice(0, 9))],
    ["pool RO has 0 papers, needs 25", pool("RO", () => [])],
    ["pool CR has 9 papers, needs 10", pool("CR", (ids) => ids.slice(0, 9))],
    ["pool * has 9 papers, needs 10", pool("*", (ids) => ids.slice(0, 9))],
    [
      "the first five of AI lack the paper 2608.14528v1",
      pool("AI", (ids) => ids.filter((id) => id !== "2608.14528v1")),
    ],
    [
      "the first five of CV lack the paper 2608.14543v1",
      pool("CV", (ids) => ids.filter((id) => id !== "2608.14543v1")),
    ],
    ["no title among the first five of AI has 'Learning State'", retitle("AI", 3, "Other")],
    ["no title among the first five of AI has 'State Across'", retitle("AI", 4, "Other")],
    ["no title among the first five of AI has 'Marionette'", retitle("AI", 2, "Other State")],
    ["no title among the first five of AI has 'Handover'", retitle("AI", 5, "Other")],
    ["no title among the first five of CV has 'Image Restoration'", retitle("CV", 2, "Other")],
    ["no title among the first five of CV has 'An Uncertainty-Aware'", retitle("CV", 4, "Other")],
    ["in AI, 'Learning' hits the same paper as 'Learning State': 2608.14528v1", retitle("AI", 1, "Other")],
    [
      "in AI, 'State' hits the same paper as 'State Across': 2608.14521v1",
      (snapshot) => {
        retitle("AI", 2, "Marionette")(snapshot);
        pool("AI", ([a, b, c, d, ...rest]) => [a!, b!, d!, c!, ...rest])(snapshot);
      },
    ],
    ["in CV, 'Image' hits the same paper as 'Image Restoration': 2608.14543v1", retitle("CV", 1, "An Other")],
    [
      "in CV, 'An' hits the same paper as 'An Uncertainty-Aware': 2608.14512v1",
      (snapshot) => {
        retitle("CV", 1, "Image")(snapshot);
        retitle("CV", 3, "Other")(snapshot);
      },
    ],
    ["CV#5 has no section method", withoutSection("CV", 5, "method")],
    ["CL#3 has no section result", withoutSection("CL", 3, "result")],
    ["LG#1 has no section conclusion", withoutSection("LG", 1, "conclusion")],
    ["CR#2 has no section abstract", withoutSection("CR", 2, "abstract")],
    ["AI#2 has no section method", withoutSection("AI", 2, "method")],
    ["CV#1 has 0 figures, needs 1", figureCount("CV", 1, 0)],
    ["CV#2 has 0 figures, needs 1", figureCount("CV", 2, 0)],
    ["CV#3 has 0 figures, needs 1", figureCount("CV", 3, 0)],
    ["CV#4 has 0 figures, needs 1", figureCount("CV", 4, 0)],
    ["RO#2 has 1 figures, needs 2", figureCount("RO", 2, 1)],
    ["RO#3 has 0 figures, needs 1", figureCount("RO", 3, 0)],
    ["AI#1 has 0 figures, needs 1", figureCount("AI", 1, 0)],
    ["AI#4 has 0 figures, needs 1", figureCount("AI", 4, 0)],
    [
      "the search 'all:large language model' of 30 days is not recorded",
      (snapshot) => {
        for (const record of Object.values(snapshot.pools.keyword))
          record.days = record.query.includes("large") ? 7 : 30;
      },
    ],
    [
      "the search 'all:large language model' has 11 papers, needs 12",
      (snapshot) => {
        for (const record of Object.values(snapshot.pools.keyword)) {
          if (record.query.includes("large")) record.ids = record.ids.slice(0, 11);
        }
      },
    ],
    ["pool LG names 2608.00001v1, which has no record", pool("LG", (ids) => [...ids, "2608.00001v1"])],
    ["pool LG names a paper twice", pool("LG", (ids) => [...ids, ids[0]!])],
    ["2608.14528v1 has no content", (snapshot) => delete snapshot.content["2608.14528v1"]],
    [
      "2608.14528v1 has no tldr summary of 60 words",
      (snapshot) => delete snapshot.summary["2608.14528v1"]!.tldr!["60"],
    ],
    [
      "2608.14528v1 has no record of its figures (none at all is a record too)",
      (snapshot) => delete snapshot.figures["2608.14528v1"],
    ],
    [
      "2608.14528v1 counts 7 figures and lists 2",
      (snapshot) => {
        snapshot.figures["2608.14528v1"]!.count = 7;
      },
    ],
    [
      "figure 1 of 2608.14528v1 has no answer to 'axes'",
      (snapshot) => delete snapshot.figure_qa["2608.14528v1"]!["1"]!.axes,
    ],
    [
      "the record of 2608.14528v1 says that it is x",
      (snapshot) => {
        snapshot.papers["2608.14528v1"]!.id = "x";
      },
    ],
  ])("%s", (problem, change) => {
    const snapshot = structuredClone(good);
    change(snapshot);
    expect(snapshotProblems({ ...snapshot, sha256: snapshotHash(snapshot) })).toContain(problem);
  });

  test("all problems at once, and the hash", () => {
    const snapshot = structuredClone(good);
    snapshot.pools.recent.AI = [];
    snapshot.pools.recent.RO = [];
    expect(() => checkSnapshot(snapshot, "x.json")).toThrow(/x\.json: .*\n.*sha256[\s\S]*pool AI[\s\S]*pool RO/);
  });
});
