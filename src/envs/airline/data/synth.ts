import { join } from "node:path";
import { UserError } from "../../../core/errors.ts";
import { writeWhole } from "../../../core/whole-file.ts";
import { type AirlineDb, makeAirlineDb, TABLES } from "./db.ts";
import { toJson } from "./python-json.ts";
import type { PyDict } from "./python-values.ts";
import { synthFlights } from "./synth-flights.ts";
import { synthReservations } from "./synth-reservations.ts";
import { synthUsers, userRecord } from "./synth-users.ts";

/** The seed of the database that the project ships: its hash stands in synth.test.ts. */
export const SHIPPED_SEED = "trestle";

/**
 * A made-up database (airline.md 1.5): equal seeds give equal bytes on every platform. Scale 1 has 300 flights, 500
 * users and 2,000 reservations, which takes a fraction of a second; scale 0.1 has 60, 50 and 200.
 * @param scale above 0, at most 2: there must be room for the flights
 */
export function synthAirlineDb(seed: string = SHIPPED_SEED, scale = 1): AirlineDb {
  if (!(scale > 0 && scale <= 2))
    throw new UserError(`The scale of a synthetic airline database is ${scale}; expected a number above 0, at most 2.`);
  const count = (atScale1: number) => Math.ceil(Number((atScale1 * scale).toFixed(6)));
  const { plans, flights } = synthFlights(seed, Math.max(60, count(300)));
  const users = synthUsers(seed, count(500));
  const reservations = synthReservations(seed, count(2000), plans, users);
  return makeAirlineDb({ flights, reservations, users: new Map(users.map((plan) => [plan.id, userRecord(plan)])) });
}

const made = new Map<string, AirlineDb>();

/** The synthetic database of a seed and scale, made once a process. */
export function sharedSynthDb(seed: string = SHIPPED_SEED, scale = 1): AirlineDb {
  const key = `${scale}/${seed}`;
  let db = made.get(key);
  if (!db) {
    db = synthAirlineDb(seed, scale);
    made.set(key, db);
  }
  return db;
}

/** The text of a database's files by name, a record a line. */
export function airlineDbFiles(db: AirlineDb): Record<string, string> {
  return Object.fromEntries(TABLES.map((table) => [`${table}.json`, tableText(db[table])]));
}

function tableText(table: ReadonlyMap<string, PyDict>): string {
  const lines = [...table].map(([id, record]) => `${JSON.stringify(id)}: ${toJson(record)}`);
  return `{\n${lines.join(",\n")}\n}\n`;
}

/** Writes a database as a folder that `loadAirlineDb` reads back. */
export function writeAirlineDb(dir: string, db: AirlineDb): void {
  for (const [name, text] of Object.entries(airlineDbFiles(db))) writeWhole(join(dir, name), text);
}
