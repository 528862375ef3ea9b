import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { runCommand } from "../fixtures/run-command.ts";
import { makeTinyModel } from "../fixtures/tiny-model.ts";
import { readJsonLines } from "../trajectory-log.ts";

// The family with real processes: three steps of each from configs/tiny/grpo.yaml. What their losses are is checked in
// py/tests/test_losses.py, which options go together in grpo-options.test.ts.

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "family-"));
const model = join(folder, "model");
const LONG = 300_000; // every run starts a Python that imports torch

const env = join(folder, "lengths-env.ts");

/** guess-the-number, but what counts is how long a reply is: something that a random model's rollouts differ in. */
function writeEnv() {
  const changes: [string, string][] = [
    ['"zod"', JSON.stringify(import.meta.resolve("zod"))],
    ["../src/", `${join(root, "src")}/`],
    [
      'if (!name) return { ...turn, outcome: { kind: "parse_error", text: "" }, terminated: true };',
      `if (!name) {
        const terminated = reply.length % 3 === 0;
        const observations = terminated ? [] : [{ role: "user" as const, content: "What?" }];
        return { ...turn, observations, outcome: { kind: "parse_error", text: "" }, terminated };
      }`,
    ],
    [
      "return { reward: found, parts: { found }, metrics: {}, success: found === 1 };",
      `const reward = turns.length === 1 ? found : (turns[0]!.reply.length % 5) / 4;
      const turn_scores = turns.map(({ reply }) => (reply.length % 2) - 0.5);
      return { reward, parts: { found }, metrics: {}, success: found === 1, turn_scores };`,
    ],
  ];
  let source = readFileSync(join(root, "examples/guess-the-number.ts"), "utf8");
  for (const [from, to] of changes) {
    expect(source).toContain(from);
    source = source.replaceAll(from, to);
  }
  writeFileSync(env, source);
}

beforeAll(() => {
  writeEnv();
  makeTinyModel(model);
}, LONG);

const grpo = (name: string, ...flags: string[]) => {
  const small = ["--env", env, "--max-steps", "3", "--learning-rate", "1e-3", "--json"];
  return runCommand(
    "grpo",
    "configs/tiny/grpo.yaml",
    "--model",
    model,
    "--runs-dir",
    folder,
    "--name",
    name,
    ...small,
    ...flags,
  );
};

test.each<[string, string[], Record<string, unknown>]>([
  [
    "dapo",
    ["--dapo", "--advantage", "turn_discount", "--advantage-alpha-unit", "turn"],
    {
      ...{ presets: ["dapo"], loss_type: "dapo", epsilon: 0.2, epsilon_high: 0.28, mask_truncated_completions: true },
      ...{ beta: 0, advantage: "turn_discount", advantage_alpha: 1.05, advantage_alpha_unit: "turn" },
    },
  ],
  [
    "gspo",
    ["--gspo", "--loss-type", "grpo", "--num-iterations", "2"],
    {
      presets: ["gspo"],
      loss_type: "grpo",
      importance_sampling_level: "sequence",
      num_iterations: 2,
      advantage: "none",
    },
  ],
  [
    "dr-grpo",
    ["--dr-grpo", "--beta", "0.05", "--kl-estimator", "squared"],
    { presets: ["dr_grpo"], loss_type: "dr_grpo", scale_rewards: "none", beta: 0.05, kl_estimator: "squared" },
  ],
  [
    "turn-scores",
    ["--advantage", "turn_scores", "--advantage-length-norm", "sqrt", "--loss-type", "bnpo"],
    { presets: [], loss_type: "bnpo", advantage: "turn_scores", advantage_length_norm: "sqrt", epsilon_high: 0.2 },
  ],
])("%s takes three steps, and the manifest says what it was", { timeout: LONG }, async (name, flags, algorithm) => {
  const { code, stderr } = await grpo(name, ...flags);
  expect(code, stderr).toBe(0);
  const manifest = JSON.parse(readFileSync(join(folder, name, "manifest.json"), "utf8")) as object;
  expect(manifest).toMatchObject({
    status: "completed",
    details: { algorithm: { ...algorithm, num_generations: 4, delta: null }, result: { steps: 3 } },
  });
  const points = readJsonLines(join(folder, name, "metrics.jsonl")).map(({ value }) => value as Record<string, number>);
  const losses = points.flatMap(({ loss }) => loss ?? []);
  expect(losses).toHaveLength(3);
  expect(losses.every(Number.isFinite)).toBe(true);
  const steps = points.filter(({ loss }) => loss !== undefined);
  for (const point of steps.filter(({ reward }) => reward !== undefined)) {
    expect(point["adv/abs_mean"]).toBeGreaterThan(0);
    expect(point["adv/first100_share"]).toBeGreaterThan(0);
  }
  if (name === "dr-grpo") {
    expect(steps[0]!.kl).toBeLessThan(1e-6);
    expect(steps[2]!.kl).toBeGreaterThan(0);
  }
});

test("options that contradict each other end with 2 and a sentence, and make no folder", async () => {
  const { code, stderr } = await grpo("no", "--dapo", "--kl-estimator", "squared", "--loss-type", "sapo");
  expect(code).toBe(2);
  expect(stderr).toContain("kl_estimator is squared, but beta is 0, so there is no KL term and no reference model.");
  expect(stderr).toContain("epsilon_high is 0.28 (from --dapo), but loss_type sapo does not clip by it.");
  expect((await grpo("no", "--dapo", "--dr-grpo")).stderr).toContain("--dapo and --dr-grpo contradict each other");
  expect(existsSync(join(folder, "no"))).toBe(false);
});
