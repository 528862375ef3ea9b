import { describe, expect, test } from "vitest";
import { type Curve, type RunCurves, stopRules, stopRuleTable } from "./alarms.ts";

describe("stop rules", () => {
  const points = (...values: [step: number, value: number][]): Curve =>
    values.map(([step, value]) => ({ step, value }));
  const flat = (value: number) => points(...Array.from({ length: 60 }, (_, step): [number, number] => [step, value]));
  const cases: [rule: string, story: string, curves: RunCurves, step: number | null][] = [
    ["score_below_0.1_at_50", "low at 50", { score_mean: flat(0.05) }, 50],
    [
      "score_below_0.1_at_50",
      "good on average",
      { score_mean: flat(0.1).with(50, { step: 50, value: 0.09 }).with(49, { step: 49, value: 0.2 }) },
      null,
    ],
    ["score_below_0.1_at_50", "not there yet", { score_mean: flat(0.05).slice(0, 50) }, null],
    ["generalisation_below_0.05_at_100", "low at 100", { generalisation: points([50, 0.2], [100, 0.04]) }, 100],
    [
      "generalisation_below_0.05_at_100",
      "good at 100, low later",
      { generalisation: points([100, 0.05], [150, 0]) },
      null,
    ],
    ["nan_gradient", "a NaN", { grad_norm: points([1, 0.3], [2, Number.NaN]) }, 2],
    ["nan_gradient", "small ones", { grad_norm: points([1, 0.3], [2, 0]) }, null],
    ["p50_below_30", "short turns", { turn_tokens_p50: points([50, 63], [100, 22]) }, 100],
    ["p50_below_30", "30 is enough", { turn_tokens_p50: points([50, 30]) }, null],
    ["step_over_1500_s", "slow", { step_s: points([1, 840], [2, 1501]) }, 2],
    ["step_over_1500_s", "as planned", { step_s: points([1, 1500]) }, null],
    ["error_rate_over_0.40_rising", "rising through it", { error_rate: points([1, 0.3], [2, 0.38], [3, 0.41]) }, 3],
    ["error_rate_over_0.40_rising", "high but falling", { error_rate: points([1, 0.6], [2, 0.5], [3, 0.45]) }, null],
    ["error_rate_over_0.40_rising", "rising below it", { error_rate: points([1, 0.1], [2, 0.2], [3, 0.4]) }, null],
    ["clip_ratio_over_0.20", "cut", { clip_ratio: points([7, 0.21]) }, 7],
    ["clip_ratio_over_0.20", "a few", { clip_ratio: points([7, 0.2]) }, null],
  ];

  test.each(cases)("%s: %s", (rule, _, curves, step) => {
    expect(stopRules(curves)).toEqual(step === null ? [] : [expect.objectContaining({ rule, step })]);
  });

  test("every rule has a case on both sides", () => {
    for (const { name } of stopRuleTable)
      expect(new Set(cases.filter(([rule]) => rule === name).map(([, , , step]) => step === null)).size).toBe(2);
  });

  test("the earliest alarm first, without curves none", () => {
    const curves = { step_s: points([9, 2000]), grad_norm: points([3, Number.NaN]) };
    expect(stopRules(curves).map(({ rule }) => rule)).toEqual(["nan_gradient", "step_over_1500_s"]);
    expect(stopRules({})).toEqual([]);
  });
});
