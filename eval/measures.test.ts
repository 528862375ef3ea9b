import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { BenchmarkRules } from "../src/core/measure.ts";
import { band } from "../src/core/rates.ts";
import type { Trajectory, Turn } from "../src/core/trajectory.ts";
import { measureAll } from "./measures.ts";
import { bootstrap95, bootstrapMedian95, bootstrapRatio95, median } from "./pass.ts";

const turn = (kind: Turn["outcome"]["kind"], call = true): Turn => ({
  reply: "",
  thought: "",
  action: call ? { name: "t", args: {} } : null,
  outcome: { kind, text: "" },
});

function episode(changes: Partial<Trajectory> = {}): Trajectory {
  return {
    env: "fake@1",
    task_id: "a",
    seed: 1,
    trial: 0,
    policy: "p",
    policy_step: null,
    messages: [],
    turns: [turn("ok"), turn("terminal", false)],
    ended_by: "terminated",
    ended_why: null,
    reward: 0,
    parts: {},
    metrics: {},
    success: false,
    tokens: { prompt: 100, policy: 10, observation: 5 },
    env_ms: null,
    ...changes,
  };
}

const won = (changes: Partial<Trajectory> = {}) => episode({ success: true, reward: 1, ...changes });
const broken = episode({ reward: null, ended_by: "error", ended_why: "step: down", metrics: { right: true } });

const rules: BenchmarkRules = {
  criteria: ["right"],
  measures: [
    {
      name: "right_of_applicable",
      over: "episodes that apply",
      of: ({ metrics }) => (metrics.applies ? metrics.right === true : null),
    },
  ],
  failure: ({ metrics }) => String(metrics.shape ?? "other"),
};

describe("each figure has its own denominator", () => {
  const byTask = [
    [
      won({ metrics: { applies: true, right: true } }),
      episode({ metrics: { applies: true, right: false, shape: "lost" } }),
    ],
    [episode({ metrics: { applies: false, right: true, shape: "lost" } }), broken],
    [won({ turns: [turn("ok"), turn("tool_error"), turn("parse_error", false)] })],
  ];
  const all = measureAll(byTask, rules);

  test("a measure counts the episodes that it applies to; failed episodes count in none", () => {
    expect(all.measures.right_of_applicable).toMatchObject({ value: 0.5, over: "episodes that apply", episodes: 2 });
    expect(all.measures.turns).toMatchObject({ value: (2 + 2 + 2 + 3) / 4, episodes: 4 });
    expect(all.measures.calls).toMatchObject({ value: (1 + 1 + 1 + 2) / 4, episodes: 4 });
    expect(all.measures.tool_error_rate!.value).toBeCloseTo(1 / 3 / 4, 12);
    expect(all.measures.parse_error_rate!.value).toBeCloseTo(1 / 3 / 4, 12);
  });

  test("a success costs what all episodes took", () => {
    expect(all.cost_per_success.policy_tokens).toMatchObject({ value: 20, total: 40, successes: 2 });
    expect(all.cost_per_success.tokens).toMatchObject({ value: (4 * 115) / 2, total: 460 });
    expect(all.cost_per_success.turns).toMatchObject({ value: 4.5, total: 9 });
  });

  test("without a success there is no price: null, neither 0 nor infinity", () => {
    const none = measureAll([[episode()], [episode()]], null).cost_per_success;
    expect(none.policy_tokens).toEqual({ value: null, total: 20, successes: 0, interval: null });
  });

  test("a rare success has a price without a bound above", () => {
    const rare = measureAll([[won()], ...Array.from({ length: 9 }, () => [episode()])], null).cost_per_success.turns;
    expect(rare).toMatchObject({ value: 20, successes: 1, interval: [expect.any(Number), null] });
    expect(rare.interval![0]).toBeLessThan(20);
  });

  test("median turns of successes and failures, apart", () => {
    expect(all.median_turns.of_successes).toMatchObject({ value: 2.5, episodes: 2 });
    expect(all.median_turns.of_failures).toMatchObject({ value: 2, episodes: 2 });
  });

  test("failure shapes are shares of all that failed, the environment's failures too, and add up to 1", () => {
    expect(all.failures.episodes).toBe(3);
    expect(all.failures.shapes).toMatchObject({
      lost: { episodes: 2, share: 2 / 3 },
      other: { episodes: 1, share: 1 / 3 },
    });
  });

  test("without rules, shapes go by how the episode ended", () => {
    const ended = [episode(), episode({ ended_by: "truncated" }), broken, won()].map((item) => [item]);
    expect(Object.keys(measureAll(ended, null).failures.shapes)).toEqual([
      "failed_at_limit",
      "failed_claiming_done",
      "failed_with_error",
    ]);
  });

  test("bands, their bounds inside the middle; a task without a valid trial is in none", () => {
    expect([0, 0.19, 0.2, 0.8, 0.81, 1].map(band)).toEqual([
      "floor",
      "floor",
      "middle",
      "middle",
      "ceiling",
      "ceiling",
    ]);
    expect(all.bands).toEqual({ floor: 1, middle: 1, ceiling: 1, tasks: 3 });
    expect(measureAll([[broken]], null).bands).toEqual({ floor: 0, middle: 0, ceiling: 0, tasks: 0 });
  });

  test("nothing played, nothing measured", () => {
    const empty = measureAll([], rules);
    expect(empty.measures.right_of_applicable).toMatchObject({ value: null, episodes: 0, interval: null });
    expect(empty.failures).toEqual({ episodes: 0, shapes: {} });
    expect(empty.median_turns.of_successes).toEqual({ value: null, episodes: 0, interval: null });
  });
});

describe("intervals", () => {
  test("of a ratio: with one episode a task, that of the mean; and it holds the value", () => {
    const values = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 12 });
    fc.assert(
      fc.property(values, (own) => {
        expect(bootstrapRatio95(own.map((sum) => ({ sum, count: 1 })))).toEqual(bootstrap95(own));
      }),
      { numRuns: 20 },
    );
    const parts = [1, 0, 3, 2, 0, 4].map((sum) => ({ sum, count: 4 }));
    const [low, high] = bootstrapRatio95(parts)!;
    expect([low < 10 / 24, high > 10 / 24]).toEqual([true, true]);
  });

  test("of tasks of which only one has a denominator there is none", () => {
    expect(
      bootstrapRatio95([
        { sum: 1, count: 2 },
        { sum: 0, count: 0 },
      ]),
    ).toBeNull();
  });

  test("of a median: between the least and the greatest, around it, and the median is the middle", () => {
    const tasks = fc.array(fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 5 }), { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(tasks, (own) => {
        const all = own.flat();
        const range = bootstrapMedian95(own);
        if (own.filter(({ length }) => length > 0).length < 2) {
          expect(range).toBeNull();
          return;
        }
        expect(range![0]).toBeGreaterThanOrEqual(Math.min(...all));
        expect(range![1]).toBeLessThanOrEqual(Math.max(...all));
        expect(all.filter((value) => value <= median(all)!).length * 2).toBeGreaterThanOrEqual(all.length);
        expect(all.filter((value) => value >= median(all)!).length * 2).toBeGreaterThanOrEqual(all.length);
      }),
      { numRuns: 20 },
    );
    expect(median([3, 1, 2, 10])).toBe(2.5);
    expect(bootstrapMedian95([[2], [2], [2]])).toEqual([2, 2]);
  });
});
