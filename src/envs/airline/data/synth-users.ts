import type { PyDict, PyValue } from "./python-values.ts";
import { record, two } from "./synth-flights.ts";
import { CITIES, FIRST_NAMES, LAST_NAMES, looksLikePlaceholder, STREET_KINDS, STREETS } from "./synth-names.ts";
import { type SynthRandom, synthRandom } from "./synth-random.ts";
import type { Membership } from "./types.ts";

// Users of the synthetic database (airline.md 1.3 and 1.5).

/** How many users of 500 have so many payment methods. */
const METHOD_COUNTS = [
  [1, 80],
  [2, 142],
  [3, 111],
  [4, 90],
  [5, 41],
  [6, 28],
  [7, 8],
] as const;
const MEMBERSHIP_SHARES = [
  ["regular", 29],
  ["silver", 36],
  ["gold", 35],
] as const;
const SOURCES = [
  ["credit_card", 503],
  ["gift_card", 516],
  ["certificate", 467],
] as const;
const CERTIFICATE_AMOUNTS = [100, 150, 250, 500]; // dollars

/** A user while the database is made. */
export interface UserPlan {
  id: string;
  membership: Membership;
  self: Person;
  saved: Person[];
  /** Ids of credit cards and gift cards: what a reservation can be paid with. */
  cards: string[];
  giftCards: string[];
  reservations: string[];
  fields: Record<string, PyValue>;
}

export interface Person {
  first_name: string;
  last_name: string;
  dob: string;
}

export function drawPerson(random: SynthRandom): Person {
  return { first_name: random.pick(FIRST_NAMES), last_name: random.pick(LAST_NAMES), dob: drawBirthday(random) };
}

function drawBirthday(random: SynthRandom): string {
  return `${random.int(1950, 2000)}-${two(random.int(1, 12))}-${two(random.int(1, 28))}`;
}

/** Digits of a fixed length, the first of which may be 0. */
function digits(random: SynthRandom, count: number): string {
  return String(random.int(0, 10 ** count - 1)).padStart(count, "0");
}

export function synthUsers(seed: string, count: number): UserPlan[] {
  const random = synthRandom(seed, "users");
  const taken = new Set<string>();
  const fresh = (draw: () => string) => {
    for (;;) {
      const id = draw();
      if (taken.has(id) || looksLikePlaceholder(id)) continue;
      taken.add(id);
      return id;
    }
  };
  // Ids of certificates that the tools give out.
  for (const id of [22, 23, 24]) taken.add(`certificate_32213${id}`);

  return Array.from({ length: count }, () => {
    const self = drawPerson(random);
    const words = `${self.first_name}_${self.last_name}`.toLowerCase();
    const id = fresh(() => `${words}_${digits(random, 4)}`);
    const [city, state, zip] = random.pick(CITIES);
    const methods = Array.from({ length: random.weighted(METHOD_COUNTS) }, () => drawMethod(random, fresh));
    const saved = Array.from({ length: random.chance(172, 500) ? 2 : 1 }, () => drawPerson(random));
    const idsOf = (source: string) =>
      methods.filter((method) => method.get("source") === source).map((method) => method.get("id") as string);
    const membership = random.weighted(MEMBERSHIP_SHARES);
    return {
      id,
      membership,
      self,
      saved,
      cards: idsOf("credit_card"),
      giftCards: idsOf("gift_card"),
      reservations: [],
      fields: {
        name: record({ first_name: self.first_name, last_name: self.last_name }),
        address: record({
          address1: `${random.int(100, 999)} ${random.pick(STREETS)} ${random.pick(STREET_KINDS)}`,
          address2: `Suite ${random.int(100, 999)}`,
          city,
          country: "USA",
          state,
          zip: `${zip}${digits(random, 2)}`,
        }),
        email: `${words.replace("_", ".")}${digits(random, 4)}@example.com`,
        dob: self.dob,
        payment_methods: new Map(methods.map((method) => [method.get("id") as string, method])),
        saved_passengers: saved.map((person) => record({ ...person })),
        membership,
      },
    };
  });
}

function drawMethod(random: SynthRandom, fresh: (draw: () => string) => string): PyDict {
  const source = random.weighted(SOURCES);
  const id = fresh(() => `${source}_${random.int(1_000_000, 9_999_999)}`);
  if (source === "credit_card")
    return record({ source, brand: random.pick(["visa", "mastercard"]), last_four: digits(random, 4), id });
  const amount = source === "gift_card" ? random.int(0, 300) : random.pick(CERTIFICATE_AMOUNTS);
  return record({ source, amount, id });
}

/** The record as it stands in the file; reservations come last. */
export function userRecord(plan: UserPlan): PyDict {
  return record({ ...plan.fields, reservations: plan.reservations });
}
