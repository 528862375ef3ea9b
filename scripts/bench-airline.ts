// How many gold episodes of the airline family one core plays and scores a second, without a model: fresh state, every
// gold action, and the outcome's comparison with the gold state. Prints one JSON line; figures are by the clock, and by the
// process's own CPU time (`_cpu`), which a busy machine doesn't spoil.
//
//   npx tsx scripts/bench-airline.ts --data-dir DIR [--tasks FILE] [--seconds 5]
//
// DIR holds flights.json, reservations.json, users.json; tasks.json beside them unless --tasks names another file.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { UserError } from "../src/core/errors.ts";
import { loadAirlineDb } from "../src/envs/airline/data/load.ts";
import { parseJson } from "../src/envs/airline/data/python-json.ts";
import { isDict, isList } from "../src/envs/airline/data/python-values.ts";
import { type DataState, startState } from "../src/envs/airline/data/state.ts";
import { sameData, stateSha256 } from "../src/envs/airline/data/state-hash.ts";
import { type Action, runAction } from "../src/envs/airline/tools/index.ts";

function readTasks(path: string): Action[][] {
  const tasks = parseJson(readFileSync(path, "utf8"));
  if (!isList(tasks)) throw new UserError(`${path}: expected a list of tasks.`);
  return tasks.map((task, index) => {
    const actions = isDict(task) ? task.get("actions") : undefined;
    if (!isList(actions)) throw new UserError(`${path}: task ${index} has no list 'actions'.`);
    return actions.filter(isDict).map((action) => ({ name: String(action.get("name")), kwargs: action.get("kwargs") }));
  });
}

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
  const tasks = readTasks(values.tasks ?? join(dir, "tasks.json"));
  const gold = tasks.map((actions) => play(startState(db), actions));
  const actions = tasks.reduce((total, task) => total + task.length, 0);

  const suites = perSecond(seconds, () => {
    for (const [index, task] of tasks.entries())
      if (!sameData(play(startState(db), task), gold[index]!)) throw new Error(`task ${index}: another state`);
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
