import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { synthAirlineDb, writeAirlineDb } from "./data/synth.ts";
import { airlineOptions } from "./options.ts";
import { readSplitFile, splitFileText, strideSplit, withCoverage } from "./split-file.ts";
import { airlineSplits, loadAirlineSplit } from "./splits.ts";

const folder = mkdtempSync(join(tmpdir(), "airline-splits-"));
const options = airlineOptions.parse({});
const write = (name: string, value: unknown): string => {
  const path = join(folder, name);
  writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value));
  return path;
};

describe("the rule of strides", () => {
  test("of 50 tasks with 10 held out: every fifth", () => {
    const { unseen_task_ids, seen_task_ids, ...rest } = strideSplit(50, 10);
    expect(unseen_task_ids).toEqual([0, 5, 10, 15, 20, 25, 30, 35, 40, 45]);
    expect(seen_task_ids).toHaveLength(40);
    expect(rest).toEqual({ split_strategy: "stratified_by_stride", total_tasks: 50 });
  });

  test("each task is in one group, and as many are held out as asked for", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 400 }), fc.double({ min: 0, max: 1, noNaN: true }), (total, share) => {
        const holdout = Math.max(1, Math.min(total - 1, Math.round(total * share)));
        const { seen_task_ids, unseen_task_ids } = strideSplit(total, holdout);
        expect(unseen_task_ids).toHaveLength(holdout);
        const all = [...seen_task_ids, ...unseen_task_ids].sort((a, b) => a - b);
        expect(all).toEqual(Array.from({ length: total }, (_, id) => id));
      }),
    );
  });

  test.each([
    [10, 0],
    [10, 10],
    [10, 2.5],
    [0, 1],
  ])("of %d tasks %d can't be held out", (total, holdout) => {
    expect(() => strideSplit(total, holdout)).toThrow(/cannot be held out/);
  });
});

describe("split.json", () => {
  const split = withCoverage(strideSplit(10, 2), (id) => id % 2 === 1);

  test("is written as it is read", () => {
    const path = write("split.json", splitFileText(split));
    expect(readSplitFile(path)).toEqual(split);
    expect(readSplitFile(write("bom.json", `\ufeff${JSON.stringify(split)}`))).toEqual(split);
    expect(readFileSync(path, "utf8")).toBe(
      '{"seen_task_ids":[1,2,3,4,6,7,8,9],"unseen_task_ids":[0,5],"split_strategy":"stratified_by_stride",' +
        '"total_tasks":10,"covered_seen":[1,3,7,9],"uncovered_seen":[2,4,6,8]}\n',
    );
  });

  test.each<[string, unknown, RegExp]>([
    ["no JSON", "{", /it is no JSON/],
    ["another strategy", { ...split, split_strategy: "random" }, /split_strategy/],
    ["a task in both groups", { ...split, unseen_task_ids: [0, 1] }, /stands twice, or is unseen too/],
    ["another total", { ...split, total_tasks: 11 }, /it is 11, but 10 tasks are listed/],
    ["half of the coverage", { ...split, covered_seen: undefined }, /goes with uncovered_seen/],
    ["coverage of other tasks", { ...split, covered_seen: [0] }, /must list each seen task once/],
    ["a key that there is not", { ...split, seen: [] }, /seen/],
  ])("%s", (name, value, problem) => {
    const path = write(`${name}.json`, value);
    expect(() => readSplitFile(path)).toThrow(problem);
    expect(() => readSplitFile(path)).toThrow(path);
  });
});

describe("splits by name", () => {
  const ids = (split: string, own = options) => loadAirlineSplit(split, own).tasks.map(({ task_index }) => task_index);

  test("the suite's groups, with the hash of its file", () => {
    expect(ids("unseen")).toEqual([0, 5, 10, 15, 20, 25, 30, 35, 40, 45]);
    expect(ids("seen")).toHaveLength(40);
    expect(ids("test")).toEqual(Array.from({ length: 50 }, (_, id) => id));
    expect(loadAirlineSplit("extra", options)).toMatchObject({ sources: {} });
    expect(ids("extra")).toHaveLength(200);
    const sha256 = createHash("sha256").update(readFileSync("data/airline/tasks.json")).digest("hex");
    expect(loadAirlineSplit("seen", options).sources).toEqual({ "data/airline/tasks.json": sha256 });
  });

  test("without a collection the scripted teacher covers, and it solves all", () => {
    expect(ids("covered_seen")).toEqual(ids("seen"));
    expect(() => ids("uncovered_seen")).toThrow(/'uncovered_seen' is empty/);
  });

  test("a file of a collection says which are covered, and all but 'test' go by it", () => {
    const split = withCoverage(strideSplit(50, 5), (id) => id % 3 === 0);
    const split_file = write("collected.json", splitFileText(split));
    const own = { ...options, split_file };
    expect(ids("unseen", own)).toEqual([0, 10, 20, 30, 40]);
    expect(ids("covered_seen", own)).toEqual(split.covered_seen);
    expect(ids("uncovered_seen", own)).toEqual(split.uncovered_seen);
    expect(Object.keys(loadAirlineSplit("seen", own).sources)).toEqual(["data/airline/tasks.json", split_file]);
    expect(Object.keys(loadAirlineSplit("test", own).sources)).toEqual(["data/airline/tasks.json"]);
    expect(() => ids("seen", { ...options, split_file: write("60.json", splitFileText(strideSplit(60, 6))) })).toThrow(
      /60\.json: there is no task 5\d: the split is of other tasks/,
    );
  });

  test("a folder of one's own, whose tasks have no scripts", () => {
    const data_dir = join(folder, "own");
    const db = synthAirlineDb("own", 0.1);
    writeAirlineDb(data_dir, db);
    const [user_id] = db.users.keys();
    const record = { user_id, instruction: "x", actions: [], outputs: [] };
    const tasks = Array.from({ length: 10 }, (_, task_index) => ({ task_index, ...record }));
    writeFileSync(join(data_dir, "tasks.json"), JSON.stringify(tasks));
    const own = { ...options, data_dir };
    expect(ids("unseen", own)).toEqual([0, 5]);
    expect(Object.keys(loadAirlineSplit("seen", own).sources)).toEqual(
      ["flights", "reservations", "users", "tasks"].map((name) => join(data_dir, `${name}.json`)),
    );
    expect(() => ids("covered_seen", own)).toThrow(/task 'tau-01' has no script.*split_file/);
    expect(() => ids("extra", own)).toThrow(/leave data_dir out/);
  });

  test("a name that there is not", () => {
    expect(() => loadAirlineSplit("trian", options)).toThrow(
      new RegExp(`split is 'trian'; expected one of ${airlineSplits.join(", ")}`),
    );
  });
});
