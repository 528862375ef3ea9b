import { createRandom } from "../src/core/random.ts";

export { passAt, passHat } from "../src/core/pass.ts";

/** The mean of what is there; null where nothing is. */
export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** A task's share in a ratio of sums: what its episodes add to the numerator, and to the denominator. */
export interface Ratio {
  sum: number;
  count: number;
}

export type Interval = [low: number, high: number];

/**
 * 95 % interval of the mean, by the bootstrap over `values` (percentile method). The values are one a task: tasks are
 * what was sampled, trials of a task are not independent. null for fewer than two.
 */
export function bootstrap95(values: readonly number[], seed = 0): Interval | null {
  return bootstrapRatio95(
    values.map((sum) => ({ sum, count: 1 })),
    seed,
  );
}

/**
 * 95 % interval of Σ sum / Σ count, by the bootstrap over tasks. A resample without a denominator is left out where its
 * numerator is 0, else it counts as infinite. null for fewer than two tasks that add anything, and without a denominator.
 */
export function bootstrapRatio95(parts: readonly Ratio[], seed = 0): Interval | null {
  if (parts.filter(({ sum, count }) => count > 0 || sum > 0).length < 2) return null;
  if (parts.every(({ count }) => count === 0)) return null;
  const sums = Float64Array.from(parts, ({ sum }) => sum);
  const counts = Float64Array.from(parts, ({ count }) => count);
  return interval(parts.length, seed, (draws, from, to) => {
    let sum = 0;
    let count = 0;
    for (let i = from; i < to; i++) {
      sum += sums[draws[i]!]!;
      count += counts[draws[i]!]!;
    }
    return sum / count;
  });
}

/**
 * 95 % interval of the median of whole numbers from 0, by the bootstrap over tasks; `values` has those of each task. null
 * for fewer than two tasks that have any.
 */
export function bootstrapMedian95(values: readonly (readonly number[])[], seed = 0): Interval | null {
  if (values.filter(({ length }) => length > 0).length < 2) return null;
  const counts = new Uint32Array(1 + values.flat().reduce((most, value) => Math.max(most, value), 0));
  return interval(values.length, seed, (draws, from, to) => {
    counts.fill(0);
    let total = 0;
    for (let i = from; i < to; i++) {
      const own = values[draws[i]!]!;
      for (const value of own) counts[value]!++;
      total += own.length;
    }
    return total === 0 ? Number.NaN : (at(counts, Math.ceil(total / 2)) + at(counts, Math.floor(total / 2) + 1)) / 2;
  });
}

/** The `rank`-th smallest value, from 1, of those that `counts` counts. */
function at(counts: Uint32Array, rank: number): number {
  let value = 0;
  for (let seen = counts[0]!; seen < rank; seen += counts[value]!) value++;
  return value;
}

/** Half of the values are below; between the two in the middle for an even number. null where there are none. */
export function median(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[Math.ceil(sorted.length / 2) - 1]! + sorted[Math.floor(sorted.length / 2)]!) / 2;
}

/** `statistic` gets the tasks of one resample: draws[from], …, draws[to - 1]. NaN: it has none, and is left out. */
function interval(
  tasks: number,
  seed: number,
  statistic: (draws: Uint32Array, from: number, to: number) => number,
): Interval | null {
  const draws = resamples(tasks, seed);
  const values = new Float64Array(draws.length / tasks);
  let found = 0;
  for (let from = 0; from < draws.length; from += tasks) {
    const value = statistic(draws, from, from + tasks);
    if (!Number.isNaN(value)) values[found++] = value;
  }
  if (found === 0) return null;
  const sorted = values.subarray(0, found).sort();
  return [quantile(sorted, 0.025), quantile(sorted, 0.975)];
}

const RESAMPLES = 10_000;
/** Of very many tasks: their interval is narrow, and a tenth of the resamples tells it as well. */
const FEWER_RESAMPLES = 1_000;
const MANY_TASKS = 1_000;

let kept: { key: string; draws: Uint32Array } | null = null;

/** All resamples of so many tasks, one after the other. The last ones are kept: a report asks for them many times. */
function resamples(tasks: number, seed: number): Uint32Array {
  const key = `${tasks}/${seed}`;
  if (kept?.key === key) return kept.draws;
  const random = createRandom(`bootstrap/${seed}`);
  const draws = new Uint32Array(tasks * (tasks > MANY_TASKS ? FEWER_RESAMPLES : RESAMPLES));
  for (let i = 0; i < draws.length; i++) draws[i] = random.int(tasks);
  kept = { key, draws };
  return draws;
}

/** Linear between neighbours (type 7, numpy's default). `sorted` rises. */
function quantile(sorted: Float64Array, share: number): number {
  const place = share * (sorted.length - 1);
  const low = sorted[Math.floor(place)]!;
  const high = sorted[Math.ceil(place)]!;
  return low === high ? low : low + (high - low) * (place - Math.floor(place)); // infinity minus itself is no number
}
