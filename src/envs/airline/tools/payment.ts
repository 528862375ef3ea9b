import { appended, arithmetic, dictItem, equals, item, less, lookup, withKeys } from "../data/python-ops.ts";
import { repr } from "../data/python-text.ts";
import { isDict, type PyDict, PythonError, type PyValue } from "../data/python-values.ts";
import { type DataState, findUser, withUser } from "../data/state.ts";

/** The record of a reservation's owner. */
export function owner(state: DataState, reservation: PyDict): { id: string; user: PyDict } {
  const id = item(reservation, "user_id");
  const user = findUser(state, id);
  // Only a user's own copy of the data can name an owner that it doesn't have.
  if (!user || typeof id !== "string") throw new PythonError(repr(id));
  return { id, user };
}

/** A user with one payment method's balance lowered; a negative amount raises it. */
export function charged(user: PyDict, payment_id: string, amount: PyValue): PyDict {
  const methods = dictItem(user, "payment_methods");
  const method = dictItem(methods, payment_id);
  const balance = arithmetic(item(method, "amount"), "-", amount, "-=");
  return withKeys(user, [
    ["payment_methods", withKeys(methods, [[payment_id, withKeys(method, [["amount", balance]])]])],
  ]);
}

/**
 * Takes what a change of a reservation costs from one payment method of its owner, or gives back what it saves: a gift
 * card's balance moves, a credit card's record doesn't. The history gets an entry where the amount isn't 0.
 * @throws PythonError in the order of airline.md 2.6: not in the profile, a certificate, too little on a gift card.
 */
export function settle(
  state: DataState,
  reservation: PyDict,
  payment_id: PyValue,
  amount: PyValue,
): { state: DataState; history: PyValue } {
  const { id, user } = owner(state, reservation);
  const method = lookup(dictItem(user, "payment_methods"), payment_id);
  if (!isDict(method)) throw new PythonError("payment method not found");
  const source = item(method, "source");
  if (equals(source, "certificate")) throw new PythonError("certificate cannot be used to update reservation");
  const isGiftCard = equals(source, "gift_card");
  if (isGiftCard && less(item(method, "amount"), amount)) throw new PythonError("gift card balance is not enough");

  const history = item(reservation, "payment_history");
  const entry = new Map<string, PyValue>([
    ["payment_id", payment_id],
    ["amount", amount],
  ]);
  return {
    state: isGiftCard ? withUser(state, id, charged(user, payment_id as string, amount)) : state,
    history: equals(amount, 0) ? history : appended(history, entry),
  };
}
