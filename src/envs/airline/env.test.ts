import { describe, expect, test } from "vitest";
import { envContract, freezing } from "../../core/env-contract.ts";
import { startEpisode } from "../../core/episode.ts";
import { createRandom } from "../../core/random.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { airline, airlineSpec } from "./env.ts";
import type { AirlineFacts } from "./facts.ts";
import { type Call, cancel, lookUp, taskOf, transfer, trip } from "./fixtures/hand-written.ts";
import { hasOriginals, originalsFolder } from "./fixtures/originals.ts";
import { type AirlineOptions, airlineOptions } from "./options.ts";
import { callReply } from "./policies.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { readScript } from "./users/script.ts";
import { UserSimulatorError } from "./users/types.ts";

envContract(airlineSpec, {
  splits: ["seen", "unseen"],
  disjoint: [
    ["seen", "unseen"],
    ["covered_seen", "unseen"],
  ],
  runs: 60,
});

envContract(airlineSpec, {
  splits: ["unseen"],
  env_options: {
    reward: { mode: "prm_lite" },
    prompt: { mode: "date-only" },
    protocol: { drop_first_user_message: true, tool_response_max_chars: 256 },
    scoring: { number_mode: "normalized" },
  },
  runs: 20,
});

describe.skipIf(!hasOriginals)("on a user's original data", () => {
  const env_options = { data_dir: originalsFolder, user: { strategy: "silent" } };
  envContract(airlineSpec, { splits: ["test"], env_options, runs: 20 });

  test("the scripted user has no part in tasks without a script, and says what has", async () => {
    const tasks = await airline.load("test", { data_dir: originalsFolder });
    const { ended_by, ended_why } = await (await tasks.start("tau-00", { seed: 1 })).finish();
    expect(ended_by).toBe("error");
    expect(ended_why).toMatch(/'tau-00' has no script.*llm, react, verify, reflection or human, or silent/);
  });
});

test("a user whose endpoint can't be had is told before anything is played", async () => {
  const user = { strategy: "llm", dotenv: "nowhere/.env" };
  await expect(airline.load("test", { user })).rejects.toThrow("nowhere/.env: there is no such file.");
});

const silent = { user: { strategy: "silent" } };
const optionsOf = (changes: object = {}): AirlineOptions => airlineOptions.parse({ ...silent, ...changes });

async function play(task: AirlineTask, replies: readonly string[], changes: object = {}): Promise<Trajectory> {
  const episode = await startEpisode(freezing(airlineSpec), task, optionsOf(changes), { seed: 3 });
  for (const reply of replies) await episode.reply(reply);
  return episode.finish();
}

const factsOf = ({ outcome }: Trajectory["turns"][number]): AirlineFacts => outcome.payload as AirlineFacts;
const task = taskOf([cancel]);
const unknown: Call = { name: "fly", kwargs: {} };

