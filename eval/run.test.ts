import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Trajectory } from "../src/core/trajectory.ts";
import { bootstrap95, mean, passAt, passHat } from "./pass.ts";
import { compare, judge } from "./run.ts";

function trajectory(task_id: string, trial: number, success: boolean, changes: Partial<Trajectory> = {}): Trajectory {
  return {
    env: "fake@1",
    task_id,
    seed: 1,
    trial,
    policy: "model:x",
    policy_step: null,
    messages: [],
    turns: [],
    ended_by: "terminated",
    ended_why: null,
    reward: success ? 1 : 0,
    parts: { done: success ? 1 : 0 },
    metrics: {},
    success,
    tokens: { prompt: 10, policy: 4, observation: 6 },
    env_ms: 1,
    ...changes,
  };
}

describe("pass^k and pass@k", () => {
  test.each([
    [4, 2, 1, 0.5],
    [4, 2, 2, 1 / 6],
    [4, 2, 4, 0],
    [4, 1, 4, 0],
    [8, 5, 1, 0.625],
    [8, 5, 2, 0.357143],
    [8, 5, 3, 0.178571],
  ])("pass^k of n=%i c=%i k=%i is %f (EV-01)", (n, c, k, expected) => {
    expect(passHat(n, c, k)).toBeCloseTo(expected, 6);
  });

  test("pass@2 of n=4 c=2 is 0.8333, pass@3 of n=8 c=5 is 0.982143 (EV-01)", () => {
    expect(passAt(4, 2, 2)).toBeCloseTo(5 / 6, 10);
    expect(passAt(8, 5, 3)).toBeCloseTo(0.982143, 6);
  });

  test("k above n is not measured (EV-02)", () => {
    expect(passHat(3, 3, 4)).toBeNull();
    expect(passAt(3, 3, 4)).toBeNull();
  });

  test("both are chances, equal at k = 1, and pass^k falls where pass@k rises", () => {
    const counts = fc
      .integer({ min: 1, max: 12 })
      .chain((n) => fc.tuple(fc.constant(n), fc.integer({ min: 0, max: n })));
    fc.assert(
      fc.property(counts, ([n, c]) => {
        expect(passHat(n, c, 1)).toBeCloseTo(c / n, 12);
        expect(passAt(n, c, 1)).toBeCloseTo(c / n, 12);
        for (let k = 2; k <= n; k++) {
          expect(passHat(n, c, k)!).toBeLessThanOrEqual(passHat(n, c, k - 1)! + 1e-12);
          expect(passAt(n, c, k)!).toBeGreaterThanOrEqual(passAt(n, c, k - 1)! - 1e-12);
          expect(passHat(n, c, k)!).toBeGreaterThanOrEqual(0);
          expect(passAt(n, c, k)!).toBeLessThanOrEqual(1);
        }
      }),
    );
  });
});

describe("the bootstrap interval", () => {
  test("holds the mean, is narrow for equal values, and is the same each time", () => {
    const values = [0, 0, 1, 1, 1, 0.5, 0, 1];
    const [low, high] = bootstrap95(values)!;
    expect(low).toBeLessThan(mean(values)!);
    expect(high).toBeGreaterThan(mean(values)!);
    expect(bootstrap95(values)).toEqual([low, high]);
    expect(bootstrap95([0.3, 0.3, 0.3])![0]).toBeCloseTo(0.3, 10);
    expect(bootstrap95([1])).toBeNull();
  });

  test("is near mean ± 1.96 standard errors for many values", () => {
    const values = Array.from({ length: 400 }, (_, index) => (index % 4 === 0 ? 1 : 0));
    const error = Math.sqrt((0.25 * 0.75) / 400);
    const [low, high] = bootstrap95(values)!;
    expect(low).toBeCloseTo(0.25 - 1.96 * error, 2);
    expect(high).toBeCloseTo(0.25 + 1.96 * error, 2);
  });
});

