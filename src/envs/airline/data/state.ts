import type { AirlineDb } from "./db.ts";
import { lookup } from "./python-ops.ts";
import { type PyDict, type PyValue, toPlain } from "./python-values.ts";
import type { Flight, Reservation, User } from "./types.ts";

/**
 * The data of one episode: the database that all share, and the users and reservations that this episode has changed or
 * added. No tool changes a flight. A state is never changed: a tool makes the next one, at the cost of what it touches,
 * so a state that is kept is a snapshot.
 */
export interface DataState {
  readonly db: AirlineDb;
  readonly users: ReadonlyMap<string, PyDict>;
  readonly reservations: ReadonlyMap<string, PyDict>;
}

const NONE: ReadonlyMap<string, PyDict> = new Map();

/** The state that an episode begins with: nothing changed. */
export function startState(db: AirlineDb): DataState {
  return { db, users: NONE, reservations: NONE };
}

/** A user's record as it is now; undefined: there is none. @throws PythonError where the id is a list or a dict */
export function findUser(state: DataState, id: PyValue): PyDict | undefined {
  return (lookup(state.users, id) as PyDict | undefined) ?? (lookup(state.db.users, id) as PyDict | undefined);
}

/** A reservation's record as it is now; see `findUser`. */
export function findReservation(state: DataState, id: PyValue): PyDict | undefined {
  return (lookup(state.reservations, id) ?? lookup(state.db.reservations, id)) as PyDict | undefined;
}

export function withUser(state: DataState, id: string, user: PyDict): DataState {
  return { ...state, users: new Map(state.users).set(id, user) };
}

export function withReservation(state: DataState, id: string, reservation: PyDict): DataState {
  return { ...state, reservations: new Map(state.reservations).set(id, reservation) };
}

const views = new WeakMap<PyDict, unknown>();

/** A record as a plain object, made once: to read, never to change. */
function view<Shape>(record: PyDict | undefined): Shape | null {
  if (!record) return null;
  let plain = views.get(record);
  if (plain === undefined) {
    plain = toPlain(record);
    views.set(record, plain);
  }
  return plain as Shape;
}

/**
 * A user to read; null: there is none. Records that tools wrote may hold whatever a model sent: only what was loaded is
 * sure to have the type's shape.
 */
export function userOf(state: DataState, id: string): User | null {
  return view<User>(findUser(state, id));
}

/** A reservation to read; see `userOf`. */
export function reservationOf(state: DataState, id: string): Reservation | null {
  return view<Reservation>(findReservation(state, id));
}

/** A flight to read; null: there is none. */
export function flightOf(db: AirlineDb, flight_number: string): Flight | null {
  return view<Flight>(db.flights.get(flight_number));
}

/** All flights, in file order. */
export function allFlights(db: AirlineDb): Flight[] {
  return [...db.flights.values()].map((record) => view<Flight>(record)!);
}

/** Ids of all users of a state: the database's in file order, then those added. */
export function userIds(state: DataState): string[] {
  return [...new Set([...state.db.users.keys(), ...state.users.keys()])];
}

/** Ids of all reservations of a state: the database's in file order, then those added. */
export function reservationIds(state: DataState): string[] {
  return [...new Set([...state.db.reservations.keys(), ...state.reservations.keys()])];
}
