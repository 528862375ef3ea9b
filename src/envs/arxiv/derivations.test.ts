import { describe, expect, test } from "vitest";
import { createRandom } from "../../core/random.ts";
import { derivedTasks, variations, worldOf } from "./derivations.ts";
import { DEFAULT_SNAPSHOT } from "./options.ts";
import { parents } from "./parents.ts";
import { loadSnapshot } from "./snapshot.ts";
import { readSplitFile } from "./splits.ts";
import { arxivTasks } from "./tasks.ts";
import type { ArxivTask } from "./types.ts";

const trainIds = readSplitFile("v3_81").file.split.train!;
const train = arxivTasks().filter(({ id }) => trainIds.includes(id));
const heldOut = arxivTasks().filter(({ id }) => !trainIds.includes(id));
const world = worldOf(loadSnapshot(DEFAULT_SNAPSHOT), heldOut);
const replies = (tasks: readonly ArxivTask[]) => tasks.reduce((sum, { steps }) => sum + steps.length + 1, 0);

test("every train task is what its family renders, and no other task is a parent", () => {
  expect(parents.map(({ id }) => id).sort()).toEqual([...trainIds].sort());
  for (const { id, rendered } of parents) {
    const { task, setup, steps } = train.find((candidate) => candidate.id === id)!;
    expect({ id, task, setup, steps }).toEqual({ id, ...rendered });
  }
});

describe("the fixed derivations", () => {
  test("36 gold train tasks before reading and figures came: 85 replies", () => {
    const rates = readSplitFile("v3_81").file.rates!;
    const first = train.filter(({ id }) => rates[id] !== undefined);
    expect([first.length, replies(first)]).toEqual([36, 85]);
  });

  test.each([
    ["v2", 65, 26, 159],
    ["v5", 80, 29, 219],
    ["t5", 86, 32, 249],
  ] as const)("%s: %i tasks of %i parents, %i replies", (set, count, parentCount, replyCount) => {
    const derived = derivedTasks(train, set);
    expect(derived).toHaveLength(count);
    expect(new Set(derived.map(({ parent_id }) => parent_id)).size).toBe(parentCount);
    expect(replies(derived.map(({ task }) => task))).toBe(replyCount);
    for (const { task, parent_id } of derived) expect(task.id.startsWith(`augp1_${parent_id}_`)).toBe(true);
  });

  test("chain lengths of t5", () => {
    const lengths: Record<number, number> = {};
    for (const { task } of derivedTasks(train, "t5"))
      lengths[task.steps.length] = (lengths[task.steps.length] ?? 0) + 1;
    expect(lengths).toEqual({ 0: 7, 1: 38, 2: 12, 3: 17, 4: 10, 5: 2 });
  });

  test("the setup follows a derived position", () => {
    const { task } = derivedTasks(train, "t5").find((entry) => entry.task.id === "augp1_opt_force_tr_ref3")!;
    expect(task.setup.at(-1)!.args).toEqual({ ref: 3 });
    expect(task.steps[0]!.args).toEqual({ ref: 3, force: true });
  });

  test("the derived tasks of a parent are said in other ways than the parent", () => {
    for (const { task, parent_id } of derivedTasks(train, "t5")) {
      expect(task.task).not.toBe(train.find(({ id }) => id === parent_id)!.task);
    }
  });

  test("only some parents; one that has none, or is not there, is refused", () => {
    expect(derivedTasks(train, "t5", ["opt_threads"]).map(({ task }) => task.id)).toEqual([
      "augp1_opt_threads_threads2",
      "augp1_opt_threads_threads4",
      "augp1_opt_threads_threads12",
    ]);
    expect(() => derivedTasks(train, "t5", ["nobody"])).toThrow(/'nobody' has no derivations/);
    expect(() => derivedTasks(train, "v2", ["figure_cv5_ref1"])).toThrow(/'figure_cv5_ref1' has no derivations in v2/);
    expect(derivedTasks(heldOut, "t5")).toEqual([]);
  });
});

describe("variations", () => {
  const take = (parent: ArxivTask, count: number, seed = 1) => {
    const more = variations(parent, world, createRandom(seed), () => true);
    return Array.from({ length: count }, () => more.next().value).filter((entry) => entry !== undefined);
  };

  test.each(train.map((task) => [task.id, task] as const))(
    "%s: the same tools, in 4 phrasings or more",
    (_, parent) => {
      const drawn = take(parent, 40);
      expect(drawn).toHaveLength(40);
      const tools = ({ setup, steps }: ArxivTask) => [setup, steps].map((calls) => calls.map(({ tool }) => tool));
      for (const { task } of drawn) expect(tools(task)).toEqual(tools(parent));
      // Values aside, what is left of a sentence is its phrasing.
      const shapes = new Set(
        drawn.map(({ task }) => task.task.replace(/"[^"]*"|[\w-]*\d\S*|\b(?:cs\.)?[A-Z]{2}\b/g, "_")),
      );
      expect(shapes.size).toBeGreaterThanOrEqual(4);
    },
  );

  test("equal seeds give equal tasks, and a parent's stream is its own", () => {
    const parent = train.find(({ id }) => id === "multi_lg10_dl3")!;
    expect(take(parent, 20)).toEqual(take(parent, 20));
    expect(take(parent, 20).slice(0, 5)).toEqual(take(parent, 5));
    expect(take(parent, 20)).not.toEqual(take(parent, 20, 2));
  });

  test("no query and no paper name of a held-out task is drawn", () => {
    const names = take(train.find(({ id }) => id === "ref_stress_state_across")!, 300).map(
      ({ task }) => task.steps[0]!.args.ref,
    );
    for (const hidden of ["2608.14528v1", "2608.14543v1", "Learning State"]) expect(names).not.toContain(hidden);
    expect(world.queries.map(({ query }) => query)).not.toContain("all:retrieval augmented generation");
  });

  test("an unknown id is one that no paper can have", () => {
    for (const { parameters } of take(train.find(({ id }) => id === "infeasible_unknown_id")!, 200)) {
      const [, year, month] = /^(\d\d)(\d\d)\./.exec(String(parameters.id))!.map(Number) as [number, number, number];
      expect(month > 12 || year >= 30).toBe(true);
    }
  });

  test("a generator ends when nothing new is allowed", () => {
    expect([...variations(train[0]!, world, createRandom(1), () => false)]).toEqual([]);
  });
});
