import { freeBags } from "../policy/facts.ts";
import { AIRPORTS } from "./airports.ts";
import type { PyDict } from "./python-values.ts";
import { dateText, type FlightPlan, LAST_DAY, record, TODAY, two } from "./synth-flights.ts";
import { looksLikePlaceholder } from "./synth-names.ts";
import { type SynthRandom, synthRandom } from "./synth-random.ts";
import { drawPerson, type Person, type UserPlan } from "./synth-users.ts";
import { CABINS, type Cabin } from "./types.ts";

// Reservations of the synthetic database (airline.md 1.2 and 1.5).

/** A reservation's price of a leg, dollars. Business is far above the flights' own prices, as in the original. */
const LEG_PRICES: Record<Cabin, readonly [number, number]> = {
  basic_economy: [50, 100],
  economy: [100, 200],
  business: [400, 2000],
};
const PASSENGER_COUNTS = [
  [1, 920],
  [2, 662],
  [3, 323],
  [4, 95],
] as const;
const INSURANCE_PRICE = 30; // dollars a passenger
const MOST_RESERVATIONS = 13; // of one user
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

interface LegPlan {
  flight: FlightPlan;
  day: number;
}

/** Flights by "origin-destination". */
type Network = ReadonlyMap<string, readonly FlightPlan[]>;

export function synthReservations(
  seed: string,
  count: number,
  plans: readonly FlightPlan[],
  users: readonly UserPlan[],
): Map<string, PyDict> {
  const random = synthRandom(seed, "reservations");
  const network = networkOf(plans);
  // One in fifty travels never; who has only certificates can't have paid for a trip.
  const owners = users.filter(({ cards, giftCards }) => cards.length + giftCards.length > 0 && !random.chance(1, 50));
  const reservations = new Map<string, PyDict>();
  for (let made = 0; made < count; made++) {
    const owner = drawOwner(random, owners);
    const id = made === 0 ? random.int(100_000, 999_999).toString() : drawId(random, reservations);
    reservations.set(id, drawReservation(random, id, owner, network));
    owner.reservations.push(id);
  }
  // The one id of digits alone does not stand in front.
  return new Map(random.shuffle([...reservations]));
}

function networkOf(plans: readonly FlightPlan[]): Network {
  const network = new Map<string, FlightPlan[]>();
  for (const plan of plans) {
    const key = `${plan.origin}-${plan.destination}`;
    const flights = network.get(key);
    if (flights) flights.push(plan);
    else network.set(key, [plan]);
  }
  return network;
}

function drawOwner(random: SynthRandom, owners: readonly UserPlan[]): UserPlan {
  for (;;) {
    const owner = random.pick(owners);
    if (owner.reservations.length < MOST_RESERVATIONS) return owner;
  }
}

function drawId(random: SynthRandom, taken: ReadonlyMap<string, unknown>): string {
  for (;;) {
    const id = Array.from({ length: 6 }, () => random.pick([...LETTERS])).join("");
    // Not one that a booking gets, nor one that reads as a flight number or as digits alone.
    if (taken.has(id) || looksLikePlaceholder(id) || /^HATHA|^[A-Z]{3}\d{3}$|^\d+$/.test(id)) continue;
    return id;
  }
}

