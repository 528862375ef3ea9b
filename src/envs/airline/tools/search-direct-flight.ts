import { toJson } from "../data/python-json.ts";
import { airlineTool, text } from "./define.ts";
import { directFlights } from "./search.ts";

export const searchDirectFlight = airlineTool({
  name: "search_direct_flight",
  description: "Find non-stop flights between two airports on a day, with seats left and prices per cabin.",
  parameters: {
    origin: text("Airport of departure, an IATA code such as 'SFO'."),
    destination: text("Airport of arrival, an IATA code such as 'JFK'."),
    date: text("Day of departure, YYYY-MM-DD."),
  },
  writes: false,
  run: (state, route) => ({ state, text: toJson(directFlights(state.db, route)) }),
});
