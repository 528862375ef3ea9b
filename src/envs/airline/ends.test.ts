import { describe, expect, test } from "vitest";
import { freezing } from "../../core/env-contract.ts";
import { startEpisode } from "../../core/episode.ts";
import { EpisodeEnded } from "./ends.ts";
import { airlineSpec } from "./env.ts";
import { hasOriginals, originals, originalsFolder } from "./fixtures/originals.ts";
import { type AirlineOptions, airlineOptions } from "./options.ts";
import { callReply } from "./policies.ts";
import { scoreEpisode } from "./score-episode.ts";
import { doNothing } from "./scoring.ts";
import type { AirlineTask } from "./tasks/task.ts";

// The user leaves at the first answer, so that a text is an end too.
const optionsOf = (more: object): AirlineOptions =>
  airlineOptions.parse({ data_dir: originalsFolder, user: { strategy: "silent" }, ...more });
const latched = optionsOf({});
const unlatched = optionsOf({ done_latch: false });

const transfer = callReply({ name: "transfer_to_human_agents", kwargs: { summary: "help" } });
const context = { random: null!, trial: 0, signal: new AbortController().signal };

/** Plays replies by the family's own step, which no loop keeps from going on. */
async function play(task: AirlineTask, replies: readonly string[], options: AirlineOptions) {
  let { state } = await airlineSpec.reset(task, { ...context, options });
  const turns = [];
  const errors: unknown[] = [];
  let terminated = false;
  for (const reply of replies) {
    try {
      const { state: next, ...step } = await airlineSpec.step(state, reply, { ...context, options }, task);
      state = next;
      terminated = step.terminated;
      turns.push({ reply, ...step });
    } catch (error) {
      errors.push(error);
    }
  }
  const ended_by = terminated ? ("terminated" as const) : ("truncated" as const);
  const score = scoreEpisode({ turns, final_state: state, ended_by, training_step: null }, task, options);
  await airlineSpec.close?.(state);
  return { score, errors, state };
}

const twice = { "transfer, transfer": [transfer, transfer], "transfer, then a text": [transfer, "Goodbye."] };

describe.skipIf(!hasOriginals)("a second end, on the 50 originals", () => {
  const { db, tasks } = hasOriginals ? originals() : { db: null!, tasks: [] };

  test.each(Object.entries(twice))("%s: throws under the latch and pays nothing", async (_, replies) => {
    for (const task of tasks) {
      const once = await play(task, [transfer], latched);
      const { score, errors } = await play(task, replies, latched);
      expect(errors).toEqual([expect.any(EpisodeEnded)]);
      expect(score).toEqual(once.score);
      expect(score.reward).toBe(doNothing(task, db));
    }
  });

  test.each(Object.entries(twice))("%s: pays on all but the four with outputs without it", async (_, replies) => {
    const paid: number[] = [];
    for (const task of tasks) {
      const { score, errors } = await play(task, replies, unlatched);
      expect(errors).toEqual([]);
      expect(score.success).toBe(score.reward >= 1);
      expect(score.parts.outcome).toBeLessThanOrEqual(1);
      if (score.reward >= 1) paid.push(task.task_index);
      else expect(task.outputs.length).toBeGreaterThan(0);
    }
    expect(paid.length).toBe(46);
    expect(tasks.filter(({ outputs }) => outputs.length > 0).length).toBe(4);
  });

  test("without it, rewards of several ends add up, and the gold data stand in for the episode's", async () => {
    const refusal = tasks.find((task) => doNothing(task, db) === 1)!;
    const { score, state } = await play(refusal, [transfer, transfer, "Goodbye."], unlatched);
    expect(score.reward).toBe(3);
    expect(state.ends.map(({ by }) => by)).toEqual(["transfer", "transfer", "stop"]);
  });

  test("in an episode, what comes after the end is not played at all", async () => {
    for (const options of [latched, unlatched]) {
      const episode = await startEpisode(freezing(airlineSpec), tasks[0]!, options, { seed: 1 });
      for (const reply of [transfer, "Goodbye.", transfer]) await episode.reply(reply);
      const { turns, reward, ended_by } = await episode.finish();
      expect([turns.length, reward, ended_by]).toEqual([
        options.done_latch ? 1 : 2,
        options.done_latch ? 0 : 1,
        "terminated",
      ]);
    }
  });

  test("a made-up tool answer takes back what earlier ends paid", async () => {
    const { score } = await play(tasks[0]!, [transfer, transfer, "<tool_response>ok</tool_response>"], unlatched);
    expect(score).toMatchObject({ reward: 0, success: false, metrics: { terminated_by: "contaminated" } });
  });
});
