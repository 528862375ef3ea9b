// Advantages a token: the reference of py/trainers/shaping.py, which trains, and of the loss it goes into. Both are
// tested against fixtures/advantages.json. Spec: airline.md 9.

export const SHAPERS = ["none", "turn_discount", "lata", "turn_scores"] as const;

/** How advantages are spread over the tokens of a rollout. */
export interface Shaping {
  /** none: one for all; turn_discount: A·w; lata: A·w/√L; turn_scores: A + the score of the token's turn. */
  advantage: (typeof SHAPERS)[number];
  /** Above 0; 1: no discount. */
  alpha: number;
  /** token: age is the position in the completion, environment tokens included; turn: the number of the reply. */
  alpha_unit: "token" | "turn";
  /** sqrt: divided by √L. null: sqrt for lata, none for the others. */
  length_norm: "none" | "sqrt" | null;
  /** L counts the policy's tokens, or its turns. */
  length_base: "tokens" | "turns";
}

/**
 * One advantage a rollout (B) → one a token (B × T), computed in float64 and rounded to float32. Zero outside the mask,
 * so a row without policy tokens is all zeros.
 * @param advantages Group-normalised, one a row.
 * @param envMask 1: a token of the policy that counts.
 * @param turnIndex Number of the reply, from 0, that a token belongs to.
 * @param turnScores Of `turn_scores` alone: a row's scores, one a reply, in the unit of advantages; null: it has none.
 * @throws RangeError where a row has more turns than scores.
 */
export function shapeAdvantages(
  advantages: readonly number[],
  envMask: readonly (readonly number[])[],
  turnIndex: readonly (readonly number[])[],
  shaping: Shaping,
  turnScores: readonly (readonly number[] | null)[] = [],
): number[][] {
  const { advantage, length_norm, length_base } = shaping;
  const divides = (length_norm ?? (advantage === "lata" ? "sqrt" : "none")) === "sqrt";
  return envMask.map((mask, row) => {
    const turn = turnIndex[row]!;
    const tokens = mask.filter((bit) => bit === 1).length;
    const turns = 1 + mask.reduce((last, bit, t) => (bit === 1 ? Math.max(last, turn[t]!) : last), -1);
    const scores = advantage === "turn_scores" ? (turnScores[row] ?? null) : null;
    if (scores && scores.length < turns)
      throw new RangeError(`row ${row} has ${turns} turns, but ${scores.length} turn scores; expected one a turn.`);
    const discounts = advantage === "turn_discount" || advantage === "lata";
    const weights = discounts ? discountWeights(mask, turn, shaping) : mask;
    const length = divides ? Math.sqrt(Math.max(1, length_base === "tokens" ? tokens : turns)) : 1;
    return mask.map((bit, t) => {
      if (bit !== 1) return 0;
      const score = scores ? scores[turn[t]!]! : 0;
      return Math.fround(((advantages[row]! + score) * weights[t]!) / length);
    });
  });
}

/** alpha^−age, scaled to a mean of 1 over the masked positions and 0 elsewhere; float64. */
export function discountWeights(
  mask: readonly number[],
  turnIndex: readonly number[],
  { alpha, alpha_unit }: Pick<Shaping, "alpha" | "alpha_unit">,
): number[] {
  const exponents = mask.map((_, t) => -(alpha_unit === "token" ? t : turnIndex[t]!) * Math.log(alpha));
  const highest = mask.reduce((most, bit, t) => (bit === 1 ? Math.max(most, exponents[t]!) : most), -Infinity);
  const weights = mask.map((bit, t) => (bit === 1 ? Math.exp(exponents[t]! - highest) : 0));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const tokens = mask.filter((bit) => bit === 1).length;
  return weights.map((weight) => (weight * Math.max(1, tokens)) / Math.max(1e-6, sum));
}

/**
 * (r − mean) / (sample standard deviation + epsilon); a group of one: r. Spec airline.md 9.1 has epsilon 1e-6, TRL 1e-4.
 */
export function sampleAdvantages(rewards: readonly number[], epsilon = 1e-6): number[] {
  if (rewards.length < 2) return rewards.map((reward) => reward / (1 + epsilon));
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const variance = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / (rewards.length - 1);
  return rewards.map((reward) => (reward - mean) / (Math.sqrt(variance) + epsilon));
}

/** Clipped surrogate of one token, dual clip included (airline.md 9.2); TRL's, with its `delta` as `dual_clip`. */
export function tokenLoss(advantage: number, ratio: number, { epsilon = 0.2, dual_clip = 3 } = {}): number {
  const clipped = Math.min(Math.max(ratio, 1 - epsilon), 1 + epsilon);
  const loss = Math.max(-advantage * ratio, -advantage * clipped);
  return advantage < 0 ? Math.min(-dual_clip * advantage, loss) : loss;
}

/** KL to the reference of one token: k3 as airline.md 9.2 clamps it (TRL does not), or the squared one of search.md 7. */
export function tokenKl(estimator: "k3" | "squared", logp: number, ref: number): number {
  if (estimator === "squared") return (ref - logp) ** 2;
  const d = Math.min(Math.max(ref - logp, -20), 20);
  return Math.min(Math.max(Math.exp(d) - d - 1, -10), 10);
}

export type Aggregation = "token-mean" | "seq-mean-token-sum" | "seq-mean-token-mean" | "seq-mean-token-sum-norm";

/**
 * A matrix of token losses as one number (airline.md 9.2); 0 where no token counts. Rows may differ in length; the
 * longest is their width.
 */
export function aggregateLoss(
  losses: readonly (readonly number[])[],
  mask: readonly (readonly number[])[],
  mode: Aggregation,
): number {
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const sums = losses.map((row, i) => sum(row.map((loss, t) => loss * mask[i]![t]!)));
  const lengths = mask.map(sum);
  if (sum(lengths) === 0) return 0;
  if (mode === "token-mean") return sum(sums) / sum(lengths);
  if (mode === "seq-mean-token-sum") return sum(sums) / lengths.filter((length) => length > 0).length;
  if (mode === "seq-mean-token-mean") return sum(sums.map((total, i) => total / (lengths[i]! + 1e-8))) / sums.length;
  return sum(sums) / Math.max(...mask.map((row) => row.length));
}
