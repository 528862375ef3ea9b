import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defineEnv, type EnvSpec, type TaskSet } from "./env.ts";
import { UserError } from "./errors.ts";
import { createRandom } from "./random.ts";
import type { TaskBase } from "./task.ts";
import type { Trajectory } from "./trajectory.ts";

// What every environment promises, as tests: a family calls `envContract(spec)` once, in a test file of its own.

export interface ContractOptions {
  /** Splits whose tasks are played; all that the family names where it is left out. */
  splits?: readonly string[];
  env_options?: unknown;
  /** Lists of splits that share no task. */
  disjoint?: readonly (readonly string[])[];
  /** Tasks that the generated replies are tried on; spread over the first split. */
  sample?: number;
  /** Generated episodes. */
  runs?: number;
}

export function envContract<Task extends TaskBase, State, Options>(
  spec: EnvSpec<Task, State, Options>,
  { splits = spec.splits, env_options = {}, disjoint = [], sample = 5, runs = 100 }: ContractOptions = {},
): void {
  if (!("reset" in spec))
    throw new UserError("envContract plays a spec: give it the object that defineEnv was given, not what it made.");
  const env = defineEnv(freezing(spec));
  const load = (split: string): Promise<TaskSet> => env.load(split, env_options);

  describe(`${spec.id} keeps its promises`, () => {
    test.each(splits)("split %s: gold solves every task and earns the top of every component", async (split) => {
      const tasks = await load(split);
      expect(tasks.ids.length).toBeGreaterThan(0);
      expect(new Set(tasks.ids).size).toBe(tasks.ids.length);
      const wrong: string[] = [];
      for (const task_id of tasks.ids) {
        const replies = tasks.replies("gold", task_id, createRandom(7));
        const trajectory = await play(tasks, task_id, replies);
        if (trajectory.turns.length !== replies.length) wrong.push(`${task_id}: ends before its gold replies do`);
        for (const { outcome, reply } of trajectory.turns)
          if (outcome.kind !== "ok" && outcome.kind !== "terminal")
            wrong.push(`${task_id}: '${reply}' gives ${outcome.kind}: ${outcome.text}`);
        if (trajectory.ended_by !== "terminated" || !trajectory.success)
          wrong.push(`${task_id}: ${trajectory.ended_by} (${trajectory.ended_why}), success ${trajectory.success}`);
        for (const { name, range, shaping } of spec.components) {
          const part = trajectory.parts[name];
          if (!shaping && part !== null && part !== range[1])
            wrong.push(`${task_id}: ${name} is ${part}, its top is ${range[1]}`);
        }
      }
      expect(wrong).toEqual([]);
    });

    test("any texts as replies give an episode with defined outcomes and a score in range", async () => {
      const tasks = await load(splits[0]!);
      const ids = spread(tasks.ids, sample);
      const gold = ids.flatMap((id) => tasks.replies("gold", id, createRandom(1)));
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...ids),
          fc.array(anyReply(gold), { maxLength: 8 }),
          async (task_id, replies) => {
            const trajectory = await play(tasks, task_id, replies);
            expect(trajectory.ended_why ?? "").not.toMatch(/^(reset|step|score|close):/);
            expect(["terminated", "truncated"]).toContain(trajectory.ended_by);
            expect(Number.isFinite(trajectory.reward)).toBe(true);
            expect(Object.keys(trajectory.parts).sort()).toEqual(spec.components.map(({ name }) => name).sort());
            for (const { name, range } of spec.components) {
              const part = trajectory.parts[name];
              if (part === null) continue;
              expect(part).toBeGreaterThanOrEqual(range[0]);
              expect(part).toBeLessThanOrEqual(range[1]);
            }
          },
        ),
        { numRuns: runs },
      );
    });

    test("one seed gives one episode, and a log played again gives the same log, byte for byte", async () => {
      const tasks = await load(splits[0]!);
      const ids = spread(tasks.ids, sample);
      const gold = ids.flatMap((id) => tasks.replies("gold", id, createRandom(1)));
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...ids),
          fc.array(anyReply(gold), { maxLength: 6 }),
          async (task_id, replies) => {
            const line = logLine(await play(tasks, task_id, replies));
            const logged = JSON.parse(line) as Trajectory;
            const again = await play(
              tasks,
              logged.task_id,
              logged.turns.map(({ reply }) => reply),
              logged.seed,
            );
            expect(logLine(again)).toBe(line);
          },
        ),
        { numRuns: Math.ceil(runs / 2) },
      );
    });

    test("scripted policies play every task without failing", async () => {
      const tasks = await load(splits[0]!);
      for (const policy of env.policies) {
        for (const task_id of spread(tasks.ids, sample)) {
          const replies = tasks.replies(policy, task_id, createRandom(3));
          expect(tasks.replies(policy, task_id, createRandom(3))).toEqual(replies);
          expect(["terminated", "truncated"]).toContain((await play(tasks, task_id, replies)).ended_by);
        }
      }
    });

    test("a split that does not exist is the user's mistake, told as such", async () => {
      await expect(load("no-such-split")).rejects.toThrow(UserError);
    });

    if (disjoint.length > 0)
      test.each(disjoint.map((list) => [list.join(", "), list] as const))("%s share no task", async (_, list) => {
        const owner = new Map<string, string>();
        for (const split of list) {
          for (const id of (await load(split)).ids) {
            expect(owner.get(id), `${id} is in ${split} too`).toBeUndefined();
            owner.set(id, split);
          }
        }
      });
  });
}

async function play(tasks: TaskSet, task_id: string, replies: readonly string[], seed = 7): Promise<Trajectory> {
  const episode = await tasks.start(task_id, { seed });
  for (const reply of replies) {
    if (episode.ended_by) break;
    await episode.reply(reply);
  }
  return episode.finish();
}

function logLine({ env_ms: _, ...trajectory }: Trajectory): string {
  return JSON.stringify(trajectory);
}

/** Noise, and gold replies that were cut, doubled, joined or had a piece replaced. */
function anyReply(gold: readonly string[]): fc.Arbitrary<string> {
  const some = fc.constantFrom(...gold);
  const place = fc.double({ min: 0, max: 1, noNaN: true });
  const cut = (text: string, at: number): string => text.slice(0, Math.floor(text.length * at));
  return fc.oneof(
    fc.string({ unit: "binary", maxLength: 60 }),
    fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 }).map((units) => String.fromCharCode(...units)), // lone surrogates too
    some,
    fc.tuple(some, place).map(([text, at]) => cut(text, at)),
    fc.tuple(some, some).map(([first, second]) => `${first}\n${second}`),
    fc
      .tuple(some, place, fc.string({ unit: "grapheme", maxLength: 8 }))
      .map(([text, at, noise]) => cut(text, at) + noise + text.slice(cut(text, at).length + noise.length)),
  );
}

function spread<Item>(items: readonly Item[], count: number): Item[] {
  const stride = Math.max(1, Math.floor(items.length / count));
  return items.filter((_, index) => index % stride === 0).slice(0, count);
}

/** The environment with every state frozen through and through: a tool that writes to one throws. */
export function freezing<Task extends TaskBase, State, Options>(
  spec: EnvSpec<Task, State, Options>,
): EnvSpec<Task, State, Options> {
  return {
    ...spec,
    async reset(task, context) {
      const start = await spec.reset(task, context);
      return { ...start, state: deepFreeze(start.state) };
    },
    async step(state, reply, context, task) {
      const result = await spec.step(state, reply, context, task);
      return { ...result, state: deepFreeze(result.state) };
    },
  };
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) deepFreeze(part);
  return value;
}
