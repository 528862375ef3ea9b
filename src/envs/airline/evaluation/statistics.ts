import { createRandom } from "../../../core/random.ts";

// Figures of an evaluation with their standard errors. Tasks are what was sampled, and trials of a task are not
// independent, so an error is that over tasks. null: nothing to measure.

export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** The value below which `share` of them lie, linear between neighbours (type 7, numpy's default). */
export function quantile(values: readonly number[], share: number): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!];
  return low + (high - low) * (place - Math.floor(place));
}

/** Standard error of the mean of values that are one a task: sample standard deviation / √tasks. null for fewer than two. */
export function meanError(values: readonly number[]): number | null {
  return ratioError(values.map((sum) => ({ sum, count: 1 })));
}

/** What a task adds to a ratio of sums. */
export interface Part {
  sum: number;
  count: number;
}

/** Σ sum / Σ count. */
export function ratio(parts: readonly Part[]): number | null {
  const count = parts.reduce((all, part) => all + part.count, 0);
  return count === 0 ? null : parts.reduce((all, { sum }) => all + sum, 0) / count;
}

/** Standard error of `ratio` over tasks, by linearisation; of equal counts it is that of the mean of the tasks' rates. */
export function ratioError(parts: readonly Part[]): number | null {
  const value = ratio(parts);
  const counted = parts.filter(({ count }) => count > 0);
  if (value === null || counted.length < 2) return null;
  const middle = counted.reduce((all, { count }) => all + count, 0) / counted.length;
  const squares = counted.reduce((all, { sum, count }) => all + ((sum - value * count) / middle) ** 2, 0);
  return Math.sqrt(squares / (counted.length - 1) / counted.length);
}

const RESAMPLES = 1000;

/** Standard error of the median of all values, by a seeded bootstrap over tasks. null for fewer than two tasks with any. */
export function medianError(byTask: readonly (readonly number[])[]): number | null {
  const tasks = byTask.filter(({ length }) => length > 0);
  if (tasks.length < 2) return null;
  const random = createRandom("median");
  const medians = Array.from({ length: RESAMPLES }, () => {
    const drawn = tasks.flatMap(() => random.pick(tasks));
    return quantile(drawn, 0.5)!;
  });
  const middle = mean(medians)!;
  return Math.sqrt(medians.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (RESAMPLES - 1));
}

/** Standard error of a share of `n` independent trials: for figures of which nothing else is known. */
export function binomialError(share: number, n: number): number {
  return Math.sqrt((share * (1 - share)) / n);
}
