import type { EndedBy, Turn } from "./trajectory.ts";

/** A reward component as configs and logs know it. */
export interface RewardComponent {
  name: string;
  /** Lowest and highest value it can take. */
  range: readonly [number, number];
  /** It judges how a task was done, not whether: a solution need not earn its top. Left out: gold earns the top. */
  shaping?: true;
}

/** What a scorer judges: one finished episode. */
export interface FinishedEpisode<State> {
  turns: readonly Turn[];
  final_state: State;
  ended_by: EndedBy;
  /** Why, for `truncated`: "turns", "tokens". Left out: not known. */
  ended_why?: string | null;
  /** Optimizer steps taken when it was played, for reward curricula; null outside training. */
  training_step: number | null;
}

/** A judgement. The log keeps every part beside the total, so that any reward can be explained later. */
export interface Score {
  reward: number;
  parts: Record<string, number | null>;
  metrics: Record<string, number | boolean | string | null>;
  success: boolean;
  /** What single replies earned, one each, in the unit of advantages: for `advantage: turn_scores`. */
  turn_scores?: number[];
}

/**
 * Group-relative advantages: (r − mean) / (population std + 1e-6); all 0 when the std is ≤ 1e-6 (float noise is no signal).
 * `null` rewards (invalid rollouts) get 0 and stay out of mean and std. Trainers normalise themselves: for reports and tests.
 * Source: GRPO, arXiv:2402.03300, section 4.1.2.
 */
export function groupAdvantages(rewards: readonly (number | null)[]): number[] {
  const valid = rewards.filter((reward) => reward !== null);
  if (valid.length === 0) return rewards.map(() => 0);
  const mean = valid.reduce((sum, reward) => sum + reward, 0) / valid.length;
  const std = Math.sqrt(valid.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / valid.length);
  if (std <= 1e-6) return rewards.map(() => 0);
  return rewards.map((reward) => (reward === null ? 0 : (reward - mean) / (std + 1e-6)));
}
