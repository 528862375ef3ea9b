// How often a policy solves each task, as it was measured: what decides which tasks are worth training on, and when.

/** Strict success rates from 0.2 to 0.8, both included, where a group's rewards are likely to differ. */
export const BANDS = ["floor", "middle", "ceiling"] as const;
export type Band = (typeof BANDS)[number];

/** @param strict_rate From 0 to 1. */
export function band(strict_rate: number): Band {
  if (strict_rate < 0.2) return "floor";
  return strict_rate > 0.8 ? "ceiling" : "middle";
}

/** Rates of two parts of a split as one; a fact that differs counts as changed. */
export function joinRates(one: MeasuredRates | null, other: MeasuredRates | null): MeasuredRates | null {
  if (!one || !other) return one ?? other;
  const differs = (["env", "model_sha256"] as const).filter((key) => one[key] !== other[key]);
  return {
    strict: { ...one.strict, ...other.strict },
    selected: one.selected || other.selected,
    env: one.env,
    model_sha256: one.model_sha256,
    stale: [...new Set([...one.stale, ...other.stale, ...differs.map((key) => `files that differ in ${key}`)])],
  };
}

/** Rates of the tasks of a split. They hold for one policy in one world: another one is measured again. */
export interface MeasuredRates {
  /** Strict success rate by task id, from 0 to 1. Not every task need have one. */
  strict: Readonly<Record<string, number>>;
  /** true: they decided which tasks are in the split. */
  selected: boolean;
  /** Version of the environment they were measured in, as "arxiv@1"; null: not recorded. */
  env: string | null;
  /** Hash of the weights of the model they were measured with (`modelHash`); null: not recorded, or no local model. */
  model_sha256: string | null;
  /** What has changed in the data or the options since, a phrase each. */
  stale: readonly string[];
}
