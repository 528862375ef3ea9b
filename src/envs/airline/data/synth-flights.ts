import { AIRPORTS } from "./airports.ts";
import type { PyDict, PyValue } from "./python-values.ts";
import { FLIGHT_PREFIX } from "./synth-names.ts";
import { type SynthRandom, synthRandom } from "./synth-random.ts";

// Routes, flights and days of the synthetic database (airline.md 1.1 and 1.5).

/** May 2024 has the days 1 to 30 here; it is the 15th, 15:00. */
export const TODAY = 15;
export const LAST_DAY = 30;
const NOW_HOUR = 15;
const DURATIONS = [60, 90, 120, 150, 180, 210, 240, 270, 300, 330, 360]; // minutes
/** How many ordered pairs have 1, 2, … flights: the most have two. */
const FLIGHTS_PER_PAIR = [
  [1, 20],
  [2, 30],
  [3, 20],
  [4, 12],
  [5, 7],
  [6, 5],
  [7, 3],
  [8, 2],
  [9, 1],
] as const;
const MOST_PER_PAIR = 9;

/** A flight as reservations need it; times in minutes from the midnight before departure. */
export interface FlightPlan {
  number: string;
  origin: string;
  destination: string;
  departs: number;
  arrives: number;
}

/** A minute of May 2024, counted from midnight of May 1st, as HH:MM:00 or as an ISO time. */
const clock = (minute: number) => `${two(Math.floor((minute % 1440) / 60))}:${two(minute % 60)}:00`;
export const two = (value: number) => String(value).padStart(2, "0");
/** YYYY-MM-DD of a day of May; 0 is April 30th. */
export const dateText = (day: number) =>
  day < 1 ? `2024-04-${two(30 + day)}` : day > 31 ? `2024-06-${two(day - 31)}` : `2024-05-${two(day)}`;
const moment = (day: number, minute: number) => {
  const days = Math.floor(minute / 1440);
  return `${dateText(day + days)}T${clock(minute - days * 1440)}`;
};

export function synthFlights(seed: string, count: number): { plans: FlightPlan[]; flights: Map<string, PyDict> } {
  const plans = drawPlans(seed, count);
  const random = synthRandom(seed, "days");
  const flights = new Map<string, PyDict>();
  for (const plan of plans) {
    const dates = new Map<string, PyDict>();
    for (let day = 1; day <= LAST_DAY; day++) dates.set(dateText(day), dayRecord(random, plan, day));
    const overnight = plan.arrives >= 1440 ? "+1" : "";
    flights.set(
      plan.number,
      record({
        flight_number: plan.number,
        origin: plan.origin,
        destination: plan.destination,
        scheduled_departure_time_est: clock(plan.departs),
        scheduled_arrival_time_est: `${clock(plan.arrives)}${overnight}`,
        dates,
      }),
    );
  }
  return { plans, flights };
}

/** A dict of the given fields in the given order. */
export function record(fields: Record<string, PyValue>): Map<string, PyValue> {
  return new Map(Object.entries(fields));
}

type Pair = readonly [from: string, to: string];

/**
 * A connected graph over the 20 airports: first a tree around two hubs, then edges drawn at random with hubs preferred.
 * A few edges go one way only, where at least 90 % of all pairs stay within one stop.
 */
function drawRoutes(random: SynthRandom, flights: number): { pair: Pair; minutes: number }[] {
  const codes = random.shuffle(AIRPORTS.map(([code]) => code));
  const [hub, second] = codes as [string, string];
  const wanted = Math.min(54, Math.max(codes.length, Math.round((54 * flights) / 300)));
  const edges = new Map<string, Pair>();
  const add = (a: string, b: string) => {
    const key = a < b ? `${a}-${b}` : `${b}-${a}`;
    if (a !== b && !edges.has(key)) edges.set(key, [a, b]);
  };
  for (const code of codes) add(hub, code);
  for (const code of codes.slice(2, 2 + Math.floor((wanted - edges.size) / 2))) add(second, code);
  while (edges.size < wanted) add(random.pick(codes), random.pick(codes));

  const routes = [...edges.values()].map((pair) => ({ pair, minutes: random.pick(DURATIONS), both: true }));
  const oneWay = Math.round(routes.length / 6);
  for (const route of random.shuffle(routes).slice(0, oneWay)) {
    route.both = false;
    if (withinOneStop(routes) < 90) route.both = true;
  }
  return routes.flatMap(({ pair: [a, b], minutes, both }) =>
    both
      ? [
          { pair: [a, b] as const, minutes },
          { pair: [b, a] as const, minutes },
        ]
      : [{ pair: [a, b] as const, minutes }],
  );
}

