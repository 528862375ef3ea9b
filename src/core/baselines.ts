// The discrimination gate: what a reward pays to policies that don't try, beside what it pays to `gold`. Here their
// rewards are collected; what they are worth, eval/gate.ts says.
import { isDeepStrictEqual } from "node:util";
import type { EnvSpec } from "./env.ts";
import { checkReplies, checkScore } from "./env-checks.ts";
import { startEpisode } from "./episode.ts";
import { errorText } from "./errors.ts";
import { createRandom } from "./random.ts";
import type { Score } from "./reward.ts";
import type { LoadedTasks, TaskBase } from "./task.ts";

/** The policy that all others are held against. */
export const REFERENCE_POLICY = "gold";

/** The least by which the mean reward of `gold` must exceed that of every other policy. */
export interface GateBounds {
  /** Over all tasks. */
  aggregate: number;
  /** In each category of its own: a leak in one is too small to show in the mean of all. */
  category: number;
}

/** How a family is put to the gate. All of it may be left out. */
export interface BaselineSpec<Task extends TaskBase, Options> {
  /** Whose tasks are played; left out: the family's first split. */
  split?: string;
  /** Policies that draw: they are played several times. */
  random?: readonly string[];
  /** Left out: 0.3 each. */
  bounds?: GateBounds;
  /** Plays one task and judges it. Left out: the policy's replies are played in the environment. */
  play?(policy: string, task: Task, settings: BaselineSettings<Options>): BaselinePlay | Promise<BaselinePlay>;
}

export interface BaselineSettings<Options> {
  /** What a policy that draws, draws by. */
  sample_seed: number;
  /** What the scorer takes for the optimizer steps taken. */
  training_step: number;
  options: Options;
}

export interface BaselinePlay {
  score: Score;
  /** It ended by the task's own rules. */
  finished: boolean;
  /**
   * It did what `gold` does, and so deserves what `gold` gets. To be told from what was done, not from the score: a
   * scorer that leaks must not excuse itself.
   */
  exact_reference: boolean;
  /** More of the family's, whose means stand in the table: yes counts as 1. null: the task has none. */
  figures: Record<string, number | boolean | null>;
}

/** One policy's play of one task. */
export interface BaselineRow extends Omit<BaselinePlay, "score"> {
  policy: string;
  task_id: string;
  category: string;
  /** null: the policy draws nothing. */
  sample_seed: number | null;
  reward: number;
  parts: Record<string, number | null>;
}

export interface BaselineRequest {
  /** `gold` is played besides. */
  policies: readonly string[];
  split: string;
  /** The first sample's seed; the next ones count up from it. */
  seed: number;
  /** Plays of each task by a policy that draws; at least 1. */
  samples: number;
  training_step: number;
  options: unknown;
}

/** A family's gate with its types sealed in. */
export interface Baselines {
  split: string;
  bounds: GateBounds;
  /** All policies but `gold`. */
  policies: readonly string[];
  /** Those that draw. */
  random: readonly string[];
  /** @throws UserError for a policy or an option that the family does not have */
  play(request: BaselineRequest): Promise<{ rows: BaselineRow[]; sources: Record<string, string> }>;
}

/**
 * Plays `gold` and the policies on every task, one after the other.
 * @throws Error naming policy and task where one could not be played or its score does not fit
 */
export async function playBaselines<Task extends TaskBase, State, Options>(
  spec: EnvSpec<Task, State, Options>,
  { tasks }: LoadedTasks<Task>,
  options: Options,
  { policies, seed, samples, training_step }: Omit<BaselineRequest, "options" | "split">,
): Promise<BaselineRow[]> {
  const { play = playInEnv(spec), random = [] } = spec.baselines ?? {};
  const family = spec.id.split("@")[0]!;
  const rows: BaselineRow[] = [];
  for (const policy of new Set([REFERENCE_POLICY, ...policies])) {
    const draws = random.includes(policy);
    for (const task of tasks) {
      for (let sample = 0; sample < (draws ? samples : 1); sample++) {
        const sample_seed = seed + sample;
        const { score, ...rest } = await play(policy, task, { sample_seed, training_step, options });
        try {
          checkScore(score, spec.components);
        } catch (error) {
          throw new Error(`${spec.id}: ${policy} on task '${task.id}': score: ${errorText(error)}`);
        }
        rows.push({
          policy,
          task_id: task.id,
          category: spec.category?.(task) ?? family,
          sample_seed: draws ? sample_seed : null,
          reward: score.reward,
          parts: score.parts,
          ...rest,
        });
      }
    }
  }
  return rows;
}

/** Plays the replies of the family's own policy in the environment. */
export function playInEnv<Task extends TaskBase, State, Options>(spec: EnvSpec<Task, State, Options>) {
  return async (
    policy: string,
    task: Task,
    { sample_seed, training_step, options }: BaselineSettings<Options>,
  ): Promise<BaselinePlay> => {
    const repliesOf = (name: string) => {
      const random = createRandom(`${sample_seed}/${task.id}`).fork("policy");
      return checkReplies(name, task.id, spec.policies[name]!(task, random, options));
    };
    const replies = repliesOf(policy);
    const episode = await startEpisode(spec, task, options, { seed: sample_seed, policy, policy_step: training_step });
    for (const reply of replies) {
      if (episode.ended_by) break;
      await episode.reply(reply);
    }
    if (!episode.ended_by) episode.end("truncated", "the policy has no more replies");
    const { reward, parts, metrics, success, ended_by, ended_why } = await episode.finish();
    if (reward === null) throw new Error(`${spec.id}: ${policy} on task '${task.id}': ${ended_by} (${ended_why})`);
    return {
      score: { reward, parts, metrics, success },
      finished: ended_by === "terminated",
      exact_reference: isDeepStrictEqual(replies, repliesOf(REFERENCE_POLICY)),
      figures: { success },
    };
  };
}
