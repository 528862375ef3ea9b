import { describe, expect, test } from "vitest";
import type { BaselineRow } from "../src/core/baselines.ts";
import { defineEnv } from "../src/core/env.ts";
import { airlineBaselines } from "../src/envs/airline/baselines.ts";
import { airline, airlineSpec } from "../src/envs/airline/env.ts";
import { judgeBaselines } from "./gate.ts";

const BOUNDS = { aggregate: 0.3, category: 0.3 };

async function play(env = airline, policies = env.baselines.policies): Promise<BaselineRow[]> {
  const asked = { policies, split: env.baselines.split, seed: 42, samples: 2, training_step: 0, options: {} };
  return (await env.baselines.play(asked)).rows;
}

describe("the airline gate", () => {
  test("passes; doing nothing earns 19 of 50 over all, and is excused on refusals alone", async () => {
    const rows = await play();
    const { passed, policies, categories } = judgeBaselines(rows, BOUNDS);
    expect(passed).toBe(true);
    const of = (name: string) => policies.find(({ policy }) => policy === name)!;
    expect(of("gold").mean).toBe(1);
    for (const name of ["do_nothing", "refuse", "double_end", "read_only"]) {
      expect(of(name).mean).toBe(0.38);
      const excused = categories.filter((category) => of(name).categories[category]!.samples === 0);
      expect(excused.sort()).toEqual(["refusal", "transfer"]);
      for (const category of categories.filter((one) => !excused.includes(one)))
        expect(of(name).categories[category]!.mean).toBe(0);
    }
    expect(of("random_calls").mean).toBeLessThan(0.1);
  });

  test("a scorer that pays for any end fails it in every category where there is something to do", async () => {
    const leaking = airlineBaselines(async (policy, task, settings) => {
      const { score, ...played } = await airlineSpec.baselines!.play!(policy, task, settings);
      return { ...played, exact_reference: false, score: { ...score, reward: 1 } };
    });
    const env = defineEnv({ ...airlineSpec, baselines: leaking });
    const { breaches } = judgeBaselines(await play(env, ["do_nothing"]), BOUNDS);
    const failed = breaches.filter(({ gate }) => gate === "category").map(({ category }) => category);
    expect(failed).toEqual(expect.arrayContaining(["cancel", "book", "change", "mixed", "question"]));
    expect(failed).not.toContain("refusal");
  });
});