/** How many of 100 ordered pairs are reached with at most one stop. */
function withinOneStop(routes: readonly { pair: Pair; both: boolean }[]): number {
  const next = new Map(AIRPORTS.map(([code]) => [code, new Set<string>()]));
  for (const {
    pair: [a, b],
    both,
  } of routes) {
    next.get(a)!.add(b);
    if (both) next.get(b)!.add(a);
  }
  let reached = 0;
  for (const [from, direct] of next) {
    const all = new Set(direct);
    for (const stop of direct) for (const to of next.get(stop)!) all.add(to);
    all.delete(from);
    reached += all.size;
  }
  return (100 * reached) / (AIRPORTS.length * (AIRPORTS.length - 1));
}

function drawPlans(seed: string, count: number): FlightPlan[] {
  const routes = drawRoutes(synthRandom(seed, "routes"), count);
  const random = synthRandom(seed, "flights");
  const counts: number[] = routes.map(() => random.weighted(FLIGHTS_PER_PAIR));
  let total = counts.reduce((sum, flights) => sum + flights, 0);
  while (total !== count) {
    const route = random.int(0, routes.length - 1);
    // Pairs with two flights are left alone while others can give or take: two stays the commonest number.
    const step = total < count ? 1 : -1;
    const flights = counts[route]!;
    if (flights + step < 1 || flights + step > MOST_PER_PAIR || (flights === 2 && random.chance(3, 4))) continue;
    counts[route] = flights + step;
    total += step;
  }
  // Hours are dealt, not drawn: each of the 24 comes up before one comes up twice.
  let hours: number[] = [];
  const plans: FlightPlan[] = [];
  const order = random.shuffle(routes.flatMap((route, i) => Array.from({ length: counts[i]! }, () => route)));
  for (const [i, { pair, minutes }] of order.entries()) {
    if (hours.length === 0) hours = random.shuffle(Array.from({ length: 24 }, (_, hour) => hour));
    const departs = hours.pop()! * 60;
    plans.push({
      number: `${FLIGHT_PREFIX}${String(i + 1).padStart(3, "0")}`,
      origin: pair[0],
      destination: pair[1],
      departs,
      arrives: departs + minutes,
    });
  }
  return plans;
}

function dayRecord(random: SynthRandom, plan: FlightPlan, day: number): PyDict {
  if (day > TODAY) return availableDay(random);
  if (day === TODAY) return today(random, plan);
  if (random.chance(9, 100)) return record({ status: "cancelled" });
  const departure = plan.departs + random.int(-30, 30);
  return record({
    status: "landed",
    actual_departure_time_est: moment(day, departure),
    actual_arrival_time_est: moment(day, arrivalAfter(random, plan, departure)),
  });
}

function availableDay(random: SynthRandom): PyDict {
  return record({
    status: "available",
    available_seats: record({
      basic_economy: random.int(0, 20),
      economy: random.int(0, 20),
      business: random.int(0, 20),
    }),
    prices: record({
      basic_economy: random.int(50, 100),
      economy: random.int(100, 200),
      business: random.int(200, 500),
    }),
  });
}

/** At most an hour early or late, and never in less than half of the time. */
function arrivalAfter(random: SynthRandom, plan: FlightPlan, departure: number): number {
  const soonest = departure + (plan.arrives - plan.departs) / 2;
  return plan.arrives + random.int(Math.max(-60, Math.ceil(soonest - plan.arrives)), 59);
}

/** It is 15:00: what has departed is in the air or down, what hasn't is on time or delayed. */
function today(random: SynthRandom, plan: FlightPlan): PyDict {
  const now = NOW_HOUR * 60;
  const shift = random.int(-30, 30);
  const departure = plan.departs + shift;
  if (departure < now) {
    const arrival = arrivalAfter(random, plan, departure);
    return arrival <= now
      ? record({
          status: "landed",
          actual_departure_time_est: moment(TODAY, departure),
          actual_arrival_time_est: moment(TODAY, arrival),
        })
      : record({
          status: "flying",
          actual_departure_time_est: moment(TODAY, departure),
          estimated_arrival_time_est: moment(TODAY, arrival),
        });
  }
  const delayed = random.chance(42, 100);
  const late = delayed ? random.int(42, 205) : 0;
  return record({
    status: delayed ? "delayed" : "on time",
    estimated_departure_time_est: moment(TODAY, delayed ? plan.departs + late : departure),
    estimated_arrival_time_est: moment(TODAY, delayed ? plan.arrives + late : plan.arrives + random.int(-30, 30)),
  });
}
