import { str } from "../data/python-text.ts";
import { fromPlain } from "../data/python-values.ts";
import type { DataState } from "../data/state.ts";
import { bookReservation } from "./book-reservation.ts";
import { calculate } from "./calculate.ts";
import { cancelReservation } from "./cancel-reservation.ts";
import type { AirlineTool, Invocation, ToolOptions } from "./define.ts";
import { getReservationDetails } from "./get-reservation-details.ts";
import { getUserDetails } from "./get-user-details.ts";
import { listAllAirports } from "./list-all-airports.ts";
import { searchDirectFlight } from "./search-direct-flight.ts";
import { searchOnestopFlight } from "./search-onestop-flight.ts";
import { sendCertificate } from "./send-certificate.ts";
import { think } from "./think.ts";
import { transferToHumanAgents } from "./transfer-to-human-agents.ts";
import { updateReservationBaggages } from "./update-reservation-baggages.ts";
import { updateReservationFlights } from "./update-reservation-flights.ts";
import { updateReservationPassengers } from "./update-reservation-passengers.ts";

/** The 14 tools, in the order in which a model sees them. */
export const airlineTools: readonly AirlineTool[] = [
  bookReservation,
  calculate,
  cancelReservation,
  getReservationDetails,
  getUserDetails,
  listAllAirports,
  searchDirectFlight,
  searchOnestopFlight,
  sendCertificate,
  think,
  transferToHumanAgents,
  updateReservationBaggages,
  updateReservationFlights,
  updateReservationPassengers,
];

const byName = new Map(airlineTools.map((tool) => [tool.name, tool]));

/** A tool by its exact name; undefined: there is none. */
export function airlineToolNamed(name: string): AirlineTool | undefined {
  return byName.get(name);
}

/** A call as tasks record it. `kwargs` may be anything a model sent. */
export interface Action {
  name: string;
  kwargs: unknown;
}

/**
 * Runs one call by the rules of airline.md 2.1; `respond` is the environment's own and no tool. Never throws: an unknown
 * name and every error of a tool are texts.
 */
export function runAction(state: DataState, action: Action, options: ToolOptions = {}): Invocation {
  const tool = byName.get(action.name);
  if (!tool) return { state, observation: `Unknown action ${str(fromPlain(action.name))}`, failed: true };
  return tool.invoke(state, action.kwargs, options);
}
