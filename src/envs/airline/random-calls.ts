import type { Random } from "../../core/random.ts";
import { AIRPORTS } from "./data/airports.ts";
import type { AirlineDb } from "./data/db.ts";
import { reservationOf, startState, userOf } from "./data/state.ts";
import { CABINS } from "./data/types.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { airlineTools } from "./tools/index.ts";
import { TRANSFER_TOOL } from "./users/script.ts";
import type { WriteCall } from "./users/types.ts";

const TOOLS = airlineTools.filter(({ name }) => name !== TRANSFER_TOOL);

/** A call of any tool but the transfer, with arguments that exist: mostly the task's own customer's. */
export function randomCall(task: AirlineTask, db: AirlineDb, random: Random): WriteCall {
  const tool = random.pick(TOOLS);
  const draw = argumentsFor(task, db, random);
  return { name: tool.name, kwargs: Object.fromEntries(tool.argument_names.map((name) => [name, draw(name)])) };
}

const keys = new WeakMap<ReadonlyMap<string, unknown>, readonly string[]>();

function keysOf(table: ReadonlyMap<string, unknown>): readonly string[] {
  const known = keys.get(table) ?? [...table.keys()];
  keys.set(table, known);
  return known;
}

function argumentsFor(task: AirlineTask, db: AirlineDb, random: Random): (name: string) => unknown {
  const start = startState(db);
  const user = userOf(start, task.user_id);
  const own = user?.reservations ?? [];
  const anyOf = (table: ReadonlyMap<string, unknown>) => random.pick(keysOf(table));
  const ownMostly = (ids: readonly string[], table: ReadonlyMap<string, unknown>) =>
    ids.length > 0 && random.int(4) > 0 ? random.pick(ids) : anyOf(table);
  const reservation_id = ownMostly(own, db.reservations);
  const reservation = reservationOf(start, reservation_id);
  const date = () => `2024-05-${16 + random.int(15)}`;
  const payment_id = () => random.pick([...Object.keys(user?.payment_methods ?? {}), "gift_card_0000000"]);
  const draws: Record<string, () => unknown> = {
    user_id: () => ownMostly([task.user_id], db.users),
    reservation_id: () => reservation_id,
    origin: () => random.pick(AIRPORTS)[0],
    destination: () => random.pick(AIRPORTS)[0],
    date,
    flight_type: () => random.pick(["one_way", "round_trip"]),
    cabin: () => random.pick(CABINS),
    flights: () => [{ flight_number: anyOf(db.flights), date: date() }],
    passengers: () => reservation?.passengers ?? [],
    payment_methods: () => [{ payment_id: payment_id(), amount: random.int(500) }],
    payment_id,
    total_baggages: () => random.int(6),
    nonfree_baggages: () => random.int(3),
    insurance: () => random.pick(["yes", "no"]),
    amount: () => random.pick([50, 100, 150]),
    expression: () => `${random.int(500)} * ${1 + random.int(4)}`,
    thought: () => "What next?",
  };
  return (name) => draws[name]!();
}
