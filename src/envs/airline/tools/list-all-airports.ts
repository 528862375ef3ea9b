import { AIRPORTS } from "../data/airports.ts";
import { toJson } from "../data/python-json.ts";
import { airlineTool } from "./define.ts";

const TEXT = toJson(new Map(AIRPORTS));

export const listAllAirports = airlineTool({
  name: "list_all_airports",
  description: "List all airports with the city of each.",
  parameters: {},
  writes: false,
  run: (state) => ({ state, text: TEXT }),
});
