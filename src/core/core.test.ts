import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineEnv, type EnvSpec, replayGold } from "./env.ts";
import { editDistance, nearest, ToolError, UserError } from "./errors.ts";
import { createRandom } from "./random.ts";
import { groupAdvantages } from "./reward.ts";
import { defineTool } from "./tool.ts";

describe("random", () => {
  test("equal seeds give equal streams, other seeds other ones; the numbers are fixed for good", () => {
    const draw = (seed: string | number) => {
      const random = createRandom(seed);
      return Array.from({ length: 4 }, () => random.next());
    };
    expect(draw(1)).toEqual(draw("1"));
    expect(draw(1)).not.toEqual(draw(2));
    // A change here changes every run: it must be meant.
    expect(createRandom(42).int(1_000_000)).toBe(594_874);
  });

  test("a fork is a stream of its own: what is drawn beside it moves nothing", () => {
    const quiet = createRandom(7);
    const busy = createRandom(7);
    busy.next();
    busy.shuffle([1, 2, 3]);
    expect(busy.fork("part").next()).toBe(quiet.fork("part").next());
    expect(quiet.fork("part").next()).not.toBe(quiet.fork("other").next());
  });

  test("next is in [0, 1), int below its bound, pick inside, shuffle a permutation that leaves its input", () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.integer({ min: 1, max: 2 ** 32 }),
        fc.array(fc.integer(), { minLength: 1 }),
        (seed, below, items) => {
          const random = createRandom(seed);
          const value = random.next();
          expect(value >= 0 && value < 1).toBe(true);
          const int = random.int(below);
          expect(Number.isInteger(int) && int >= 0 && int < below).toBe(true);
          const before = [...items];
          expect(items).toContain(random.pick(items));
          expect(random.shuffle(items).sort()).toEqual([...items].sort());
          expect(items).toEqual(before);
        },
      ),
    );
  });

  test("numbers are spread evenly", () => {
    const random = createRandom("even");
    const counts = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 20_000; i++) counts[random.int(10)]!++;
    const chiSquare = counts.reduce((sum, count) => sum + (count - 2000) ** 2 / 2000, 0);
    expect(chiSquare).toBeLessThan(27.9); // 9 degrees of freedom, p = 0.001
  });

  test.each([0, -1, 1.5, Number.NaN])("int(%d) is refused", (below) => {
    expect(() => createRandom(1).int(below)).toThrow(RangeError);
  });
});

describe("tools", () => {
  const add = defineTool({
    name: "add",
    description: "Adds.",
    input: z.strictObject({ by: z.int().min(0).describe("How much."), note: z.string().optional() }),
    writes: true,
    run(state: { total: number }, { by }) {
      if (by === 13) throw new ToolError("13 is unlucky.");
      return { state: { total: state.total + by }, output: { total: state.total + by } };
    },
  });

  test("the schema becomes the model's JSON schema", () => {
    expect(add.parameters).toMatchObject({
      type: "object",
      properties: { by: { type: "integer", minimum: 0, description: "How much." }, note: { type: "string" } },
      required: ["by"],
      additionalProperties: false,
    });
  });

  test.each([
    [{ by: -1 }, /add: by: .*>=0/],
    [{ by: "2" }, /add: by: .*number/],
    [{}, /add: by: /],
    [{ by: 1, more: 2 }, /add: .*more/],
    [null, /must be a JSON object, got null/],
    [[1], /must be a JSON object, got \[1\]/],
    ["x", /must be a JSON object, got "x"/],
    [undefined, /must be a JSON object, got undefined/],
    [{ by: 13 }, /unlucky/],
  ])("arguments %j are the model's mistake", async (args, message) => {
    const state = Object.freeze({ total: 1 });
    await expect(add.call(state, args)).rejects.toThrow(ToolError);
    await expect(add.call(state, args)).rejects.toThrow(message);
    expect(state).toEqual({ total: 1 });
  });

  test("whatever a model sends, a tool answers or throws a ToolError", async () => {
    await fc.assert(
      fc.asyncProperty(fc.anything(), async (args) => {
        try {
          await add.call({ total: 0 }, args);
        } catch (error) {
          expect(error).toBeInstanceOf(ToolError);
        }
      }),
    );
  });
});

