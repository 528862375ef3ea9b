import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineEnv, type EpisodeContext, type StepResult, type TaskSet } from "../core/env.ts";
import type { Trajectory } from "../core/trajectory.ts";
import { type EpisodeServer, type ServeOptions, serveEpisodes } from "./episodes.ts";
import { type EntryResult, entries, type OpAnswer, ops } from "./protocol.ts";

interface State {
  id: string;
  turns: number;
}

/** An environment that does what the reply says; it counts its sessions. */
function fakeEnv() {
  const closed: string[] = [];
  let running = 0;
  let mostRunning = 0;
  async function step(state: State, reply: string, { signal }: EpisodeContext<object>): Promise<StepResult<State>> {
    running++;
    mostRunning = Math.max(mostRunning, running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running--;
    if (reply === "throw") throw new Error("ECONNRESET");
    if (reply === "hang") await new Promise(() => {});
    if (reply === "hang until aborted")
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
    const terminated = reply === "done";
    return {
      state: { ...state, turns: state.turns + 1 },
      thought: "",
      action: null,
      outcome: { kind: terminated ? "terminal" : "ok", text: terminated ? "" : `seen ${reply}` },
      observations: terminated ? [] : [{ role: "user", content: `seen ${reply}` }],
      terminated,
    };
  }
  const ids = [...Array.from({ length: 40 }, (_, index) => `t${index}`), "bad-reset"];
  const env = defineEnv<{ id: string }, State, object>({
    id: "fake@1",
    summary: "Does what the reply says.",
    options: z.strictObject({}),
    max_turns: 3,
    tools: [],
    components: [{ name: "done", range: [0, 1] }],
    splits: ["all"],
    load: () => ({ tasks: ids.map((id) => ({ id })), sources: {} }),
    reset(task) {
      if (task.id === "bad-reset") throw new Error("no database");
      return { state: { id: task.id, turns: 0 }, messages: [{ role: "user", content: `do ${task.id}` }] };
    },
    step,
    score({ turns, ended_by }) {
      const done = ended_by === "terminated" ? 1 : 0;
      return { reward: done - 0.1 * turns.length, parts: { done }, metrics: {}, success: done === 1 };
    },
    close: (state) => void closed.push(state.id),
    policies: { gold: () => ["done"] },
  });
  return { env, closed, mostRunning: () => mostRunning };
}

async function serve(options: Partial<ServeOptions> = {}) {
  const { env, closed, mostRunning } = fakeEnv();
  const lines: Trajectory[] = [];
  const server = serveEpisodes({
    tasks: await env.load("all"),
    log: { write: (trajectory) => void lines.push(trajectory) },
    ...options,
  });
  return { server, lines, closed, mostRunning };
}

async function start(server: EpisodeServer, task_ids: string[], seed = 7): Promise<number[]> {
  const episodes = task_ids.map((task_id, trial) => ({ task_id, seed, trial }));
  const answer = (await server.answer("start", { policy_step: 2, policy: "model:x", episodes })) as OpAnswer<"start">;
  expect(ops.start.answer.parse(answer)).toEqual(answer);
  return answer.episodes.map(({ handle }) => handle);
}

async function step(server: EpisodeServer, handles: number[], replies: string[]) {
  const episodes = handles.map((handle, row) => ({ handle, reply: replies[row]! }));
  const answer = (await server.answer("step", { episodes })) as OpAnswer<"step">;
  expect(ops.step.answer.parse(answer)).toEqual(answer);
  return answer.episodes;
}

async function finish(server: EpisodeServer, handles: number[], ended = false) {
  const tokens = { prompt: 3, policy: 2, observation: 1 };
  const by = ended ? { by: "truncated", why: "tokens" } : null;
  const answer = (await server.answer("finish", {
    episodes: handles.map((handle) => ({ handle, ended: by, tokens })),
  })) as OpAnswer<"finish">;
  expect(ops.finish.answer.parse(answer)).toEqual(answer);
  return answer.episodes;
}

describe("a batch", () => {
  test("is started, stepped and finished in the order asked, its members concurrently", async () => {
    const { server, lines, closed, mostRunning } = await serve();
    const handles = await start(server, ["t1", "t2", "t1"]);
    const first = await step(server, handles, ["a", "done", "c"]);
    expect(first.map(({ done, ended_by }) => [done, ended_by])).toEqual([
      [false, null],
      [true, "terminated"],
      [false, null],
    ]);
    expect(first[0]!.observations).toEqual([{ role: "user", content: "seen a" }]);
    expect(mostRunning()).toBe(3);
    await step(server, [handles[0]!, handles[2]!], ["done", "c"]);
    const scores = await finish(server, [handles[0]!, handles[1]!]);
    expect(scores.map(({ reward, success }) => [reward, success])).toEqual([
      [0.8, true],
      [0.9, true],
    ]);
    const [cut] = await finish(server, [handles[2]!], true);
    expect(cut).toMatchObject({ reward: -0.2, success: false, ended_by: "truncated", ended_why: "tokens" });
    expect(closed).toEqual(["t1", "t2", "t1"]);
    expect(lines.map(({ task_id, trial, policy_step }) => [task_id, trial, policy_step])).toEqual([
      ["t1", 0, 2],
      ["t2", 1, 2],
      ["t1", 2, 2],
    ]);
    expect(lines[0]!.tokens).toEqual({ prompt: 3, policy: 2, observation: 1 });
    expect(server.counters()).toMatchObject({ started: 3, finished: 3, open: 0, invalid: 0, successes: 2, turns: 5 });
  });

  test("may have two tasks with the same prompt text (TR-01): the id decides", async () => {
    const { server, lines } = await serve();
    const handles = await start(server, ["t1", "t2"]);
    await step(server, handles, ["done", "done"]);
    await finish(server, handles);
    expect(lines.map(({ task_id }) => task_id)).toEqual(["t1", "t2"]);
  });
});

describe("questions that make no sense are refused by name", () => {
  test.each([
    ["an unknown question", "play", {}, /Python asked 'play'; the questions are start, step/],
    ["a question that every object has", "toString", {}, /Python asked 'toString'/],
    ["no list", "start", { policy_step: 0, policy: "x" }, /start: episodes/],
    ["a null row (TR-22)", "step", { episodes: [null] }, /step: episodes\.0/],
    ["an empty batch", "step", { episodes: [] }, /step: episodes/],
    ["NaN in a place for counts", "log", { step: Number.NaN, metrics: {} }, /log: step/],
    ["an unknown handle", "step", { episodes: [{ handle: 99, reply: "" }] }, /row 0 names handle 99/],
    [
      "an unknown task (TR-09)",
      "start",
      {
        policy_step: 0,
        policy: "x",
        episodes: [
          { task_id: "t1", seed: 1, trial: 0 },
          { task_id: "bad-rest", seed: 1, trial: 0 },
        ],
      },
      /row 1 asks for task 'bad-rest', which split all of fake@1 does not have; nearest: 'bad-reset'/,
    ],
  ])("%s", async (_, op, payload, message) => {
    const { server, closed } = await serve();
    await expect(server.answer(op, payload)).rejects.toThrow(message);
    expect(server.counters()).toMatchObject({ started: 0, open: 0 });
    expect(closed).toEqual([]);
  });

  test("a handle named twice, stepped after its end, finished twice, or finished while it runs", async () => {
    const { server } = await serve();
    const [handle] = (await start(server, ["t1"])) as [number];
    await expect(step(server, [handle, handle], ["a", "b"])).rejects.toThrow(/named twice/);
    await expect(finish(server, [handle])).rejects.toThrow(/still running/);
    await step(server, [handle], ["done"]);
    await expect(step(server, [handle], ["a"])).rejects.toThrow(/has ended already/);
    await finish(server, [handle]);
    await expect(finish(server, [handle])).rejects.toThrow(/not open/);
  });

  test("metrics may be NaN, and only they", async () => {
    const seen: [number, Record<string, number>][] = [];
    const { server } = await serve({ onLog: (step, metrics) => void seen.push([step, metrics]) });
    await server.answer("log", { step: 3, metrics: { loss: Number.NaN, kl: Number.POSITIVE_INFINITY } });
    expect(seen).toEqual([[3, { loss: Number.NaN, kl: Number.POSITIVE_INFINITY }]]);
    const result = { steps: 1, train_loss: Number.NaN, stop_reason: "x", parameters: { total: 1, trainable: 1 } };
    const whole = {
      ...result,
      train_s: 1,
      bridge_s: 0,
      peak_memory_gib: null,
      rollouts: 4,
      invalid: 0,
      groups: 1,
      groups_without_signal: 0,
      ask_s: 0.1,
    };
    expect(entries.grpo.result.parse(whole) satisfies EntryResult<"grpo">).toMatchObject(whole);
    expect(() => entries.grpo.result.parse({ ...whole, ask_s: Number.NaN })).toThrow();
  });
});

describe("failing environments", () => {
  test("a failed rollout has no reward and is counted; the others of its group go on (TR-19)", async () => {
    const { server, lines, closed } = await serve();
    const handles = await start(server, ["t1", "t1", "t1", "t1"]);
    await step(server, handles, ["a", "a", "a", "a"]);
    const second = await step(server, handles, ["done", "throw", "done", "done"]);
    expect(second.map(({ ended_by }) => ended_by)).toEqual(["terminated", "error", "terminated", "terminated"]);
    const scores = await finish(server, handles);
    expect(scores.map(({ reward }) => reward)).toEqual([0.8, null, 0.8, 0.8]);
    expect(scores[1]).toMatchObject({ ended_by: "error", ended_why: "step: ECONNRESET", parts: { done: null } });
    expect(lines[1]!.reward).toBeNull();
    expect(closed).toHaveLength(4);
    expect(server.counters()).toMatchObject({ invalid: 1, ended_by: { error: 1 } });
  });

  test("a failure at reset is told by done and finished like the others", async () => {
    const { server, lines } = await serve();
    const episodes = ["t1", "bad-reset"].map((task_id) => ({ task_id, seed: 1, trial: 0 }));
    const answer = (await server.answer("start", { policy_step: null, policy: "gold", episodes })) as OpAnswer<"start">;
    expect(answer.episodes.map(({ done, messages }) => [done, messages.length])).toEqual([
      [false, 1],
      [true, 0],
    ]);
    const handles = answer.episodes.map(({ handle }) => handle);
    await step(server, [handles[0]!], ["done"]);
    await finish(server, handles);
    expect(lines[1]).toMatchObject({ ended_by: "error", ended_why: "reset: no database", reward: null });
  });

  test("a stuck environment ends by timeout, the others finish, its session is closed (TR-21)", async () => {
    const { server, closed } = await serve({ timeout_ms: 500 });
    const handles = await start(
      server,
      Array.from({ length: 8 }, (_, index) => `t${index}`),
    );
    const begin = performance.now();
    const answers = await step(server, handles, ["done", "done", "hang", "done", "done", "done", "done", "done"]);
    expect(performance.now() - begin).toBeLessThan(1500);
    expect(answers.map(({ ended_by }) => ended_by).filter((by) => by === "terminated")).toHaveLength(7);
    expect(answers[2]).toEqual({ observations: [], done: true, ended_by: "timeout" });
    const scores = await finish(server, handles);
    expect(scores[2]!.reward).toBeNull();
    expect(closed.sort()).toEqual(["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
  });

  test("above the share of a step, finish raises with the first error's text, after all were logged", async () => {
    const { server, lines, closed } = await serve({ max_invalid_share: 0.2 });
    const handles = await start(server, ["t1", "t2", "t3", "t4", "t5"]);
    await step(server, handles, ["done", "throw", "throw", "done", "done"]);
    await expect(finish(server, handles)).rejects.toThrow(/2 of 5 rollouts.*'t2': step: ECONNRESET/s);
    expect(lines).toHaveLength(5);
    expect(closed).toHaveLength(5);
  });

  test("the share is of the batch that was started, even where it is finished one by one", async () => {
    const { server } = await serve({ max_invalid_share: 0.5 });
    const handles = await start(server, ["t1", "t2", "t3"]);
    await step(server, handles, ["throw", "done", "throw"]);
    await finish(server, [handles[0]!]);
    await finish(server, [handles[1]!]);
    await expect(finish(server, [handles[2]!])).rejects.toThrow(/2 of 3/);
  });
});

describe("the share of failed rollouts", () => {
  const batch = async (server: EpisodeServer, ids: string[], failed: number) => {
    const handles = await start(server, ids);
    await step(
      server,
      handles,
      ids.map((_, row) => (row < failed ? "throw" : "done")),
    );
    return finish(server, handles);
  };
  const ten = Array.from({ length: 10 }, (_, index) => `t${index}`);

  test("is of a step: a small batch that dynamic sampling plays for others stops nothing by itself", async () => {
    const { server } = await serve({ max_invalid_share: 0.2 });
    await batch(server, ten, 0);
    await batch(server, ["t10", "t11"], 2);
    await expect(batch(server, ["t12", "t13"], 2)).rejects.toThrow(/4 of 14 rollouts of this step failed/);
  });

  test("of a step says nothing of the next one", async () => {
    const { server } = await serve({ max_invalid_share: 0.2 });
    await batch(server, ten, 0);
    const payload = {
      policy_step: 3,
      policy: "model:x",
      episodes: [1, 2].map((trial) => ({ task_id: "t1", seed: 1, trial })),
    };
    const { episodes } = (await server.answer("start", payload)) as OpAnswer<"start">;
    const handles = episodes.map(({ handle }) => handle);
    await step(server, handles, ["throw", "throw"]);
    await expect(finish(server, handles)).rejects.toThrow(/2 of 2 rollouts of this step failed/);
  });
});

describe("exams", () => {
  async function withCanary(options: Partial<ServeOptions> = {}) {
    const other = fakeEnv();
    const canary: Trajectory[] = [];
    const tasks = { ...(await other.env.load("all")), split: "smoke", ids: ["t38", "t39"] };
    const log = { write: (trajectory: Trajectory) => void canary.push(trajectory) };
    const served = await serve({ exams: { canary: { tasks, log } }, ...options });
    const begin = async (purpose: string, task_ids: string[]) => {
      const episodes = task_ids.map((task_id, trial) => ({ task_id, seed: 7, trial }));
      const asked = { purpose, policy_step: 2, policy: "model:x", episodes };
      const answer = (await served.server.answer("start", asked)) as OpAnswer<"start">;
      return answer.episodes.map(({ handle }) => handle);
    };
    return { ...served, canary, begin, closedCanary: other.closed };
  }

  test("have tasks and a log of their own, and count nowhere", async () => {
    const { server, lines, canary, begin } = await withCanary();
    const exam = await begin("canary", ["t38", "t38", "t39"]);
    const training = await start(server, ["t1", "t1"]);
    expect(new Set([...exam, ...training]).size).toBe(5);
    await step(server, [...exam, ...training], ["done", "done", "throw", "done", "done"]);
    const scores = await finish(server, exam);
    expect(scores.map(({ reward }) => reward)).toEqual([0.9, 0.9, null]);
    await finish(server, training);
    expect(canary.map(({ task_id, policy_step }) => [task_id, policy_step])).toEqual([
      ["t38", 2],
      ["t38", 2],
      ["t39", 2],
    ]);
    expect(lines.map(({ task_id }) => task_id)).toEqual(["t1", "t1"]);
    expect(server.counters()).toMatchObject({ started: 2, finished: 2, invalid: 0, turns: 2, open: 0 });
  });

  test("play what they were given alone, and an environment that fails too often ends them too", async () => {
    const { server, begin } = await withCanary();
    await expect(begin("canary", ["t1"])).rejects.toThrow(/'t1', which split smoke of fake@1 does not have/);
    await expect(begin("verification", ["t1"])).rejects.toThrow("this run plays no episodes for verification");
    await expect(begin("holiday", ["t1"])).rejects.toThrow(/purpose/);
    const exam = await begin("canary", ["t38", "t39", "t38"]);
    await step(server, exam, ["throw", "throw", "done"]);
    await expect(finish(server, exam)).rejects.toThrow(/2 of 3 rollouts/);
  });

  test("work where training plays no episodes, as SFT; what is open at the end is closed and logged", async () => {
    const { server, lines, canary, begin, closedCanary } = await withCanary({ tasks: null, log: null });
    await expect(start(server, ["t1"])).rejects.toThrow("this run plays no episodes for training");
    await begin("canary", ["t38"]);
    await server.closeAll();
    expect(closedCanary).toEqual(["t38"]);
    expect([lines.length, canary.map(({ ended_by }) => ended_by)]).toEqual([0, ["error"]]);
  });
});

describe("rewards that hang on a whole group", () => {
  async function grouped(purposes: Partial<ServeOptions> = {}) {
    const { env } = fakeEnv();
    const tasks = await env.load("all");
    const seen: (string | null)[][] = [];
    const group_rewards: TaskSet["group_rewards"] = (group) => {
      seen.push(group.map((score) => score && String(score.reward)));
      return group.length < 2 ? null : group.map((score, place) => score && place);
    };
    const lines: Trajectory[] = [];
    const log = { write: (trajectory: Trajectory) => void lines.push(trajectory) };
    const server = serveEpisodes({ tasks: { ...tasks, group_rewards }, log, ...purposes });
    return { server, lines, seen, tasks };
  }

  test("are those of a task and seed that finish together; the log has them, a failed rollout has none", async () => {
    const { server, lines, seen } = await grouped();
    const handles = await start(server, ["t1", "t2", "t1", "t1", "t3"]);
    await step(server, handles, ["done", "done", "throw", "done", "done"]);
    const scores = await finish(server, handles);
    expect(seen).toEqual([["0.9", null, "0.9"], ["0.9"], ["0.9"]]);
    expect(scores.map(({ reward }) => reward)).toEqual([0, 0.9, null, 2, 0.9]);
    expect(lines.map(({ reward }) => reward)).toEqual([0, 0.9, null, 2, 0.9]);
    expect(scores.map(({ parts }) => parts.done)).toEqual([1, 1, null, 1, 1]);
  });

  test("are for training alone: exams keep the scorer's", async () => {
    const { tasks } = await grouped();
    const { server, seen } = await grouped({ exams: { canary: { tasks, log: null } } });
    const episodes = ["t1", "t1"].map((task_id, trial) => ({ task_id, seed: 7, trial }));
    const asked = { purpose: "canary", policy_step: 1, policy: "model:x", episodes };
    const begun = (await server.answer("start", asked)) as OpAnswer<"start">;
    const handles = begun.episodes.map(({ handle }) => handle);
    await step(server, handles, ["done", "done"]);
    expect((await finish(server, handles)).map(({ reward }) => reward)).toEqual([0.9, 0.9]);
    expect(seen).toEqual([]);
  });
});

describe("every session is closed exactly once (TR-11)", () => {
  test("40 episodes cut by the turn limit, one of them failing", async () => {
    const { server, closed } = await serve({ max_turns: 2 });
    const ids = Array.from({ length: 40 }, (_, index) => `t${index}`);
    const handles = await start(server, ids);
    await step(
      server,
      handles,
      ids.map(() => "a"),
    );
    const answers = await step(
      server,
      handles,
      ids.map((id) => (id === "t9" ? "throw" : "a")),
    );
    expect(answers.every(({ done }) => done)).toBe(true);
    await finish(server, handles);
    await server.closeAll();
    expect(closed.sort()).toEqual(ids.sort());
  });

  test("when the run is stopped in the middle of a step", async () => {
    const { server, lines, closed } = await serve();
    const handles = await start(server, ["t1", "t2", "t3"]);
    const stuck = step(server, handles, ["hang until aborted", "hang", "a"]);
    await new Promise((resolve) => setTimeout(resolve, 50));
    await server.closeAll();
    await server.closeAll();
    await stuck;
    expect(closed.sort()).toEqual(["t1", "t2", "t3"]);
    expect(lines).toHaveLength(3);
    expect(lines.every(({ ended_by, reward }) => ended_by === "error" && reward === null)).toBe(true);
    await expect(start(server, ["t1"])).rejects.toThrow(/stopped/);
  });

  test("when a signal from outside stops it", async () => {
    const abort = new AbortController();
    const { server, closed } = await serve({ signal: abort.signal });
    const handles = await start(server, ["t1", "t2"]);
    setTimeout(() => abort.abort(), 20);
    const answers = await step(server, handles, ["hang", "hang"]);
    expect(answers.map(({ ended_by }) => ended_by)).toEqual(["error", "error"]);
    await server.closeAll();
    expect(closed.sort()).toEqual(["t1", "t2"]);
  });
});
