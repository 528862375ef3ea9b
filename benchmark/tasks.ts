import type { EpisodeRequest } from "../src/bridge/protocol.ts";
import type { TaskSet } from "../src/core/env.ts";
import { nearest, UserError } from "../src/core/errors.ts";
import { createRandom } from "../src/core/random.ts";

// Which episodes are played: splits, a choice of their tasks, trials.

/** Several splits as one set of tasks, each task once. @throws UserError where they are of different environments */
export function joinTaskSets(sets: readonly TaskSet[]): TaskSet {
  const owner = new Map<string, TaskSet>();
  for (const tasks of sets) for (const id of tasks.ids) if (!owner.has(id)) owner.set(id, tasks);
  const of = (task_id: string): TaskSet => owner.get(task_id) ?? sets[0]!;
  return {
    env_id: sets[0]!.env_id,
    split: sets.map(({ split }) => split).join(","),
    ids: [...owner.keys()],
    sources: Object.assign({}, ...sets.map(({ sources }) => sources)) as Record<string, string>,
    ...(sets[0]!.gold_is_shortest === false && { gold_is_shortest: false as const }),
    category: (task_id) => of(task_id).category(task_id),
    max_turns: (task_id) => of(task_id).max_turns(task_id),
    start: (task_id, options) => of(task_id).start(task_id, options),
    replies: (policy, task_id, random) => of(task_id).replies(policy, task_id, random),
  };
}

/** Every (task, trial), each with a seed of its own: neither order nor selection of tasks moves another's numbers. */
export function planTrials(task_ids: readonly string[], trials: number, seed: number): EpisodeRequest[] {
  return task_ids.flatMap((task_id) =>
    Array.from({ length: trials }, (_, trial) => ({
      task_id,
      seed: createRandom(`${seed}/${task_id}/${trial}`).int(2 ** 32),
      trial,
    })),
  );
}

/** Only the tasks of the categories named. @throws UserError for a category that none of them has */
export function pickCategories(tasks: TaskSet, categories: readonly string[]): TaskSet {
  if (categories.length === 0) return tasks;
  const known = [...new Set(tasks.ids.map(tasks.category))].sort();
  for (const name of categories) {
    if (known.includes(name)) continue;
    const near = nearest(name, known);
    throw new UserError(
      `categories: ${tasks.split} has none '${name}'${near ? `; did you mean '${near}'?` : "."} It has ${known.join(", ")}.`,
    );
  }
  return { ...tasks, ids: tasks.ids.filter((id) => categories.includes(tasks.category(id))) };
}

/** A split, without the tasks that were not played. */
export function pickFrom(set: TaskSet, played: TaskSet): TaskSet {
  return { ...set, ids: set.ids.filter((id) => played.ids.includes(id)) };
}
