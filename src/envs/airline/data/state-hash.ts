import { createHash, type Hash } from "node:crypto";
import type { Table, Tables } from "./db.ts";
import { canonicalJson } from "./python-json.ts";
import { compareText, type NumberMode, type PyDict, sameValue } from "./python-values.ts";
import type { DataState } from "./state.ts";

// The hash of a state is the SHA-256 of its whole canonical text (airline.md 4.3):
//   {"flights":{…},"reservations":{…},"users":{…}}, sorted keys, no blanks, UTF-8.
// Writing that text anew for every state would cost some 5 MB each time. So the database's own text is written once and
// kept as bytes with the place of every record. Then a state's text is the database's with a few records exchanged or
// put in between, and only those are written. Nor is all of it hashed: SHA-256 goes from front to back, flights stand in
// front and never change, and the hash's inner state was copied before every 64th record: hashing begins at the last
// copy before the first record that differs. The result is the hash of the whole text, bit for bit.
//
// To compare two states no hash is needed: `sameData` looks only at the records that either of them touched.

/** Records between two copies of the hash's state. */
const STRIDE = 64;

/** A table's canonical text without its braces. */
interface TableText {
  /** Record i stands at bytes starts[i] to ends[i]: `"id":{…}`, with a comma between two. */
  bytes: Buffer;
  ids: readonly string[];
  starts: Uint32Array;
  ends: Uint32Array;
  /** The hash of all text before record 64·k of this table, at k. */
  copies: readonly Hash[];
}

/** The canonical text of a database and its hash, prepared for states that change a few records. */
export interface DbHash {
  mode: NumberMode;
  reservations: TableText;
  users: TableText;
  whole: string;
}

const OPENINGS: Record<Table, string> = {
  flights: '{"flights":{',
  reservations: '},"reservations":{',
  users: '},"users":{',
};
const CLOSING = "}}";

/** Prepares the hashes of all states over these tables. Costs some hundred milliseconds for 5 MB, once. */
export function hashBase(tables: Tables, mode: NumberMode): DbHash {
  const hash = createHash("sha256").update(OPENINGS.flights);
  hash.update(tableText(tables.flights, mode).bytes).update(OPENINGS.reservations);
  const reservations = hashTable(hash, tableText(tables.reservations, mode));
  hash.update(OPENINGS.users);
  const users = hashTable(hash, tableText(tables.users, mode));
  return { mode, reservations, users, whole: hash.update(CLOSING).digest("hex") };
}

function recordText(id: string, record: PyDict, mode: NumberMode): string {
  return `${JSON.stringify(id)}:${canonicalJson(record, mode)}`;
}

function tableText(table: ReadonlyMap<string, PyDict>, mode: NumberMode): Omit<TableText, "copies"> {
  const ids = [...table.keys()].sort(compareText);
  const starts = new Uint32Array(ids.length);
  const ends = new Uint32Array(ids.length);
  const parts: Buffer[] = [];
  let at = 0;
  for (const [i, id] of ids.entries()) {
    const part = Buffer.from(`${recordText(id, table.get(id)!, mode)},`);
    parts.push(part);
    starts[i] = at;
    at += part.length;
    ends[i] = at - 1;
  }
  return { bytes: Buffer.concat(parts).subarray(0, Math.max(0, at - 1)), ids, starts, ends };
}

/** Hashes a table's text and copies the hash's state on the way. */
function hashTable(hash: Hash, text: Omit<TableText, "copies">): TableText {
  const copies = [hash.copy()];
  let from = 0;
  for (let record = STRIDE; record < text.ids.length; record += STRIDE) {
    hash.update(text.bytes.subarray(from, text.starts[record]));
    from = text.starts[record]!;
    copies.push(hash.copy());
  }
  hash.update(text.bytes.subarray(from));
  return { ...text, copies };
}

