import { z } from "zod";
import { UserError } from "../../core/errors.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { canonicalJson, sha256 } from "./snapshot.ts";

// Which tasks a frozen policy tells apart: groups of rollouts whose rewards differ (arxiv.md 6.2, 10.7).

/** Rewards of a group that lie closer are equal: the bound of the trainer and of `groupAdvantages`. */
const EQUAL_REWARDS = 1e-6;

const count = z.int().nonnegative();

export const taskAuditSchema = z.strictObject({
  sample_count: count,
  group_count: count,
  mean_reward: z.number(),
  min_reward: z.number(),
  max_reward: z.number(),
  /** Mean over the groups of the sample standard deviation (n − 1) of their rewards. */
  mean_group_std: z.number().nonnegative(),
  /** Shares and number of groups without and with a difference in reward. */
  zero_std_fraction: z.number().min(0).max(1),
  informative_fraction: z.number().min(0).max(1),
  informative_count: count,
});
export type TaskAudit = z.output<typeof taskAuditSchema>;

export const probeSchema = z.strictObject({
  /** Rollouts a group. */
  group_size: z.int().min(2),
  /** Groups a task. */
  groups: z.int().positive(),
  /** Of the canonical JSON of `tasks`. */
  summary_sha256: z.string(),
  tasks: z.record(z.string(), taskAuditSchema),
});
export type Probe = z.output<typeof probeSchema>;

export const probeHash = (tasks: Readonly<Record<string, TaskAudit>>): string => sha256(canonicalJson(tasks));

/**
 * Groups the trials of each task, `group_size` in a row by their number, and tells which groups teach anything.
 * @param trajectories Equally many valid ones of each task.
 * @throws UserError where a task's trials do not divide into groups, or are invalid.
 */
export function probe(trajectories: readonly Trajectory[], group_size: number): Probe {
  const byTask = new Map<string, Trajectory[]>();
  for (const one of trajectories) byTask.set(one.task_id, [...(byTask.get(one.task_id) ?? []), one]);
  const tasks: Record<string, TaskAudit> = {};
  let groups = 0;
  for (const [id, own] of byTask) {
    if (own.length % group_size !== 0) {
      throw new UserError(
        `'${id}' has ${own.length} trials, which do not divide into groups of ${group_size}. ` +
          "Play a multiple of it, with bench --repeat, or set --group-size.",
      );
    }
    const rewards = own
      .sort((a, b) => a.trial - b.trial)
      .map(({ reward, trial }) => {
        if (reward === null) throw new UserError(`'${id}', trial ${trial} failed: it has no reward.`);
        return reward;
      });
    tasks[id] = audit(rewards, group_size);
    groups = tasks[id].group_count;
  }
  return { group_size, groups, summary_sha256: probeHash(tasks), tasks };
}

function audit(rewards: readonly number[], group_size: number): TaskAudit {
  const groups = Array.from({ length: rewards.length / group_size }, (_, i) =>
    rewards.slice(i * group_size, (i + 1) * group_size),
  );
  const informative = groups.filter((group) => Math.max(...group) - Math.min(...group) > EQUAL_REWARDS).length;
  return {
    sample_count: rewards.length,
    group_count: groups.length,
    mean_reward: mean(rewards),
    min_reward: Math.min(...rewards),
    max_reward: Math.max(...rewards),
    mean_group_std: mean(groups.map(sampleStd)),
    zero_std_fraction: (groups.length - informative) / groups.length,
    informative_fraction: informative / groups.length,
    informative_count: informative,
  };
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function sampleStd(values: readonly number[]): number {
  const middle = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1));
}
