import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { chargedBags } from "../policy/facts.ts";
import { AIRPORTS } from "./airports.ts";
import type { AirlineDb } from "./db.ts";
import { allFlights, flightOf, reservationIds, reservationOf, startState, userIds, userOf } from "./state.ts";
import { stateSha256 } from "./state-hash.ts";
import { airlineDbFiles, SHIPPED_SEED, sharedSynthDb, synthAirlineDb } from "./synth.ts";
import { FIRST_NAMES, LAST_NAMES, looksLikePlaceholder } from "./synth-names.ts";
import { fnv1a32, synthRandom, xoshiro128 } from "./synth-random.ts";
import type { Reservation } from "./types.ts";

/** The shipped database: `state_sha256` of scale 1 and 0.1, and the SHA-256 of the three files' texts. */
const SHIPPED = {
  1: {
    state: "5d09f04d23f4f188f971fb11856d6ba89c4ebeb206d1deb46838c4c7a2528458",
    files: "8cfc66d315e0b0a7e781ca160df4ea7a9cebe5c96e18308acdfd6e95ab20d4f8",
  },
  0.1: {
    state: "de8273faaac74a0282acf2f15ec97fd5ac2ee916cdbb92dd2086a155a52dd825",
    files: "c362579e53bfeccbfc4fc0abee7d9e1aeefccff29b616a599d56630ea1ccf114",
  },
} as const;

const NOW = "2024-05-15T15:00:00";
const scales = [1, 0.1] as const;

function filesHash(db: AirlineDb): string {
  const hash = createHash("sha256");
  for (const [name, text] of Object.entries(airlineDbFiles(db))) hash.update(`${name}\n${text}`);
  return hash.digest("hex");
}

function reservations(db: AirlineDb): Reservation[] {
  const state = startState(db);
  return reservationIds(state).map((id) => reservationOf(state, id)!);
}

function count<Key>(items: Iterable<Key>): Map<Key, number> {
  const counts = new Map<Key, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}

/** Minutes between two ISO times. */
function minutesBetween(from: string, to: string): number {
  return (Date.parse(`${to}Z`) - Date.parse(`${from}Z`)) / 60_000;
}

test("the generator's numbers are fixed", () => {
  expect(fnv1a32("")).toBe(0x811c9dc5);
  expect(fnv1a32("a")).toBe(0xe40c292c);
  expect(fnv1a32("foobar")).toBe(0xbf9cf968);
  const next = xoshiro128([1, 2, 3, 4]);
  expect(Array.from({ length: 6 }, next)).toEqual([11520, 0, 5927040, 70819200, 2031721883, 1637235492]);
  const random = synthRandom("seed", "routes");
  const again = synthRandom("seed", "routes");
  const other = synthRandom("seed", "flights");
  const draws = Array.from({ length: 8 }, () => random.uint32());
  expect(Array.from({ length: 8 }, () => again.uint32())).toEqual(draws);
  expect(Array.from({ length: 8 }, () => other.uint32())).not.toEqual(draws);
  const rolls = Array.from({ length: 6000 }, () => random.int(1, 6));
  for (const [, times] of count(rolls)) expect(Math.abs(times - 1000)).toBeLessThan(120);
  expect(count(rolls).size).toBe(6);
  expect(random.shuffle([1, 2, 3, 4]).sort()).toEqual([1, 2, 3, 4]);
  expect(() => random.int(2, 1)).toThrow("expected two integers");
});

test.each(scales)("scale %d has the committed hash, in every process", (scale) => {
  const db = sharedSynthDb(SHIPPED_SEED, scale);
  expect({ state: stateSha256(startState(db)), files: filesHash(db) }).toEqual(SHIPPED[scale]);
});

