import { airlineTool, text } from "./define.ts";

export const transferToHumanAgents = airlineTool({
  name: "transfer_to_human_agents",
  description:
    "Hand the customer over to a human agent. Only where the request can't be handled with the other tools; the dialogue is over then.",
  parameters: { summary: text("What the customer wants and what was done so far.") },
  writes: false,
  ends: true,
  run: (state) => ({ state, text: "Transfer successful" }),
});
