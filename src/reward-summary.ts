import { createReadStream, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { writeJson } from "./run-folder.ts";
import { parseJsonLine } from "./trajectory-log.ts";

// `reward_probe_summary.json` (arxiv.md 10.7): whether each task gave a group-relative trainer anything to learn from.
// It is made from the trajectory logs, so that it holds for a run that crashed, and for all processes and parts of one
// that went on.

export interface TaskRewards {
  sample_count: number;
  /** Of them, rollouts that failed in the environment: they have no reward. */
  invalid_count: number;
  group_count: number;
  /** Over valid rollouts; null without any. */
  mean_reward: number | null;
  min_reward: number | null;
  max_reward: number | null;
  /** Mean over groups of the sample's standard deviation (n − 1); a group with fewer than two valid rewards has 0. */
  mean_group_std: number;
  /** Share of groups in which no reward differs from another. */
  zero_std_fraction: number;
  /** Groups in which one does, and their share. */
  informative_count: number;
  informative_fraction: number;
}

export interface RewardSummary {
  samples: number;
  groups: number;
  informative_groups: number;
  /** Lines that could not be read, as one that was cut off by a kill. */
  unreadable_lines: number;
  tasks: Record<string, TaskRewards>;
}

/** Rewards of a group that lie closer than this are equal: float noise is no signal. */
const EQUAL_REWARDS = 1e-6;

interface Row {
  task_id: string;
  seed: number;
  policy_step: number | null;
  reward: number | null;
}

function asRow(line: string): Row | null {
  try {
    const { task_id, seed, policy_step, reward } = parseJsonLine(line) as Row;
    if (typeof task_id !== "string" || typeof seed !== "number") return null;
    return { task_id, seed, policy_step, reward: typeof reward === "number" ? reward : null };
  } catch {
    return null;
  }
}

/** Reads trajectory logs line by line: they may be larger than memory. A group is what one task with one seed earned. */
export async function summarizeRewards(logs: readonly string[]): Promise<RewardSummary> {
  const tasks = new Map<string, Map<string, (number | null)[]>>();
  let unreadable_lines = 0;
  for (const log of logs) {
    for await (const line of createInterface({ input: createReadStream(log, "utf8"), crlfDelay: Infinity })) {
      if (line.trim() === "") continue;
      const row = asRow(line);
      if (!row) {
        unreadable_lines++;
        continue;
      }
      const groups = tasks.get(row.task_id) ?? new Map<string, (number | null)[]>();
      const key = `${row.policy_step}/${row.seed}`;
      groups.set(key, [...(groups.get(key) ?? []), row.reward]);
      tasks.set(row.task_id, groups);
    }
  }
  const byTask = [...tasks]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([id, groups]) => [id, ofTask([...groups.values()])]);
  const summaries = Object.fromEntries(byTask) as Record<string, TaskRewards>;
  const total = (name: "sample_count" | "group_count" | "informative_count") =>
    Object.values(summaries).reduce((sum, task) => sum + task[name], 0);
  return {
    samples: total("sample_count"),
    groups: total("group_count"),
    informative_groups: total("informative_count"),
    unreadable_lines,
    tasks: summaries,
  };
}

function ofTask(groups: readonly (readonly (number | null)[])[]): TaskRewards {
  const samples = groups.flat();
  const rewards = samples.filter((reward) => reward !== null);
  const spreads = groups.map(spread);
  const informative_count = spreads.filter(({ informative }) => informative).length;
  return {
    sample_count: samples.length,
    invalid_count: samples.length - rewards.length,
    group_count: groups.length,
    mean_reward: rewards.length > 0 ? mean(rewards) : null,
    min_reward: rewards.length > 0 ? rewards.reduce((a, b) => Math.min(a, b)) : null,
    max_reward: rewards.length > 0 ? rewards.reduce((a, b) => Math.max(a, b)) : null,
    mean_group_std: mean(spreads.map(({ std }) => std)),
    zero_std_fraction: 1 - informative_count / groups.length,
    informative_count,
    informative_fraction: informative_count / groups.length,
  };
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function spread(group: readonly (number | null)[]): { std: number; informative: boolean } {
  const rewards = group.filter((reward) => reward !== null);
  if (rewards.length < 2) return { std: 0, informative: false };
  const middle = mean(rewards);
  const std = Math.sqrt(rewards.reduce((sum, reward) => sum + (reward - middle) ** 2, 0) / (rewards.length - 1));
  return { std, informative: Math.max(...rewards) - Math.min(...rewards) > EQUAL_REWARDS };
}

/** Writes `reward_probe_summary.json` of a run folder from all its trajectory logs. */
export async function writeRewardSummary(dir: string): Promise<RewardSummary> {
  const folder = join(dir, "trajectories");
  const logs = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".jsonl")) : [];
  const summary = await summarizeRewards(logs.sort().map((name) => join(folder, name)));
  writeJson(join(dir, "reward_probe_summary.json"), summary);
  return summary;
}