test("equal seeds give equal bytes, other seeds other data", () => {
  expect(airlineDbFiles(synthAirlineDb("twice", 0.1))).toEqual(airlineDbFiles(synthAirlineDb("twice", 0.1)));
  expect(airlineDbFiles(synthAirlineDb("once", 0.1))).not.toEqual(airlineDbFiles(synthAirlineDb("twice", 0.1)));
  expect(() => synthAirlineDb("seed", 0)).toThrow("expected a number above 0");
});

test("scale 1 has 300 flights, 500 users and 2,000 reservations; scale 0.1 has 60, 50 and 200", () => {
  const sizes = scales.map((scale) => {
    const { flights, users, reservations } = sharedSynthDb(SHIPPED_SEED, scale);
    return [flights.size, users.size, reservations.size];
  });
  expect(sizes).toEqual([
    [300, 500, 2000],
    [60, 50, 200],
  ]);
});

test.each(scales)("flights of scale %d: key, cities, times, 30 days, one duration a pair", (scale) => {
  const db = sharedSynthDb(SHIPPED_SEED, scale);
  const cities = new Set(AIRPORTS.map(([code]) => code));
  const durations = new Map<string, number>();
  const hours = new Set<string>();
  for (const [id, flight] of [...db.flights.keys()].map((id) => [id, flightOf(db, id)!] as const)) {
    expect(flight.flight_number).toBe(id);
    expect(id).toMatch(/^TRS\d{3}$/);
    expect(cities.has(flight.origin) && cities.has(flight.destination)).toBe(true);
    expect(flight.origin).not.toBe(flight.destination);
    expect(flight.scheduled_departure_time_est).toMatch(/^([01]\d|2[0-3]):00:00$/);
    expect(flight.scheduled_arrival_time_est).toMatch(/^([01]\d|2[0-3]):(00|30):00(\+1)?$/);
    hours.add(flight.scheduled_departure_time_est);
    expect(Object.keys(flight.dates)).toEqual(
      Array.from({ length: 30 }, (_, day) => `2024-05-${String(day + 1).padStart(2, "0")}`),
    );
    const pair = [flight.origin, flight.destination].sort().join("-");
    const overnight = flight.scheduled_arrival_time_est.endsWith("+1") ? 1440 : 0;
    const minutes =
      minutesBetween(
        `2024-05-01T${flight.scheduled_departure_time_est}`,
        `2024-05-01T${flight.scheduled_arrival_time_est.slice(0, 8)}`,
      ) + overnight;
    expect(minutes % 30 === 0 && minutes >= 60 && minutes <= 360).toBe(true);
    expect(durations.get(pair) ?? minutes).toBe(minutes);
    durations.set(pair, minutes);
  }
  expect(hours.size).toBe(24);
});

