import type { AirlineDb } from "../data/db.ts";
import { item, lookup, parseInt10 } from "../data/python-ops.ts";
import { str } from "../data/python-text.ts";
import {
  compareText,
  isDict,
  isList,
  type PyDict,
  PythonError,
  type PyValue,
  typeName,
} from "../data/python-values.ts";

// The two searches (airline.md 2.8), in the order of the flights' file.

export interface Route {
  origin: PyValue;
  destination: PyValue;
  date: PyValue;
}

/** A flight's fields without its days, then the day's. */
function offered(flight: PyDict, day: PyDict): Map<string, PyValue> {
  const fields = new Map(flight);
  fields.delete("dates");
  for (const [key, value] of day) fields.set(key, value);
  return fields;
}

/** A flight's record of a day if it can be booked then. */
function availableDay(flight: PyDict, date: PyValue): PyDict | null {
  const day = lookup(item(flight, "dates") as PyDict, date);
  return isDict(day) && day.get("status") === "available" ? day : null;
}

function departing(db: AirlineDb, origin: PyValue): readonly PyDict[] {
  return typeof origin === "string" ? (db.byOrigin.get(origin) ?? []) : [];
}

export function directFlights(db: AirlineDb, { origin, destination, date }: Route): PyValue {
  return departing(db, origin).flatMap((flight) => {
    if (flight.get("destination") !== destination) return [];
    const day = availableDay(flight, date);
    return day ? [offered(flight, day)] : [];
  });
}

/**
 * Pairs of flights with one stop. Quirks of the original, kept unless `fix` is set: after an arrival on the next day
 * the second flight's date is written without its zero (so days 01 to 08 find nothing), and its seats and prices are
 * those of the first flight's day. Times are compared as texts, with the "+1" that an arrival may end in.
 */
export function oneStopFlights(db: AirlineDb, { origin, destination, date }: Route, fix: boolean): PyValue {
  const found: PyValue[] = [];
  for (const first of departing(db, origin)) {
    const arrival = first.get("scheduled_arrival_time_est") as string;
    const overnight = arrival.includes("+1");
    for (const second of departing(db, first.get("destination") ?? null)) {
      if (second.get("destination") !== destination) continue;
      const date2 = overnight ? (fix ? dayAfter(date) : carelessDayAfter(date)) : date;
      if (compareText(arrival, second.get("scheduled_departure_time_est") as string) > 0) continue;
      const day1 = availableDay(first, date);
      if (!day1) continue;
      const day2 = availableDay(second, date2);
      if (!day2) continue;
      const shown = fix ? day2 : (second.get("dates") as PyDict).get(date as string);
      found.push([offered(first, day1).set("date", date), offered(second, shown as PyDict).set("date", date2)]);
    }
  }
  return found;
}

/** "2024-05-" and the last two characters of the date plus 1, as the original writes it. */
function carelessDayAfter(date: PyValue): string {
  if (typeof date !== "string" && !isList(date))
    throw new PythonError(
      isDict(date) ? "unhashable type: 'slice'" : `'${typeName(date)}' object is not subscriptable`,
    );
  const day = parseInt10(typeof date === "string" ? [...date].slice(-2).join("") : date);
  return `2024-05-${BigInt(day) + 1n}`;
}

function dayAfter(date: PyValue): string {
  const day =
    typeof date === "string" && /^\d{4}-\d{2}-\d{2}$/.test(date) ? Date.parse(`${date}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(day)) throw new PythonError(`date ${str(date)} is not of the form YYYY-MM-DD`);
  return new Date(day + 24 * 60 * 60 * 1000).toISOString().slice(0, 10);
}
