import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { band } from "../../core/rates.ts";
import { arxivOptions } from "./options.ts";
import { type SplitFile, templateKey } from "./split-file.ts";
import { arxivSplits, loadArxivSplit, makeSplit, readSplitFile } from "./splits.ts";
import { arxivTasks } from "./tasks.ts";

const options = arxivOptions.parse({});
const load = async (name: string) => (await loadArxivSplit(name, options)).tasks.map(({ id }) => id);

describe("the frozen splits", () => {
  test.each([
    ["train", 51],
    ["dev", 8],
    ["iid_test", 18],
    ["ood_test", 4],
    ["v3_81:train", 51],
    ["v6:rl_train", 33],
    ["v6:ceiling_control", 9],
    ["v6:dropped", 9],
    ["smoke", 8],
    ["all", 81],
    ["dev,iid_test", 26],
    ["dev, v3_81:dev", 8],
  ])("%s has %i tasks", async (name, count) => {
    expect(await load(name)).toHaveLength(count);
  });

  test("every split of the list loads, with the hashes of what was read", async () => {
    for (const name of arxivSplits) {
      const { tasks, sources } = await loadArxivSplit(name, options);
      expect(tasks.length).toBeGreaterThan(0);
      for (const { expected_paper_ids, steps } of tasks) expect(expected_paper_ids).toHaveLength(steps.length);
      for (const hash of Object.values(sources)) expect(hash).toMatch(/^[0-9a-f]{64}$/);
    }
    const { sources } = await loadArxivSplit("v6:rl_train", options);
    expect(Object.keys(sources).sort()).toEqual([
      "data/arxiv/snapshot.json",
      "data/arxiv/splits/v6.json",
      "data/arxiv/tasks.json",
    ]);
  });

  test("v3_81 divides all 81 tasks; its rl_train is the six train tasks of the middle band", async () => {
    const { file } = readSplitFile("v3_81");
    expect(Object.values(file.split).flat().sort()).toEqual(
      arxivTasks()
        .map(({ id }) => id)
        .sort(),
    );
    expect((await load("v3_81:rl_train")).sort()).toEqual([
      "chain_cv5_cache_dl_tr_cache",
      "multi_cr5_cache1",
      "search_CL_30d_10",
      "search_CL_7d_5",
      "search_LG_3d_10",
      "search_RO_3d_8",
    ]);
    expect(Object.keys(file.rates!)).toHaveLength(36);
  });

  test("v6 divides the train tasks of v3_81", () => {
    const train = readSplitFile("v3_81").file.split.train!;
    expect(Object.values(readSplitFile("v6").file.split).flat().sort()).toEqual([...train].sort());
  });

  test("only ood_test has the templates of ood_keys, and every other template has train tasks", () => {
    const { split, ood_keys } = readSplitFile("v3_81").file;
    const keys = (group: string) =>
      new Set(
        arxivTasks()
          .filter(({ id }) => split[group]!.includes(id))
          .map((task) => templateKey(task).join("/")),
      );
    expect(keys("ood_test")).toEqual(new Set(ood_keys.map((key) => key.join("/"))));
    for (const key of keys("ood_test")) expect([...keys("train"), ...keys("iid_test")]).not.toContain(key);
    for (const key of keys("iid_test")) expect(keys("train")).toContain(key);
  });

  test("no held-out text is a training text", () => {
    const { split } = readSplitFile("v3_81").file;
    const texts = (groups: string[]) =>
      arxivTasks()
        .filter(({ id }) => groups.some((group) => split[group]!.includes(id)))
        .map(({ task }) => task.toLowerCase());
    const train = new Set(texts(["train"]));
    expect(texts(["dev", "iid_test", "ood_test"]).filter((text) => train.has(text))).toEqual([]);
  });
});

