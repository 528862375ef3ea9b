import { UserError } from "../src/core/errors.ts";
import type { BenchmarkRules } from "../src/core/measure.ts";
import type { EndedBy, Trajectory } from "../src/core/trajectory.ts";
import { type Measurements, measureAll } from "./measures.ts";
import { bootstrap95, type Interval, mean, passAt, passHat } from "./pass.ts";

// Turns trajectory logs into numbers; no model needed.

export interface JudgeOptions {
  /** What should be in the log; where it is left out, every task of the log with the largest number of trials. */
  expected?: { task_ids: readonly string[]; trials: number };
  category?: (task_id: string) => string;
  /** The k of pass^k and pass@k. */
  ks?: readonly number[];
  /** The family's own measures. */
  rules?: BenchmarkRules | null;
}

/** pass^k by k, as one criterion counts it, with the interval of each. */
export interface Reliability {
  pass_hat: Record<string, number | null>;
  pass_hat_interval: Record<string, Interval | null>;
}

export interface Judgement extends Reliability, Measurements {
  policy: string;
  env: string;
  tasks: number;
  /** Trials a task. */
  trials: number;
  /** Episodes judged; those that failed in the environment are left out. */
  episodes: number;
  /** Failed in the environment (`error`, `timeout`): they have no reward and count in no rate. */
  invalid: number;
  /** All expected (task, trial) pairs are there and valid. */
  complete: boolean;
  /** What is missing or invalid, as "task/trial". */
  missing: string[];
  /** By k: mean over tasks of C(c,k)/C(n,k), with c successes of n valid trials; null where no task has k of them. */
  pass_hat: Record<string, number | null>;
  /** 95 % intervals, bootstrap over tasks, as all that are here. */
  pass_hat_interval: Record<string, Interval | null>;
  pass_at: Record<string, number | null>;
  pass_at_interval: Record<string, Interval | null>;
  /** By k: tasks left out since they have fewer than k valid trials. */
  skipped_tasks: Record<string, number>;
  pass_hat_1_interval: Interval | null;
  /** By the family's criteria: pass^k where another metric than success is counted. */
  criteria: Record<string, Reliability>;
  mean_reward: number | null;
  mean_reward_interval: Interval | null;
  /** Means of every reward component, over the episodes that it judges. */
  parts: Record<string, number | null>;
  mean_turns: number | null;
  /** Means an episode. */
  tokens: { prompt: number | null; policy: number | null; observation: number | null };
  ended_by: Record<EndedBy, number>;
  categories: Record<string, { tasks: number; pass_hat_1: number | null; mean_reward: number | null }>;
  /** By task: successes c of n valid trials. */
  by_task: Record<string, { n: number; c: number; mean_reward: number | null }>;
}

/**
 * Judges one policy's trajectories.
 * @throws UserError where a (task, trial) is there twice, tasks are there that were not expected, or policies are mixed
 */
export function judge(trajectories: readonly Trajectory[], options: JudgeOptions = {}): Judgement {
  const ks = options.ks ?? [1, 2, 3];
  const policy = single("policies", trajectories, (trajectory) => trajectory.policy);
  const env = single("environments", trajectories, (trajectory) => trajectory.env);
  const { task_ids, trials } = options.expected ?? inventory(trajectories);
  const seen = takeInventory(trajectories, task_ids);
  const missing: string[] = [];
  for (const task_id of task_ids) {
    for (let trial = 0; trial < trials; trial++) {
      const found = seen.get(`${task_id}/${trial}`);
      if (!found || found.reward === null) missing.push(`${task_id}/${trial}`);
    }
  }

  const byTask: Judgement["by_task"] = {};
  const ofTasks = groupByTask(trajectories, task_ids);
  const valid = ofTasks.map((own) => own.filter(({ reward }) => reward !== null));
  for (const [index, task_id] of task_ids.entries()) {
    const own = valid[index]!;
    byTask[task_id] = {
      n: own.length,
      c: own.filter(({ success }) => success).length,
      mean_reward: mean(own.map(({ reward }) => reward!)),
    };
  }
  const counts = Object.values(byTask);
  const rewards = counts.flatMap(({ mean_reward }) => mean_reward ?? []);
  const judged = valid.flat();
  const reliability = reliabilityOf(counts, passHat, ks);
  const any = reliabilityOf(counts, passAt, ks);

  return {
    policy,
    env,
    tasks: task_ids.length,
    trials,
    episodes: judged.length,
    invalid: trajectories.length - judged.length,
    complete: missing.length === 0,
    missing,
    pass_hat: reliability.value,
    pass_hat_interval: reliability.interval,
    pass_at: any.value,
    pass_at_interval: any.interval,
    skipped_tasks: Object.fromEntries(ks.map((k) => [String(k), counts.filter(({ n }) => n < k).length])),
    pass_hat_1_interval: reliability.interval["1"] ?? null,
    criteria: Object.fromEntries(
      (options.rules?.criteria ?? []).map((name) => [name, byCriterion(name, valid, ks)] as const),
    ),
    mean_reward: mean(rewards),
    mean_reward_interval: bootstrap95(rewards),
    parts: meanParts(judged),
    mean_turns: mean(judged.map(({ turns }) => turns.length)),
    tokens: {
      prompt: mean(judged.map(({ tokens }) => tokens.prompt)),
      policy: mean(judged.map(({ tokens }) => tokens.policy)),
      observation: mean(judged.map(({ tokens }) => tokens.observation)),
    },
    ended_by: countEnds(trajectories),
    categories: options.category ? byCategory(byTask, options.category) : {},
    ...measureAll(ofTasks, options.rules ?? null),
    by_task: byTask,
  };
}

