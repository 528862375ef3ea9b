import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { z } from "zod";
import { pathProblem, UserError } from "../../../core/errors.ts";
import { type AirlineDb, makeAirlineDb, TABLES, type Table } from "./db.ts";
import { JsonError, lineAndColumn, parseJson } from "./python-json.ts";
import { isDict, type PyDict, type PyValue, toPlain, typeName } from "./python-values.ts";
import { flightSchema, reservationSchema, userSchema } from "./types.ts";
import { utf8 } from "./utf8.ts";

const SCHEMAS: Record<Table, z.ZodType> = {
  flights: flightSchema,
  reservations: reservationSchema,
  users: userSchema,
};

/**
 * Loads a folder with `flights.json`, `reservations.json` and `users.json`, such as a user's own copy of τ-bench's
 * airline data. Unknown fields are kept; counts and cross references aren't checked (airline.md 1.4).
 * @throws UserError naming file, key and field of the first record that doesn't fit, or where a file is no JSON.
 */
export function loadAirlineDb(dir: string): AirlineDb {
  const [flights, reservations, users] = TABLES.map((table) => loadTable(dir, table)) as [
    ReadonlyMap<string, PyDict>,
    ReadonlyMap<string, PyDict>,
    ReadonlyMap<string, PyDict>,
  ];
  return makeAirlineDb({ flights, reservations, users });
}

const loaded = new Map<string, AirlineDb>();

/** The database of a folder, loaded once a process. */
export function sharedAirlineDb(dir: string): AirlineDb {
  const path = resolve(dir);
  let db = loaded.get(path);
  if (!db) {
    db = loadAirlineDb(path);
    loaded.set(path, db);
  }
  return db;
}

function loadTable(dir: string, table: Table): ReadonlyMap<string, PyDict> {
  const path = join(dir, `${table}.json`);
  const text = utf8(readTable(path), path);
  let parsed: unknown;
  try {
    parsed = parseJson(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new UserError(`${path}: no JSON at ${lineAndColumn(text, error.offset)}: ${error.message}.`);
  }
  if (!isDict(parsed))
    throw new UserError(`${path}: expected an object that maps ids to ${table}, got another JSON value.`);
  for (const [key, record] of parsed) checkRecord(path, key, record, SCHEMAS[table]);
  return parsed as ReadonlyMap<string, PyDict>;
}

function readTable(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const problem = pathProblem(error, path);
    throw problem
      ? new UserError(
          `${problem.message} An airline database is a folder with ${TABLES.map((table) => `${table}.json`).join(", ")}.`,
        )
      : error;
  }
}

function checkRecord(path: string, key: string, record: PyValue, schema: z.ZodType): void {
  if (!isDict(record)) throw new UserError(`${path}: ${key}: expected an object, got ${typeName(record)}.`);
  const parsed = schema.safeParse(toPlain(record));
  if (parsed.success) return;
  const [issue] = parsed.error.issues;
  const field = issue!.path.map(String).join(".");
  const missing = valueAt(record, issue!.path) === undefined;
  const rest = parsed.error.issues.length - 1;
  throw new UserError(
    `${path}: ${key}: ${missing ? `field ${field} is missing` : `field ${field}: ${issue!.message}`}` +
      `${rest > 0 ? ` (and ${rest} more in this record)` : ""}.`,
  );
}

function valueAt(record: PyDict, path: readonly PropertyKey[]): unknown {
  let value: unknown = record;
  for (const part of path)
    value = isDict(value) ? value.get(String(part)) : Array.isArray(value) ? value[Number(part)] : undefined;
  return value;
}
