import { createRandom } from "../src/core/random.ts";
import { mean } from "./pass.ts";

/** What training brought to each task, of one seed: pass^1 after minus before, by task. */
export type GainByTask = Readonly<Record<string, number>>;

export interface SeedsSummary {
  seeds: number;
  tasks: number;
  gain: number;
  /** 95 % interval of the gain. */
  interval: [low: number, high: number];
  /** Mean gain of each seed, in the order given. */
  by_seed: number[];
}

const RESAMPLES = 10_000;

/**
 * The mean gain over seeds and tasks, with a 95 % interval of the bootstrap over both (seeds and tasks are drawn with
 * replacement, each task with all its drawn seeds; percentile method, 10,000 resamples). A seed is a training run of its
 * own and a task a sample of what may be asked, so neither alone tells how sure the gain is.
 * @throws Error for no seed, or for seeds that were not measured on the same tasks.
 */
export function gainAcrossSeeds(seeds: readonly GainByTask[]): SeedsSummary {
  const tasks = Object.keys(seeds[0] ?? {});
  if (tasks.length === 0) throw new Error("Expected the gains of at least one seed on at least one task.");
  const gains = seeds.map((seed, index) => {
    const missing = tasks.find((task) => seed[task] === undefined);
    if (missing || Object.keys(seed).length !== tasks.length)
      throw new Error(
        `Seed ${index + 1} was not measured on the same tasks as the first${missing ? `: no '${missing}'` : ""}.`,
      );
    return tasks.map((task) => seed[task]!);
  });
  const random = createRandom("gain-across-seeds");
  const means = Array.from({ length: RESAMPLES }, () => {
    const drawnSeeds = gains.map(() => gains[random.int(gains.length)]!);
    let sum = 0;
    for (let i = 0; i < tasks.length; i++) {
      const task = random.int(tasks.length);
      for (const seed of drawnSeeds) sum += seed[task]!;
    }
    return sum / (tasks.length * gains.length);
  }).sort((a, b) => a - b);
  const by_seed = gains.map((each) => mean(each)!);
  const at = (share: number) => means[Math.round(share * (RESAMPLES - 1))]!;
  return { seeds: seeds.length, tasks: tasks.length, gain: mean(by_seed)!, interval: [at(0.025), at(0.975)], by_seed };
}
