import { describe, expect, test } from "vitest";
import { createRandom } from "../../core/random.ts";
import { parseClues } from "./clues.ts";
import { search } from "./env.ts";

describe.each(["train", "eval"])("the gate on %s (spec section 11)", async (split) => {
  const { policies } = search.baselines;
  const request = { split, policies, seed: 1, samples: 1, training_step: 0, options: {} };
  const { rows } = await search.baselines.play(request);
  const mean = (policy: string) => {
    const rewards = rows.filter((row) => row.policy === policy).map(({ reward }) => reward);
    return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  };

  test.each(policies)("gold beats %s by at least 0.5", (policy) => {
    expect(mean("gold") - mean(policy)).toBeGreaterThanOrEqual(0.5);
  });

  test("repeating scores lowest of all, since everything was seen; no clue scores 0", () => {
    for (const policy of policies) if (policy !== "repeat") expect(mean("repeat")).toBeLessThan(mean(policy));
    expect(rows.filter((row) => row.policy === "empty").every(({ reward }) => reward === 0)).toBe(true);
  });
});

test("what the policies write", async () => {
  const tasks = await search.load("train");
  const cluesOf = (policy: string, id: string) => parseClues(tasks.replies(policy, id, createRandom(1))[0]!).clues;
  const later = tasks.ids.find((id) => tasks.category(id) === "later_round" && cluesOf("repeat", id).length > 1)!;
  expect(cluesOf("question", later)).toEqual([expect.stringMatching(/[?.]$/)]);
  expect(cluesOf("keywords", later).length).toBeGreaterThan(2);
  expect(cluesOf("flood", later)).toHaveLength(5);
  expect(cluesOf("flood", later)).toContain("the");
  expect(cluesOf("empty", later)).toEqual([]);
});
