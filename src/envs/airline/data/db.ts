import { freeze, type NumberMode, type PyDict } from "./python-values.ts";
import { type DbHash, hashBase } from "./state-hash.ts";

export const TABLES = ["flights", "reservations", "users"] as const;
export type Table = (typeof TABLES)[number];

/** The three maps of a database, id to record, in the order of their files. */
export type Tables = { readonly [Name in Table]: ReadonlyMap<string, PyDict> };

/**
 * A loaded database: frozen, and shared by all episodes of a process. An episode's changes are in its `DataState`.
 */
export interface AirlineDb extends Tables {
  /** Flights by origin, in file order: searches look at these alone. */
  readonly byOrigin: ReadonlyMap<string, readonly PyDict[]>;
  /** What the hash of a state is built on; made when first asked for. */
  hash(mode: NumberMode): DbHash;
}

/** Freezes three maps, record by record, into a database. A write to any part of it throws from then on. */
export function makeAirlineDb(tables: Tables): AirlineDb {
  for (const name of TABLES) freeze(tables[name]);
  const byOrigin = new Map<string, PyDict[]>();
  for (const flight of tables.flights.values()) {
    const origin = flight.get("origin");
    if (typeof origin !== "string") continue;
    const flights = byOrigin.get(origin);
    if (flights) flights.push(flight);
    else byOrigin.set(origin, [flight]);
  }
  const hashes = new Map<NumberMode, DbHash>();
  return {
    flights: tables.flights,
    reservations: tables.reservations,
    users: tables.users,
    byOrigin,
    hash(mode) {
      let hash = hashes.get(mode);
      if (!hash) {
        hash = hashBase(tables, mode);
        hashes.set(mode, hash);
      }
      return hash;
    },
  };
}
