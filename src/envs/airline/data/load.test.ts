import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { smallDb } from "./fixtures/small-db.ts";
import { loadAirlineDb, sharedAirlineDb } from "./load.ts";
import { findReservation, startState } from "./state.ts";
import { stateSha256 } from "./state-hash.ts";
import { airlineDbFiles, writeAirlineDb } from "./synth.ts";

const root = mkdtempSync(join(tmpdir(), "airline-db-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A folder with the small database, one file edited. */
function folder(name: string, edit: Record<string, (text: string) => string> = {}): string {
  const dir = join(root, name);
  mkdirSync(dir);
  for (const [file, text] of Object.entries(airlineDbFiles(smallDb())))
    writeFileSync(join(dir, file), edit[file]?.(text) ?? text);
  return dir;
}

test("a folder is loaded with all that stands in it: unknown fields, spelling of numbers, order of keys", () => {
  const dir = folder("extra", {
    "reservations.json": (text) =>
      text.replace('"insurance": "yes"', '"insurance": "yes", "note": {"2": 1.50, "1": 7}'),
  });
  const db = loadAirlineDb(dir);
  expect([...db.reservations.keys()]).toEqual(["AAA111", "BBB222", "123456", "CCC333"]);
  expect(airlineDbFiles(db)["reservations.json"]).toContain('"note": {"2": 1.5, "1": 7}');
  const [first] = db.flights.values();
  expect(() => (first as Map<string, unknown>).set("origin", "LAX")).toThrow("never changed");
});

test("a file in another encoding is refused, and none of its names is changed without a word", () => {
  const dir = folder("latin");
  const text = airlineDbFiles(smallDb())["users.json"]!.replace("Halvorsen", "Halvørsen");
  writeFileSync(join(dir, "users.json"), Buffer.from(text, "latin1"));
  expect(() => loadAirlineDb(dir)).toThrow(/users\.json: it is not UTF-8 text/);
});

test("what is written is loaded back as the same data", () => {
  const dir = join(root, "round");
  writeAirlineDb(dir, smallDb());
  expect(stateSha256(startState(loadAirlineDb(dir)))).toBe(stateSha256(startState(smallDb())));
  expect(sharedAirlineDb(dir)).toBe(sharedAirlineDb(`${dir}/`));
  expect(findReservation(startState(sharedAirlineDb(dir)), "123456")).toBeDefined();
});

test.each<[string, string, (text: string) => string, string]>([
  [
    "a missing field",
    "users.json",
    (text) => text.replace('"membership": "gold", ', ""),
    "users.json: noor_halvorsen_4821: field membership is missing.",
  ],
  [
    "a missing field deep inside",
    "reservations.json",
    (text) => text.replace(', "price": 110', ""),
    "reservations.json: AAA111: field flights.0.price is missing.",
  ],
  [
    "a missing field of a day",
    "flights.json",
    (text) => text.replace('"prices": {"basic_economy": 60, ', '"prices": {'),
    "flights.json: TRS001: field dates.2024-05-16.prices.basic_economy is missing.",
  ],
  [
    "a status that no day has",
    "flights.json",
    (text) => text.replace('"status": "delayed"', '"status": "late"'),
    "flights.json: TRS001: field dates.2024-05-15.status",
  ],
  [
    "a text for a number",
    "reservations.json",
    (text) => text.replace('"total_baggages": 1', '"total_baggages": "1"'),
    "reservations.json: AAA111: field total_baggages: Invalid input: expected number, received string.",
  ],
  ["a record that is none", "users.json", () => '{"felix": [1]}', "users.json: felix: expected an object, got list."],
  ["a list", "users.json", () => "[]", "users.json: expected an object that maps ids to users"],
  [
    "broken JSON",
    "flights.json",
    (text) => `${text.slice(0, 40)}\n]`,
    "flights.json: no JSON at line 3, column 1: expected ",
  ],
])("%s stops the load and is named", (name, file, edit, message) => {
  const dir = folder(name, { [file]: edit });
  expect(() => loadAirlineDb(dir)).toThrow(message);
});

test("a folder without the files says what belongs in it", () => {
  expect(() => loadAirlineDb(join(root, "nowhere"))).toThrow(
    /flights\.json: there is no such file\. An airline database is a folder with flights\.json, reservations\.json, users\.json\./,
  );
});
