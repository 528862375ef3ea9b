import type { AirlineDb } from "./data/db.ts";
import { sharedAirlineDb } from "./data/load.ts";
import { sharedSynthDb } from "./data/synth.ts";
import type { AirlineOptions } from "./options.ts";

/**
 * The database that the options name, loaded or made once a process: `data_dir`, or the synthetic one at scale 1.
 * @throws UserError for a folder that is none of a database's
 */
export function databaseOf({ data_dir }: Pick<AirlineOptions, "data_dir">): AirlineDb {
  return data_dir === null ? sharedSynthDb() : sharedAirlineDb(data_dir);
}