test.each(scales)("days of scale %d: each status has its keys in order, on the days where it may be", (scale) => {
  const db = sharedSynthDb(SHIPPED_SEED, scale);
  const actual = ["actual_departure_time_est", "actual_arrival_time_est"];
  const keys: Record<string, string[]> = {
    landed: actual,
    cancelled: [],
    flying: ["actual_departure_time_est", "estimated_arrival_time_est"],
    "on time": ["estimated_departure_time_est", "estimated_arrival_time_est"],
    delayed: ["estimated_departure_time_est", "estimated_arrival_time_est"],
    available: ["available_seats", "prices"],
  };
  const between = (value: number, low: number, high: number) => expect(value >= low && value <= high).toBe(true);
  const seen = new Set<string>();
  for (const flight of allFlights(db)) {
    for (const [date, day] of Object.entries(flight.dates)) {
      seen.add(day.status);
      expect(Object.keys(day)).toEqual(["status", ...keys[day.status]!]);
      const departs = `${date}T${flight.scheduled_departure_time_est}`;
      const overnight = flight.scheduled_arrival_time_est.endsWith("+1") ? 1440 : 0;
      const arrives = `${date}T${flight.scheduled_arrival_time_est.slice(0, 8)}`;
      const arrivesLate = (time: string) => minutesBetween(arrives, time) - overnight;
      if (date > "2024-05-15") expect(day.status).toBe("available");
      else if (date < "2024-05-15") expect(["landed", "cancelled"]).toContain(day.status);
      else expect(["landed", "flying", "on time", "delayed"]).toContain(day.status);
      if (day.status === "landed" || day.status === "flying") {
        between(minutesBetween(departs, day.actual_departure_time_est), -30, 30);
        expect(day.actual_departure_time_est <= NOW).toBe(true);
        const arrival = day.status === "landed" ? day.actual_arrival_time_est : day.estimated_arrival_time_est;
        between(arrivesLate(arrival), -60, 59);
        expect(day.actual_departure_time_est < arrival).toBe(true);
        expect(arrival <= NOW).toBe(day.status === "landed");
      } else if (day.status === "on time") {
        between(minutesBetween(departs, day.estimated_departure_time_est), -30, 30);
        between(arrivesLate(day.estimated_arrival_time_est), -30, 30);
        expect(day.estimated_departure_time_est >= NOW).toBe(true);
      } else if (day.status === "delayed") {
        const late = minutesBetween(departs, day.estimated_departure_time_est);
        between(late, 42, 205);
        expect(arrivesLate(day.estimated_arrival_time_est)).toBe(late);
      } else if (day.status === "available") {
        const cabins = ["basic_economy", "economy", "business"] as const;
        expect([Object.keys(day.available_seats), Object.keys(day.prices)]).toEqual([cabins, cabins]);
        for (const cabin of cabins) between(day.available_seats[cabin], 0, 20);
        between(day.prices.basic_economy, 50, 100);
        between(day.prices.economy, 100, 200);
        between(day.prices.business, 200, 500);
      }
    }
  }
  expect(seen).toEqual(new Set(Object.keys(keys)));
});

test("routes of scale 1: about 54 pairs, 1 to 9 flights each and mostly 2, a tenth over night", () => {
  const flights = allFlights(sharedSynthDb(SHIPPED_SEED, 1));
  const ordered = count(flights.map(({ origin, destination }) => `${origin}-${destination}`));
  const unordered = new Set(flights.map(({ origin, destination }) => [origin, destination].sort().join("-")));
  expect(unordered.size).toBe(54);
  expect(ordered.size).toBeLessThan(108); // a few go one way only
  const perPair = count(ordered.values());
  expect(Math.max(...perPair.keys())).toBeLessThanOrEqual(9);
  expect([...perPair].sort((a, b) => b[1] - a[1])[0]![0]).toBe(2);
  const overnight = flights.filter(({ scheduled_arrival_time_est }) => scheduled_arrival_time_est.endsWith("+1"));
  expect(overnight.length / flights.length).toBeGreaterThan(0.08);
  expect(overnight.length / flights.length).toBeLessThan(0.17);
});

test.each(scales)("at scale %d nine pairs of ten are reached with at most one stop", (scale) => {
  const flights = allFlights(sharedSynthDb(SHIPPED_SEED, scale));
  const next = new Map<string, Set<string>>();
  for (const { origin, destination } of flights) next.set(origin, (next.get(origin) ?? new Set()).add(destination));
  let reached = 0;
  for (const [from] of AIRPORTS)
    for (const [to] of AIRPORTS) {
      const direct = next.get(from) ?? new Set();
      if (from !== to && (direct.has(to) || [...direct].some((stop) => next.get(stop)?.has(to)))) reached++;
    }
  expect(reached / 380).toBeGreaterThanOrEqual(0.9);
});

