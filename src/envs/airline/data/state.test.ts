import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { smallDb } from "./fixtures/small-db.ts";
import { parseJson } from "./python-json.ts";
import { withKeys } from "./python-ops.ts";
import type { PyDict } from "./python-values.ts";
import {
  type DataState,
  findReservation,
  findUser,
  flightOf,
  reservationIds,
  reservationOf,
  startState,
  userIds,
  userOf,
  withReservation,
  withUser,
} from "./state.ts";
import { canonicalState, sameData, stateSha256 } from "./state-hash.ts";
import { sharedSynthDb } from "./synth.ts";

const hashOf = (text: string) => createHash("sha256").update(text).digest("hex");
const record = (text: string) => parseJson(text) as PyDict;

test("the canonical text has sorted keys, no blanks, all three maps", () => {
  const text = canonicalState(startState(smallDb()));
  expect(text).toMatch(/^\{"flights":\{"TRS001":\{"dates":\{"2024-05-13":\{"status":"cancelled"\},/);
  expect(text).toMatch(/"reservations":\{"123456":\{"cabin":"business",/);
  expect(text).toMatch(/"users":\{"felix_weber_1111":\{"address":\{"address1"/);
  expect(text).not.toMatch(/": |", /);
});

test("an episode's change is seen by it alone, and the database keeps what it had", () => {
  const db = smallDb();
  const [mine, yours] = [startState(db), startState(db)];
  const before = stateSha256(yours);
  const changed = withUser(mine, "felix_weber_1111", withKeys(findUser(mine, "felix_weber_1111")!, [["email", "x"]]));
  expect(userOf(changed, "felix_weber_1111")!.email).toBe("x");
  expect(userOf(mine, "felix_weber_1111")!.email).toBe("felix.weber4321@example.com");
  expect(userOf(yours, "felix_weber_1111")!.email).toBe("felix.weber4321@example.com");
  expect(stateSha256(changed)).not.toBe(before);
  expect(hashOf(canonicalState(startState(db)))).toBe(before);
  const [user] = db.users.values();
  expect(() => (user as Map<string, unknown>).set("email", "y")).toThrow("never changed");
});

test("records are found by exact id, whatever is asked for", () => {
  const state = startState(smallDb());
  expect(findReservation(state, "aaa111")).toBeUndefined();
  expect(findReservation(state, "#AAA111")).toBeUndefined();
  expect(findReservation(state, 123456)).toBeUndefined();
  expect(findUser(state, null)).toBeUndefined();
  expect(() => findUser(state, ["x"])).toThrow("unhashable type: 'list'");
  expect(reservationOf(state, "123456")!.cabin).toBe("business");
  expect(flightOf(state.db, "TRS003")!.scheduled_arrival_time_est).toBe("00:30:00+1");
  expect(reservationIds(withReservation(state, "HATHAT", new Map()))).toEqual([
    "AAA111",
    "BBB222",
    "123456",
    "CCC333",
    "HATHAT",
  ]);
  expect(userIds(state)).toEqual(["noor_halvorsen_4821", "felix_weber_1111"]);
});

test("50 and 50.0 give other hashes, but not when numbers count by value", () => {
  const state = startState(smallDb());
  const [whole, spelled] = ["50", "50.0"].map((amount) =>
    withReservation(state, "HATHAT", record(`{"b": ${amount}, "a": 1}`)),
  ) as [DataState, DataState];
  expect(stateSha256(whole)).not.toBe(stateSha256(spelled));
  expect(sameData(whole, spelled)).toBe(false);
  expect(stateSha256(whole, "normalized")).toBe(stateSha256(spelled, "normalized"));
  expect(sameData(whole, spelled, "normalized")).toBe(true);
});

test("the order of keys doesn't matter, that of items does; a change that is taken back is none", () => {
  const state = startState(smallDb());
  const put = (text: string) => withReservation(state, "HATHAT", record(text));
  expect(sameData(put('{"a": [1, 2], "b": 3}'), put('{"b": 3, "a": [1, 2]}'))).toBe(true);
  expect(sameData(put('{"a": [1, 2]}'), put('{"a": [2, 1]}'))).toBe(false);
  expect(sameData(put("{}"), state)).toBe(false);
  const back = withUser(state, "felix_weber_1111", new Map(findUser(state, "felix_weber_1111")!));
  expect(sameData(back, state)).toBe(true);
  expect(stateSha256(back)).toBe(stateSha256(state));
});

test("states over two loads of the same data are the same", () => {
  expect(sameData(startState(smallDb()), startState(smallDb()))).toBe(true);
  expect(sameData(startState(smallDb()), withReservation(startState(smallDb()), "X", new Map()))).toBe(false);
});

test("the hash is that of the whole text, whatever was touched: front, end, in between, new", () => {
  const db = sharedSynthDb("hash", 0.1);
  const base = startState(db);
  expect(stateSha256(base)).toBe(hashOf(canonicalState(base)));
  const ids = (table: "users" | "reservations") =>
    fc.array(
      fc.oneof(
        fc.constantFrom(...db[table].keys()),
        fc.constantFrom("HATHAT", "HATHAU", "", "zzz", "000000", "é", "\u{10000}", "\uffff"),
      ),
      { maxLength: 5 },
    );
  fc.assert(
    fc.property(ids("users"), ids("reservations"), fc.constantFrom("python", "normalized"), (users, trips, mode) => {
      let state = base;
      for (const id of users) state = withUser(state, id, record('{"é": 1.0, "a": "x"}'));
      for (const id of trips) state = withReservation(state, id, record("{}"));
      expect(stateSha256(state, mode)).toBe(hashOf(canonicalState(state, mode)));
      expect(sameData(state, base, mode)).toBe(stateSha256(state, mode) === stateSha256(base, mode));
    }),
    { numRuns: 25 },
  );
});

test("every place next to a kept copy of the hash gives the right hash", () => {
  const db = sharedSynthDb("hash", 0.1);
  const sorted = [...db.reservations.keys()].sort();
  for (const place of [0, 1, 63, 64, 65, 127, 128, 191, 192, 198, 199]) {
    const state = withReservation(startState(db), sorted[place]!, record("{}"));
    expect(stateSha256(state)).toBe(hashOf(canonicalState(state)));
    const added = withReservation(startState(db), `${sorted[place]}0`, record("{}"));
    expect(stateSha256(added)).toBe(hashOf(canonicalState(added)));
  }
});