function groupByTask(trajectories: readonly Trajectory[], task_ids: readonly string[]): Trajectory[][] {
  const groups = new Map(task_ids.map((task_id): [string, Trajectory[]] => [task_id, []]));
  for (const trajectory of trajectories) groups.get(trajectory.task_id)!.push(trajectory);
  return [...groups.values()];
}

interface Counts {
  n: number;
  c: number;
}

function reliabilityOf(
  counts: readonly Counts[],
  chance: (n: number, c: number, k: number) => number | null,
  ks: readonly number[],
) {
  const values = ks.map((k) => counts.flatMap(({ n, c }) => chance(n, c, k) ?? []));
  const byK = <Value>(of: (values: readonly number[]) => Value): Record<string, Value> =>
    Object.fromEntries(ks.map((k, index) => [String(k), of(values[index]!)]));
  return { value: byK(mean), interval: byK((own) => bootstrap95(own)) };
}

/** pass^k where `metric` being true counts as a success. */
function byCriterion(metric: string, valid: readonly (readonly Trajectory[])[], ks: readonly number[]): Reliability {
  const counts = valid.map((own) => ({
    n: own.length,
    c: own.filter(({ metrics }) => metrics[metric] === true).length,
  }));
  const { value, interval } = reliabilityOf(counts, passHat, ks);
  return { pass_hat: value, pass_hat_interval: interval };
}

export interface Comparison {
  /** Tasks that both have valid trials of. */
  tasks: number;
  /** Mean over those tasks of pass^1 of `after` minus that of `before`. */
  difference: number | null;
  /** 95 % interval, paired bootstrap over tasks. */
  interval: [number, number] | null;
}

/** pass^1 of `after` minus that of `before`, of each task that both have valid trials of. */
export function gainByTask(before: Judgement, after: Judgement): Record<string, number> {
  return Object.fromEntries(
    Object.entries(before.by_task).flatMap(([task_id, first]) => {
      const second = after.by_task[task_id];
      return second && first.n > 0 && second.n > 0 ? [[task_id, second.c / second.n - first.c / first.n]] : [];
    }),
  );
}

/** How much better the second is than the first, on the tasks that both played. */
export function compare(before: Judgement, after: Judgement): Comparison {
  const differences = Object.values(gainByTask(before, after));
  return { tasks: differences.length, difference: mean(differences), interval: bootstrap95(differences) };
}

function single(what: string, trajectories: readonly Trajectory[], read: (trajectory: Trajectory) => string): string {
  if (trajectories.length === 0) throw new UserError("There are no trajectories to judge.");
  const values = [...new Set(trajectories.map(read))];
  if (values.length > 1)
    throw new UserError(`The log mixes ${values.length} ${what} (${values.join(", ")}); judge one at a time.`);
  return values[0]!;
}

function inventory(trajectories: readonly Trajectory[]): { task_ids: string[]; trials: number } {
  return {
    task_ids: [...new Set(trajectories.map(({ task_id }) => task_id))],
    trials: trajectories.reduce((most, { trial }) => Math.max(most, trial + 1), 0),
  };
}

/** Stale or double results would give rates above 1, or a mean of two different runs. */
function takeInventory(trajectories: readonly Trajectory[], task_ids: readonly string[]): Map<string, Trajectory> {
  const known = new Set(task_ids);
  const strange = [...new Set(trajectories.map(({ task_id }) => task_id).filter((task_id) => !known.has(task_id)))];
  if (strange.length > 0) throw new UserError(`The log has tasks that were not expected: ${list(strange)}.`);
  const seen = new Map<string, Trajectory>();
  const twice: string[] = [];
  for (const trajectory of trajectories) {
    const key = `${trajectory.task_id}/${trajectory.trial}`;
    if (seen.has(key)) twice.push(key);
    seen.set(key, trajectory);
  }
  if (twice.length > 0) throw new UserError(`The log has these (task/trial) more than once: ${list(twice)}.`);
  return seen;
}

function meanParts(trajectories: readonly Trajectory[]): Record<string, number | null> {
  const names = [...new Set(trajectories.flatMap(({ parts }) => Object.keys(parts)))];
  return Object.fromEntries(names.map((name) => [name, mean(trajectories.flatMap(({ parts }) => parts[name] ?? []))]));
}

function countEnds(trajectories: readonly Trajectory[]): Record<EndedBy, number> {
  const counts = { terminated: 0, truncated: 0, error: 0, timeout: 0 };
  for (const { ended_by } of trajectories) counts[ended_by]++;
  return counts;
}

function byCategory(byTask: Judgement["by_task"], category: (task_id: string) => string): Judgement["categories"] {
  const tasksOf = new Map<string, Judgement["by_task"][string][]>();
  for (const [task_id, counts] of Object.entries(byTask)) {
    const name = category(task_id);
    tasksOf.set(name, [...(tasksOf.get(name) ?? []), counts]);
  }
  return Object.fromEntries(
    [...tasksOf]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, counts]) => [
        name,
        {
          tasks: counts.length,
          pass_hat_1: mean(counts.flatMap(({ n, c }) => passHat(n, c, 1) ?? [])),
          mean_reward: mean(counts.flatMap(({ mean_reward }) => mean_reward ?? [])),
        },
      ]),
  );
}

function list(items: readonly string[]): string {
  return items.length <= 10 ? items.join(", ") : `${items.slice(0, 10).join(", ")} and ${items.length - 10} more`;
}
