import { fromPlain, toPlain } from "../data/python-values.ts";
import { type DataState, reservationOf, startState, userOf } from "../data/state.ts";
import type { Cabin, Reservation, User } from "../data/types.ts";
import { type Action, airlineToolNamed, runAction } from "../tools/index.ts";
import {
  airlineCancelled,
  CANCELLED_COMPENSATION,
  type CancelReason,
  canBeCompensated,
  cancelProblem,
  chargedBags,
  DELAYED_COMPENSATION,
  dayOf,
  hasDelay,
  isFlown,
  MOST_PASSENGERS,
  MOST_PAYMENTS,
} from "./facts.ts";
import { itineraryProblem } from "./itinerary.ts";

// The rules of the policy that a write can break, as code (airline.md section 3). What hangs on the dialogue is judged
// only where the caller says what was said. Rules 1, 2, 4 to 7, 14 and 25 are about talking and not judged here.

export interface Violation {
  /** Number of the rule in section 3. */
  rule: number;
  why: string;
}

/** What was said, as far as it is known: what is left out isn't judged. */
export interface Talk {
  /** Whether the customer said yes to the details of this write (rule 3). */
  confirmed?: boolean;
  /** Why the customer cancels (rules 21 and 23). null: it wasn't asked. */
  reason?: CancelReason | null;
  /** Whether the customer complained and asked for compensation (rule 26). */
  asked_for_compensation?: boolean;
}

/** A write about to be made. */
export interface PolicyCase {
  /** The data before it. */
  state: DataState;
  /** The customer. null: nobody has said who they are. */
  user_id: string | null;
  /** The calls made so far, oldest first. */
  history: readonly Action[];
  talk?: Talk;
}

type Args = Record<string, unknown>;

/**
 * The rules that a write would break; [] for one that breaks none, and for any call that writes nothing. Judges the call
 * alone, whether or not the tool would take it.
 */
export function checkWrite(write: Action, given: PolicyCase): Violation[] {
  const tool = airlineToolNamed(write.name);
  if (!tool?.writes) return [];
  const args = plainArgs(write);
  const { confirmed } = given.talk ?? {};
  const found: Violation[] =
    confirmed === false && write.name !== "send_certificate"
      ? [{ rule: 3, why: "the customer didn't say yes to the details" }]
      : [];
  return [...found, ...CHECKS[write.name]!(args, given)];
}

/** A gold sequence played from a state: the rules that each of its writes breaks, with the write's place in the list. */
export function checkActions(
  state: DataState,
  user_id: string,
  actions: readonly Action[],
  talk: (index: number) => Talk = () => ({}),
): (Violation & { index: number })[] {
  const found: (Violation & { index: number })[] = [];
  let now = state;
  for (const [index, action] of actions.entries()) {
    const history = actions.slice(0, index);
    for (const violation of checkWrite(action, { state: now, user_id, history, talk: talk(index) }))
      found.push({ index, ...violation });
    now = runAction(now, action).state;
  }
  return found;
}

const CHECKS: Record<string, (args: Args, given: PolicyCase) => Violation[]> = {
  book_reservation: checkBooking,
  cancel_reservation: checkCancel,
  send_certificate: checkCertificate,
  update_reservation_baggages: checkBaggages,
  update_reservation_flights: checkFlights,
  update_reservation_passengers: checkPassengers,
};

function plainArgs(write: Action): Args {
  const args = toPlain(fromPlain(write.kwargs));
  return typeof args === "object" && args !== null && !Array.isArray(args) ? (args as Args) : {};
}

function list(value: unknown): Args[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "object" && item !== null) : [];
}

/** The reservation that a write names, with its owner, if it is the customer's. */
function ownReservation(
  args: Args,
  { state, user_id }: PolicyCase,
  rule: number,
): { reservation: Reservation; user: User } | Violation {
  const reservation = reservationOf(state, String(args.reservation_id));
  const user = reservation && userOf(state, reservation.user_id);
  if (!reservation || !user) return { rule, why: `there is no reservation '${String(args.reservation_id)}'` };
  if (reservation.user_id !== user_id)
    return { rule, why: `reservation ${reservation.reservation_id} isn't the customer's` };
  return { reservation, user };
}

function isViolation(value: object): value is Violation {
  return "rule" in value;
}

/**
 * The cabin that is flown in. The record keeps the one that was booked, which is also what rules 16 and 23 go by: an
 * upgrade is no way around them. Bags go by the cabin flown in.
 */
