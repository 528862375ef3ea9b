// New training tasks from train tasks: the same calls in the same order, other parameters. A fixed table (parents.ts),
// and a seeded generator for as many more as one likes. What may become training data is judged in sft-data.ts.
import { UserError } from "../../core/errors.ts";
import type { Random } from "../../core/random.ts";
import type { Rendered } from "./families.ts";
import { DERIVATION_SETS, type DerivationSet, type Parent, parents, type World } from "./parents.ts";
import type { Snapshot } from "./snapshot.ts";
import type { ArxivTask } from "./types.ts";

export interface DerivedTask {
  task: ArxivTask;
  parent_id: string;
  parameters: Record<string, unknown>;
  stage: "parametric" | "variation";
}

/** What variations may draw from: all of the snapshot, but no query or paper name that a held-out task uses. */
export function worldOf(snapshot: Snapshot, heldOut: readonly ArxivTask[]): World {
  const hidden = new Set(heldOut.flatMap(({ steps }) => steps.flatMap(({ args }) => [args.query, args.ref])));
  return {
    snapshot,
    aspects: Object.keys(snapshot.pools.recent)
      .filter((aspect) => aspect !== "*")
      .sort(),
    pool: (aspect) => snapshot.pools.recent[aspect]!.map((id) => snapshot.papers[id]!),
    queries: Object.values(snapshot.pools.keyword)
      .filter(({ query, days }) => !hidden.has(query) && days !== null)
      .map(({ query, days, ids }) => ({ query, days: days!, count: ids.length }))
      .sort((a, b) => (a.query < b.query ? -1 : 1)),
    mayName: (name) => !hidden.has(name),
  };
}

/**
 * The fixed derivations of a set from the parents among `tasks`, in the table's order: 65 (v2), 80 (v5) or 86 (t5)
 * from the train tasks of v3_81. `onlyParents` narrows them; empty means all.
 * @throws UserError for a parent that is none of `tasks` or has no derivations.
 */
export function derivedTasks(
  tasks: readonly ArxivTask[],
  set: DerivationSet,
  onlyParents: readonly string[] = [],
): DerivedTask[] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const sets = DERIVATION_SETS.slice(0, DERIVATION_SETS.indexOf(set) + 1);
  const chosen = parents.filter((entry) => entry.derived.length > 0 && sets.includes(entry.set) && byId.has(entry.id));
  for (const id of onlyParents) {
    if (!chosen.some((entry) => entry.id === id)) {
      throw new UserError(`only_parents: '${id}' has no derivations in ${set}; those that do: ${list(chosen)}.`);
    }
  }
  return chosen
    .filter(({ id }) => onlyParents.length === 0 || onlyParents.includes(id))
    .flatMap(({ id, derived }) =>
      derived.map(({ suffix, parameters, rendered }) => ({
        task: derive(byId.get(id)!, `augp1_${id}_${suffix}`, rendered),
        parent_id: id,
        parameters,
        stage: "parametric" as const,
      })),
    );
}

/** Draws in a row that bring nothing new before a parent counts as used up. */
const FRUITLESS_DRAWS = 500;

/**
 * Endlessly many more tasks from one parent, or as many as the snapshot has: all different, each passing `allows`.
 * @param random A stream of this parent's own, so that one parent's draws don't move another's.
 */
export function* variations(
  parentTask: ArxivTask,
  world: World,
  random: Random,
  allows: (task: ArxivTask) => boolean,
): Generator<DerivedTask, void> {
  const entry = parents.find(({ id }) => id === parentTask.id);
  if (!entry) throw new UserError(`task '${parentTask.id}' has no family to vary it in.`);
  for (let made = 0, fruitless = 0; fruitless < FRUITLESS_DRAWS; fruitless++) {
    const drawn = entry.vary(random, world);
    if (!drawn) continue;
    const task = derive(parentTask, `augv_${parentTask.id}_${String(made + 1).padStart(4, "0")}`, drawn.rendered);
    if (!allows(task)) continue;
    made++;
    fruitless = 0;
    yield { task, parent_id: parentTask.id, parameters: drawn.parameters, stage: "variation" };
  }
}

function derive(parentTask: ArxivTask, id: string, rendered: Rendered): ArxivTask {
  return { ...parentTask, ...rendered, id, note: `derived from ${parentTask.id}`, expected_paper_ids: null };
}

const list = (entries: readonly Parent[]): string => entries.map(({ id }) => id).join(", ");
