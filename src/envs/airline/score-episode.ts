import type { FinishedEpisode, RewardComponent, Score } from "../../core/reward.ts";
import { paidBy } from "./ends.ts";
import { hackingPatterns } from "./evaluation/hacking.ts";
import type { AirlineFacts, AirlineMetrics } from "./facts.ts";
import type { AirlineOptions } from "./options.ts";
import { type ProcessScore, processScore, SCORE_BOUND } from "./prm/process-score.ts";
import { IMPLICIT_THINK } from "./prm/records.ts";
import { episodeReward, saturatedRewards } from "./prm/rewards.ts";
import { stepRules, trajectoryRules } from "./prm/rules.ts";
import { doNothing } from "./scoring.ts";
import type { AirlineState } from "./state.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { TRANSFER_TOOL } from "./users/script.ts";

export const airlineComponents: readonly RewardComponent[] = [
  { name: "outcome", range: [0, 1] },
  { name: "process", range: [-SCORE_BOUND, SCORE_BOUND], shaping: true },
];

/** Judges an episode: what its end paid, how it was played, and the reward that the options make of both. */
export function scoreEpisode(
  episode: FinishedEpisode<AirlineState>,
  task: AirlineTask,
  options: AirlineOptions,
): Score {
  const { turns, final_state: state } = episode;
  const { records } = state.log;
  const paid = paidBy(state.ends);
  const process = processScore(records, options.prm);
  const calls = records.filter(({ tool }) => tool !== IMPLICIT_THINK);
  const transferred = calls.some(({ tool }) => tool === TRANSFER_TOOL);
  const { reward } = episodeReward(options.reward.mode, paid.outcome, process.score, {
    ...{ user_turns: state.user_turns, tool_calls: calls.length, transferred, records: records.length },
    losing_records: state.ends.filter(({ by, outcome }) => by === "transfer" && outcome === 0).length,
  });
  const success = paid.outcome >= 1;
  const metrics: AirlineMetrics = {
    terminated_by: endOf(episode),
    num_turns: 2 * turns.length + (episode.ended_by === "terminated" ? 0 : 1),
    user_turns: state.user_turns,
    num_tool_calls: calls.length,
    tool_errors: calls.filter(({ is_error }) => is_error).length + state.refused_calls,
    ...{ malformed: state.log.malformed, repaired: state.log.repaired, extra_calls: state.log.extra_calls },
    transferred,
    writes: state.changes,
    needs_action: doNothing(task, state.data.db) === 0,
    strict: paid.strict >= 1,
    process_mean: process.mean,
    process_adjustments: process.adjustments,
  };
  return {
    reward,
    // Without the latch several ends may pay: the reward tells that, the part stays in its range.
    parts: { outcome: Math.min(1, paid.outcome), process: process.score },
    metrics: {
      ...{ solved: success, refused_calls: state.refused_calls, ...metrics },
      ...ruleMetrics(process),
      ...hackingPatterns({
        turns: turns.map(({ outcome }) => outcome.payload as AirlineFacts),
        ...{ outcome: Math.min(1, paid.outcome), process: process.score },
        gold_calls: task.actions.length,
        keyword_mode: options.prm.keyword_mode,
      }),
    },
    success,
  };
}

/** What each rule gave to the process score before it was clipped. */
export function ruleMetrics({ fired, perStep }: ProcessScore): Record<string, number> {
  return Object.fromEntries(
    [...stepRules, ...trajectoryRules].map(({ id }) => {
      const own = fired.filter((rule) => rule.id === id);
      return [
        `prm_${id}`,
        own.reduce((sum, { step, score }) => sum + (step === null ? score : score / perStep.length), 0),
      ];
    }),
  );
}

function endOf({
  turns,
  ended_by,
  ended_why,
  final_state,
}: FinishedEpisode<AirlineState>): AirlineMetrics["terminated_by"] {
  if (ended_by === "truncated") return ended_why === "tokens" || ended_why === "context" ? "max_tokens" : "max_turns";
  if (ended_by !== "terminated") return "error";
  const facts = turns.at(-1)?.outcome.payload as AirlineFacts | undefined;
  return facts?.terminated_by ?? final_state.ends.at(-1)?.by ?? "error";
}

/**
 * A group's rewards under `only_saturated`; null: each member keeps its own.
 * @param group one task's rollouts; null for one without a reward
 */
export function airlineGroupRewards(
  group: readonly (Score | null)[],
  { reward: { mode, only_saturated } }: AirlineOptions,
): (number | null)[] | null {
  if (mode !== "prm_lite" || !only_saturated) return null;
  return saturatedRewards(
    group.map((score) => score && { outcome: score.parts.outcome ?? 0, process: score.parts.process ?? 0 }),
  );
}