function flownCabin(reservation: Reservation, history: readonly Action[]): Cabin {
  const changes = history.filter(({ name, kwargs }) => {
    if (name !== "update_reservation_flights") return false;
    return plainArgs({ name, kwargs }).reservation_id === reservation.reservation_id;
  });
  const latest = changes.at(-1);
  return ((latest && plainArgs(latest).cabin) as Cabin | undefined) ?? reservation.cabin;
}

function checkBooking(args: Args, { state, user_id }: PolicyCase): Violation[] {
  const user = userOf(state, String(args.user_id));
  if (!user || args.user_id !== user_id) return [{ rule: 9, why: "it is booked for someone who isn't the customer" }];
  const found: Violation[] = [];
  const legs = list(args.flights) as { flight_number: string; date: string }[];
  const passengers = list(args.passengers);
  const cabin = args.cabin as Cabin;
  for (const leg of legs) {
    const day = dayOf(state.db, leg);
    if (day?.status !== "available")
      found.push({ rule: 8, why: `flight ${leg.flight_number} can't be booked on ${leg.date}` });
    else if (!(day.available_seats[cabin] >= passengers.length))
      found.push({ rule: 8, why: `flight ${leg.flight_number} has too few seats on ${leg.date}` });
  }
  const trip = { origin: args.origin as string, destination: args.destination as string };
  const problem = itineraryProblem(state.db, legs, { ...trip, flight_type: args.flight_type as string });
  if (problem) found.push({ rule: 9, why: problem });
  if (passengers.length < 1 || passengers.length > MOST_PASSENGERS)
    found.push({ rule: 10, why: `${passengers.length} passengers; from 1 to ${MOST_PASSENGERS} are allowed` });
  if (passengers.some(({ first_name, last_name, dob }) => !first_name || !last_name || !dob))
    found.push({ rule: 10, why: "a passenger's name or date of birth is missing" });
  found.push(...checkPaymentCounts(user, list(args.payment_methods)));
  found.push(...checkBags(user, cabin, passengers.length, args));
  return found;
}

function checkPaymentCounts(user: User, payments: readonly Args[]): Violation[] {
  const ids = payments.map(({ payment_id }) => String(payment_id));
  const found: Violation[] = [];
  if (new Set(ids).size < ids.length) found.push({ rule: 11, why: "a payment method is listed twice" });
  const unknown = ids.find((id) => !Object.hasOwn(user.payment_methods, id));
  if (unknown !== undefined) found.push({ rule: 11, why: `payment method ${unknown} isn't in the profile` });
  for (const [source, most] of Object.entries(MOST_PAYMENTS)) {
    const count = ids.filter((id) => user.payment_methods[id]?.source === source).length;
    if (count > most) found.push({ rule: 11, why: `${count} payments by ${source}; at most ${most} are allowed` });
  }
  return found;
}

function checkBags(user: User, cabin: Cabin, passengers: number, args: Args): Violation[] {
  const bags = Number(args.total_baggages);
  const charged = chargedBags(user.membership, cabin, passengers, bags);
  if (Number(args.nonfree_baggages) === charged) return [];
  return [{ rule: 13, why: `${charged} of ${bags} bags are to be charged, not ${String(args.nonfree_baggages)}` }];
}

function checkCancel(args: Args, given: PolicyCase): Violation[] {
  const own = ownReservation(args, given, 21);
  if (isViolation(own)) return [own];
  const { reason } = given.talk ?? {};
  if (reason === null) return [{ rule: 21, why: "the reason wasn't asked for" }];
  const problem = cancelProblem(given.state.db, own.reservation, reason);
  return problem ? [problem] : [];
}

function checkFlights(args: Args, given: PolicyCase): Violation[] {
  const own = ownReservation(args, given, 15);
  if (isViolation(own)) return [own];
  const { db } = given.state;
  const { reservation, user } = own;
  if (reservation.status === "cancelled") return [{ rule: 16, why: "the reservation is cancelled" }];
  const found: Violation[] = [];
  const legs = list(args.flights) as { flight_number: string; date: string }[];
  const isKept = (leg: { flight_number: string; date: string }) => reservation.flights.some((own) => sameLeg(own, leg));
  const unchanged =
    legs.length === reservation.flights.length && legs.every((leg, i) => sameLeg(leg, reservation.flights[i]!));
  if (!unchanged) {
    if (reservation.cabin === "basic_economy")
      found.push({ rule: 16, why: "flights of a basic economy reservation can't be changed" });
    const problem = itineraryProblem(db, legs, reservation);
    if (problem) found.push({ rule: 16, why: problem });
    const dropped = reservation.flights.find((leg) => isFlown(db, leg) && !legs.some((other) => sameLeg(other, leg)));
    if (dropped) found.push({ rule: 24, why: `flight ${dropped.flight_number} has departed and can't be changed` });
  }
  const cabin = args.cabin as Cabin;
  for (const leg of legs) {
    if (isKept(leg) && cabin === flownCabin(reservation, given.history)) continue;
    if (dayOf(db, leg)?.status !== "available")
      found.push({ rule: 8, why: `flight ${leg.flight_number} can't be booked on ${leg.date}` });
  }
  found.push(...checkOnePayment(user, args, 20));
  return found;
}

