import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { EnvSpec, EpisodeContext } from "./env.ts";
import { type EpisodeOptions, startEpisode } from "./episode.ts";

interface State {
  turns: number;
}
type Spec = EnvSpec<{ id: string }, State, object>;

const wait = (time_ms: number) => new Promise((resolve) => setTimeout(resolve, time_ms));

/** An environment with hooks; `closed` counts its sessions given back. */
function environment(changes: Partial<Spec> = {}) {
  const closed: State[] = [];
  const spec: Spec = {
    id: "fake@1",
    summary: "",
    options: z.strictObject({}),
    max_turns: 3,
    tools: [],
    components: [{ name: "a", range: [0, 1] }],
    splits: ["all"],
    load: () => ({ tasks: [{ id: "t" }], sources: {} }),
    reset: () => ({ state: { turns: 0 }, messages: [{ role: "system", content: "s" }] }),
    step: (state, reply) => ({
      state: { turns: state.turns + 1 },
      thought: "",
      action: { name: "go", args: { reply } },
      outcome: { kind: reply === "end" ? "terminal" : "ok", text: "o" },
      observations: reply === "end" ? [] : [{ role: "user", content: "o" }],
      terminated: reply === "end",
    }),
    score: ({ turns, ended_by }) => ({
      reward: turns.length,
      parts: { a: 1 },
      metrics: { ended_by },
      success: ended_by === "terminated",
    }),
    close: (state) => void closed.push(state),
    policies: { gold: () => ["end"] },
    ...changes,
  };
  const start = (options: Partial<EpisodeOptions> = {}) => startEpisode(spec, { id: "t" }, {}, { seed: 5, ...options });
  return { start, closed };
}

test("the environment is told which of a group's rollouts it plays", async () => {
  const trials: number[] = [];
  const { start } = environment({
    reset: (_, { trial }) => {
      trials.push(trial);
      return { state: { turns: 0 }, messages: [{ role: "system", content: "s" }] };
    },
  });
  for (const trial of [0, 3, undefined]) await start({ trial });
  expect(trials).toEqual([0, 3, 0]);
});

describe("an episode", () => {
  test("is played to its end and recorded whole", async () => {
    const { start, closed } = environment();
    const episode = await start({ trial: 2, policy: "gold", policy_step: 9 });
    expect(await episode.reply("go")).toEqual({ observations: [{ role: "user", content: "o" }], done: false });
    expect(episode.ended_by).toBeNull();
    expect(await episode.reply("end")).toEqual({ observations: [], done: true });
    expect(episode.ended_by).toBe("terminated");
    const record = await episode.finish({ prompt: 1, policy: 2, observation: 3 });
    expect(record).toMatchObject({
      env: "fake@1",
      task_id: "t",
      seed: 5,
      trial: 2,
      policy: "gold",
      policy_step: 9,
      ended_by: "terminated",
      ended_why: null,
      reward: 2,
      success: true,
      tokens: { prompt: 1, policy: 2, observation: 3 },
    });
    expect(record.messages.map(({ role }) => role)).toEqual(["system", "assistant", "user", "assistant"]);
    expect(record.turns[0]).toEqual({
      reply: "go",
      thought: "",
      action: { name: "go", args: { reply: "go" } },
      outcome: { kind: "ok", text: "o" },
    });
    expect(await episode.finish()).toBe(record);
    expect(closed).toEqual([{ turns: 2 }]);
  });

  test("awaits an asynchronous environment, and gives each episode its own random stream", async () => {
    const drawn: number[] = [];
    const { start } = environment({
      async reset(_, { random }: EpisodeContext<object>) {
        await wait(5);
        drawn.push(random.next());
        return { state: { turns: 0 }, messages: [] };
      },
    });
    for (const seed of [1, 1, 2]) await (await start({ seed })).finish();
    expect(drawn[0]).toBe(drawn[1]);
    expect(drawn[0]).not.toBe(drawn[2]);
  });

  test("keeps what single replies earned, where the environment says it", async () => {
    const score = { reward: 1, parts: { a: 1 }, metrics: {}, success: true };
    const { start } = environment({ score: ({ turns }) => ({ ...score, turn_scores: turns.map((_, at) => at / 2) }) });
    const episode = await start();
    for (const reply of ["go", "end"]) await episode.reply(reply);
    expect((await episode.finish()).turn_scores).toEqual([0, 0.5]);
  });

  test("is truncated by the turn budget, the environment's or the run's, and scored", async () => {
    for (const [max_turns, turns] of [
      [undefined, 3],
      [1, 1],
    ]) {
      const episode = await environment().start({ max_turns });
      let done = false;
      for (let played = 0; !done; played++) {
        expect(played).toBeLessThan(turns!);
        ({ done } = await episode.reply("go"));
      }
      expect(await episode.finish()).toMatchObject({
        ended_by: "truncated",
        ended_why: "turns",
        reward: turns,
        success: false,
      });
    }
  });

  test("that ends in its last turn is terminated, not truncated", async () => {
    const episode = await environment().start({ max_turns: 1 });
    await episode.reply("end");
    expect(await episode.finish()).toMatchObject({ ended_by: "terminated", ended_why: null });
  });

  test("is ended from outside once: the first reason stays", async () => {
    const episode = await environment().start();
    episode.end("truncated", "tokens");
    episode.end("error", "late");
    expect(await episode.reply("go")).toEqual({ observations: [], done: true });
    expect(await episode.finish()).toMatchObject({ ended_by: "truncated", ended_why: "tokens", turns: [] });
  });

  test("that nobody ended is truncated when it is finished", async () => {
    const episode = await environment().start();
    await episode.reply("go");
    expect(await episode.finish()).toMatchObject({ ended_by: "truncated", ended_why: "tokens", reward: 1 });
  });
});