describe("a split that cannot be loaded says why", () => {
  const file: SplitFile = {
    version: "test",
    task_set: "expanded",
    task_count: 81,
    derived_from: null,
    split: { train: ["search_CL_7d_5", "opt_threads"], dev: ["opt_force_dl"], none: [] },
    ood_keys: [],
    pilot_dev_ids: [],
    rates: { search_CL_7d_5: 0.5 },
    policy: {},
  };
  function write(changes: Record<string, unknown>): string {
    const path = join(mkdtempSync(join(tmpdir(), "split-")), "mine.json");
    writeFileSync(path, JSON.stringify({ ...file, ...changes }));
    return path;
  }

  test.each<[string, Record<string, unknown>, string, RegExp]>([
    ["an empty group", {}, "none", /group 'none' is empty/],
    ["a group that is missing", {}, "iid_test", /no group 'iid_test'; expected one of train, dev, none/],
    ["no rates", { rates: undefined }, "rl_train", /rl_train is train ∩ middle band, but the file has no rates/],
    ["no rate in the middle", { rates: { search_CL_7d_5: 0.9 } }, "rl_train", /rl_train is empty/],
    [
      "a rate of a held-out task",
      { rates: { opt_force_dl: 0.5 } },
      "rl_train",
      /rate of 'opt_force_dl', which is held out/,
    ],
    ["a rate above 1", { rates: { search_CL_7d_5: 66.7 } }, "train", /rates\.search_CL_7d_5/],
    ["no train group to compute from", { split: { dev: ["opt_force_dl"] } }, "rl_train", /computed from train/],
    ["a task that does not exist", { split: { train: ["nobody"] } }, "train", /train names 'nobody'/],
    [
      "a task in two groups",
      { split: { train: ["opt_threads"], dev: ["opt_threads"] } },
      "train",
      /'opt_threads' stands in train and in dev/,
    ],
    ["a task twice", { split: { train: ["opt_threads", "opt_threads"] } }, "train", /stands in train and in train/],
    ["another task set", { task_count: 86 }, "train", /made for 86 tasks, but .* has 81/],
    ["a key that no split file has", { splits: {} }, "train", /splits/],
  ])("%s", async (_, changes, group, message) => {
    await expect(load(`${write(changes)}:${group}`)).rejects.toThrow(message);
  });

  test.each([
    ["", /expected \[FILE:\]GROUP/],
    ["v6:", /expected \[FILE:\]GROUP/],
    [":train", /expected \[FILE:\]GROUP/],
    ["dev,", /expected \[FILE:\]GROUP/],
    ["trian", /no group 'trian'; expected one of train, dev, iid_test, ood_test/],
    ["v6:constructor", /no group 'constructor'/],
    ["v9:train", /no split file 'v9'; there are v3_81, v6/],
    ["nowhere/mine.json:train", /no split file/],
  ])("the name '%s'", async (name, message) => {
    await expect(load(name)).rejects.toThrow(message);
  });

  test("a file of one's own, by its path", async () => {
    expect(await load(`${write({})}:train`)).toEqual(["search_CL_7d_5", "opt_threads"]);
    expect(await load(`${write({})}:rl_train`)).toEqual(["search_CL_7d_5"]);
  });
});

test("bands include their ends in the middle", () => {
  expect([0, 0.19, 0.2, 0.8, 0.81, 1].map(band)).toEqual(["floor", "floor", "middle", "middle", "ceiling", "ceiling"]);
});

describe("makeSplit", () => {
  const tasks = arxivTasks();
  const ood_keys = [
    ["composite", 3],
    ["composite", 4],
  ] as const;

  test("whole templates go to ood_test, and equal seeds give equal splits", () => {
    const split = makeSplit(tasks, { ood_keys });
    expect(split).toEqual(makeSplit(tasks, { ood_keys, seed: 0 }));
    expect(split).not.toEqual(makeSplit(tasks, { ood_keys, seed: 1 }));
    expect(split.ood_test).toEqual(readSplitFile("v3_81").file.split.ood_test);
  });

  test("every task stands in exactly one group, and no template loses all its train tasks", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer(), fc.boolean(), (iid_ratio, seed, banded) => {
        const rates = banded ? Object.fromEntries(tasks.map(({ id }, i) => [id, (i % 11) / 10])) : {};
        const { train, iid_test, ood_test } = makeSplit(tasks, { ood_keys, iid_ratio, seed, rates });
        expect([...train, ...iid_test, ...ood_test].sort()).toEqual(tasks.map(({ id }) => id).sort());
        const keys = (ids: string[]) =>
          new Set(tasks.filter(({ id }) => ids.includes(id)).map((task) => templateKey(task).join("/")));
        for (const key of keys(iid_test)) expect(keys(train)).toContain(key);
      }),
      { numRuns: 50 },
    );
  });

  const like = (template: string, count: number) =>
    Array.from({ length: count }, (_, i) => ({ ...tasks[0]!, id: `${template}${i}`, template }));

  test.each([
    ["a single task stays in train", 1, 0.25, 0],
    ["at least one of two", 2, 0.25, 1],
    ["a half rounds to even: 2.5 → 2", 10, 0.25, 2],
    ["a half rounds to even: 1.5 → 2", 6, 0.25, 2],
    ["never all", 3, 1, 2],
    ["ratio 0 holds nothing out", 8, 0, 0],
  ])("%s", (_, count, iid_ratio, held) => {
    expect(makeSplit(like("t", count), { ood_keys: [], iid_ratio }).iid_test).toHaveLength(held);
  });

  test("each band gives its share", () => {
    const rates = { t0: 0, t1: 0, t2: 0.5, t3: 0.5, t4: 1, t5: 1 };
    const { iid_test } = makeSplit(like("t", 6), { ood_keys: [], rates });
    expect(iid_test.map((id) => band(rates[id as keyof typeof rates])).sort()).toEqual(["ceiling", "floor", "middle"]);
  });

  test("an ood key that no task has is refused", () => {
    expect(() => makeSplit(tasks, { ood_keys: [["composite", 9]] })).toThrow(/no task has the key composite\/9/);
  });
});