function drawReservation(random: SynthRandom, id: string, owner: UserPlan, network: Network): PyDict {
  const round = random.chance(954, 2000);
  const cabin = random.pick(CABINS);
  const { origin, destination, legs } = drawTrip(random, network, round);
  const passengers = drawPassengers(random, owner);
  const insured = random.chance(1, 2);
  const flights = legs.map(({ flight, day }) =>
    record({
      origin: flight.origin,
      destination: flight.destination,
      flight_number: flight.number,
      date: dateText(day),
      price: random.int(...LEG_PRICES[cabin]),
    }),
  );
  const fare = flights.reduce((total, leg) => total + (leg.get("price") as number), 0);
  const amount = (fare + (insured ? INSURANCE_PRICE : 0)) * passengers.length;
  const byCard = owner.giftCards.length === 0 || (owner.cards.length > 0 && random.chance(1035, 2000));
  return record({
    reservation_id: id,
    user_id: owner.id,
    origin,
    destination,
    flight_type: round ? "round_trip" : "one_way",
    cabin,
    flights,
    passengers: passengers.map((person) => record({ ...person })),
    payment_history: [record({ payment_id: random.pick(byCard ? owner.cards : owner.giftCards), amount })],
    created_at: drawCreation(random, legs[0]!.day),
    total_baggages: random.chance(1, 4) ? 0 : random.int(0, freeBags(owner.membership, cabin) * passengers.length),
    nonfree_baggages: 0,
    insurance: insured ? "yes" : "no",
  });
}

/** 1 to 27 days before the first leg, from April 30th to May 14th. */
function drawCreation(random: SynthRandom, firstDay: number): string {
  const day = random.int(Math.max(0, firstDay - 27), Math.min(TODAY - 1, firstDay - 1));
  return `${dateText(day)}T${two(random.int(0, 23))}:${two(random.int(0, 59))}:${two(random.int(0, 59))}`;
}

function drawPassengers(random: SynthRandom, owner: UserPlan): Person[] {
  const people: Person[] = [];
  const known = new Set<string>();
  const add = (person: Person) => {
    const name = `${person.first_name} ${person.last_name}`;
    if (known.has(name)) return;
    known.add(name);
    people.push(person);
  };
  const count = random.weighted(PASSENGER_COUNTS);
  add(random.chance(4, 5) ? owner.self : drawPerson(random));
  while (people.length < count) add(random.chance(1, 5) ? random.pick(owner.saved) : drawPerson(random));
  return people;
}

/** Where the trip goes, and when: two in three begin after today, a few today, the others before. */
function drawTrip(random: SynthRandom, network: Network, round: boolean) {
  for (;;) {
    const [origin, destination] = [random.pick(AIRPORTS)[0], random.pick(AIRPORTS)[0]];
    if (origin === destination) continue;
    const first = random.chance(64, 100)
      ? random.int(TODAY + 1, LAST_DAY - 2)
      : random.chance(1, 10)
        ? TODAY
        : random.int(1, TODAY - 1);
    const out = drawWay(random, network, origin, destination, first);
    if (!out) continue;
    if (!round) return { origin, destination, legs: out };
    const { flight, day } = out.at(-1)!;
    const landed = day + Math.floor(flight.arrives / 1440);
    const back = drawWay(random, network, destination, origin, landed + random.int(1, 5));
    if (back) return { origin, destination, legs: [...out, ...back] };
  }
}

/** One way, direct where there is a direct flight, else with one stop; null: not within the month. */
function drawWay(random: SynthRandom, network: Network, from: string, to: string, day: number): LegPlan[] | null {
  const direct = network.get(`${from}-${to}`);
  if (direct) return day <= LAST_DAY ? [{ flight: random.pick(direct), day }] : null;
  const pairs = AIRPORTS.flatMap(([stop]) =>
    (network.get(`${from}-${stop}`) ?? []).flatMap((first) =>
      (network.get(`${stop}-${to}`) ?? []).map((second) => ({ first, second })),
    ),
  );
  const sameDay = pairs.filter(({ first, second }) => first.arrives <= second.departs);
  // Together with the pairs that no same day serves, 43 % go on the next day.
  const overnight = random.chance(37, 100) || sameDay.length === 0;
  const nextDay = pairs.filter(({ first, second }) => first.arrives <= second.departs + 1440);
  const fitting = overnight ? nextDay : sameDay;
  const last = day + (overnight ? 1 : 0);
  if (fitting.length === 0 || last > LAST_DAY) return null;
  const { first, second } = random.pick(fitting);
  return [
    { flight: first, day },
    { flight: second, day: last },
  ];
}
