import { expect, test } from "vitest";
import type { Trajectory } from "../src/core/trajectory.ts";
import { comparePolicies, comparisonTables } from "./policies.ts";
import { rowOf } from "./policy-kl.ts";

const played = (task_id: string, reward: number | null, trial = 0): Trajectory => ({
  env: "toy@1",
  task_id,
  seed: 0,
  trial,
  policy: "model:x",
  policy_step: null,
  messages: [],
  turns: [],
  ended_by: reward === null ? "error" : "terminated",
  ended_why: null,
  reward,
  parts: {},
  metrics: {},
  success: reward === 1,
  tokens: { prompt: 0, policy: 0, observation: 0 },
  env_ms: null,
});

const rules = { criteria: ["won"], measures: [], unit: (task_id: string) => task_id.split("/")[0]! };
const base = {
  label: "baseline",
  model: "b",
  trajectories: [played("q1/1", 0), played("q1/2", 1), played("q2/1", 0), played("q3/1", 1)],
};
const tuned = {
  label: "tuned",
  model: "t",
  trajectories: [played("q1/1", 1), played("q1/2", 1), played("q2/1", 1), played("q3/1", null)],
};
const settings = { rules, kls: new Map([["tuned", 0.25]]), seed: 3 };

test("rewards are means over units, and differences are of units that both have played", () => {
  const { policies, units, differences } = comparePolicies([base, tuned], settings);
  expect(policies.map(({ mean_reward, episodes, invalid, kl }) => [mean_reward, episodes, invalid, kl])).toEqual([
    [0.5, 4, 0, null],
    [1, 3, 1, 0.25],
  ]);
  expect(units).toEqual([
    { unit: "q1", rewards: [0.5, 1], differences: [0, 0.5] },
    { unit: "q2", rewards: [0, 1], differences: [0, 1] },
    { unit: "q3", rewards: [1, null], differences: [0, null] },
  ]);
  expect(differences).toMatchObject([{ label: "tuned", against: "baseline", units: 2, difference: 0.75 }]);
  expect(differences[0]!.interval![0]).toBeGreaterThanOrEqual(0.5);
  expect(differences[0]!.interval![1]).toBeLessThanOrEqual(1);
});

test("the same logs and seed give the same tables, and one policy alone has no differences", () => {
  const shown = { env: "toy@1", split: "eval", temperature: 0, repeat: 1, seed: 3 };
  const tables = comparisonTables({ ...shown, ...comparePolicies([base, tuned], settings) });
  expect(comparisonTables({ ...shown, ...comparePolicies([base, tuned], settings) })).toEqual(tables);
  expect(tables.markdown).toContain("| q2 | 0.000 | 1.000 | 1.000 |");
  expect(tables.text).toMatch(/toy@1, eval: temperature 0, 1 trial a task, seed 3/);
  const alone = comparisonTables({ ...shown, ...comparePolicies([base], settings) });
  expect(alone.text).not.toContain("against");
});

test("a trajectory is a prompt and replies, the last without what answered it", () => {
  const said = (role: "system" | "user" | "assistant" | "tool", content: string) => ({ role, content });
  const messages = [
    said("system", "s"),
    said("user", "u"),
    said("assistant", "a"),
    said("tool", "t"),
    said("tool", "v"),
  ];
  const row = rowOf({ ...played("q1/1", 0), messages: [...messages, said("assistant", "b"), said("user", "end")] })!;
  expect(row.prompt).toEqual(messages.slice(0, 2));
  expect(row.turns).toEqual([
    { reply: "a", observations: messages.slice(3) },
    { reply: "b", observations: [] },
  ]);
  expect(rowOf({ ...played("q1/1", 0), messages: messages.slice(0, 2) })).toBeNull();
});