test.each(scales)("users of scale %d: ids, methods, profiles", (scale) => {
  const db = sharedSynthDb(SHIPPED_SEED, scale);
  const state = startState(db);
  const methodIds = new Set<string>();
  for (const id of userIds(state)) {
    const user = userOf(state, id)!;
    expect(Object.keys(user)).toEqual([
      "name",
      "address",
      "email",
      "dob",
      "payment_methods",
      "saved_passengers",
      "membership",
      "reservations",
    ]);
    const name = `${user.name.first_name}_${user.name.last_name}`.toLowerCase();
    expect(id).toMatch(new RegExp(`^${name}_\\d{4}$`));
    expect(user.email).toMatch(new RegExp(`^${name.replace("_", "\\.")}\\d{4}@example\\.com$`));
    expect(user.dob).toMatch(/^(19[5-9]\d|2000)-\d{2}-\d{2}$/);
    expect(Object.keys(user.address)).toEqual(["address1", "address2", "city", "country", "state", "zip"]);
    expect(user.address.address2).toMatch(/^Suite \d{3}$/);
    expect([user.address.country, user.address.zip.length]).toEqual(["USA", 5]);
    expect(Object.keys(user.payment_methods).length).toBeGreaterThanOrEqual(1);
    expect(Object.keys(user.payment_methods).length).toBeLessThanOrEqual(7);
    for (const [key, method] of Object.entries(user.payment_methods)) {
      expect(method.id).toBe(key);
      expect(key).toMatch(new RegExp(`^${method.source}_\\d{7}$`));
      expect(key).not.toMatch(/^certificate_322132[234]$/);
      expect(methodIds.has(key)).toBe(false);
      methodIds.add(key);
      if (method.source === "credit_card") expect(Object.keys(method)).toEqual(["source", "brand", "last_four", "id"]);
      else expect(Object.keys(method)).toEqual(["source", "amount", "id"]);
      if (method.source === "gift_card") expect(method.amount >= 0 && method.amount <= 300).toBe(true);
      if (method.source === "certificate") expect([100, 150, 250, 500]).toContain(method.amount);
    }
    expect([1, 2]).toContain(user.saved_passengers.length);
    expect(user.reservations.length).toBeLessThanOrEqual(13);
    for (const reservation of user.reservations) expect(reservationOf(state, reservation)!.user_id).toBe(id);
  }
});

test.each(scales)("reservations of scale %d: every invariant of the data model", (scale) => {
  const db = sharedSynthDb(SHIPPED_SEED, scale);
  const state = startState(db);
  for (const [i, reservation] of reservations(db).entries()) {
    const { reservation_id, flights, passengers, payment_history, cabin, origin, destination } = reservation;
    expect(reservation_id).toBe(reservationIds(state)[i]);
    expect(reservation_id).toMatch(/^[A-Z0-9]{6}$/);
    expect(Object.keys(reservation)).toEqual([
      "reservation_id",
      "user_id",
      "origin",
      "destination",
      "flight_type",
      "cabin",
      "flights",
      "passengers",
      "payment_history",
      "created_at",
      "total_baggages",
      "nonfree_baggages",
      "insurance",
    ]);
    const owner = userOf(state, reservation.user_id)!;
    expect(owner.reservations).toContain(reservation_id);
    expect(payment_history).toHaveLength(1);
    const [{ payment_id, amount }] = payment_history as [{ payment_id: string; amount: number }];
    expect(["credit_card", "gift_card"]).toContain(owner.payment_methods[payment_id]!.source);
    const insurance = reservation.insurance === "yes" ? 30 : 0;
    expect(amount).toBe((flights.reduce((sum, { price }) => sum + price, 0) + insurance) * passengers.length);
    expect(passengers.length >= 1 && passengers.length <= 4).toBe(true);
    expect(new Set(passengers.map((p) => `${p.first_name} ${p.last_name}`)).size).toBe(passengers.length);
    expect(reservation.created_at >= "2024-04-30T00:00:00" && reservation.created_at < "2024-05-15").toBe(true);
    expect(reservation.created_at.slice(0, 10) < flights[0]!.date).toBe(true);
    const { total_baggages } = reservation;
    expect(chargedBags(owner.membership, cabin, passengers.length, total_baggages)).toBe(0);
    expect(reservation.nonfree_baggages).toBe(0);
    const [low, high] = { basic_economy: [50, 100], economy: [100, 200], business: [400, 2000] }[cabin] as [
      number,
      number,
    ];
    let at = origin;
    let ready = "";
    for (const leg of flights) {
      expect(Object.keys(leg)).toEqual(["origin", "destination", "flight_number", "date", "price"]);
      const flight = flightOf(db, leg.flight_number)!;
      expect([leg.origin, leg.destination]).toEqual([flight.origin, flight.destination]);
      expect(leg.origin).toBe(at);
      expect(Object.keys(flight.dates)).toContain(leg.date);
      expect(leg.price >= low && leg.price <= high).toBe(true);
      expect(`${leg.date}T${flight.scheduled_departure_time_est}` >= ready).toBe(true);
      const arrival = Date.parse(`${leg.date}T${flight.scheduled_arrival_time_est.slice(0, 8)}Z`);
      const overnight = flight.scheduled_arrival_time_est.endsWith("+1") ? 86_400_000 : 0;
      ready = new Date(arrival + overnight).toISOString().slice(0, 19);
      at = leg.destination;
    }
    expect(origin).not.toBe(destination);
    expect(at).toBe(reservation.flight_type === "one_way" ? destination : origin);
    if (reservation.flight_type === "round_trip") expect(flights.map((leg) => leg.destination)).toContain(destination);
    expect(flights.length).toBeLessThanOrEqual(reservation.flight_type === "one_way" ? 2 : 4);
  }
});

