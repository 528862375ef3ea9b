import { createRandom } from "../src/core/random.ts";

/**
 * pass^k: the chance that k trials drawn from n without replacement all succeed, C(c,k) / C(n,k), where c succeeded.
 * null where k > n: nothing was measured. (τ-bench, arXiv:2406.12045.)
 */
export function passHat(n: number, c: number, k: number): number | null {
  return k > n ? null : ratio(c, n, k);
}

/** pass@k: the chance that at least one of k trials succeeds, 1 − C(n−c,k) / C(n,k). null where k > n. (arXiv:2107.03374.) */
export function passAt(n: number, c: number, k: number): number | null {
  return k > n ? null : 1 - ratio(n - c, n, k);
}

/** C(top,k) / C(n,k), as a product: no factorial overflows. */
function ratio(top: number, n: number, k: number): number {
  let product = 1;
  for (let i = 0; i < k; i++) product *= Math.max(0, top - i) / (n - i);
  return product;
}

/** The mean of what is there; null where nothing is. */
export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

const RESAMPLES = 10_000;

/**
 * 95 % interval of the mean, by the bootstrap over `values` (percentile method, 10,000 resamples). The values are one a
 * task: tasks are what was sampled, trials of a task are not independent. null for fewer than two.
 */
export function bootstrap95(values: readonly number[], seed = 0): [low: number, high: number] | null {
  if (values.length < 2) return null;
  const random = createRandom(`bootstrap/${seed}`);
  const means = new Float64Array(RESAMPLES);
  for (let i = 0; i < RESAMPLES; i++) {
    let sum = 0;
    for (let j = 0; j < values.length; j++) sum += values[random.int(values.length)]!;
    means[i] = sum / values.length;
  }
  means.sort();
  return [quantile(means, 0.025), quantile(means, 0.975)];
}

/** Linear between neighbours (type 7, numpy's default). `sorted` rises. */
function quantile(sorted: Float64Array, share: number): number {
  const place = share * (sorted.length - 1);
  const low = sorted[Math.floor(place)]!;
  return low + (sorted[Math.ceil(place)]! - low) * (place - Math.floor(place));
}