describe("an environment that fails carries no reward", () => {
  const boom = () => {
    throw new Error("boom");
  };
  const wrong = (value: unknown) => () => value as never;
  const good = {
    state: { turns: 1 },
    thought: "",
    action: null,
    outcome: { kind: "ok", text: "" },
    observations: [],
    terminated: true,
  };
  const worth = { reward: 1, parts: { a: 1 }, metrics: {}, success: true };
  test.each<[string, Partial<Spec>, string, number]>([
    ["reset throws", { reset: boom }, "reset: boom", 0],
    ["reset rejects", { reset: async () => boom() }, "reset: boom", 0],
    ["step throws", { step: boom }, "step: boom", 1],
    ["step rejects", { step: async () => boom() }, "step: boom", 1],
    ["score throws", { score: boom }, "score: boom", 1],
    [
      "score gives NaN",
      { score: () => ({ reward: Number.NaN, parts: {}, metrics: {}, success: true }) },
      "score: reward is NaN",
      1,
    ],
    [
      "a part is infinite",
      { score: () => ({ reward: 1, parts: { a: Number.POSITIVE_INFINITY }, metrics: {}, success: true }) },
      "score: a is Infinity",
      1,
    ],
    ["reset gives nothing", { reset: wrong(undefined) }, "reset: what it gives does not fit: Invalid input", 0],
    [
      "reset gives no messages",
      { reset: wrong({ state: { turns: 0 } }) },
      "reset: what it gives does not fit: messages",
      1,
    ],
    [
      "reset gives a message of no known role",
      { reset: wrong({ state: { turns: 0 }, messages: [{ role: "alien", content: "" }] }) },
      "messages.0.role",
      1,
    ],
    ["step gives nothing", { step: wrong(undefined) }, "step: what it gives does not fit: Invalid input", 1],
    ["step gives null", { step: wrong(null) }, "step: what it gives does not fit: Invalid input", 1],
    ["step gives a text for a message", { step: wrong({ ...good, observations: ["hi"] }) }, "observations.0", 1],
    ["step's outcome is of no known kind", { step: wrong({ ...good, outcome: { kind: "fine" } }) }, "outcome.kind", 1],
    [
      "step gives what no log can hold",
      { step: wrong({ ...good, outcome: { kind: "ok", text: "", payload: 1n } }) },
      "step: action or outcome can't be written as JSON (Do not know how to serialize a BigInt)",
      1,
    ],
    ["score gives nothing", { score: wrong(undefined) }, "score: what it gives does not fit", 1],
    ["score is async", { score: wrong(Promise.resolve()) }, "score: it gives a promise; expected the score itself", 1],
    ["score gives a text", { score: wrong({ ...worth, reward: "1" }) }, "reward: Invalid input: expected number", 1],
    ["score leaves a component out", { score: wrong({ ...worth, parts: {} }) }, "parts are none; expected", 1],
    [
      "score has too few turn scores",
      { score: wrong({ ...worth, turn_scores: [] }) },
      "turn_scores has 0 entries; expected 1, one a reply",
      1,
    ],
    ["score has a part too many", { score: wrong({ ...worth, parts: { a: 1, b: 1 } }) }, "parts are a, b; expected", 1],
  ])("%s", async (_, changes, why, sessions) => {
    const { start, closed } = environment(changes);
    const episode = await start();
    await episode.reply("end");
    const record = await episode.finish();
    expect(record).toMatchObject({ ended_by: "error", reward: null, parts: { a: null }, success: false });
    expect(record.ended_why).toContain(why);
    expect(closed).toHaveLength(sessions);
  });

  test("close throws", async () => {
    const episode = await environment({ close: boom }).start();
    await episode.reply("end");
    expect(await episode.finish()).toMatchObject({ ended_by: "error", ended_why: "close: boom", reward: null });
  });

  test("something that is no error was thrown", async () => {
    const episode = await environment({ step: () => Promise.reject("just text") }).start();
    await episode.reply("x");
    expect(await episode.finish()).toMatchObject({ ended_by: "error", ended_why: "step: just text" });
  });
});

