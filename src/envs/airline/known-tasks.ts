import type { AirlineOptions } from "./options.ts";
import { airlineSplits, loadAirlineSplit } from "./splits.ts";
import type { AirlineTask } from "./tasks/task.ts";

/**
 * A task by its id ("synth-07") or its number among the tasks that the options name; undefined: there is none.
 * @throws UserError where there are no tasks to look in
 */
export async function findAirlineTask(id: string | number, options: AirlineOptions): Promise<AirlineTask | undefined> {
  for (const split of airlineSplits) {
    const { tasks } = await loadAirlineSplit(split, options);
    const found = tasks.find((task) => task.id === id || task.task_index === id || String(task.task_index) === id);
    if (found) return found;
  }
  return undefined;
}
