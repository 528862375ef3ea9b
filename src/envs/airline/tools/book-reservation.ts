import { toJson } from "../data/python-json.ts";
import {
  appended,
  arithmetic,
  dictItem,
  equals,
  item,
  iterate,
  length,
  less,
  lookup,
  sum,
  withKeys,
} from "../data/python-ops.ts";
import { repr, str } from "../data/python-text.ts";
import { isDict, isList, type PyDict, PythonError, type PyValue } from "../data/python-values.ts";
import { type DataState, findReservation, findUser, withReservation, withUser } from "../data/state.ts";
import { CABIN, flightList, PASSENGERS, USER_ID } from "./arguments.ts";
import { airlineTool, ChangedError, integer, listOf, number, oneOf, text } from "./define.ts";
import { pricedLegs } from "./itinerary.ts";
import { charged } from "./payment.ts";

/** Every booking is made at the time that it always is. */
const NOW = "2024-05-15T15:00:00";
const INSURANCE_PRICE = 30; // dollars a passenger
const BAG_PRICE = 50; // dollars

export const bookReservation = airlineTool({
  name: "book_reservation",
  description: "Book a new reservation and charge its price to the given payment methods.",
  parameters: {
    user_id: USER_ID,
    origin: text("Airport where the trip begins, an IATA code such as 'SFO'."),
    destination: text("Airport that the trip goes to, an IATA code such as 'JFK'."),
    flight_type: oneOf(["one_way", "round_trip"], "Whether the trip goes one way or there and back."),
    cabin: CABIN,
    flights: flightList("All flights of the trip in order, those of the way back included."),
    passengers: PASSENGERS,
    payment_methods: listOf("How the total price is paid; the amounts add up to it.", {
      payment_id: text("Id of a payment method in the customer's profile."),
      amount: number("Dollars paid with it."),
    }),
    total_baggages: integer("Number of checked bags of all passengers together."),
    nonfree_baggages: integer("How many of those bags are charged."),
    insurance: oneOf(["yes", "no"], "Whether travel insurance is bought."),
  },
  writes: true,
  run(state, args) {
    const user = findUser(state, args.user_id);
    if (!user) throw new PythonError("user not found");
    const user_id = args.user_id as string;
    const reservation_id = freeId(state);
    const passengers = () => length(args.passengers);
    const { legs, prices } = pricedLegs(state.db, args.flights, args.cabin, passengers);
    const total = totalPrice(prices, args);
    checkPayments(user, args.payment_methods, total);

    const paid = pay(state, user_id, user, args.payment_methods);
    const reservation: PyDict = new Map<string, PyValue>([
      ["reservation_id", reservation_id],
      ["user_id", user_id],
      ["origin", args.origin],
      ["destination", args.destination],
      ["flight_type", args.flight_type],
      ["cabin", args.cabin],
      ["flights", legs],
      ["passengers", args.passengers],
      ["payment_history", args.payment_methods],
      ["created_at", NOW],
      ["total_baggages", args.total_baggages],
      ["nonfree_baggages", args.nonfree_baggages],
      ["insurance", args.insurance],
    ]);
    const own = appended(item(paid, "reservations"), reservation_id);
    const booked = withReservation(state, reservation_id, reservation);
    return { state: withUser(booked, user_id, withKeys(paid, [["reservations", own]])), text: toJson(reservation) };
  },
});

/** The first free one of three ids. A quirk: the third is taken though it isn't free, so a fourth booking overwrites it. */
function freeId(state: DataState): string {
  return ["HATHAT", "HATHAU"].find((id) => !findReservation(state, id)) ?? "HATHAV";
}

function totalPrice(prices: readonly PyValue[], args: Record<string, PyValue>): PyValue {
  const { passengers = null, insurance = null, nonfree_baggages = null } = args;
  let total: PyValue = 0;
  for (const price of prices) total = arithmetic(total, "+", arithmetic(price, "*", length(passengers)), "+=");
  if (equals(insurance, "yes")) total = arithmetic(total, "+", INSURANCE_PRICE * length(passengers), "+=");
  // 50 times a text or a list is a longer one to Python; what fails is to add it.
  const bags =
    typeof nonfree_baggages === "string" || isList(nonfree_baggages)
      ? nonfree_baggages
      : arithmetic(BAG_PRICE, "*", nonfree_baggages);
  return arithmetic(total, "+", bags, "+=");
}

/** A quirk: each entry is checked alone, so a gift card that is listed twice can end below 0. */
function checkPayments(user: PyDict, payments: PyValue, total: PyValue): void {
  const methods = dictItem(user, "payment_methods");
  const entries = iterate(payments);
  for (const payment of entries) {
    const payment_id = item(payment, "payment_id");
    const method = lookup(methods, payment_id);
    if (!isDict(method)) throw new PythonError(`payment method ${str(payment_id)} not found`);
    const source = item(method, "source");
    const hasBalance = equals(source, "gift_card") || equals(source, "certificate");
    if (hasBalance && less(item(method, "amount"), item(payment, "amount")))
      throw new PythonError(`not enough balance in payment method ${str(payment_id)}`);
  }
  const paid = sum(entries.map((payment) => item(payment, "amount")));
  if (!equals(paid, total))
    throw new PythonError(`payment amount does not add up, total price is ${str(total)}, but paid ${str(paid)}`);
}

/**
 * The user after paying: gift cards are charged, certificates are gone whatever was left on them.
 * @throws ChangedError where a certificate is listed twice: the second time it is gone already, and stays gone.
 */
function pay(state: DataState, user_id: string, user: PyDict, payments: PyValue): PyDict {
  let paying = user;
  for (const payment of iterate(payments)) {
    const payment_id = item(payment, "payment_id") as string;
    const methods = dictItem(paying, "payment_methods");
    const method = methods.get(payment_id);
    if (method === undefined) throw new ChangedError(repr(payment_id), withUser(state, user_id, paying));
    const source = item(method, "source");
    if (equals(source, "gift_card")) paying = charged(paying, payment_id, item(payment, "amount"));
    if (equals(source, "certificate")) {
      const left = new Map(methods);
      left.delete(payment_id);
      paying = withKeys(paying, [["payment_methods", left]]);
    }
  }
  return paying;
}
