import fc from "fast-check";
import { expect, test } from "vitest";
import { binomialError, mean, meanError, medianError, quantile, ratio, ratioError } from "./statistics.ts";

const values = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 2, maxLength: 30 });

test.each([
  [[1, 2, 3, 4], 0.5, 2.5],
  [[4, 1, 3, 2], 0.95, 3.85],
  [[7], 0.95, 7],
  [[0, 10], 0.25, 2.5],
])("the quantile of %j at %d is numpy's", (all, share, expected) => {
  expect(quantile(all, share)).toBeCloseTo(expected, 12);
});

test("of nothing there is nothing", () => {
  expect([mean([]), quantile([], 0.5), meanError([1]), ratio([]), ratioError([]), medianError([[1, 2]])]).toEqual(
    Array(6).fill(null),
  );
});

test("the error of a mean is its sample deviation over √n", () => {
  expect(meanError([0, 1])).toBeCloseTo(0.5, 12);
  expect(meanError([1, 2, 3, 4])).toBeCloseTo(Math.sqrt(5 / 3) / 2, 12);
});

test("a ratio of equal counts has the error of the mean of rates; tasks without a count change nothing", () => {
  fc.assert(
    fc.property(values, fc.integer({ min: 1, max: 9 }), (rates, count) => {
      const parts = rates.map((rate) => ({ sum: rate * count, count }));
      expect(ratio(parts)).toBeCloseTo(mean(rates)!, 10);
      expect(ratioError(parts)).toBeCloseTo(meanError(rates)!, 10);
      expect(ratioError([...parts, { sum: 0, count: 0 }])).toBeCloseTo(meanError(rates)!, 10);
    }),
  );
});

test("the median's error is 0 where nothing varies, the same again, and about that of theory", () => {
  expect(medianError([[3], [3], [3]])).toBe(0);
  const uniform = Array.from({ length: 400 }, (_, index) => [index / 400]);
  expect(medianError(uniform)).toBe(medianError(uniform));
  expect(medianError(uniform)).toBeCloseTo(0.5 / Math.sqrt(400), 2); // 1 / (2 f √n), f = 1
});

test("the binomial error of a published share", () => {
  expect(binomialError(0.24, 200)).toBeCloseTo(0.0302, 4);
});
