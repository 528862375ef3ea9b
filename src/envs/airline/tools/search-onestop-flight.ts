import { toJson } from "../data/python-json.ts";
import { airlineTool, text } from "./define.ts";
import { oneStopFlights } from "./search.ts";

export const searchOnestopFlight = airlineTool({
  name: "search_onestop_flight",
  description: "Find pairs of flights with one stop between two airports, with seats left and prices per cabin.",
  parameters: {
    origin: text("Airport where the first flight departs, an IATA code such as 'SFO'."),
    destination: text("Airport where the second flight arrives, an IATA code such as 'JFK'."),
    date: text("Day on which the first flight departs, YYYY-MM-DD."),
  },
  writes: false,
  run: (state, route, { fix_onestop = false }) => ({
    state,
    text: toJson(oneStopFlights(state.db, route, fix_onestop)),
  }),
});