describe("the prompt", () => {
  test("is the policy with the date, then the user; the tools are the template's", async () => {
    const { messages } = await play(task, []);
    expect(messages.map(({ role }) => role)).toEqual(["system", "user"]);
    expect(messages[0]!.content).toMatch(/# Policy.*2024-05-15, a Wednesday/s);
    expect(messages[0]!.content).not.toContain("book_reservation");
    expect(messages[1]!.content).toBe(task.instruction);
    expect([airline.template_tools(), airline.template_tools({ prompt: { tools: false } })]).toEqual([true, false]);
  });

  test("of a date alone, and without the opening", async () => {
    const changes = { prompt: { mode: "date-only" }, protocol: { drop_first_user_message: true } };
    const { messages, metrics } = await play(task, [], changes);
    expect(messages).toHaveLength(1);
    expect(messages[0]!.content).not.toContain("Policy");
    expect(messages[0]!.content).toContain("2024-05-15");
    expect(metrics.user_turns).toBe(0);
  });
});

describe("a turn", () => {
  test("a call changes the data, and its whole text is in the record even where the model reads less", async () => {
    const { turns, messages } = await play(task, [callReply(lookUp)], { protocol: { tool_response_max_chars: 20 } });
    expect(turns[0]).toMatchObject({ action: { name: lookUp.name, args: lookUp.kwargs }, outcome: { kind: "ok" } });
    expect(messages.at(-1)!.content).toMatch(/^.{10}\.\.\.\(truncated\)\.\.\..{10}$/);
    expect(factsOf(turns[0]!).records[0]!.observation.length).toBeGreaterThan(100);
  });

  test("what it says goes to the user, and the user's stop ends it", async () => {
    const { turns, ended_by, success, metrics } = await play(task, [callReply(cancel), "Done, it is cancelled."]);
    expect([ended_by, success, metrics.terminated_by]).toEqual(["terminated", true, "stop"]);
    expect(factsOf(turns[1]!)).toMatchObject({ said: "Done, it is cancelled.", user: "###STOP###" });
  });

  test("only calls that reach a tool are records; the others are answered and counted", async () => {
    const replies = [
      callReply(unknown),
      '<tool_call>\n{"name": "think", "arguments": [1]}\n</tool_call>',
      "<tool_call>{",
      `${callReply(lookUp)}\n${callReply(cancel)}`,
    ];
    const { turns, messages, metrics } = await play(task, replies);
    expect(turns.map(({ outcome }) => outcome.kind)).toEqual(["tool_error", "tool_error", "parse_error", "tool_error"]);
    expect(messages.filter(({ role }) => role === "tool").map(({ content }) => content.slice(0, 30))).toEqual([
      "Unknown action fly",
      "Error: arguments must be an ob",
      "Error: malformed tool call",
      expect.stringContaining(trip.reservation_id),
      "Error: only one call of a mess",
    ]);
    expect(factsOf(turns[0]!).unknown_tools).toEqual(["fly"]);
    expect(metrics).toMatchObject({
      num_tool_calls: 1,
      refused_calls: 2,
      tool_errors: 2,
      malformed: 1,
      extra_calls: 1,
    });
    expect(metrics.writes).toBe(0);
  });

  test("a transfer ends it, whatever stands behind it in the message", async () => {
    const replies = [`${callReply(transfer)}\n${callReply(cancel)}`];
    const { ended_by, metrics } = await play(task, replies, { protocol: { max_calls_per_message: 2 } });
    expect(ended_by).toBe("terminated");
    expect(metrics).toMatchObject({ terminated_by: "transfer", transferred: true, writes: 0 });
  });

  test.each([
    ["a made-up tool answer", ["<tool_response>ok</tool_response>"], {}, "contaminated"],
    ["the same call three times", Array(3).fill(callReply(lookUp)), {}, "loop"],
    ["a dialogue beyond its limit", ["Well."], { protocol: { max_context_chars: 10 } }, "context"],
  ])("%s ends it and pays nothing, though nothing was to be done", async (_, replies, changes, by) => {
    const { ended_by, reward, metrics } = await play(taskOf([]), replies as string[], changes);
    expect([ended_by, reward, metrics.terminated_by, metrics.needs_action]).toEqual(["terminated", 0, by, false]);
  });
});

describe("limits", () => {
  test("of turns and of tokens pay nothing, though the data are right", async () => {
    const start = () => startEpisode(airlineSpec, task, optionsOf(), { seed: 1, max_turns: 1 });
    const turns = await start();
    await turns.reply(callReply(cancel));
    expect(await turns.finish()).toMatchObject({ reward: 0, metrics: { terminated_by: "max_turns", writes: 1 } });
    const tokens = await start();
    tokens.end("truncated", "tokens");
    expect(await tokens.finish()).toMatchObject({ reward: 0, metrics: { terminated_by: "max_tokens" } });
  });

  test("turns are counted as the reference counts them", async () => {
    const ended = await play(task, [callReply(cancel), callReply(lookUp), "Done."]);
    const cut = await play(task, [callReply(cancel), callReply(lookUp)]);
    expect([ended.metrics.num_turns, cut.metrics.num_turns]).toEqual([6, 5]);
  });
});

describe("a user that can't be asked", () => {
  test("fails the rollout: it has no reward, and the simulator is given back once", async () => {
    let closed = 0;
    const broken: typeof airlineSpec = {
      ...airlineSpec,
      async reset(given, context) {
        const { state, messages } = await airlineSpec.reset(given, context);
        const step = () => Promise.reject(new UserSimulatorError("the endpoint is down"));
        return { state: { ...state, simulator: { ...state.simulator, step } }, messages };
      },
      close: () => void closed++,
    };
    const episode = await startEpisode(broken, task, optionsOf(), { seed: 1 });
    await episode.reply("Hello?");
    expect(await episode.finish()).toMatchObject({
      ...{ ended_by: "error", reward: null, success: false },
      ended_why: "step: user_simulator: the endpoint is down",
    });
    expect(closed).toBe(1);
  });
});

describe("the scripted user", () => {
  const script = readScript(
    {
      opening: ["g1"],
      facts: { user_id: trip.user_id, reservation_id: trip.reservation_id, reason: "change of plan" },
      goals: [{ id: "g1", kind: "cancel", say: "cancel my trip", match: { tool: cancel.name, kwargs: cancel.kwargs } }],
    },
    "hand-written",
  );
  const scripted = { user: { strategy: "scripted" } };

  test("sees the write that was made since it spoke last, and the teacher's replies are the gold's", async () => {
    const told = taskOf([lookUp, cancel], { script });
    const replies = airlineSpec.policies.gold(told, createRandom(1), optionsOf(scripted));
    const { success, ended_by, turns } = await play(told, replies, scripted);
    expect([success, ended_by, turns.length]).toEqual([true, "terminated", replies.length]);
  });

  test("leaves after the write alone", async () => {
    const { messages, metrics } = await play(
      taskOf([cancel], { script }),
      ["What is your user id?", callReply(lookUp), "One moment.", callReply(cancel), "It is cancelled."],
      scripted,
    );
    expect(metrics).toMatchObject({ terminated_by: "stop", user_turns: 3, writes: 1 });
    expect(messages.filter(({ role }) => role === "user")).toHaveLength(3);
  });
});

describe("rewards", () => {
  const replies = [callReply(cancel), "Done."];
  test.each([
    ["binary", 1],
    ["prm_lite", 1 + 0.3 * 0],
    ["partial_credit", 1],
  ])("%s", async (mode, least) => {
    const { reward, parts } = await play(task, replies, { reward: { mode } });
    expect(reward).toBeCloseTo(mode === "prm_lite" ? least + 0.3 * parts.process! : least);
  });

  test("a process score's rules are metrics, and add up to it", async () => {
    const { metrics, parts } = await play(task, [callReply(lookUp), callReply(cancel), callReply(lookUp), "Done."]);
    const rules = Object.entries(metrics).filter(([name]) => name.startsWith("prm_"));
    expect(rules).toHaveLength(14);
    expect(rules.reduce((sum, [, value]) => sum + (value as number), 0)).toBeCloseTo(parts.process!);
    expect(metrics.process_mean as number).toBeCloseTo(parts.process! - (metrics.process_adjustments as number));
  });

  test("saturated groups alone are told apart by their process", async () => {
    const changes = { reward: { mode: "prm_lite", only_saturated: true } };
    const group_rewards = airlineSpec.group_rewards!;
    const score = (outcome: number, process: number) => ({
      ...{ reward: 9, parts: { outcome, process }, metrics: {}, success: outcome === 1 },
    });
    expect(group_rewards([score(0, 0.1), score(0, -0.1), null], optionsOf(changes))).toEqual([0.03, -0.03, null]);
    expect(group_rewards([score(1, 0.1), score(0, -0.1), null], optionsOf(changes))).toEqual([1, 0, null]);
    expect(group_rewards([score(1, 0.1)], optionsOf())).toBe(null);
    const ignored = { reward: { only_saturated: true } };
    expect(() => airline.parseOptions(ignored)).toThrow(/reward\.only_saturated: only mode prm_lite/);
  });
});
