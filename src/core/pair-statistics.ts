// How much of what was sampled can teach a preference at all: a task whose trajectories all earn the same cannot.
import type { TaskPairs } from "./pairing.ts";

/** Below this share of tasks with a pair, a few tasks decide what is learnt (arxiv.md 10.3). */
export const FEW_PAIRED = 0.25;

export interface PairStatistics {
  /** Tasks of the split; with a judged trajectory; with two or more; with different rewards; with a pair. */
  tasks: { split: number; played: number; repeated: number; with_spread: number; paired: number };
  /** Of the tasks that were played, 0 to 1. */
  shares: { with_spread: number; paired: number };
  trajectories: number;
  pairs: number;
  /** Gaps of the pairs' rewards; null: there are none. */
  reward_gap: { min: number; median: number; mean: number; max: number } | null;
  histograms: {
    /** Pairs by reward gap, in steps of a quarter. */
    reward_gap: Record<string, number>;
    /** Pairs by the turn at which they differ, from 0. */
    step: Record<string, number>;
    category: Record<string, number>;
    /** Tasks without a pair, by the reason. */
    unpaired: Record<string, number>;
  };
}

/** @param tasks Those with at least one judged trajectory. */
export function pairStatistics(
  tasks: readonly TaskPairs[],
  split: number,
  category: (task_id: string) => string,
): PairStatistics {
  const rows = tasks.flatMap((task) => task.rows);
  const gaps = rows.map(({ chosen_reward, rejected_reward }) => chosen_reward - rejected_reward).sort((a, b) => a - b);
  const with_spread = tasks.filter(({ spread }) => spread > 1e-9).length;
  const paired = tasks.filter((task) => task.rows.length > 0).length;
  const share = (count: number) => (tasks.length === 0 ? 0 : count / tasks.length);
  return {
    tasks: {
      split,
      played: tasks.length,
      repeated: tasks.filter(({ trajectories }) => trajectories > 1).length,
      with_spread,
      paired,
    },
    shares: { with_spread: share(with_spread), paired: share(paired) },
    trajectories: tasks.reduce((sum, { trajectories }) => sum + trajectories, 0),
    pairs: rows.length,
    reward_gap:
      gaps.length === 0
        ? null
        : {
            min: gaps[0]!,
            median: (gaps[(gaps.length - 1) >> 1]! + gaps[gaps.length >> 1]!) / 2,
            mean: gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length,
            max: gaps.at(-1)!,
          },
    histograms: {
      reward_gap: countBy(gaps, bin),
      step: countBy(rows, ({ meta }) => String(meta.step)),
      category: countBy(rows, ({ task_id }) => category(task_id)),
      unpaired: countBy(
        tasks.flatMap(({ why }) => why ?? []),
        (why) => why,
      ),
    },
  };
}

const BIN = 0.25;

/** 0.3 → "0.25-0.50": from the first to below the second. */
function bin(gap: number): string {
  const low = Math.floor(gap / BIN + 1e-9) * BIN;
  return `${low.toFixed(2)}-${(low + BIN).toFixed(2)}`;
}

/** Counts in the order of their names; numbers by size. */
export function countBy<Item>(items: readonly Item[], key: (item: Item) => string): Record<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(key(item), (counts.get(key(item)) ?? 0) + 1);
  return Object.fromEntries([...counts].sort(([a], [b]) => Number(a) - Number(b) || (a < b ? -1 : 1)));
}
