import fc from "fast-check";
import { expect, test } from "vitest";
import { makeAirlineDb } from "../data/db.ts";
import { smallDb } from "../data/fixtures/small-db.ts";
import { fromPlain, type PyDict, PyFloat } from "../data/python-values.ts";
import { type DataState, startState } from "../data/state.ts";
import { canonicalState, sameData } from "../data/state-hash.ts";
import { type Action, airlineTools, runAction } from "./index.ts";

const db = smallDb();
const untouched = canonicalState(startState(db));

const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.anything({ withBigInt: true, withMap: true, withNullPrototype: true, withSparseArray: true, maxDepth: 2 }),
);
const leg = fc.record(
  {
    flight_number: fc.constantFrom("TRS001", "TRS002", "TRS003", "TRS005", "X"),
    date: fc.constantFrom("2024-05-14", "2024-05-16", "2024-05-17", "2024-05-20", "x"),
    price: anything,
  },
  { requiredKeys: ["flight_number"] },
);
const amount = fc.oneof(
  fc.constantFrom(0, 60, 90, 120, 150, 300, new PyFloat(120), true, "120", null),
  fc.double().map((value) => new PyFloat(value)),
);
const payment_id = fc.constantFrom(
  "credit_card_1000001",
  "gift_card_1000002",
  "certificate_1000003",
  "certificate_1000004",
  "credit_card_2000001",
);

/** Arguments that are often right, so that all ways through the tools are taken. */
const likely: Record<string, fc.Arbitrary<unknown>> = {
  user_id: fc.constantFrom("noor_halvorsen_4821", "felix_weber_1111", "x"),
  reservation_id: fc.constantFrom("AAA111", "BBB222", "123456", "CCC333", "HATHAT", "HATHAU"),
  origin: fc.constantFrom("SFO", "JFK", "DEN"),
  destination: fc.constantFrom("SFO", "JFK", "DEN"),
  date: fc.constantFrom("2024-05-08", "2024-05-16", "2024-05-17"),
  cabin: fc.constantFrom("basic_economy", "economy", "business", "first"),
  flights: fc.array(fc.oneof({ weight: 6, arbitrary: leg }, anything), { maxLength: 3 }),
  passengers: fc.array(fc.constantFrom({ first_name: "A" }, 1, null), { maxLength: 3 }),
  payment_methods: fc.array(fc.record({ payment_id, amount }), { maxLength: 3 }),
  total_baggages: fc.integer({ min: -2, max: 5 }),
  nonfree_baggages: fc.oneof(fc.integer({ min: -2, max: 3 }), amount),
  insurance: fc.constantFrom("yes", "no"),
  payment_id,
  amount,
  expression: fc.string({ unit: fc.constantFrom(..."0123456789+-*/(). ") }),
};

const action: fc.Arbitrary<Action> = fc.constantFrom(...airlineTools).chain(({ name, argument_names }) => {
  const entries = argument_names.map((argument) => {
    const good = likely[argument] ?? fc.string();
    return [argument, fc.oneof({ weight: 12, arbitrary: good }, anything)] as const;
  });
  return fc
    .oneof({ weight: 15, arbitrary: fc.record(Object.fromEntries(entries)) as fc.Arbitrary<unknown> }, anything)
    .map((kwargs) => ({ name, kwargs }));
});

test("any sequence of calls with any arguments gives texts, never an exception, and leaves the database alone", () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 8 }), (actions) => {
      let state = startState(db);
      for (const call of actions) {
        const done = runAction(state, call);
        expect(typeof done.observation).toBe("string");
        if (done.failed) {
          expect(done.observation).toMatch(/^Error: /);
          const doubleCertificate = /^Error: 'certificate_\d{7}'$/.test(done.observation);
          if (!doubleCertificate) expect(done.state).toBe(state);
        }
        state = done.state;
      }
    }),
    { numRuns: 600 },
  );
  expect(canonicalState(startState(db))).toBe(untouched);
});

/** The same data as a database of its own: what a full copy for every episode would be. */
function deepCopy(state: DataState): DataState {
  const copy = (table: ReadonlyMap<string, PyDict>) => fromPlain(table) as unknown as ReadonlyMap<string, PyDict>;
  return startState(
    makeAirlineDb({
      flights: copy(state.db.flights),
      reservations: copy(new Map([...state.db.reservations, ...state.reservations])),
      users: copy(new Map([...state.db.users, ...state.users])),
    }),
  );
}

test("the overlay gives the texts and the data that a deep copy before every call would", () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 5 }), (actions) => {
      let state = startState(db);
      let copied = deepCopy(state);
      for (const call of actions) {
        const [overlay, copy] = [runAction(state, call), runAction(copied, call)];
        expect(overlay.observation).toBe(copy.observation);
        state = overlay.state;
        copied = deepCopy(copy.state);
        expect(canonicalState(state)).toBe(canonicalState(copied));
      }
      expect(sameData(state, copied)).toBe(true);
      expect(sameData(state, startState(db))).toBe(canonicalState(state) === untouched);
    }),
    { numRuns: 60 },
  );
});

test("a read changes nothing", () => {
  const reads = airlineTools.filter(({ writes }) => !writes).map(({ name }) => name);
  fc.assert(
    fc.property(action, (call) => {
      const state = startState(db);
      if (reads.includes(call.name)) expect(runAction(state, call).state).toBe(state);
    }),
  );
});
