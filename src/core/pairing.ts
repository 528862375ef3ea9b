// Which two trajectories of a task become a pair, and why others do not. Pure: no files, no environment.
import { canonicalJson } from "./canonical-json.ts";
import type { Message } from "./message.ts";
import type { PairEnd, PairRow, PairSettings, PairTurn } from "./pair.ts";
import { createRandom } from "./random.ts";

/** A trajectory that was judged. */
export interface PairSource {
  /** File and line, for people. */
  place: string;
  task_id: string;
  policy: string | null;
  prompt: Message[];
  turns: PairTurn[];
  reward: number;
}

/** Why two trajectories make no pair. */
export const NO_PAIR = [
  "same_actions",
  "different_observations",
  "unknown_reply",
  "empty_reply",
  "unreadable_chosen",
  "repeated_pair",
] as const;
export type NoPair = (typeof NO_PAIR)[number];

/** Why a task has no pair at all. */
export type NoPairOfTask = "one_trajectory" | "equal_rewards" | "small_gap" | "different_prompts" | NoPair;

/** Rewards that differ by less are equal: float noise is no preference. */
const NOISE = 1e-9;

export interface TaskPairs {
  task_id: string;
  trajectories: number;
  /** Exact repetitions of another trajectory; they count in the figures above and below, but pair with nothing new. */
  repeated: number;
  reward: { min: number; mean: number; max: number };
  /** Largest difference of two rewards. */
  spread: number;
  rows: PairRow[];
  /** null: it has one. */
  why: NoPairOfTask | null;
}

/**
 * The pairs of one task: the trajectories of the highest and of the lowest reward first, then the next smaller gap, until
 * there are `max_pairs`. Neither the order of the trajectories nor other tasks change what is taken.
 * @param sources At least one, all of the same task.
 * @param end What counts as done where a trajectory is over.
 */
export function pairsOfTask(sources: readonly PairSource[], settings: PairSettings, end: PairEnd): TaskPairs {
  const { task_id } = sources[0]!;
  const rewards = sources.map(({ reward }) => reward);
  const [min, max] = [Math.min(...rewards), Math.max(...rewards)];
  const distinct = distinctOf(sources);
  const over: PairTurn = { ...end, observations: [], unreadable: false };
  const all = candidates(createRandom(`${settings.seed}/${task_id}`).shuffle(distinct), settings.min_reward_gap);

  const rows: PairRow[] = [];
  const seen = new Set<string>();
  let first: NoPair | null = null;
  for (const [chosen, rejected] of all) {
    if (rows.length === settings.max_pairs) break;
    const made = pairOf(chosen, rejected, settings.span, over);
    const key = typeof made === "string" ? "" : canonicalJson([made.prompt, made.shared, made.chosen, made.rejected]);
    const why = typeof made === "string" ? made : seen.has(key) ? "repeated_pair" : null;
    first ??= why;
    if (why !== null || typeof made === "string") continue;
    seen.add(key);
    rows.push({ id: `${task_id}#${rows.length}`, ...made });
  }

  function reason(): NoPairOfTask | null {
    if (rows.length > 0) return null;
    if (sources.length === 1) return "one_trajectory";
    if (max - min <= NOISE) return "equal_rewards";
    if (max - min <= settings.min_reward_gap + NOISE) return "small_gap";
    return first ?? "different_prompts";
  }
  return {
    task_id,
    trajectories: sources.length,
    repeated: sources.length - distinct.length,
    reward: { min, mean: rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length, max },
    spread: max - min,
    rows,
    why: reason(),
  };
}

/** Every trajectory once, in an order of its own, whatever the order of the files. */
function distinctOf(sources: readonly PairSource[]): PairSource[] {
  const byContent = new Map<string, PairSource>();
  for (const source of sources) {
    const key = canonicalJson([source.prompt, source.turns, source.reward]);
    if (!byContent.has(key)) byContent.set(key, source);
  }
  return [...byContent].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, source]) => source);
}

/** Two trajectories under one prompt whose rewards are far enough apart, the largest gap first. */
function candidates(sources: readonly PairSource[], min_reward_gap: number): [PairSource, PairSource][] {
  const prompts = new Map(sources.map((source) => [source, canonicalJson(source.prompt)]));
  const found = sources.flatMap((chosen) =>
    sources
      .filter((rejected) => chosen.reward - rejected.reward > min_reward_gap + NOISE)
      .filter((rejected) => prompts.get(chosen) === prompts.get(rejected))
      .map((rejected): [PairSource, PairSource] => [chosen, rejected]),
  );
  return found.sort(([a, b], [c, d]) => c.reward - d.reward - (a.reward - b.reward));
}

function pairOf(
  chosen: PairSource,
  rejected: PairSource,
  span: PairSettings["span"],
  over: PairTurn,
): Omit<PairRow, "id"> | NoPair {
  const step = firstDifference(chosen.turns, rejected.turns, over);
  if (typeof step === "string") return step;
  if (!chosen.turns[step]) return "unknown_reply"; // nobody said it: it can be an example of what not to do, not of what to do
  if (chosen.turns[step].unreadable) return "unreadable_chosen";
  const sides = [chosen, rejected].map(({ turns }) => {
    const own = turns.length > step ? turns.slice(step) : [over];
    return span === "step" ? own.slice(0, 1) : own;
  }) as [PairTurn[], PairTurn[]];
  const shared = chosen.turns.slice(0, step);
  const replies = [...shared, ...sides.flat()].map(({ reply }) => reply);
  if (replies.includes(null)) return "unknown_reply";
  if (sides.flat().some(({ reply }) => reply!.trim() === "")) return "empty_reply";
  const [own, others] = sides.map((turns) =>
    turns.map(({ reply, observations }, index) => ({
      reply: reply!,
      observations: index === turns.length - 1 ? [] : observations,
    })),
  ) as [PairRow["chosen"], PairRow["rejected"]];
  const from = ({ place, policy, turns }: PairSource) => ({ place, policy, turns: turns.length });
  return {
    task_id: chosen.task_id,
    prompt: chosen.prompt,
    shared: shared.map(({ reply, observations }) => ({ reply: reply!, observations })),
    chosen: own,
    rejected: others,
    chosen_reward: chosen.reward,
    rejected_reward: rejected.reward,
    meta: {
      reward_gap: chosen.reward - rejected.reward,
      step,
      chosen: { ...from(chosen), action: chosen.turns[step].action },
      // `made_up`: it was over before; the reply that ends an episode stands for that
      rejected: {
        ...from(rejected),
        action: (rejected.turns[step] ?? over).action,
        made_up: rejected.turns.length <= step,
      },
    },
  };
}

/** The first turn, counted from 0, in which the two did something else; up to there they must have seen the same. */
function firstDifference(a: readonly PairTurn[], b: readonly PairTurn[], over: PairTurn): number | NoPair {
  for (let step = 0; step < Math.max(a.length, b.length); step++) {
    const [one, other] = [a[step] ?? over, b[step] ?? over];
    if (one.action !== other.action) return step;
    if (canonicalJson(one.observations) !== canonicalJson(other.observations)) return "different_observations";
  }
  return "same_actions";
}
