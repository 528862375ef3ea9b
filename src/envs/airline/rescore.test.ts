import { describe, expect, test } from "vitest";
import { startEpisode } from "../../core/episode.ts";
import { UserError } from "../../core/errors.ts";
import { createRandom } from "../../core/random.ts";
import { airline, airlineSpec } from "./env.ts";
import { type AirlineOptions, airlineOptions } from "./options.ts";
import type { RescoredLine } from "./rescore.ts";
import { rescoreLine } from "./rescore.ts";
import { loadAirlineSplit } from "./splits.ts";

const options = airlineOptions.parse({});
const withProcess = airlineOptions.parse({ reward: { mode: "prm_lite" } });
const { tasks } = loadAirlineSplit("test", options);

/** Cases G02, G10 and G13 of airline.md, appendix A. */
const look = { tool: "get_user_details", parameters: { user_id: "emma_kim_9957" } };
const U = {
  ...look,
  observation: '{"reservations": ["MDCLVA", "EHGLP3"], "payment_methods": {"credit_card_5832574": {}}}',
};
const reservation_id = "MDCLVA";
const RO =
  '{"reservation_id": "MDCLVA", "user_id": "emma_kim_9957", "flights": [{"flight_number": "HAT043", "date": "2024-05-15"}]}';
const R = { tool: "get_reservation_details", parameters: { reservation_id }, observation: RO };
const C = { tool: "cancel_reservation", parameters: { reservation_id }, observation: RO };
const X = {
  tool: "transfer_to_human_agents",
  parameters: { summary: "User wants a human." },
  observation: "Transfer successful",
};

describe("stored actions", () => {
  test.each([
    ["G02", [{ tool: "get_reservation_details", parameters: { reservation_id: "previous_reservation" } }], -0.02],
    ["G10", [X], -0.1],
    ["G13", [U, R, C], -0.003333],
    ["none", [], 0],
  ])("%s: the process score and what each rule gave", async (_, actions, score) => {
    const lost = await rescoreLine({ id: 1, task_id: "49", actions, outcome: 0 }, withProcess);
    expect(lost).toMatchObject({ id: 1, task_id: "49", parts: { outcome: 0 } });
    expect(lost.parts.process).toBeCloseTo(score, 5);
    expect(lost.reward).toBeCloseTo(0.3 * score, 5);
    expect(lost.process!.score).toBe(lost.parts.process);
    const rules = Object.entries(lost.metrics).filter(([name]) => name.startsWith("prm_"));
    expect(rules.reduce((sum, [, value]) => sum + (value as number), 0)).toBeCloseTo(score, 5);
    const won = await rescoreLine({ history: actions, success: true }, withProcess);
    expect(won).toMatchObject({ id: null, task_id: null, parts: { outcome: 1 } });
    expect(won.reward).toBeCloseTo(1 + 0.3 * score, 5);
  });

  test("pay by their outcome alone without it; where nobody says that, there is no reward", async () => {
    expect((await rescoreLine({ actions: [X], outcome: 1 }, options)).reward).toBe(1);
    expect(await rescoreLine({ actions: [X], task: { id: "synth-00" } }, options)).toMatchObject({
      ...{ task_id: "synth-00", reward: null },
      parts: { outcome: null, process: -0.1 },
    });
  });

  test.each([
    ["no actions", { id: 1 }],
    ["both lists", { actions: [], history: [] }],
    ["an action without a tool", { actions: [{ parameters: {} }] }],
    ["an outcome of another kind", { actions: [], outcome: 0.5 }],
    ["no object", 7],
    ["turns that are none", { task_id: "synth-00", turns: [1] }],
  ])("%s is no line to score", async (_, line) => {
    await expect(rescoreLine(line, options)).rejects.toThrow(UserError);
  });
});

describe("lines of a trajectory log", () => {
  async function logged(policy: keyof typeof airlineSpec.policies, index: number, settings: AirlineOptions) {
    const task = tasks[index % tasks.length]!;
    const episode = await startEpisode(airlineSpec, task, settings, { seed: index });
    for (const reply of airlineSpec.policies[policy]!(task, createRandom(index), settings)) {
      if (episode.ended_by) break;
      await episode.reply(reply);
    }
    return JSON.parse(JSON.stringify(await episode.finish()));
  }

  test.each([
    ["as they are by default", options],
    ["with the process, without the latch", airlineOptions.parse({ reward: { mode: "prm_lite" }, done_latch: false })],
    ["without the opening", airlineOptions.parse({ protocol: { drop_first_user_message: true } })],
  ])("get the judgement that they have: %s", async (_, settings) => {
    for (const policy of ["gold", "refuse", "random_calls", "double_end"] as const)
      for (let index = 0; index < 12; index++) {
        const line = await logged(policy, index * 4, settings);
        const { reward, parts, metrics } = (await rescoreLine(line, settings)) as RescoredLine;
        expect({ reward, parts, metrics }).toEqual({ reward: line.reward, parts: line.parts, metrics: line.metrics });
      }
  });

  test("a tampered reward is not believed, a failed rollout has none, an unknown task is skipped", async () => {
    const line = await logged("gold", 0, options);
    expect((await rescoreLine({ ...line, reward: 7 }, options)).reward).toBe(1);
    expect((await rescoreLine({ ...line, ended_by: "error" }, options)).reward).toBe(null);
    expect(await rescoreLine({ ...line, task_id: "gone" }, options)).toMatchObject({
      skipped: "no airline task 'gone'",
    });
    expect(airline.rescore).not.toBe(null);
  });
});
