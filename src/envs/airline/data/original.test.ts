import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { checkActions } from "../policy/check.ts";
import { type Action, runAction } from "../tools/index.ts";
import { loadAirlineDb } from "./load.ts";
import { parseJson, toJson } from "./python-json.ts";
import type { PyDict } from "./python-values.ts";
import { type DataState, reservationOf, startState } from "./state.ts";
import { sameData, stateSha256 } from "./state-hash.ts";

// On τ-bench's own data, where a copy of it lies beside the project; the project ships none of it.

const folder = join(import.meta.dirname, "../../../../../shared/data/tau_airline");

/**
 * Rules that a task's gold breaks, by task (airline.md section 12). What is wrong with tasks 28 and 31 hangs on the
 * reason that the customer gives, which actions alone don't tell.
 */
const KNOWN: Record<number, number[]> = {
  10: [23],
  16: [29],
  19: [13, 16],
  22: [16],
  23: [13],
  26: [24],
  27: [24],
  34: [23],
  45: [26], // the flight that the customer complains about has landed: no flight's status is "delayed"
  46: [26],
};

describe.skipIf(!existsSync(folder))("the original data", () => {
  const db = existsSync(folder) ? loadAirlineDb(folder) : null!;
  const tasks = existsSync(folder)
    ? (parseJson(readFileSync(join(folder, "tasks.json"), "utf8")) as unknown as PyDict[])
    : [];
  const actionsOf = (task: PyDict): Action[] =>
    (task.get("actions") as unknown as PyDict[]).map((action) => ({
      name: action.get("name") as string,
      kwargs: action.get("kwargs"),
    }));

  function replay(actions: readonly Action[]): { state: DataState; errors: string[]; texts: string[] } {
    let state = startState(db);
    const texts: string[] = [];
    const errors: string[] = [];
    for (const action of actions) {
      const done = runAction(state, action);
      state = done.state;
      texts.push(done.observation);
      if (done.failed) errors.push(done.observation);
    }
    return { state, errors, texts };
  }

  test("is loaded whole, in the order of its files", () => {
    expect([db.flights.size, db.reservations.size, db.users.size]).toEqual([300, 2000, 500]);
    expect([...db.reservations.keys()].indexOf("429815")).toBeGreaterThan(0);
    expect(reservationOf(startState(db), "429815")).not.toBeNull();
  });

  test("the gold actions of all tasks run without an error, and again give the same texts and hashes", () => {
    expect(tasks).toHaveLength(50);
    const writes = new Set<number>();
    for (const [index, task] of tasks.entries()) {
      const [once, twice] = [replay(actionsOf(task)), replay(actionsOf(task))];
      expect(once.errors).toEqual([]);
      expect(twice.texts).toEqual(once.texts);
      expect(sameData(once.state, twice.state)).toBe(true);
      expect(stateSha256(once.state)).toBe(stateSha256(twice.state));
      if (stateSha256(once.state) !== stateSha256(startState(db))) writes.add(index);
    }
    // airline.md 4.6: 20 tasks have no write
    expect(tasks.length - writes.size).toBe(20);
  });

  test("a reservation is shown as Python prints it", () => {
    const { observation } = runAction(startState(db), {
      name: "get_reservation_details",
      kwargs: { reservation_id: "4WQ150" },
    });
    expect(observation).toMatch(
      /^\{"reservation_id": "4WQ150", "user_id": "[a-z_0-9]+", "origin": "DFW", "destination": "LAX", "flight_type": "round_trip", "cabin": "business", "flights": \[\{"origin": "DFW", /,
    );
    expect(toJson(db.reservations.get("4WQ150")!)).toBe(observation);
  });

  test("the policy checker finds what is known to be wrong with the originals' gold", () => {
    const broken = tasks.map((task, index) => {
      const found = checkActions(startState(db), task.get("user_id") as string, actionsOf(task));
      return [index, [...new Set(found.map(({ rule }) => rule))].sort((a, b) => a - b)] as const;
    });
    expect(Object.fromEntries(broken.filter(([, rules]) => rules.length > 0))).toEqual(KNOWN);
  });
});
