import { toJson } from "../data/python-json.ts";
import { fromPlain, type PyValue } from "../data/python-values.ts";
import type { AirlineTask } from "./task.ts";

/** Tasks as the text of a file that `readTaskFile` reads back: a JSON list, a task a line. */
export function taskFileText(tasks: readonly AirlineTask[]): string {
  return `[\n${tasks.map((task) => toJson(recordOf(task))).join(",\n")}\n]\n`;
}

/** The record of a task (airline.md 4.1), in the order in which a reader wants it. */
function recordOf({ id, task_index, source, category, policy_rules, ...task }: AirlineTask): PyValue {
  const { user_id, instruction, actions, outputs, script, proof } = task;
  const record = { id, task_index, source, category, policy_rules, user_id, instruction, actions, outputs };
  return fromPlain({ ...record, script, ...(proof ? { proof } : {}) });
}
