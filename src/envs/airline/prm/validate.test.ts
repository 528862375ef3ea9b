import { describe, expect, test } from "vitest";
import { UserError } from "../../../core/errors.ts";
import { processScore } from "./process-score.ts";
import { actionRecord } from "./records.ts";
import { type EpisodeFacts, episodeReward, partialCredit, saturatedRewards } from "./rewards.ts";
import { prmWeights } from "./rules.ts";
import { type PrmSample, readSample } from "./samples.ts";
import { searchPrm } from "./search.ts";
import { behavesBadly, validatePrm } from "./validate.ts";

const facts: EpisodeFacts = { user_turns: 4, tool_calls: 10, transferred: false, records: 4, losing_records: 1 };

describe("reward modes", () => {
  test.each([
    ["binary", 1, -0.2, 1],
    ["binary", 0, 0.5, 0],
    ["prm_lite", 1, -0.2, 0.94],
    ["prm_lite", 0, 0.5, 0.15],
    ["partial_credit", 1, -0.2, 1],
    ["partial_credit", 0, 0.5, 0.3 * (0.15 + 0.3 + 0.4 * 0.75)],
  ] as const)("%s of outcome %d and process %d", (mode, outcome, process, reward) => {
    const made = episodeReward(mode, outcome, process, facts);
    expect(made.reward).toBeCloseTo(reward, 12);
    expect(made).toMatchObject({ outcome, process });
  });

  test("partial credit lies in [0, 0.3], and a transfer takes it all", () => {
    expect(partialCredit({ ...facts, transferred: true })).toBe(0);
    expect(partialCredit({ ...facts, user_turns: 80, losing_records: 0 })).toBeCloseTo(0.3, 12);
    expect(partialCredit({ ...facts, user_turns: 0, tool_calls: 0, records: 0, losing_records: 0 })).toBe(0);
  });

  test("only_saturated: process scores count where outcomes say nothing", () => {
    const [good, bad] = [
      { outcome: 0, process: 0.1 },
      { outcome: 0, process: -0.1 },
    ];
    const rewards = saturatedRewards([good, null, bad]);
    expect(rewards[0]).toBeCloseTo(0.03, 12);
    expect(rewards.slice(1)).toEqual([null, -0.03]);
    expect(saturatedRewards([good, null, { outcome: 1, process: -0.1 }])).toEqual([0, null, 1]);
    expect(saturatedRewards([])).toEqual([]);
  });
});

const read = (user_id: string) =>
  actionRecord({ tool: "get_user_details", parameters: { user_id }, observation: "{}", content: "" });
const act = (n: number) =>
  actionRecord({
    tool: "cancel_reservation",
    parameters: { reservation_id: `ABC10${n}` },
    observation: "{}",
    content: "",
  });
const sample = (task_id: string, success: boolean, actions: PrmSample["actions"]): PrmSample => ({
  task_id,
  success,
  actions,
});
const samples: PrmSample[] = [
  sample("0", true, [read("a_b_1"), act(1)]),
  sample("0", false, [read("a_b_1"), read("a_b_1")]),
  sample("1", true, [read("unknown")]),
  sample(
    "1",
    false,
    Array.from({ length: 15 }, (_, n) => read(`a_b_${n}`)),
  ),
];

test("validation measures what scores tell apart", () => {
  const report = validatePrm(samples);
  const scores = samples.map(({ actions }) => processScore(actions).score);
  expect(report).toMatchObject({ trajectories: 4, tasks: 2, bad_behaviour: 2, clipped_share: 0 });
  expect(report.separation).toBeCloseTo((scores[0]! + scores[2]! - scores[1]! - scores[3]!) / 2, 12);
  expect(report.intra_group_std).toBeCloseTo(
    (Math.abs(scores[0]! - scores[1]!) + Math.abs(scores[2]! - scores[3]!)) / 4,
    12,
  );
  expect(report.bad_behaviour_mean).toBeCloseTo((scores[1]! + scores[2]!) / 2, 12);
  expect(report.by_records).toEqual({
    "1": scores[2],
    "2": (scores[0]! + scores[1]!) / 2,
    "3-14": null,
    "15+": scores[3],
  });
  expect(report.short_success_mean).toBe(scores[0]);
  expect(report.long_failure_mean).toBe(scores[3]);
  expect(report.rules.P8).toEqual({ fired: 1, total: -0.07 });
  expect(report.accepted).toEqual({ separates: true, spreads: true, rarely_clips: true });
});