describe("time", () => {
  test("a step that never comes back ends by timeout, is told to stop, and its session is closed", async () => {
    let aborted = false;
    const { start, closed } = environment({
      step: (_, __, { signal }) => {
        signal.addEventListener("abort", () => {
          aborted = true;
        });
        return new Promise(() => {});
      },
    });
    const episode = await start({ timeout_ms: 40 });
    const begin = performance.now();
    expect(await episode.reply("x")).toEqual({ observations: [], done: true });
    expect(performance.now() - begin).toBeLessThan(1000);
    const record = await episode.finish();
    expect(record).toMatchObject({ ended_by: "timeout", reward: null });
    expect(record.ended_why).toMatch(/step took longer than the 40 ms/);
    expect(aborted).toBe(true);
    expect(closed).toHaveLength(1);
  });

  test("the time is the whole episode's, and the policy's thinking does not count", async () => {
    const { start } = environment({
      max_turns: 10,
      step: async (state) => {
        await wait(40);
        return {
          state,
          thought: "",
          action: null,
          outcome: { kind: "ok", text: "" },
          observations: [],
          terminated: false,
        };
      },
    });
    const episode = await start({ timeout_ms: 150 });
    await wait(200); // the policy thinks
    let turns = 0;
    for (let done = false; !done; turns++) ({ done } = await episode.reply("x"));
    expect(turns).toBeGreaterThanOrEqual(3);
    expect(turns).toBeLessThanOrEqual(5);
    expect((await episode.finish()).ended_by).toBe("timeout");
  });

  test("a reset that comes after its time gives its session back, exactly once", async () => {
    const { start, closed } = environment({
      reset: async () => {
        await wait(80);
        return { state: { turns: 7 }, messages: [] };
      },
    });
    const episode = await start({ timeout_ms: 20 });
    expect(episode.ended_by).toBe("timeout");
    expect(episode.messages).toEqual([]);
    await episode.finish();
    expect(closed).toEqual([]);
    await wait(120);
    expect(closed).toEqual([{ turns: 7 }]);
  });

  test("a run that stops ends its episodes, also one that starts after the stop", async () => {
    const stop = new AbortController();
    const { start, closed } = environment({ step: () => new Promise(() => {}) });
    const episode = await start({ signal: stop.signal });
    setTimeout(() => stop.abort(), 20);
    expect(await episode.reply("x")).toEqual({ observations: [], done: true });
    expect(await episode.finish()).toMatchObject({ ended_by: "error", ended_why: "step: the run was stopped" });
    const late = await start({ signal: stop.signal });
    expect(late.ended_by).toBe("error");
    await late.finish();
    await wait(10);
    expect(closed).toHaveLength(2);
  });

  test("thousands of episodes leave no listener on the run's signal", async () => {
    const stop = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = stop.signal;
    stop.signal.addEventListener = function (...args: Parameters<typeof addEventListener>) {
      listeners++;
      addEventListener.apply(this, args);
    };
    stop.signal.removeEventListener = function (...args: Parameters<typeof removeEventListener>) {
      listeners--;
      removeEventListener.apply(this, args);
    };
    const { start } = environment();
    for (let i = 0; i < 50; i++) {
      const episode = await start({ signal: stop.signal });
      await episode.reply("end");
      await episode.finish();
    }
    expect(listeners).toBe(0);
  });
});