describe("judge", () => {
  test("averages over tasks, keeps rewards and successes apart (EV-03)", () => {
    const halves = [0.5, 0.5, 0, 0].map((reward, trial) => trajectory("a", trial, false, { reward }));
    const judged = judge(halves);
    expect(judged.by_task.a).toEqual({ n: 4, c: 0, mean_reward: 0.25 });
    expect(judged).toMatchObject({
      pass_hat: { "1": 0, "2": 0, "3": 0 },
      mean_reward: 0.25,
      complete: true,
      trials: 4,
    });
  });

  test("pass^k is a mean over tasks; a task with too few trials is left out and counted", () => {
    const judged = judge([
      ...[true, true, false].map((success, trial) => trajectory("a", trial, success)),
      trajectory("b", 0, true),
    ]);
    expect(judged.pass_hat["1"]).toBeCloseTo((2 / 3 + 1) / 2);
    expect(judged.pass_hat["2"]).toBeCloseTo(1 / 3);
    expect(judged.pass_at["2"]).toBeCloseTo(1);
    expect(judged.skipped_tasks).toEqual({ "1": 0, "2": 1, "3": 1 });
    expect(judged).toMatchObject({ complete: false, missing: ["b/1", "b/2"] });
  });

  test("a result that is there twice is refused with the list (EV-04)", () => {
    const doubled = [trajectory("t3", 0, true), trajectory("t3", 1, true), trajectory("t3", 1, false)];
    expect(() => judge(doubled)).toThrow(/more than once: t3\/1/);
  });

  test("missing results are flagged with the list (EV-04)", () => {
    const judged = judge([trajectory("t3", 0, true), trajectory("t3", 1, true), trajectory("t5", 0, true)], {
      expected: { task_ids: ["t3", "t5", "t7"], trials: 2 },
    });
    expect(judged).toMatchObject({ complete: false, missing: ["t5/1", "t7/0", "t7/1"], tasks: 3 });
    expect(judged.by_task.t7).toEqual({ n: 0, c: 0, mean_reward: null });
  });

  test("a task that was not expected is refused", () => {
    const expected = { task_ids: ["a"], trials: 1 };
    expect(() => judge([trajectory("b", 0, true)], { expected })).toThrow(/not expected: b/);
  });

  test("failed episodes are no zeros: they leave n and are flagged", () => {
    const judged = judge([
      trajectory("a", 0, true),
      trajectory("a", 1, false, { reward: null, ended_by: "error", ended_why: "step: down", parts: { done: null } }),
    ]);
    expect(judged).toMatchObject({ invalid: 1, episodes: 1, complete: false, missing: ["a/1"], parts: { done: 1 } });
    expect(judged.pass_hat).toEqual({ "1": 1, "2": null, "3": null });
  });

  test("two policies in one log, or none, are refused", () => {
    expect(() => judge([])).toThrow(/no trajectories/);
    expect(() => judge([trajectory("a", 0, true), trajectory("a", 1, true, { policy: "gold" })])).toThrow(
      /mixes 2 policies/,
    );
  });

  test("categories", () => {
    const judged = judge([trajectory("a1", 0, true), trajectory("a2", 0, false), trajectory("b1", 0, true)], {
      category: (task_id) => task_id[0]!,
    });
    expect(judged.categories).toEqual({
      a: { tasks: 2, pass_hat_1: 0.5, mean_reward: 0.5 },
      b: { tasks: 1, pass_hat_1: 1, mean_reward: 1 },
    });
  });
});

test("compare pairs the tasks that both played", () => {
  const before = judge([trajectory("a", 0, false), trajectory("b", 0, false), trajectory("c", 0, true)]);
  const after = judge([trajectory("a", 0, true), trajectory("b", 0, true), trajectory("d", 0, true)]);
  expect(compare(before, after)).toEqual({ tasks: 2, difference: 1, interval: [1, 1] });
});
