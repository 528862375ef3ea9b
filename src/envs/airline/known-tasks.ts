import type { AirlineOptions } from "./options.ts";
import { loadAirlineSplit } from "./splits.ts";
import type { AirlineTask } from "./tasks/task.ts";

const loaded = new WeakMap<AirlineOptions, Map<string, readonly AirlineTask[]>>();

/** A split's tasks, read once for one object of options. */
function tasksOf(split: "test" | "extra", options: AirlineOptions): readonly AirlineTask[] {
  const known = loaded.get(options) ?? new Map<string, readonly AirlineTask[]>();
  loaded.set(options, known);
  const tasks = known.get(split) ?? loadAirlineSplit(split, options).tasks;
  known.set(split, tasks);
  return tasks;
}

/**
 * A task by its id ("synth-07", "extra-007", "tau-07"), or by its number in the file or suite that the options name;
 * undefined: there is none.
 * @throws UserError where there are no tasks to look in
 */
export function findAirlineTask(id: string | number, options: AirlineOptions): AirlineTask | undefined {
  const isExtra = typeof id === "string" && id.startsWith("extra-") && options.data_dir === null;
  const tasks = tasksOf(isExtra ? "extra" : "test", options);
  return tasks.find((task) => task.id === id) ?? tasks.find(({ task_index }) => String(task_index) === String(id));
}
