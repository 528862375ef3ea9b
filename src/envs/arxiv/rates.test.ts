import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { band } from "../../core/rates.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { arxivOptions } from "./options.ts";
import { probe, probeHash } from "./probe.ts";
import { measuredGroup, type RatesRequest, ratesSplit } from "./rates.ts";
import { measuredRates, worldMetadata } from "./rates-world.ts";
import { readSplitFile } from "./splits.ts";

const options = arxivOptions.parse({});
const train = measuredGroup(["v3_81:train"]);
const metadata = { policy: "model:m", model_sha256: "abc", seed: 43, temperature: 1, ...worldMetadata(options) };
const request: RatesRequest = { by: "probe", group_size: 4, version: "mine", path: "mine.json", metadata };

function played(task_id: string, rewards: readonly (number | null)[], strict = 1): Trajectory[] {
  return rewards.map((reward, trial) => ({
    ...{ env: "arxiv@1", task_id, trial, seed: trial, policy: "model:m", policy_step: null },
    ...{ messages: [], turns: [], ended_by: "terminated" as const, ended_why: null, parts: {}, metrics: {} },
    ...{ reward, success: reward !== null && reward >= strict, env_ms: null },
    tokens: { prompt: 0, policy: 0, observation: 0 },
  }));
}

/** Eight trials each: two groups of 4. Tasks that are not named fail every time. */
const log = (rewards: Record<string, readonly number[]>): Trajectory[] =>
  train.ids.flatMap((id) => played(id, rewards[id] ?? Array<number>(8).fill(-0.75)));

const [LOW, MID, TOP] = [-0.75, 0.5, 1];
const both = [LOW, TOP, TOP, TOP, LOW, LOW, MID, TOP];
const once = [LOW, TOP, TOP, TOP, TOP, TOP, TOP, TOP];
const always = Array<number>(8).fill(TOP);

describe("by probe", () => {
  const file = ratesSplit(train, log({ opt_threads: both, opt_force_tr: once, search_CL_7d_5: always }), request);

  test("two informative groups make a task of rl_train, one drops it, none makes it a control, good or bad", () => {
    expect(file.split.rl_train).toEqual(["opt_threads"]);
    expect(file.split.dropped).toEqual(["opt_force_tr"]);
    expect(file.split.ceiling_control).toHaveLength(49);
    expect(file.split.ceiling_control).toContain("search_CL_7d_5");
    expect(Object.values(file.split).flat().sort()).toEqual([...train.ids].sort());
  });

  test("rates are shares of strict successes, each task with its own", () => {
    expect(file.rates).toMatchObject({ opt_threads: 0.5, opt_force_tr: 7 / 8, search_CL_7d_5: 1, search_kw_llm: 0 });
    expect(Object.keys(file.rates!)).toHaveLength(51);
    expect(file.rates_metadata).toMatchObject({ metric: "strict_success_rate", model_sha256: "abc", seed: 43 });
    expect(file.derived_from).toBe("v3_81:train");
  });

  test("the audit of a task, by hand", () => {
    const { mean_group_std, ...audit } = file.probe!.tasks.opt_threads!;
    expect(audit).toEqual({
      sample_count: 8,
      group_count: 2,
      mean_reward: (4 * TOP + MID + 3 * LOW) / 8,
      min_reward: LOW,
      max_reward: TOP,
      zero_std_fraction: 0,
      informative_fraction: 1,
      informative_count: 2,
    });
    // [-0.75, 1, 1, 1]: variance 3 × 0.4375² + 1.3125², over 3; [-0.75, -0.75, 0.5, 1]: mean 0
    expect(mean_group_std).toBeCloseTo((Math.sqrt(2.296875 / 3) + Math.sqrt(2.375 / 3)) / 2, 12);
    expect(file.probe).toMatchObject({ group_size: 4, groups: 2, summary_sha256: probeHash(file.probe!.tasks) });
  });

  test("the order of the log changes nothing: trials go into groups by their number", () => {
    const rows = log({ opt_threads: both, opt_force_tr: once });
    expect(ratesSplit(train, [...rows].reverse(), request)).toEqual(ratesSplit(train, rows, request));
  });

  test("float noise is no difference", () => {
    const noisy = played("a", [0.3, 0.1 + 0.2, 0.3, 0.3]);
    expect(probe(noisy, 4).tasks.a).toMatchObject({ informative_count: 0, zero_std_fraction: 1 });
  });

  test("whatever the rewards, every task is in one group, and the counts add up", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(LOW, MID, TOP), { minLength: 8, maxLength: 8 }), (rewards) => {
        const made = ratesSplit(train, log({ opt_threads: both, opt_force_tr: rewards }), request);
        const audit = made.probe!.tasks.opt_force_tr!;
        expect(audit.informative_fraction + audit.zero_std_fraction).toBe(1);
        expect(Object.values(made.split).flat().sort()).toEqual([...train.ids].sort());
      }),
      { numRuns: 30 },
    );
  });

  test.each<[string, () => unknown, RegExp]>([
    ["no task to train on", () => ratesSplit(train, log({}), request), /mine\.json: not written: no task has 2 groups/],
    [
      "a single group",
      () => ratesSplit(train, log({ opt_threads: both }), { ...request, group_size: 8 }),
      /1 group of 8 a task: a probe needs 2 or more .* bench --repeat 64, or take --by bands/,
    ],
    [
      "trials that do not divide",
      () => ratesSplit(train, log({}), { ...request, group_size: 3 }),
      /'\w+' has 8 trials, which do not divide into groups of 3/,
    ],
    ["a failed trial", () => probe(played("a", [1, null, 0, 1]), 4), /'a', trial 1 failed: it has no reward/],
    [
      "a held-out task in the log",
      () => ratesSplit(train, [...log({ opt_threads: both }), ...played("opt_service", both)], request),
      /the log has 'opt_service', which is held out \(iid_test of v3_81\)/,
    ],
    [
      "a task that is missing",
      () =>
        ratesSplit(
          train,
          log({ opt_threads: both }).filter(({ task_id }) => task_id !== "opt_keep_dual"),
          request,
        ),
      /no valid episode of 'opt_keep_dual' of v3_81:train/,
    ],
    [
      "a task of another group",
      () =>
        ratesSplit(
          { ...train, ids: train.ids.filter((id) => id !== "opt_threads") },
          log({ opt_threads: both }),
          request,
        ),
      /the log has 'opt_threads', which is no task of v3_81:train/,
    ],
  ])("%s is refused", (_, make, message) => {
    expect(make).toThrow(message);
  });
});

