import { z } from "zod";
import type { FinishedEpisode, RewardComponent, Score } from "../../core/reward.ts";
import type { SearchOptions } from "./options.ts";
import type { JudgedDocument, RoundFacts, SearchState, SearchTask } from "./types.ts";

// What a round earns. Source: spec section 5.

export const OUTCOMES = [
  "important_new",
  "important_seen",
  "local_new",
  "local_seen",
  "discard_new",
  "discard_seen",
] as const;
export type DocumentOutcome = (typeof OUTCOMES)[number];

/** Sums of these stay finite. */
const amount = z.number().min(-1e6).max(1e6);

/** What a document earns by its label and whether it had been seen before the round. */
export const rewardTable = z.strictObject({
  important_new: amount.default(2.5),
  important_seen: amount.default(0.3),
  local_new: amount.default(0.3),
  local_seen: amount.default(0.1),
  discard_new: amount.default(0),
  discard_seen: amount.default(-0.1),
  no_clues: amount.default(0).describe("A reply without a clue."),
});
export type RewardTable = z.output<typeof rewardTable>;

export function outcomeOf({ label, seen }: Pick<JudgedDocument, "label" | "seen">): DocumentOutcome {
  return `${label.toLowerCase() as Lowercase<typeof label>}_${seen ? "seen" : "new"}`;
}

/** The sum of the table over a round's documents; `no_clues` where there was no clue. */
export function roundReward(round: Pick<RoundFacts, "clues" | "documents">, table: RewardTable): number {
  if (round.clues.length === 0) return table.no_clues;
  // Each kind at once: the order of documents must not move the last digit.
  const counts = countOutcomes(round.documents);
  return OUTCOMES.reduce((sum, outcome) => sum + counts[outcome] * table[outcome], 0);
}

function countOutcomes(documents: readonly Pick<JudgedDocument, "label" | "seen">[]): Record<DocumentOutcome, number> {
  const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, 0])) as Record<DocumentOutcome, number>;
  for (const document of documents) counts[outcomeOf(document)]++;
  return counts;
}

/**
 * Group-relative advantages: (r − mean) / (population std + 1e-8); all 0 where the rewards spread less than 1e-12.
 * The published system's own constants; trainers normalise by themselves.
 */
export function groupAdvantages(rewards: readonly number[]): number[] {
  if (rewards.length === 0 || Math.max(...rewards) - Math.min(...rewards) < 1e-12) return rewards.map(() => 0);
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  const std = Math.sqrt(rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / rewards.length);
  return rewards.map((reward) => (reward - mean) / (std + 1e-8));
}

/** Above all that options allow: 20 rounds of 20 clues with 50 documents each. */
const MOST = 20_000;

export const searchComponents: readonly RewardComponent[] = [
  { name: "discovery", range: [0, 1] },
  ...[...OUTCOMES, "clues", "documents", "important_found"].map((name) => ({
    name,
    range: [0, MOST] as const,
    shaping: true as const,
  })),
];

/** `success`: something IMPORTANT that is new was found; where nobody knows of any, clues that could be read. */
export function scoreEpisode(
  { turns }: Pick<FinishedEpisode<SearchState>, "turns">,
  task: SearchTask,
  options: Pick<SearchOptions, "reward" | "max_clues">,
): Score {
  const rounds = turns.map(({ outcome }) => outcome.payload as RoundFacts);
  const documents = rounds.flatMap((round) => round.documents);
  const counts = countOutcomes(documents);
  const reward = rounds.reduce((sum, round) => sum + roundReward(round, options.reward), 0);
  const discovered = counts.important_new > 0;
  const read = rounds.some(({ clues }) => clues.length > 0);
  const success = task.solvable ? discovered : read;
  const played = Math.max(1, rounds.length);
  const failures = rounds.filter(({ clues }) => clues.length === 0).length;
  return {
    reward,
    parts: {
      discovery: task.solvable ? Number(discovered) : null,
      ...counts,
      clues: rounds.reduce((sum, { clues }) => sum + clues.length, 0),
      documents: documents.length,
      important_found: counts.important_new + counts.important_seen,
    },
    metrics: {
      solved: success,
      discovered,
      rounds: rounds.length,
      discovery_share: rounds.filter((round) => countOutcomes(round.documents).important_new > 0).length / played,
      parse_failure_share: failures / played,
      important_known: task.important_docids.length,
      important_recall: recall(documents, task.important_docids),
    },
    success,
  };
}

/** Share of the judged IMPORTANT documents that were found; null: none are judged. */
function recall(documents: readonly JudgedDocument[], important: readonly string[]): number | null {
  if (important.length === 0) return null;
  const found = new Set(documents.map(({ docid }) => docid));
  return important.filter((docid) => found.has(docid)).length / important.length;
}
