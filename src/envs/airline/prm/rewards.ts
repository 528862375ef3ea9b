// What an episode's reward is made of: its outcome, and a little of how it was played (airline.md 8.6).

export const rewardModes = ["binary", "prm_lite", "partial_credit"] as const;
/** `binary`: the outcome alone. `partial_credit`: a failure earns up to 0.3 for how far it came. */
export type RewardMode = (typeof rewardModes)[number];

/** The share of the process score in a reward: it moves one by 0.15 at most. */
export const PROCESS_WEIGHT = 0.3;
/** What a failure earns at most under `partial_credit`. */
const PARTIAL_LIMIT = 0.3;
const TRANSFER_COST = 0.3;
/** User turns and tool calls beyond these earn nothing more. */
const FULL_USER_TURNS = 8;
const FULL_TOOL_CALLS = 5;

/** What `partial_credit` reads of an episode. */
export interface EpisodeFacts {
  /** Messages of the user that the agent saw. */
  user_turns: number;
  tool_calls: number;
  transferred: boolean;
  /** Records of actions, and how many of them ended the episode with a reward of 0 or less. */
  records: number;
  losing_records: number;
}

/** A reward with what it is made of. Only `reward` goes to the trainer. */
export interface EpisodeReward {
  reward: number;
  /** 0 or 1. */
  outcome: number;
  /** The process score, [-0.5, 0.5], whatever the mode does with it. */
  process: number;
}

/** One episode's reward. `facts` are read by `partial_credit` alone. */
export function episodeReward(mode: RewardMode, outcome: number, process: number, facts: EpisodeFacts): EpisodeReward {
  const rewards: Record<RewardMode, () => number> = {
    binary: () => outcome,
    prm_lite: () => outcome + PROCESS_WEIGHT * process,
    partial_credit: () => (outcome >= 1 ? 1 : partialCredit(facts)),
  };
  return { reward: rewards[mode](), outcome, process };
}

/** What a failure earns, [0, 0.3]: for turns with the user, for calls, for not having ended the episode itself. */
export function partialCredit({ user_turns, tool_calls, transferred, records, losing_records }: EpisodeFacts): number {
  const survived = records === 0 ? 0 : 1 - losing_records / records;
  const progress =
    0.3 * Math.min(user_turns / FULL_USER_TURNS, 1) + 0.3 * Math.min(tool_calls / FULL_TOOL_CALLS, 1) + 0.4 * survived;
  const credit = PARTIAL_LIMIT * progress - (transferred ? TRANSFER_COST : 0);
  return Math.min(PARTIAL_LIMIT, Math.max(0, credit));
}

/**
 * `only_saturated`: in a group whose outcomes differ they alone are the rewards; in a group without a difference the
 * process scores make one. An idea that the reference names and never finished.
 * @param group one task's rollouts; null for one that carries no reward, which stays so and counts for nothing
 */
export function saturatedRewards(group: readonly (Omit<EpisodeReward, "reward"> | null)[]): (number | null)[] {
  const outcomes = group.flatMap((member) => (member ? [member.outcome] : []));
  const differs = outcomes.some((outcome) => outcome !== outcomes[0]);
  return group.map((member) => member && member.outcome + (differs ? 0 : PROCESS_WEIGHT * member.process));
}