describe("group advantages", () => {
  test.each([
    ["one winner of four", [1, 0, 0, 0], [1.732048, -0.577349, -0.577349, -0.577349]],
    ["all equal: no signal", [0.7, 0.7, 0.7], [0, 0, 0]],
    ["float noise is no signal", [0.1 + 0.2, 0.3, 0.3], [0, 0, 0]],
    [
      "an invalid rollout stays out of mean and std (TR-19)",
      [1, null, 0, 1],
      [Math.SQRT1_2, 0, -Math.SQRT2, Math.SQRT1_2],
    ],
    ["nothing valid", [null, null], [0, 0]],
    ["one valid", [null, 0.4], [0, 0]],
    ["an empty group", [], []],
  ])("%s", (_, rewards, expected) => {
    const advantages = groupAdvantages(rewards);
    expect(advantages).toHaveLength(expected.length);
    for (const [index, value] of expected.entries()) expect(advantages[index]).toBeCloseTo(value, 4);
  });

  test("have mean 0, and do not move when all rewards are shifted", () => {
    const rewards = fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: 2, maxLength: 16 });
    fc.assert(
      fc.property(rewards, fc.double({ min: -2, max: 2, noNaN: true }), (values, shift) => {
        const advantages = groupAdvantages(values);
        expect(advantages.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 6);
        const spread = Math.max(...values) - Math.min(...values);
        fc.pre(spread === 0 || spread > 1e-3); // between the two, rounding decides whether there is a signal
        const shifted = groupAdvantages(values.map((value) => value + shift));
        for (const [index, value] of shifted.entries()) expect(value).toBeCloseTo(advantages[index]!, 4);
      }),
    );
  });
});

describe("names that were probably meant", () => {
  test.each([
    ["trian", ["train", "dev", "test"], "train"],
    ["modle", ["model", "module"], "model"],
    ["arxib", ["arxiv", "airline"], "arxiv"],
    ["serach", ["search"], "search"],
    ["xyz", ["train", "dev"], null],
    ["", ["a", "train"], "a"],
    ["x", [], null],
  ])("%s of %j", (name, names, expected) => {
    expect(nearest(name, names)).toBe(expected);
  });

  test("the edit distance is a distance", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (a, b) => {
        const distance = editDistance(a, b);
        expect(distance === 0).toBe(a === b);
        expect(distance).toBe(editDistance(b, a));
        expect(distance).toBeLessThanOrEqual(Math.max(a.length, b.length));
      }),
    );
  });
});

