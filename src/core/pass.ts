// How reliable a policy is, from the counts of a task's trials.

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
