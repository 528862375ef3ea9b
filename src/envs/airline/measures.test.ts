import { describe, expect, test } from "vitest";
import { playInEnv } from "../../core/baselines.ts";
import { startEpisode } from "../../core/episode.ts";
import { createRandom } from "../../core/random.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { categoryOf } from "./category.ts";
import { airline, airlineSpec } from "./env.ts";
import { cancel, lookUp, passengers, taskOf, transfer } from "./fixtures/hand-written.ts";
import { airlineBenchmark } from "./measures.ts";
import { airlineOptions } from "./options.ts";
import { callReply } from "./policies.ts";
import type { AirlineTask } from "./tasks/task.ts";

const options = airlineOptions.parse({ user: { strategy: "silent" } });

async function play(task: AirlineTask, replies: readonly string[]): Promise<Trajectory> {
  const episode = await startEpisode(airlineSpec, task, options, { seed: 1 });
  for (const reply of replies) await episode.reply(reply);
  return episode.finish();
}

const measure = (name: string, episode: Trajectory) =>
  airlineBenchmark.measures.find((one) => one.name === name)!.of(episode);

describe("measures", () => {
  test("what doing nothing would have earned stands beside what was earned", async () => {
    const refused = await play(taskOf([lookUp]), ["Sorry."]);
    const missed = await play(taskOf([cancel]), ["Sorry."]);
    expect([refused, missed].map((one) => measure("do_nothing", one))).toEqual([true, false]);
    expect([refused, missed].map((one) => measure("success_needs_action", one))).toEqual([null, false]);
    expect([refused, missed].map(({ success }) => success)).toEqual([true, false]);
  });

  test("errors count by the call and by the trajectory", async () => {
    const wrong = callReply({ name: "get_user_details", kwargs: { user_id: "x" } });
    const fly = callReply({ name: "fly", kwargs: {} });
    const episode = await play(taskOf([cancel]), [callReply(lookUp), wrong, fly, callReply(cancel), "Done."]);
    expect(measure("error_rate_call", episode)).toBe(0.5);
    expect(measure("error_rate_trajectory", episode)).toBe(false);
    expect(measure("error_rate_call", await play(taskOf([]), ["Hello."]))).toBe(null);
    expect(measure("error_rate_trajectory", await play(taskOf([]), Array(3).fill(fly)))).toBe(true);
  });

  test("the first criterion is what success is", async () => {
    for (const replies of [[callReply(cancel), "Done."], ["No."]]) {
      const { metrics, success } = await play(taskOf([cancel]), replies);
      expect(metrics[airlineBenchmark.criteria[0]!]).toBe(success);
      for (const name of airlineBenchmark.criteria) expect(metrics[name]).toBeTypeOf("boolean");
    }
  });
});

describe("the gate", () => {
  const settings = { sample_seed: 1, training_step: 0, options };
  const played = (policy: string, task: AirlineTask) => airlineSpec.baselines!.play!(policy, task, settings);

  test("leaves out plays that did what gold does where nothing is to be done, by what was done alone", async () => {
    const refusal = taskOf([]);
    const change = taskOf([cancel]);
    for (const policy of ["do_nothing", "refuse", "double_end", "read_only"]) {
      expect(await played(policy, refusal)).toMatchObject({ exact_reference: true, score: { reward: 1 } });
      expect(await played(policy, change)).toMatchObject({ exact_reference: false, score: { reward: 0 } });
    }
    expect(await played("gold", change)).toMatchObject({ exact_reference: true, score: { reward: 1 } });
    expect((await playInEnv(airlineSpec)("refuse", refusal, settings)).exact_reference).toBe(false);
  });

  test("a policy that draws, draws by its seed", () => {
    const replies = (seed: number) => airlineSpec.policies.random_calls!(taskOf([]), createRandom(seed), options);
    expect(replies(1)).toEqual(replies(1));
    expect(replies(1)).not.toEqual(replies(2));
    expect(airline.baselines.random).toEqual(["random_calls"]);
  });
});

test.each([
  [[cancel], "cancel_reservation"],
  [[lookUp, passengers(), cancel], "several"],
  [[transfer], "transfer"],
  [[lookUp], "refusal"],
] as const)("a task without a category is called by what its gold does: %j", (calls, name) => {
  expect(categoryOf(taskOf(calls))).toBe(name);
  expect(categoryOf(taskOf(calls, { category: "own" }))).toBe("own");
});

test("a task that only asks is a question", () => {
  expect(categoryOf(taskOf([], { outputs: ["4"] }))).toBe("question");
});