/** Where a key stands, or would stand, among sorted ones. */
function position(ids: readonly string[], id: string): number {
  let [low, high] = [0, ids.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareText(ids[middle]!, id) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Change {
  /** Index of the first of the database's records that isn't before it. */
  at: number;
  /** Whether it stands for that record, or is a new one before it. */
  replaces: boolean;
  text: string;
}

function changesOf(text: TableText, touched: ReadonlyMap<string, PyDict>, mode: NumberMode): Change[] {
  return [...touched]
    .sort(([a], [b]) => compareText(a, b))
    .map(([id, record]) => {
      const at = position(text.ids, id);
      return { at, replaces: text.ids[at] === id, text: recordText(id, record, mode) };
    });
}

/** Hashes a table's text with changes, from its record `from` on, which is a multiple of 64. */
function hashChanged(hash: Hash, table: TableText, changes: readonly Change[], from: number): void {
  let next = from;
  let comma = false; // not at a copy either: its text ends in the comma that stands before its record
  const own = (until: number) => {
    if (next >= until) return;
    if (comma) hash.update(",");
    hash.update(table.bytes.subarray(table.starts[next], table.ends[until - 1]));
    comma = true;
    next = until;
  };
  for (const change of changes) {
    own(change.at);
    hash.update(comma ? `,${change.text}` : change.text);
    comma = true;
    if (change.replaces) next++;
  }
  own(table.ids.length);
}

const known: Record<NumberMode, WeakMap<DataState, string>> = { python: new WeakMap(), normalized: new WeakMap() };

/**
 * The SHA-256, in hex, of a state's whole canonical text. A state that changed nothing costs nothing, any other the
 * records that it touched and hashing from the first of them on (1 to 2 ms on the original data); asked again, nothing.
 */
export function stateSha256(state: DataState, mode: NumberMode = "python"): string {
  let digest = known[mode].get(state);
  if (digest === undefined) {
    digest = hashState(state, mode);
    known[mode].set(state, digest);
  }
  return digest;
}

function hashState(state: DataState, mode: NumberMode): string {
  const base = state.db.hash(mode);
  const reservations = changesOf(base.reservations, state.reservations, mode);
  const users = changesOf(base.users, state.users, mode);
  if (reservations.length === 0 && users.length === 0) return base.whole;
  let hash: Hash;
  if (reservations.length > 0) {
    const copy = copyBefore(base.reservations, reservations[0]!);
    hash = base.reservations.copies[copy]!.copy();
    hashChanged(hash, base.reservations, reservations, copy * STRIDE);
    hash.update(OPENINGS.users);
    hashChanged(hash, base.users, users, 0);
  } else {
    const copy = copyBefore(base.users, users[0]!);
    hash = base.users.copies[copy]!.copy();
    hashChanged(hash, base.users, users, copy * STRIDE);
  }
  return hash.update(CLOSING).digest("hex");
}

/** A change behind the last record goes on from the copy before that record, not from one that isn't there. */
function copyBefore(table: TableText, change: Change): number {
  return Math.min(Math.floor(change.at / STRIDE), table.copies.length - 1);
}

/** A state's whole canonical text: what `stateSha256` is the hash of. 5 MB; for tests and for looking at. */
export function canonicalState(state: DataState, mode: NumberMode = "python"): string {
  const tables = {
    flights: state.db.flights,
    reservations: new Map([...state.db.reservations, ...state.reservations]),
    users: new Map([...state.db.users, ...state.users]),
  };
  return canonicalJson(new Map(Object.entries(tables)), mode);
}

/**
 * Whether two states hold the same data, as equal hashes would say, at the cost of what they touched. States over
 * different databases are compared by their hashes.
 */
export function sameData(a: DataState, b: DataState, mode: NumberMode = "python"): boolean {
  if (a === b) return true;
  if (a.db !== b.db) return stateSha256(a, mode) === stateSha256(b, mode);
  return sameTable(a, b, "users", mode) && sameTable(a, b, "reservations", mode);
}

function sameTable(a: DataState, b: DataState, table: "users" | "reservations", mode: NumberMode): boolean {
  for (const id of new Set([...a[table].keys(), ...b[table].keys()])) {
    const left = a[table].get(id) ?? a.db[table].get(id);
    const right = b[table].get(id) ?? b.db[table].get(id);
    if (left === undefined || right === undefined || !sameValue(left, right, mode)) return false;
  }
  return true;
}
