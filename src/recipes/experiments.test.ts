import { describe, expect, test } from "vitest";
import { loadConfig } from "../config.ts";
import { runCommand } from "../fixtures/run-command.ts";
import { EXPERIMENT_START, experimentFile, experimentNames, experimentProblems } from "./experiments.ts";
import { grpo } from "./grpo.ts";
import { TINY_MODEL } from "./shared.ts";

interface Config {
  exp: string;
  env: string;
  model: string | null;
  advantage: string;
  advantage_alpha: number;
  env_options: { reward: { mode: string }; prompt?: { tools: boolean }; scoring: { number_mode: string } };
  trainer: Record<string, unknown>;
  validate_steps: number | null;
  max_turns: number;
}

function load(flags: Record<string, unknown>): Config {
  const { schema, presets } = grpo;
  return loadConfig<Config>({ recipe: "grpo", schema, file: experimentFile(flags), flags, presets }).config;
}

// airline.md 10.4
test.each([
  ["vanilla", "none", "binary", 500, 100],
  ["turn_discount", "turn_discount", "binary", 300, 50],
  ["lata", "lata", "binary", 300, 50],
  ["prm_lite", "none", "prm_lite", 300, 50],
  ["prm_lite_lata", "lata", "prm_lite", 300, 50],
])("%s: advantage %s, reward %s", (exp, advantage, mode, max_steps, validate_steps) => {
  const config = load({ exp });
  expect(config).toMatchObject({
    exp,
    env: "airline",
    advantage,
    advantage_alpha: 1.05,
    validate_steps,
    max_turns: 15,
  });
  expect(config.env_options.reward).toEqual({ mode });
  expect(config.trainer).toMatchObject({ max_steps, num_generations: 8, learning_rate: 5e-6, beta: 0.01, delta: 3 });
});

test("the five differ in what they are about alone", () => {
  const common = experimentNames.map((exp) => {
    const { exp: _, advantage: __, env_options, trainer, validate_steps: ___, ...rest } = load({ exp });
    const { max_steps: ____, ...others } = trainer;
    return { ...rest, trainer: others, env_options: { ...env_options, reward: null } };
  });
  for (const config of common) expect(config).toEqual(common[0]);
});

describe("--mock", () => {
  test("is the same experiment on the tiny model, a few steps", () => {
    const config = load({ exp: "prm_lite_lata", mock: true });
    expect(config).toMatchObject({ model: null, advantage: "lata", validate_steps: null });
    expect(config.env_options).toMatchObject({ reward: { mode: "prm_lite" }, prompt: { tools: false } });
    expect(config.trainer).toMatchObject({ max_steps: 3, num_generations: 4, beta: 0.01, save_strategy: "no" });
  });

  test("gives way to flags", () => {
    const config = load({ exp: "vanilla", mock: true, model: TINY_MODEL, trainer: { max_steps: 1 } });
    expect([config.model, config.trainer.max_steps]).toEqual([TINY_MODEL, 1]);
  });
});

test.each([
  [{ exp: null, mock: true, env: "airline" }, /mock is set without exp.*--exp vanilla/],
  [{ exp: "lata" as const, mock: false, env: "arxiv" }, /exp 'lata' is of the environment airline, and env is 'arxiv'/],
])("%o is refused", (config, message) => {
  expect(experimentProblems(config)).toEqual([expect.stringMatching(message)]);
});

test("a config file beside --exp is refused, and a name that is none gets the nearest", async () => {
  const both = await runCommand("grpo", "configs/grpo-tiny.yaml", "--exp", "lata");
  expect([both.code, both.stderr]).toEqual([
    2,
    expect.stringMatching(/name the config file configs\/airline\/lata.yaml, and configs\/grpo-tiny.yaml is given too/),
  ]);
  const wrong = await runCommand("grpo", "--exp", "prm-lite");
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching(/did you mean 'prm_lite'/)]);
});

test("without the merged SFT model an experiment says how to come by one", async () => {
  expect(load({ exp: "vanilla" }).model).toBe(EXPERIMENT_START);
  const { code, stderr } = await runCommand("grpo", "--exp", "vanilla", "--dry-run");
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(/merged\/airline-sft.*configs\/airline\/sft.yaml.*--mock/s),
  ]);
});
