import type { AirlineTask } from "./tasks/task.ts";
import { airlineToolNamed } from "./tools/index.ts";
import { TRANSFER_TOOL } from "./users/script.ts";

/** What a task is about, for tables: its own word, or else what its gold does. */
export function categoryOf({ category, actions, outputs }: AirlineTask): string {
  if (category !== null) return category;
  const writes = new Set(actions.map(({ name }) => name).filter((name) => airlineToolNamed(name)?.writes));
  if (writes.size > 1) return "several";
  const [write] = writes;
  if (write !== undefined) return write;
  if (outputs.length > 0) return "question";
  return actions.some(({ name }) => name === TRANSFER_TOOL) ? "transfer" : "refusal";
}