function sameLeg(a: { flight_number: string; date: string }, b: { flight_number: string; date: string }): boolean {
  return a.flight_number === b.flight_number && a.date === b.date;
}

function checkOnePayment(user: User, args: Args, rule: number): Violation[] {
  const method = Object.hasOwn(user.payment_methods, String(args.payment_id))
    ? user.payment_methods[String(args.payment_id)]
    : undefined;
  if (!method) return [{ rule, why: `payment method ${String(args.payment_id)} isn't in the profile` }];
  return method.source === "certificate" ? [{ rule, why: "a change can't be paid with a certificate" }] : [];
}

function checkBaggages(args: Args, given: PolicyCase): Violation[] {
  const own = ownReservation(args, given, 15);
  if (isViolation(own)) return [own];
  const { reservation, user } = own;
  const found: Violation[] = [];
  if (Number(args.total_baggages) < reservation.total_baggages)
    found.push({ rule: 18, why: "bags can be added, not removed" });
  const cabin = flownCabin(reservation, given.history);
  found.push(...checkBags(user, cabin, reservation.passengers.length, args));
  found.push(...checkOnePayment(user, args, 20));
  return found;
}

function checkPassengers(args: Args, given: PolicyCase): Violation[] {
  const own = ownReservation(args, given, 15);
  if (isViolation(own)) return [own];
  const passengers = list(args.passengers);
  const found: Violation[] = [];
  if (passengers.length !== own.reservation.passengers.length)
    found.push({ rule: 19, why: "the number of passengers can't change" });
  if (passengers.some(({ first_name, last_name, dob }) => !first_name || !last_name || !dob))
    found.push({ rule: 10, why: "a passenger's name or date of birth is missing" });
  return found;
}

/** Why a certificate isn't due: judged for each of the customer's reservations, and the one that is nearest counts. */
function checkCertificate(args: Args, given: PolicyCase): Violation[] {
  const { state, user_id, talk } = given;
  const user = userOf(state, String(args.user_id));
  if (!user || args.user_id !== user_id) return [{ rule: 26, why: "it goes to someone who isn't the customer" }];
  const found: Violation[] = [];
  if (talk?.asked_for_compensation === false)
    found.push({ rule: 26, why: "the customer didn't complain and ask for it" });
  const reservations = user.reservations.flatMap((id) => reservationOf(state, id) ?? []);
  const problems = reservations.map((reservation) => certificateProblem(reservation, user, Number(args.amount), given));
  if (problems.includes(null)) return found;
  const nearest = problems.toSorted((a, b) => b!.rule - a!.rule)[0];
  return [...found, nearest ?? { rule: 27, why: "the customer has no reservation" }];
}

function certificateProblem(reservation: Reservation, user: User, amount: number, given: PolicyCase): Violation | null {
  const { db } = given.state;
  const id = reservation.reservation_id;
  // A change may have exchanged the delayed flight: what was booked before it counts.
  const booked = reservationOf(startState(db), id) ?? reservation;
  const [cancelled, delayed] = [airlineCancelled(db, booked), hasDelay(db, booked)];
  if (!cancelled && !delayed) return { rule: 26, why: "no flight of a reservation was cancelled or is delayed" };
  if (!canBeCompensated(user.membership, reservation))
    return { rule: 27, why: `${id}: a regular member, not insured, not in business` };
  const passengers = reservation.passengers.length;
  if (cancelled && amount === CANCELLED_COMPENSATION * passengers) return null;
  if (!delayed)
    return { rule: 28, why: `${id}: $${CANCELLED_COMPENSATION} for each of ${passengers} passengers, not $${amount}` };
  if (amount !== DELAYED_COMPENSATION * passengers)
    return { rule: 29, why: `${id}: $${DELAYED_COMPENSATION} for each of ${passengers} passengers, not $${amount}` };
  const changed = given.history.some(
    (action) =>
      ["update_reservation_flights", "cancel_reservation"].includes(action.name) &&
      plainArgs(action).reservation_id === id,
  );
  return changed ? null : { rule: 29, why: `${id}: the delayed trip was neither changed nor cancelled first` };
}
