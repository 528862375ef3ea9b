import { UserError } from "../../../core/errors.ts";
import type { AirlineDb } from "../data/db.ts";
import { fromPlain, type PyDict } from "../data/python-values.ts";
import { startState } from "../data/state.ts";
import { SHIPPED_SEED, sharedSynthDb } from "../data/synth.ts";
import { type SynthRandom, synthRandom } from "../data/synth-random.ts";
import { readScript } from "../users/script.ts";
import type { Draft, Template } from "./draft.ts";
import { proveTask } from "./proof.ts";
import { proofSchema } from "./proof-record.ts";
import type { AirlineTask } from "./task.ts";
import { templates } from "./templates/index.ts";
import { customersOf } from "./world.ts";

// The suite that the project ships (airline.md 4.7): one task for each row of the originals' table, on the synthetic
// database at scale 1.

/** Tasks of the extra pool. */
export const EXTRA_TASKS = 200;

const made = new Map<string, readonly AirlineTask[]>();

function once(key: string, make: () => readonly AirlineTask[]): readonly AirlineTask[] {
  let tasks = made.get(key);
  if (!tasks) {
    tasks = make();
    made.set(key, tasks);
  }
  return tasks;
}

/** The 50 synthetic tasks, synth-00 to synth-49, made once a process: equal seeds give equal tasks. */
export function synthTasks(seed: string = SHIPPED_SEED): readonly AirlineTask[] {
  return once(seed, () => makeTasks(seed, "synth", templates, sharedSynthDb()));
}

/** 200 more of the same kinds, extra-000 to extra-199, for training: other customers than the suite of the seed has. */
export function extraTasks(seed: string = SHIPPED_SEED): readonly AirlineTask[] {
  return once(`${seed}/extra`, () => {
    const rows = Array.from({ length: EXTRA_TASKS }, (_, i) => templates[i % templates.length]!);
    return makeTasks(`${seed}/extra`, "extra", rows, sharedSynthDb(), synthTasks(seed));
  });
}

/** @param taken tasks whose customers are left alone */
function makeTasks(
  seed: string,
  name: "synth" | "extra",
  rows: readonly Template[],
  db: AirlineDb,
  taken: readonly AirlineTask[] = [],
): AirlineTask[] {
  const random = synthRandom(seed, "tasks");
  const all = customersOf(db);
  const used = new Set(taken.map(({ user_id }) => user_id));
  const wishes = new Set(taken.map(({ instruction }) => instruction));
  return rows.map((template, index) => {
    const customers = random.shuffle(all);
    const fresh = customers.filter(({ id }) => !used.has(id));
    // Some kinds fit few customers: then one of them comes again, with another wish.
    for (const among of [fresh, customers])
      for (const draft of template.drafts({ db, state: startState(db), customers: among, random })) {
        if (wishes.has(draft.instruction)) continue;
        const task = taskOf(draft, template, index, name, random);
        if (proveTask(task, db).length > 0) continue;
        used.add(task.user_id);
        wishes.add(task.instruction);
        return task;
      }
    throw new UserError(`Seed '${seed}' has no customer for row ${template.row} of the suite; choose another seed.`);
  });
}

function taskOf(
  draft: Draft,
  { row, category, rules }: Template,
  index: number,
  name: "synth" | "extra",
  random: SynthRandom,
): AirlineTask {
  const { customer, instruction, actions, outputs = [], script, proof } = draft;
  const id = `${name}-${String(index).padStart(name === "synth" ? 2 : 3, "0")}`;
  const persona = { style: random.pick(["terse", "neutral", "chatty"] as const), ...script.persona };
  const facts = { user_id: customer.id, ...script.facts };
  return {
    id,
    task_index: index,
    user_id: customer.id,
    instruction,
    actions: actions.map((action) => ({ name: action.name, kwargs: fromPlain(action.kwargs) as PyDict })),
    outputs,
    script: readScript({ ...script, persona, facts }, `template of row ${row}`),
    category,
    policy_rules: rules,
    source: "synthetic",
    proof: proofSchema.parse(proof),
  };
}