describe("by bands", () => {
  test("the groups stay, and rl_train is the middle band", () => {
    const file = ratesSplit(train, log({ opt_threads: both, opt_force_tr: once, search_CL_7d_5: always }), {
      ...request,
      by: "bands",
    });
    expect(file.split).toEqual(readSplitFile("v3_81").file.split);
    expect(file.derived_from).toBe("v3_81");
    expect(Object.entries(file.rates!).filter(([, rate]) => band(rate) === "middle")).toEqual([["opt_threads", 0.5]]);
    expect(file.probe).toBeUndefined();
  });

  test.each<[string, () => unknown, RegExp]>([
    [
      "no rate in the middle",
      () => ratesSplit(train, log({ opt_threads: once }), { ...request, by: "bands" }),
      /not written: no rate lies in \[0\.2, 0\.8\]/,
    ],
    [
      "a part of train",
      () =>
        ratesSplit(
          measuredGroup(["v6:dropped"]),
          measuredGroup(["v6:dropped"]).ids.flatMap((id) => played(id, both)),
          { ...request, by: "bands" },
        ),
      /takes rates of its train group, not of v6:dropped/,
    ],
  ])("%s is refused", (_, make, message) => {
    expect(make).toThrow(message);
  });
});

test.each([
  [["dev"], /played dev, which is no train group/],
  [["v3_81:iid_test"], /what is held out must not decide what is trained on/],
  [["train", "dev"], /played train, dev; rates are measured on one train group/],
  [["train,dev"], /rates are measured on one train group/],
  [["all"], /no group 'all'/],
  [["rl_variations"], /no group 'rl_variations'/],
])("rates of a benchmark on %j are refused", (splits, message) => {
  expect(() => measuredGroup(splits)).toThrow(message);
});

describe("rates hold for the world they were measured in", () => {
  const file = ratesSplit(train, log({ opt_threads: both }), request);

  test("and in it they do", () => {
    expect(measuredRates(file, "rl_train", options)).toMatchObject({ selected: true, model_sha256: "abc", stale: [] });
    expect(measuredRates(file, "train", options)).toMatchObject({ selected: false });
    expect(measuredRates(readSplitFile("v6").file, "rl_train", options)).toBeNull();
  });

  test.each<[string, object, object, RegExp]>([
    ["the prompt", { prompt: "minimal" }, {}, /other env_options/],
    ["the scorer", { profile: "reference" }, {}, /other env_options/],
    ["the style", { protocol: { style: "continuation" } }, {}, /other env_options/],
    ["the snapshot", {}, { snapshot_sha256: "0" }, /another snapshot/],
    ["the tasks", {}, { tasks_sha256: "0" }, /other tasks/],
  ])("%s has changed", (_, changed, measured, message) => {
    const other = { ...file, rates_metadata: { ...file.rates_metadata, ...measured } };
    expect(measuredRates(other, "rl_train", arxivOptions.parse(changed))!.stale).toEqual([
      expect.stringMatching(message),
    ]);
  });
});
