// How many gold episodes of the airline family one core plays and scores a second, without a model: fresh state, every
// gold action, and the outcome by the scoring function. Prints one JSON line; figures are by the clock, and by the
// process's own CPU time (`_cpu`), which a busy machine doesn't spoil.
//
//   npx tsx scripts/bench-airline.ts --data-dir DIR [--tasks FILE] [--seconds 5]
//
// DIR holds flights.json, reservations.json, users.json; tasks.json beside them unless --tasks names another file.

import { join } from "node:path";
import { parseArgs } from "node:util";
import { UserError } from "../src/core/errors.ts";
import { loadAirlineDb } from "../src/envs/airline/data/load.ts";
import { type DataState, startState } from "../src/envs/airline/data/state.ts";
import { stateSha256 } from "../src/envs/airline/data/state-hash.ts";
import { outcomeOf } from "../src/envs/airline/scoring.ts";
import { readTaskFile } from "../src/envs/airline/tasks/load.ts";
import { type Action, runAction } from "../src/envs/airline/tools/index.ts";

const SCORING = { number_mode: "python", strict_refusal: false } as const;

function play(start: DataState, actions: readonly Action[]): DataState {
  let state = start;
  for (const action of actions) state = runAction(state, action).state;
  return state;
}

/** Calls `run` again and again for about so many seconds of CPU time: how often it ran in one, by clock and by CPU. */
function perSecond(seconds: number, run: (round: number) => void): { clock: number; cpu: number } {
  const cpuBegan = process.cpuUsage();
  const began = performance.now();
  let rounds = 0;
  let cpu_s = 0;
  while (cpu_s < seconds) {
    run(rounds++);
    const { user, system } = process.cpuUsage(cpuBegan);
    cpu_s = (user + system) / 1e6;
  }
  return { clock: (rounds * 1000) / (performance.now() - began), cpu: rounds / cpu_s };
}

const { values } = parseArgs({
  options: {
    "data-dir": { type: "string" },
    tasks: { type: "string" },
    seconds: { type: "string", default: "5" },
  },
});
try {
  const dir = values["data-dir"];
  const seconds = Number(values.seconds);
  if (!dir || !(seconds > 0)) throw new UserError("Give --data-dir DIR, and --seconds as a number above 0.");
  const loadBegan = performance.now();
  const db = loadAirlineDb(dir);
  const load_ms = performance.now() - loadBegan;
  const tasks = readTaskFile(values.tasks ?? join(dir, "tasks.json"), db);
  const gold = tasks.map((task) => play(startState(db), task.actions));
  const actions = tasks.reduce((total, task) => total + task.actions.length, 0);

  const suites = perSecond(seconds, () => {
    for (const task of tasks) {
      const data = play(startState(db), task.actions);
      const end = { data, said: task.outputs, calls: [], terminated_by: "stop" } as const;
      if (outcomeOf(task, end, SCORING) !== 1) throw new Error(`task ${task.id}: its gold does not pay`);
    }
  });
  const hashBegan = performance.now();
  stateSha256(startState(db));
  const first_hash_ms = performance.now() - hashBegan;
  const hashes = perSecond(Math.min(seconds, 2), (round) => {
    const state = gold[round % gold.length]!;
    stateSha256({ ...state }); // a state of its own, so that no kept hash answers
  });
  const rounded = (value: number) => Number(value.toPrecision(4));
  console.log(
    JSON.stringify({
      episodes_per_s: rounded(suites.clock * tasks.length),
      episodes_per_s_cpu: rounded(suites.cpu * tasks.length),
      actions_per_s_cpu: rounded(suites.cpu * actions),
      hashes_per_s_cpu: rounded(hashes.cpu),
      load_ms: rounded(load_ms),
      first_hash_ms: rounded(first_hash_ms),
      tasks: tasks.length,
      actions,
      node: process.version,
    }),
  );
} catch (error) {
  if (!(error instanceof UserError)) throw error;
  console.error(error.message);
  process.exitCode = 2;
}
