import type { AirlineDb } from "../data/db.ts";
import { dictItem, equals, item, iterate, less, lookup, withKeys } from "../data/python-ops.ts";
import { str } from "../data/python-text.ts";
import { isDict, isList, type PyDict, PythonError, type PyValue } from "../data/python-values.ts";

/**
 * The legs of a booking or a change, each with price and cities set: the caller's keys in the caller's order, then
 * `price`, `origin` and `destination`, or in place where the caller gave them.
 * @param kept the stored leg that is taken over unchecked in place of a given one, if any
 * @throws PythonError for the first leg that can't be flown; checks in the order of airline.md 2.4.
 */
export function pricedLegs(
  db: AirlineDb,
  flights: PyValue,
  cabin: PyValue,
  passengers: () => number,
  kept: (leg: PyValue) => PyValue | undefined = () => undefined,
): { legs: PyValue; prices: PyValue[] } {
  const prices: PyValue[] = [];
  const legs = iterate(flights).map((leg) => {
    const stored = kept(leg);
    const [price, cities] = stored ? [item(stored, "price"), stored] : offer(db, leg, cabin, passengers);
    prices.push(price);
    return withKeys(leg as PyDict, [
      ["price", price],
      ["origin", item(cities, "origin")],
      ["destination", item(cities, "destination")],
    ]);
  });
  // An empty text or dict has no legs and is stored as it is.
  return { legs: isList(flights) ? legs : flights, prices };
}

function offer(db: AirlineDb, leg: PyValue, cabin: PyValue, passengers: () => number): [PyValue, PyDict] {
  const number = item(leg, "flight_number");
  const flight = lookup(db.flights, number);
  if (!isDict(flight)) throw new PythonError(`flight ${str(number)} not found`);
  const date = item(leg, "date");
  const day = lookup(dictItem(flight, "dates"), date);
  if (!isDict(day)) throw new PythonError(`flight ${str(number)} not found on date ${str(date)}`);
  if (!equals(item(day, "status"), "available"))
    throw new PythonError(`flight ${str(number)} not available on date ${str(date)}`);
  if (less(item(item(day, "available_seats"), cabin), passengers()))
    throw new PythonError(`not enough seats on flight ${str(number)}`);
  return [item(item(day, "prices"), cabin), flight];
}
