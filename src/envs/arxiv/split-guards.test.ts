import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { probeHash, type TaskAudit } from "./probe.ts";
import type { SplitFile } from "./split-file.ts";
import { checkSplitFile } from "./split-guards.ts";
import { readSplitFile } from "./splits.ts";
import { arxivTasks } from "./tasks.ts";

const audit: TaskAudit = {
  sample_count: 8,
  group_count: 2,
  mean_reward: 0.5,
  min_reward: 0,
  max_reward: 1,
  mean_group_std: 0.5,
  zero_std_fraction: 0,
  informative_fraction: 1,
  informative_count: 2,
};
const probed = { search_CL_7d_5: audit };

const clean: SplitFile = {
  version: "mine",
  task_set: "expanded",
  task_count: 81,
  derived_from: "v3_81:train",
  split: { rl_train: ["search_CL_7d_5"], ceiling_control: ["opt_threads"], dropped: [] },
  ood_keys: [
    ["composite", 3],
    ["composite", 4],
  ],
  pilot_dev_ids: ["opt_force_dl"],
  rates: { search_CL_7d_5: 0.5, opt_threads: 1 },
  probe: { group_size: 4, groups: 2, summary_sha256: probeHash(probed), tasks: probed },
  policy: {},
};

function write(file: SplitFile, name = "mine"): string {
  const path = join(mkdtempSync(join(tmpdir(), "guards-")), `${name}.json`);
  writeFileSync(path, JSON.stringify(file));
  return path;
}
const read = (changes: Partial<SplitFile>) => readSplitFile(write({ ...clean, ...changes }));

describe("a split file that leaks is refused, and the leak named", () => {
  test("without a leak it is read", () => {
    expect(read({}).file).toEqual(clean);
  });

  const own = { derived_from: null, rates: {}, probe: undefined };
  test.each<[string, Partial<SplitFile>, RegExp]>([
    [
      "a held-out task among those to train on",
      { split: { ...clean.split, rl_train: ["search_CL_7d_5", "opt_service"] } },
      /mine\.json: 'opt_service' in rl_train is held out: it stands in iid_test of v3_81\./,
    ],
    [
      "a task of dev in train, the file named without a group",
      { derived_from: "v3_81", split: { train: ["search_CL_7d_5", "opt_threads", "state_dl_then_cache"] } },
      /'state_dl_then_cache' in train is held out: it stands in dev of v3_81/,
    ],
    [
      "a held-out task of the version before the last: v6 does not name it",
      { derived_from: "v6", split: { train: ["search_CL_7d_5", "opt_threads", "opt_service"] } },
      /'opt_service' in train is held out: it stands in iid_test of v3_81/,
    ],
    [
      "a task that is not of the group it was made from",
      { derived_from: "v6:rl_train" },
      /'opt_threads' is no task of v6:rl_train, which it was made from/,
    ],
    [
      "an origin that is not there",
      { derived_from: "v9:train" },
      /made from v9:train, but there is no such split file/,
    ],
    [
      "a rate of a held-out task",
      { rates: { ...clean.rates, opt_service: 0.3 } },
      /it has a rate of 'opt_service', which is held out: rates select train tasks only/,
    ],
    [
      "a probe of a held-out task",
      {
        probe: {
          ...clean.probe!,
          tasks: { ...probed, opt_service: audit },
          summary_sha256: probeHash({ ...probed, opt_service: audit }),
        },
      },
      /it has a rate of 'opt_service', which is held out/,
    ],
    [
      "a probe whose figures were changed",
      { probe: { ...clean.probe!, tasks: { search_CL_7d_5: { ...audit, informative_count: 1 } } } },
      /the audit of its probe is not the one that summary_sha256 was made of/,
    ],
    [
      "a template of ood_test among those to train on",
      { ...own, split: { train: ["multi_ro3_dl_two"] } },
      /'multi_ro3_dl_two' in train has the key composite\/3, which only ood_test may have/,
    ],
    [
      "a task that was looked at, called held out",
      { ...own, split: { train: ["opt_threads"], iid_test: ["opt_force_dl"] } },
      /'opt_force_dl' stands in iid_test, but it was looked at/,
    ],
    [
      "a task in two groups",
      { split: { ...clean.split, dropped: ["opt_threads"] } },
      /'opt_threads' stands in ceiling_control and in dropped/,
    ],
  ])("%s", (_, changes, message) => {
    expect(() => read(changes)).toThrow(message);
  });

  test("a held-out text among those to train on, whatever its case and blanks", () => {
    const heldOut = arxivTasks().find(({ id }) => id === "opt_service")!;
    const tasks = arxivTasks().map((task) =>
      task.id === "opt_threads" ? { ...task, task: `  ${heldOut.task.toUpperCase().replaceAll(" ", "\n ")}` } : task,
    );
    const file = { ...clean, derived_from: null, split: { train: ["opt_threads"], iid_test: ["opt_service"] } };
    const own = { ...file, rates: {}, probe: undefined };
    const noBase = () => ({ file: null, group: null });
    expect(() => checkSplitFile(own, arxivTasks(), "mine.json", noBase)).not.toThrow();
    expect(() => checkSplitFile(own, tasks, "mine.json", noBase)).toThrow(
      /'opt_threads' in train has the text of 'opt_service' in iid_test, which is held out/,
    );
  });

  test("a file made from itself, by way of another", () => {
    const folder = mkdtempSync(join(tmpdir(), "guards-"));
    const [one, two] = ["one", "two"].map((name) => join(folder, `${name}.json`));
    for (const [path, origin] of [
      [one, two],
      [two, one],
    ])
      writeFileSync(path!, JSON.stringify({ ...clean, derived_from: origin }));
    expect(() => readSplitFile(one!)).toThrow(/made from itself/);
  });
});
