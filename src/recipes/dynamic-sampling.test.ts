import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "../config.ts";
import { runCommand } from "../fixtures/run-command.ts";
import { makeTinyModel } from "../fixtures/tiny-model.ts";
import { readJsonLines, readTrajectories } from "../trajectory-log.ts";
import { dynamicSamplingOf } from "./dynamic-sampling.ts";
import { grpo } from "./grpo.ts";

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "dynamic-sampling-"));
const runs = join(folder, "runs");
const LONG = 300_000; // Python imports torch

describe("what Python gets", () => {
  /** Values of a YAML file, then flags. */
  function settings(file: Record<string, unknown>, flags: Record<string, unknown> = {}) {
    const path = join(folder, "config.yaml");
    writeFileSync(path, JSON.stringify(file));
    const { config, given } = loadConfig<Parameters<typeof dynamicSamplingOf>[0]>({
      recipe: "grpo",
      schema: grpo.schema,
      file: path,
      flags,
      presets: grpo.presets,
    });
    return dynamicSamplingOf(config, given);
  }
  const standard = {
    metric: "reward",
    std_threshold: 0,
    max_resamples: 32,
    on_exhausted: "fill_with_best_std",
  };

  test.each([
    ["off by itself", {}, {}, null],
    ["on with --dapo", {}, { dapo: true }, standard],
    ["on with dapo in the file", { dapo: true }, {}, standard],
    ["on without dapo", {}, { dynamic_sampling: true }, standard],
    ["a flag wins", {}, { dapo: true, dynamic_sampling: false }, null],
    ["the file wins over what the --dapo flag implies", { dynamic_sampling: false }, { dapo: true }, null],
    ["a flag wins over the file", { dynamic_sampling: false }, { dynamic_sampling: true }, standard],
    [
      "its keys",
      { dapo: true, dynamic_sampling_metric: "success" },
      { dynamic_sampling_max_resamples: 3, dynamic_sampling_on_exhausted: "fail" },
      { metric: "success", std_threshold: 0, max_resamples: 3, on_exhausted: "fail" },
    ],
  ])("%s", (_, file, flags, expected) => {
    expect(settings(file, flags)).toEqual(expected);
  });

  test.each([
    ["dynamic_sampling_metric", "reward"],
    ["dynamic_sampling_std_threshold", 0.1],
    ["dynamic_sampling_max_resamples", 8],
    ["dynamic_sampling_on_exhausted", "fail"],
  ])("%s is refused where it would be ignored", (key, value) => {
    expect(() => settings({ [key]: value })).toThrow(`${key} is set, but dynamic sampling is off`);
    expect(() => settings({ [key]: value, dapo: true }, { dynamic_sampling: false })).toThrow("is off");
    expect(settings({ [key]: value, dapo: true })).not.toBe(null);
  });

  test("a threshold of rewards does not go with successes", () => {
    const both = { dynamic_sampling_metric: "success", dynamic_sampling_std_threshold: 0.1 };
    expect(() => settings({ dapo: true, ...both })).toThrow(/is of rewards, but dynamic_sampling_metric is 'success'/);
  });

  test.each([
    [{ dynamic_sampling_max_resamples: 0 }, /--dynamic-sampling-max-resamples is 0; expected more than 0/],
    [{ dynamic_sampling_std_threshold: -1 }, /--dynamic-sampling-std-threshold is -1/],
    [{ dynamic_sampling_on_exhausted: "stop" }, /expected one of fail, fill_with_best_std/],
  ])("%o is out of range", (values, message) => {
    expect(() => settings({ dapo: true }, values)).toThrow(message);
  });
});

describe("runs", () => {
  const model = join(folder, "model");
  beforeAll(() => {
    makeTinyModel(model);
  }, LONG);

  /** The guessing environment, with another reward: a function of the task's number and the first reply's length. */
  function env(name: string, reward: string): string {
    const path = join(folder, `${name}.ts`);
    writeFileSync(
      path,
      `import { defineEnv } from "${root}/src/core/env.ts";
import { spec } from "${root}/examples/guess-the-number.ts";
export const env = defineEnv({
  ...spec,
  score(played) {
    const [secret, length] = [played.final_state.secret, played.turns[0].reply.length];
    return { ...spec.score(played), reward: ${reward} };
  },
});
`,
    );
    return path;
  }

  const train = (name: string, path: string, ...argv: string[]) =>
    runCommand(
      ...["grpo", "configs/tiny/grpo.yaml", "--model", model, "--runs-dir", runs, "--name", name, "--env", path],
      ...["--seed", "7", ...argv, "--json"],
    );
  const manifest = (name: string) => JSON.parse(readFileSync(join(runs, name, "manifest.json"), "utf8")) as object;

  test("groups without a difference are replaced, and every rollout is in the log", { timeout: LONG }, async () => {
    const path = env("half", "secret % 4 === 0 ? 0.5 : length % 2");
    const { code, stdout, stderr } = await train("half", path, "--dynamic-sampling");
    expect(code, stderr).toBe(0);
    const { dynamic_sampling, rollouts, groups } = JSON.parse(stdout) as {
      dynamic_sampling: Record<string, number>;
      rollouts: number;
      groups: number;
    };
    expect(dynamic_sampling).toMatchObject({ batches: 2, accepted_groups: 4, filled_groups: 0, exhausted: null });
    expect(dynamic_sampling.attempts).toBe(dynamic_sampling.rejected_groups);
    expect(groups).toBe(4);
    expect(rollouts).toBe(4 * (4 + dynamic_sampling.attempts!));
    expect(readTrajectories(join(runs, "half", "trajectories", "rank-0.jsonl"))).toHaveLength(rollouts);
    expect(manifest("half")).toMatchObject({
      details: { dynamic_sampling: { metric: "reward", std_threshold: 0, max_resamples: 32 } },
    });
    const points = readJsonLines(join(runs, "half", "metrics.jsonl")).map(({ value }) => value);
    expect(points[0]).toMatchObject({ frac_reward_zero_std: 0, "dynamic_sampling/accepted_groups": 2 });
  });

  test.each(["fail", "fill_with_best_std"])(
    "all rewards equal: %s stops with the numbers, exit 1",
    {
      timeout: LONG,
    },
    async (on_exhausted) => {
      const name = `constant-${on_exhausted}`;
      const limits = ["--dynamic-sampling-max-resamples", "3", "--dynamic-sampling-on-exhausted", on_exhausted];
      const { code, stdout, stderr } = await train(name, env(name, "0.5"), "--dynamic-sampling", ...limits);
      expect(code).toBe(1);
      expect(stderr).toContain("found 0 of the 2 groups of a batch: 5 were rejected, all 3 attempts were made");
      expect(stderr).toContain("from a pool of 50 tasks. 100% of the groups played had no difference in reward");
      const exhausted = {
        ...{ step: 0, wanted_groups: 2, accepted_groups: 0, rejected_groups: 5, attempts: 3 },
        ...{ pool_size: 50, zero_std_share: 1 },
      };
      const result = { steps: 0, stop_reason: "dynamic_sampling_exhausted", dynamic_sampling: { exhausted } };
      expect(JSON.parse(stdout)).toMatchObject(result);
      expect(manifest(name)).toMatchObject({ status: "failed", details: { result } });
      expect(existsSync(join(runs, name, "final"))).toBe(false);
      expect(existsSync(join(runs, name, "lock"))).toBe(false);
      expect(readTrajectories(join(runs, name, "trajectories", "rank-0.jsonl"))).toHaveLength(20);
    },
  );
});