describe("environments", () => {
  const spec: EnvSpec<{ id: string }, { n: number }, { size: number }> = {
    id: "toy@3",
    summary: "",
    options: z.strictObject({ size: z.int().default(2) }),
    max_turns: 2,
    tools: [],
    components: [{ name: "right", range: [0, 1] }],
    splits: ["train"],
    load(split, { size }) {
      if (split !== "train") throw new UserError(`no split ${split}`);
      return { tasks: Array.from({ length: size }, (_, index) => ({ id: `t${index}` })), sources: { "data/x": "00" } };
    },
    reset: () => ({ state: { n: 0 }, messages: [{ role: "user", content: "say yes" }] }),
    step: (state, reply) => ({
      state,
      thought: "",
      action: null,
      outcome: { kind: "terminal", text: "", payload: reply === "yes" },
      observations: [],
      terminated: true,
    }),
    score({ turns }) {
      const right = turns[0]?.outcome.payload === true ? 1 : 0;
      return { reward: right, parts: { right }, metrics: {}, success: right === 1 };
    },
    policies: { gold: () => ["yes"], silent: () => [] },
  };

  const row = {
    id: "r",
    task_id: "t0",
    prompt: [{ role: "user", content: "say yes" }],
    turns: [{ reply: "yes", observations: [] }],
    meta: {},
  };

  test("options are checked by name, with their defaults", async () => {
    const toy = defineEnv(spec);
    expect(toy.parseOptions({})).toEqual({ size: 2 });
    expect(() => toy.parseOptions({ sise: 3 })).toThrow(/env_options of toy: .*sise/);
    expect((await toy.load("train", { size: 3 })).ids).toEqual(["t0", "t1", "t2"]);
    await expect(toy.load("test")).rejects.toThrow(UserError);
  });

  test.each([
    ["max_turns", { max_turns: "3" as never }, /defineEnv \(toy@3\): max_turns: expected a whole number of 1 or more/],
    ["no turns at all", { max_turns: 0 }, /max_turns/],
    ["options", { options: undefined as never }, /options: expected a zod schema/],
    ["components", { components: undefined as never }, /components/],
    ["no splits", { splits: [] }, /splits/],
    ["a hook", { reset: "now" as never }, /reset: expected a function/],
    ["policies without gold", { policies: {} as never }, /policies.gold: expected a function/],
  ])("a declaration that does not fit is refused: %s", (_, changes, message) => {
    expect(() => defineEnv({ ...spec, ...changes })).toThrow(message);
    expect(() => defineEnv({ ...spec, ...changes })).toThrow(UserError);
  });

  test.each([
    ["nothing", undefined, /toy@3: load\('train'\) gives something else than tasks/],
    ["no tasks", { tasks: [], sources: {} }, /a split has at least one task/],
    ["a task without an id", { tasks: [{ id: "a" }, {}], sources: {} }, /tasks.1.id/],
    ["one id twice", { tasks: [{ id: "a" }, { id: "a" }], sources: {} }, /gives task 'a' twice/],
    ["no account of its files", { tasks: [{ id: "a" }] }, /sources/],
  ])("load gives %s", async (_, loaded, message) => {
    const load = defineEnv({ ...spec, load: () => loaded as never }).load("train");
    await expect(load).rejects.toThrow(message);
    await expect(load).rejects.toThrow(UserError);
  });

  test.each([
    ["nothing", undefined, /toy@3: expert\('train'\) gives something else than rows/],
    ["no rows", { rows: [], manifest: {} }, /a split has at least one row/],
    ["a row without a prompt", { rows: [{ id: "a" }], manifest: {} }, /rows.0.prompt/],
    [
      "what is no JSON",
      { rows: [row], manifest: { n: 1n } },
      /can't be written as JSON \(Do not know how to serialize/,
    ],
  ])("expert gives %s", async (_, rows, message) => {
    const expert = defineEnv({ ...spec, expert: async () => rows as never }).expert("train");
    await expect(expert).rejects.toThrow(message);
    await expect(expert).rejects.toThrow(UserError);
  });

  test("a task without a limit of turns is refused before it is played", async () => {
    const env = defineEnv({ ...spec, max_turns: ({ id }) => (id === "t1" ? Number.NaN : 2) });
    await expect(env.load("train")).rejects.toThrow(/toy@3: max_turns of task 't1'/);
  });

  test("a policy that gives no list of texts is refused", async () => {
    const policies = { gold: () => ["yes"], late: async () => ["yes"], number: () => [5] };
    const tasks = await defineEnv({ ...spec, policies: policies as never }).load("train");
    for (const policy of ["late", "number"])
      expect(() => tasks.replies(policy, "t0", createRandom(1))).toThrow(
        `policy '${policy}' of task 't0' gives something else than a list of texts`,
      );
  });

  test("unknown tasks and policies are told with what there is", async () => {
    const tasks = await defineEnv(spec).load("train");
    expect(() => tasks.start("t9", { seed: 1 })).toThrow(/split train has no task 't9'. It has: t0, t1/);
    expect(() => tasks.replies("golden", "t0", createRandom(1))).toThrow(/no policy 'golden'. It has: gold, silent/);
  });

  test("gold replays become expert rows; gold that does not solve its task is refused", async () => {
    const { rows, manifest } = await defineEnv(spec).expert("train");
    expect(rows[1]).toEqual({
      id: "t1",
      task_id: "t1",
      prompt: [{ role: "user", content: "say yes" }],
      turns: [{ reply: "yes", observations: [] }],
      meta: {},
    });
    expect(manifest).toMatchObject({ kind: "gold_replay", rows: 2, sources: { "data/x": "00" } });
    const wrong = await defineEnv({ ...spec, policies: { gold: () => ["no"] } }).load("train");
    await expect(replayGold(wrong)).rejects.toThrow(
      /gold replies of task 't0' do not solve it \(terminated, reward 0\)/,
    );
  });

  test("a family without a format for stored trajectories says so by null", async () => {
    expect(defineEnv(spec).rescore).toBeNull();
    expect(await defineEnv({ ...spec, rescore: (line) => line }).rescore!({ a: 1 })).toEqual({ a: 1 });
  });
});
