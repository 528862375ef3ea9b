import { airlineTool, text } from "./define.ts";

export const think = airlineTool({
  name: "think",
  description: "Note a thought. Nothing is looked up and nothing changes; use it to reason over many facts.",
  parameters: { thought: text("The thought.") },
  writes: false,
  run: (state) => ({ state, text: "" }),
});
