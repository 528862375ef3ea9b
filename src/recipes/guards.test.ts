import { describe, expect, test } from "vitest";
import { z } from "zod";
import { guards as guardsSchema } from "../bridge/protocol.ts";
import type { TaskSet } from "../core/env.ts";
import { loadEnv } from "../envs/index.ts";
import { guardKeys, guardsOf } from "./guards.ts";

const arxiv = await loadEnv("arxiv");
const guess = await loadEnv("./examples/guess-the-number.ts");
const trained = await guess.load("train");

async function guards(
  values: Record<string, unknown>,
  env = guess,
  tasks: TaskSet = trained,
  max_turns = null as number | null,
) {
  const config = { ...z.object(guardKeys).strict().parse(values), env_options: {}, max_turns };
  const result = await guardsOf(config, new Set(Object.keys(values)), env, tasks);
  expect(guardsSchema.parse(result.guards)).toEqual(result.guards);
  return result;
}

test("by default the variance and collapse guards are on, and there is no canary", async () => {
  expect(await guards({})).toEqual({
    canary: null,
    guards: {
      allow_zero_variance: false,
      min_entropy_share: 0.01,
      max_repetition: 0.8,
      max_clipped_share: 0.95,
      collapse_patience: 10,
      canary: null,
    },
  });
});

test("arXiv's canary plays search_01 and composite_01 of another split, 4 times each every 50 steps", async () => {
  const { guards: found, canary } = await guards({ min_canary_reward: 0 }, arxiv, await arxiv.load("v6:rl_train"));
  expect(found.canary).toEqual({
    task_ids: ["search_01", "composite_01"],
    generations: 4,
    steps: 50,
    min_reward: 0,
    patience: 3,
  });
  expect(canary).toMatchObject({ split: "smoke", ids: ["search_01", "composite_01"] });
  expect((await canary!.start("composite_01", { seed: 1 })).messages).toHaveLength(1);
});

test("canary tasks are looked for in the split named, else in the one trained on", async () => {
  expect((await guards({ min_canary_reward: 0, canary_tasks: ["n4"] })).canary).toMatchObject({
    split: "train",
    ids: ["n4"],
  });
  const elsewhere = { min_canary_reward: 0, canary_tasks: ["n3", "n5"], canary_split: "test" };
  expect((await guards(elsewhere)).canary).toMatchObject({ split: "test", ids: ["n3", "n5"] });
});

describe("refused before anything starts", () => {
  test.each([
    [
      "a canary key with the canary off",
      { canary_steps: 5 },
      /canary_steps is set, but the canary is off.*min-canary-reward/,
    ],
    [
      "patience without a limit",
      { min_entropy_share: null, max_repetition: null, max_clipped_share: null, collapse_patience: 3 },
      /collapse_patience is set/,
    ],
    ["an environment that names no canary", { min_canary_reward: 0 }, /names no canary tasks.*--canary-tasks/],
    [
      "a task of another split",
      { min_canary_reward: 0, canary_tasks: ["n4", "n3"] },
      /train has no 'n3'.*--canary-split/,
    ],
    ["a split that is not there", { min_canary_reward: 0, canary_tasks: ["n4"], canary_split: "nope" }, /nope/],
  ])("%s", async (_, values, message) => {
    await expect(guards(values)).rejects.toThrow(message);
  });

  test("canary tasks that the turn budget is too short for", async () => {
    await expect(guards({ min_canary_reward: 0, canary_tasks: ["n4"] }, guess, trained, 1)).rejects.toThrow(
      /canary_tasks: max_turns is 1/,
    );
  });

  test.each([{ min_canary_reward: -2 }, { max_repetition: 2 }, { collapse_patience: 0 }, { canary_tasks: [] }])(
    "%o",
    (values) => {
      expect(z.object(guardKeys).safeParse(values).success).toBe(false);
    },
  );
});
