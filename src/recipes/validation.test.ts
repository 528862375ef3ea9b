import { expect, test } from "vitest";
import { z } from "zod";
import { validation as validationSchema } from "../bridge/protocol.ts";
import { loadEnv } from "../envs/index.ts";
import { gapAlarm, validationKeys, validationOf } from "./validation.ts";

const guess = await loadEnv("./examples/guess-the-number.ts");
const trained = await guess.load("train");
const sampling = {
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  max_turn_tokens: 8,
  max_episode_tokens: 8,
  max_context_tokens: null,
};

function plan(values: Record<string, unknown>, flags: readonly string[] = []) {
  const config = { ...z.object(validationKeys).strict().parse(values), env_options: {} };
  return validationOf(config, { given: new Set(Object.keys(values)), flags: new Set(flags) }, guess, trained);
}

test("nothing is validated by default", async () => {
  expect(await plan({})).toBeNull();
});

test("the tasks are those of a split of their own, under the environment's own turn budget", async () => {
  const planned = (await plan({ validate_steps: 5, validate_split: "test", validate_samples: 2 }))!;
  expect(planned.tasks.split).toBe("test");
  expect(planned.max_turns).toBeNull();
  expect(planned.request).toMatchObject({ steps: 5, samples: 2 });
  expect(planned.request.task_ids).toHaveLength(50);
  expect(validationSchema.parse({ ...planned.request, sampling })).not.toBeNull();
  expect((await plan({ validate_steps: 5 }))!.tasks.split).toBe("train");
});

test.each([
  ["a key that does nothing", { validate_split: "test" }, /validate_split is set, but nothing is validated/],
  ["a split that is not there", { validate_steps: 1, validate_split: "tset" }, /'tset'; expected train or test/],
])("%s is refused", async (_, values, message) => {
  await expect(plan(values)).rejects.toThrow(message);
});

test("it can be switched off over a config that has it", async () => {
  const off = { validate_steps: null, validate_split: "test" };
  expect(await plan(off)).toBeNull();
  await expect(plan(off, ["validate_split"])).rejects.toThrow(/validate_split is set, but nothing is validated/);
});

test("options of an evaluation go over those of training, and are checked", async () => {
  const arxiv = await loadEnv("arxiv");
  const tasks = await arxiv.load("dev");
  const validate = (validate_env_options: Record<string, unknown>) => {
    const config = z.object(validationKeys).parse({ validate_steps: 1, validate_env_options });
    return validationOf(
      { ...config, env_options: { prompt: "minimal" } },
      { given: new Set(), flags: new Set() },
      arxiv,
      tasks,
    );
  };
  const [full, minimal] = await Promise.all([validate({ prompt: "full" }), validate({ parser: "lenient" })]);
  const [long, short] = await Promise.all(
    [full, minimal].map(async (planned) => {
      const episode = await planned!.tasks.start(tasks.ids[0]!, { seed: 1 });
      return episode.messages[0]!.content.length;
    }),
  );
  expect(long!).toBeGreaterThan(short! + 1000);
  await expect(validate({ cut: 1 })).rejects.toThrow(/env_options of arxiv.*cut/);
});

test.each([
  [0.8, 0.125, true],
  [0.3, 0.14, true],
  [0.3, 0.15, false],
  [0.05, 0, false],
  [0.2, 0, true],
])("training at %d beside validation at %d alarms: %s", (trained, validated, alarms) => {
  const values = { "validation/success": validated, "validation/training_success": trained };
  expect(gapAlarm(50, values) !== null).toBe(alarms);
  expect(gapAlarm(50, { "validation/success": validated })).toBeNull();
});
