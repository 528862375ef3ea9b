import { expect, test } from "vitest";
import { gainAcrossSeeds } from "./seeds.ts";

const tasks = Array.from({ length: 18 }, (_, i) => `t${i}`);
const seed = (gain: (i: number) => number) => Object.fromEntries(tasks.map((task, i) => [task, gain(i)]));

test("the same gain everywhere has no width", () => {
  const summary = gainAcrossSeeds([seed(() => 0.25), seed(() => 0.25)]);
  expect(summary).toEqual({ seeds: 2, tasks: 18, gain: 0.25, interval: [0.25, 0.25], by_seed: [0.25, 0.25] });
});

test("seeds that differ widen the interval as tasks that differ do", () => {
  const even = gainAcrossSeeds([0.1, 0.1, 0.1].map((gain) => seed(() => gain)));
  const apart = gainAcrossSeeds([-0.2, 0.1, 0.4].map((gain) => seed(() => gain)));
  const uneven = gainAcrossSeeds([1, 2, 3].map(() => seed((i) => (i % 2 ? 0.6 : -0.4))));
  expect(even.interval).toEqual([expect.closeTo(0.1), expect.closeTo(0.1)]);
  for (const { gain, interval } of [apart, uneven]) {
    expect(gain).toBeCloseTo(0.1);
    expect(interval[0]).toBeLessThan(-0.05);
    expect(interval[1]).toBeGreaterThan(0.25);
  }
  // Of normal theory: the standard error of a mean of 18 tasks with deviation 0.5 is 0.118.
  expect((uneven.interval[1] - uneven.interval[0]) / (2 * 1.96)).toBeCloseTo(0.118, 1);
});

test("seeds of other tasks are refused", () => {
  expect(() => gainAcrossSeeds([])).toThrow(/at least one/);
  expect(() => gainAcrossSeeds([seed(() => 0), { t0: 1 }])).toThrow(/Seed 2 .* no 't1'/);
  expect(() => gainAcrossSeeds([{ t0: 1 }, seed(() => 0)])).toThrow(/Seed 2/);
});