test("shares of scale 1 are near the original's", () => {
  const all = reservations(sharedSynthDb(SHIPPED_SEED, 1));
  const share = (holds: (reservation: Reservation) => boolean) => all.filter(holds).length / all.length;
  const near = (value: number, original: number, within = 0.05) =>
    expect(Math.abs(value - original)).toBeLessThan(within);
  near(
    share(({ cabin }) => cabin === "economy"),
    0.338,
  );
  near(
    share(({ flight_type }) => flight_type === "round_trip"),
    0.477,
  );
  near(
    share(({ insurance }) => insurance === "yes"),
    0.5,
  );
  near(
    share(({ passengers }) => passengers.length === 1),
    0.46,
  );
  near(
    share(({ flights }) => flights.every(({ date }) => date > "2024-05-15")),
    0.639,
    0.08,
  );
  near(
    share(({ flights }) => flights.every(({ date }) => date < "2024-05-15")),
    0.287,
    0.08,
  );
  const connections = all.flatMap(({ flights, destination, flight_type }) =>
    flights
      .slice(1)
      .map((leg, i) => [flights[i]!, leg] as const)
      .filter(([before]) => flight_type === "one_way" || before.destination !== destination),
  );
  near(connections.filter(([a, b]) => a.date !== b.date).length / connections.length, 0.43, 0.06);
  expect(all.filter(({ reservation_id }) => /^\d+$/.test(reservation_id))).toHaveLength(1);
});

test("no name, id or street reads as a placeholder", () => {
  const db = sharedSynthDb(SHIPPED_SEED, 1);
  expect(FIRST_NAMES.length >= 30 && LAST_NAMES.length >= 30).toBe(true);
  expect(new Set(FIRST_NAMES).size + new Set(LAST_NAMES).size).toBe(FIRST_NAMES.length + LAST_NAMES.length);
  const state = startState(db);
  const words = [
    ...FIRST_NAMES,
    ...LAST_NAMES,
    ...db.flights.keys(),
    ...db.reservations.keys(),
    ...db.users.keys(),
    ...userIds(state).flatMap((id) => {
      const user = userOf(state, id)!;
      return [...Object.keys(user.payment_methods), user.address.address1, user.address.city];
    }),
  ];
  expect(words.filter(looksLikePlaceholder)).toEqual([]);
  expect(looksLikePlaceholder("Anya")).toBe(true);
});