test("nothing to judge gives no numbers, and never NaN", () => {
  const report = validatePrm([]);
  expect(report).toMatchObject({ trajectories: 0, separation: null, intra_group_std: null, clipped_share: null });
  expect(report.accepted).toEqual({ separates: null, spreads: null, rarely_clips: null });
  expect(searchPrm([]).best[0]!.objective).toBe(0);
});

test("thinking is no bad behaviour, nor the same call later", () => {
  const think = actionRecord({ tool: "think", parameters: { thought: "any" }, observation: "", content: "" });
  expect(behavesBadly([think, think])).toBe(false);
  expect(behavesBadly([read("a_b_1"), act(1), read("a_b_1")])).toBe(false);
  expect(behavesBadly([read("a_b_1"), read("a_b_1")])).toBe(true);
});

test("the search tries both grids, is repeatable, and finds at least what is in use", () => {
  const found = searchPrm(samples);
  expect(found.tried).toBe(4 * 4 * 2 * 4 * 3 + 3 * (3 * 3 * 3 * 2));
  expect(found.best).toHaveLength(3);
  expect(found.best[0]!.objective).toBeGreaterThanOrEqual(found.current.objective);
  expect(found.current.weights).toEqual(prmWeights);
  expect(searchPrm(samples)).toEqual(found);
  const { terms, objective } = found.best[0]!;
  expect(objective).toBeCloseTo(
    2 * terms.group_std - 1.5 * terms.bad_behaviour + terms.short_over_long + 0.5 * terms.short_success,
    12,
  );
});

describe("stored trajectories", () => {
  const records = [
    { tool: "get_user_details", parameters: { user_id: "a_b_1" }, observation: "Error: user not found" },
    { tool: "implicit_think", parameters: {}, param_str: "", content: "hm".repeat(60) },
  ];

  test.each([
    ["a report's line", { task_id: 3, success: true, actions: records }],
    [
      "a log's line",
      {
        task_id: "3",
        success: true,
        turns: [
          { reply: "", outcome: { kind: "ok", payload: { records: [records[0]] } } },
          { reply: "", outcome: { kind: "ok", payload: { records: [records[1]] } } },
        ],
      },
    ],
  ])("%s", (_, line) => {
    const { task_id, actions } = readSample(line, "x.jsonl, line 1");
    expect(task_id).toBe("3");
    expect(actions).toMatchObject([
      { is_error: true, param_str: `{"user_id": "a_b_1"}` },
      { tool: "implicit_think", param_str: "", content: "hm".repeat(60) },
    ]);
  });

  test.each([
    null,
    [],
    { task_id: "3", success: true },
    { task_id: "3", success: true, actions: [{ parameters: {} }] },
    { task_id: "3", success: true, turns: [{ outcome: { kind: "ok", payload: { tool: "x" } } }] },
  ])("%j is none", (line) => {
    expect(() => readSample(line, "x.jsonl, line 1")).toThrow(UserError);
    expect(() => readSample(line, "x.jsonl, line 1")).toThrow(/^x\.jsonl, line 1: expected a trajectory/);
  });

  test("how numbers were written is kept", () => {
    const stored = { tool: "send_certificate", parameters: { amount: 100 }, param_str: `{"amount": 100.0}` };
    expect(readSample({ task_id: "1", success: false, actions: [stored] }, "x").actions[0]!.param_str).toBe(
      `{"amount": 100.0}`,
    );
  });
});
