import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { BaselineRow } from "../src/core/baselines.ts";
import { judgeBaselines, topPlays } from "./gate.ts";

const BOUNDS = { aggregate: 0.3, category: 0.3 };

function row(policy: string, category: string, reward: number, changes: Partial<BaselineRow> = {}): BaselineRow {
  return {
    policy,
    task_id: `${category}-1`,
    category,
    sample_seed: null,
    reward,
    parts: {},
    finished: true,
    exact_reference: policy === "gold",
    figures: {},
    ...changes,
  };
}

const gold = (...categories: string[]) => categories.map((category) => row("gold", category, 1));

describe("the gates", () => {
  test.each([
    ["a gap above the bound", 0.5, true],
    ["a gap at the bound, which floats put on either side", 0.7, true],
    ["a gap that misses it by little", 0.700001, false],
    ["no gap", 1, false],
    ["a weak policy above gold", 1.2, false],
    ["no number (EV-09)", Number.NaN, false],
    ["an endless one", Number.POSITIVE_INFINITY, false],
  ])("%s", (_, reward, passed) => {
    const { breaches, ...result } = judgeBaselines([...gold("a"), row("idle", "a", reward)], BOUNDS);
    expect(result.passed).toBe(passed);
    expect(breaches.map(({ gate }) => gate)).toEqual(passed ? [] : ["aggregate", "category"]);
  });

  test("plays of gold that are missing are a breach, and so is nothing at all (EV-09)", () => {
    const { breaches } = judgeBaselines([row("idle", "a", -1)], BOUNDS);
    expect(breaches.map(({ message }) => message)).toEqual([
      "idle over all tasks: no gap to gold to hold against 0.3000 (gold: no plays; idle: 1 plays, mean -1).",
      "idle in category a: no gap to gold to hold against 0.3000 (gold: no plays; idle: 1 plays, mean -1).",
    ]);
    expect(judgeBaselines([], BOUNDS).passed).toBe(false);
    expect(judgeBaselines(gold("a"), BOUNDS).breaches[0]!.message).toMatch(/No policy besides gold/);
  });

  test("a category of which gold was not played is a breach of that category", () => {
    const { breaches } = judgeBaselines([...gold("a"), row("idle", "a", -1), row("idle", "b", -1)], BOUNDS);
    expect(breaches.map(({ category }) => category)).toEqual(["b"]);
  });

  test("a breach names policy, category, figure and bound", () => {
    const rows = [
      ...gold("a", "b", "c", "d"),
      row("idle", "a", 0.833),
      ...["b", "c", "d"].map((c) => row("idle", c, 0)),
    ];
    expect(judgeBaselines(rows, BOUNDS).breaches).toEqual([
      {
        gate: "category",
        policy: "idle",
        category: "a",
        gap: 0.167,
        bound: 0.3,
        message: "idle in category a: 0.8330 is 0.1670 below the 1.0000 of gold; expected at least 0.3000.",
      },
    ]);
  });

  test("plays that did what gold does count over all tasks, not in their category; one with no others is skipped", () => {
    const rows = [
      ...gold("a", "b"),
      row("lucky", "a", 1, { exact_reference: true }),
      row("lucky", "b", 1, { exact_reference: true }),
      row("lucky", "b", -0.75, { task_id: "b-2" }),
    ];
    const { policies, breaches } = judgeBaselines(rows, BOUNDS);
    expect(policies[1]).toMatchObject({
      samples: 3,
      tasks: 3,
      mean: 0.416667,
      gap: 0.583333,
      categories: {
        a: { samples: 0, excluded: 1, mean: null, gap: null },
        b: { samples: 1, excluded: 1, mean: -0.75, gap: 1.75 },
      },
    });
    expect(breaches).toEqual([]);
  });

  test("figures are means over the plays that have them", () => {
    const rows = [
      ...gold("a"),
      row("idle", "a", 0, { figures: { path: true, arguments: null } }),
      row("idle", "a", -1, { figures: { path: false, arguments: 0.5 }, finished: false }),
    ];
    expect(judgeBaselines(rows, BOUNDS).policies[1]).toMatchObject({
      mean: -0.5,
      std: 0.5,
      min: -1,
      max: 0,
      finish_rate: 0.5,
      figures: { path: 0.5, arguments: 0.5 },
    });
  });

  test("whatever the plays earned, the aggregate gate passes exactly where each gap reaches its bound", () => {
    const reward = fc.double({ min: -1, max: 1, noNaN: true });
    fc.assert(
      fc.property(fc.array(reward, { minLength: 1 }), fc.array(reward, { minLength: 1 }), (good, weak) => {
        const rows = [...good.map((value) => row("gold", "a", value)), ...weak.map((value) => row("idle", "a", value))];
        const average = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
        const gap = average(good) - average(weak);
        fc.pre(Math.abs(gap - 0.3) > 1e-6);
        const { passed, policies } = judgeBaselines(rows, BOUNDS);
        expect(passed).toBe(gap > 0.3);
        expect(policies[1]!.gap).toBeCloseTo(gap, 5);
      }),
    );
  });
});

test("the plays that pay best: each task once, by reward, then by id, without those that did what gold does", () => {
  const rows = [
    ...gold("a"),
    row("drawn", "a", 0.1, { task_id: "t2", sample_seed: 1 }),
    row("drawn", "a", 0.4, { task_id: "t2", sample_seed: 2 }),
    row("drawn", "a", 0.4, { task_id: "t1", sample_seed: 1 }),
    row("drawn", "a", 1, { task_id: "t3", exact_reference: true }),
    row("drawn", "a", -1, { task_id: "t4" }),
  ];
  const { drawn } = topPlays(rows, 2);
  expect(drawn!.map(({ task_id, reward }) => [task_id, reward])).toEqual([
    ["t1", 0.4],
    ["t2", 0.4],
  ]);
  expect(topPlays(rows, 2)).not.toHaveProperty("gold");
});
