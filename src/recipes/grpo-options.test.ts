import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { type ConfigValues, loadConfig } from "../config.ts";
import { runCommand } from "../fixtures/run-command.ts";
import { grpo } from "./grpo.ts";
import {
  ALGORITHM_KEYS,
  algorithmOf,
  DEFAULTS,
  type GrpoOptions,
  IGNORED,
  optionProblems,
  RANGES,
} from "./grpo-options.ts";
import { shapingKeys, shapingOf } from "./shaping.ts";

const folder = mkdtempSync(join(tmpdir(), "options-"));

function load(flags: ConfigValues, yaml?: string) {
  const file = yaml === undefined ? null : join(folder, "grpo.yaml");
  if (file) writeFileSync(file, yaml!);
  const schema = grpo.schema as z.ZodObject;
  return loadConfig<GrpoOptions>({ recipe: "grpo", schema, file, flags, presets: grpo.presets });
}

/** Flags of the trainer, and of ours. */
function problems(trainer: ConfigValues, ours: ConfigValues = {}): string[] {
  const { config, given } = load({ ...ours, trainer });
  return optionProblems(config, given);
}

describe("presets", () => {
  test.each([
    [{ dapo: true }, { loss_type: "dapo", epsilon_high: 0.28, mask_truncated_completions: true, beta: 0 }],
    [{ gspo: true }, { importance_sampling_level: "sequence" }],
    [{ dr_grpo: true }, { loss_type: "dr_grpo", scale_rewards: "none" }],
    [
      { dr_grpo: true, gspo: true },
      { loss_type: "dr_grpo", importance_sampling_level: "sequence" },
    ],
    [
      { dapo: true, trainer: { beta: 0.04 } },
      { loss_type: "dapo", beta: 0.04 },
    ],
    [
      { dr_grpo: true, trainer: { scale_rewards: "batch" } },
      { loss_type: "dr_grpo", scale_rewards: "batch" },
    ],
  ])("%j", (flags, trainer) => {
    expect(load(flags).config.trainer).toMatchObject(trainer);
  });

  test("--dapo beats the beta of a file, and leaves its learning rate", () => {
    expect(load({ dapo: true }, "trainer: {beta: 0.04, learning_rate: 1e-5}").config.trainer).toMatchObject({
      beta: 0,
      learning_rate: 1e-5,
    });
  });

  test("--dapo and --dr-grpo contradict each other", () => {
    expect(() => load({ dapo: true, dr_grpo: true })).toThrow("--dapo and --dr-grpo contradict each other");
  });
});

describe("refused, with what came and what to do", () => {
  test.each<[ConfigValues, ConfigValues, string]>([
    [
      { loss_type: "cispo", epsilon_high: 5, epsilon: 0.1 },
      {},
      "epsilon is 0.1, but loss_type cispo does not clip by it",
    ],
    [{ loss_type: "cispo" }, {}, "Set --epsilon-high 5"],
    [{ loss_type: "cispo", epsilon_high: 0.28 }, {}, "epsilon_high is 0.28; expected 1 or more"],
    [{ loss_type: "sapo", epsilon: 0.2 }, {}, "epsilon is 0.2, but loss_type sapo"],
    [{ loss_type: "sapo" }, { dapo: true }, "epsilon_high is 0.28 (from --dapo), but loss_type sapo"],
    [{ loss_type: "vespo", delta: 3 }, {}, "delta is 3, but loss_type vespo"],
    [{ loss_type: "vespo" }, { gspo: true }, "importance_sampling_level is sequence (from --gspo), but"],
    [{ delta: 1.1 }, {}, "delta is 1.1; expected more than 1 + epsilon_high (1.2)"],
    [{ delta: 1.25 }, { dapo: true }, "expected more than 1 + epsilon_high (1.28)"],
    [{ sapo_temperature_pos: 2 }, {}, "sapo_temperature_pos is 2, but loss_type is dapo. Add --loss-type sapo"],
    [{ loss_type: "sapo", sapo_temperature_neg: 0 }, {}, "sapo_temperature_neg is 0; expected more than 0"],
    [{ vespo_k_neg: 1 }, {}, "Add --loss-type vespo"],
    [{ loss_type: "vespo", vespo_lambda_pos: 0 }, {}, "vespo_lambda_pos is 0; expected more than 0"],
    [{ loss_type: "luspo" }, {}, "Add --gspo"],
    [{ multi_objective_aggregation: "normalize_then_sum", scale_rewards: "none" }, {}, "scale_rewards is none, but"],
    [
      { multi_objective_aggregation: "normalize_then_sum" },
      { dr_grpo: true },
      "scale_rewards is none (from --dr-grpo)",
    ],
    [{ sync_ref_model: true }, {}, "sync_ref_model is true, but beta is 0"],
    [{ use_bias_correction_kl: false }, {}, "use_bias_correction_kl is false, but beta is 0"],
    [{ beta: 0.1, ref_model_sync_steps: 8 }, {}, "Add --sync-ref-model"],
    [{ beta: 0.1, sync_ref_model: true, ref_model_mixup_alpha: 2 }, {}, "expected more than 0, up to 1"],
    [{ beta: 0.1, sync_ref_model: true }, { lora: true }, "with LoRA the reference is"],
    [{}, { kl_estimator: "squared" }, "kl_estimator is squared, but beta is 0"],
    [{}, { kl_estimator: "k3" }, "kl_estimator is k3, but beta is 0"],
    [{}, { dapo: true, kl_estimator: "squared" }, "beta is 0"],
    [{ beta: 0.1, use_bias_correction_kl: true }, { kl_estimator: "squared" }, "takes no importance weight"],
    [{ top_entropy_quantile: 1.5 }, {}, "top_entropy_quantile is 1.5; expected 0 to 1"],
    [{ entropy_target: 0.5 }, {}, "entropy_target is 0.5, but use_adaptive_entropy is off"],
    [{ use_adaptive_entropy: true, entropy_coef_min: 2 }, {}, "entropy_coef_min is 2, more than entropy_coef_max (1)"],
    [{ epsilon: 1.5 }, {}, "epsilon is 1.5; expected more than 0 and less than 1"],
    [{ off_policy_mask_threshold: 0 }, {}, "expected more than 0"],
    [{ vllm_mode: "server" }, {}, "vllm_mode is server, but rollouts are not sampled with vLLM"],
    [{ max_steps: 5, num_train_epochs: 1 }, {}, "num_train_epochs is 1, but max_steps is 5 and ends the run"],
    [{ steps_per_generation: 3, gradient_accumulation_steps: 2 }, {}, "Make one a multiple of the other"],
    [{ generation_batch_size: 24, gradient_accumulation_steps: 2 }, {}, "generation_batch_size makes 3 batches"],
    [
      { num_iterations: 2, steps_per_generation: 2, gradient_accumulation_steps: 4 },
      {},
      "would be counted again within one optimizer step. Make it 4.",
    ],
    [{}, { advantage_alpha: 1.1 }, "advantage_alpha is 1.1, but advantage is none, which discounts nothing"],
    [{}, { advantage: "turn_scores", advantage_alpha_unit: "turn" }, "advantage is turn_scores, which discounts"],
    [{}, { advantage: "turn_discount", advantage_length_base: "turns" }, "nothing is divided by a length"],
    [{}, { advantage: "lata", advantage_length_norm: "none" }, "Take --advantage turn_discount."],
    [{ off_policy_mask_threshold: 0.5 }, { advantage: "lata" }, "shaped advantages are one a token"],
    ...["grpo", "dr_grpo", "sapo", "vespo"].map((loss_type): [ConfigValues, ConfigValues, string] => [
      { loss_type },
      { advantage: "turn_discount" },
      `advantage is turn_discount, but loss_type ${loss_type}`,
    ]),
    [{ loss_type: "luspo", importance_sampling_level: "sequence" }, { advantage: "lata" }, "advantage is lata, but"],
    [{ loss_type: "grpo" }, { advantage_length_norm: "sqrt" }, "advantage_length_norm is sqrt, but loss_type grpo"],
  ])("%j %j: %s", (trainer, ours, says) => {
    const found = problems(trainer, ours);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(says);
    expect(found[0]).toMatch(/\.$/);
  });
});

test.each<[ConfigValues, ConfigValues]>([
  [{}, {}],
  [{}, { dapo: true, gspo: true }],
  [{ loss_type: "grpo" }, { gspo: true }],
  [{ loss_type: "luspo" }, { gspo: true }],
  [{ loss_type: "cispo", epsilon_high: 5 }, { advantage: "lata" }],
  [{ loss_type: "vespo", vespo_k_pos: 1, beta: 0.1 }, {}],
  [{ loss_type: "sapo", sapo_temperature_neg: 2 }, { gspo: true }],
  [
    { delta: 3, epsilon_high: 0.28 },
    { advantage: "turn_discount", advantage_alpha: 1.2, advantage_alpha_unit: "turn" },
  ],
  [{ loss_type: "bnpo" }, { advantage_length_norm: "sqrt", advantage_length_base: "turns" }],
  [{ beta: 0.01 }, { kl_estimator: "squared" }],
  [{ beta: 0.1, sync_ref_model: true, ref_model_sync_steps: 8 }, {}],
  [{ sync_ref_model: false, use_adaptive_entropy: false, delta: null }, {}],
  [{ use_adaptive_entropy: true, entropy_target: 2 }, {}],
  [{ num_iterations: 2, steps_per_generation: 4, gradient_accumulation_steps: 4 }, {}],
  [{ steps_per_generation: 8, gradient_accumulation_steps: 4 }, {}],
  [{ generation_batch_size: 32, gradient_accumulation_steps: 2 }, {}],
  [{ max_steps: -1, num_train_epochs: 1 }, {}],
])("%j %j go together", (trainer, ours) => {
  expect(problems(trainer, ours)).toEqual([]);
});

test("what Python gets: null where TRL's own way is asked for", () => {
  const shaping = (flags: ConfigValues) => shapingOf(load(flags).config);
  expect(shaping({})).toBeNull();
  expect(shaping({ kl_estimator: "squared" })).toMatchObject({ advantage: "none", kl_estimator: "squared" });
  expect(shaping({ advantage: "lata", advantage_alpha_unit: "turn" })).toEqual({
    advantage: "lata",
    alpha: 1.05,
    alpha_unit: "turn",
    length_norm: null,
    length_base: "tokens",
    kl_estimator: "k3",
  });
});

test("the manifest has every algorithm key, with what it is and not with what was said", () => {
  const { config } = load({ gspo: true, advantage: "lata" });
  const algorithm = algorithmOf(config, { ...DEFAULTS, importance_sampling_level: "sequence" });
  expect(algorithm).toMatchObject({
    presets: ["gspo"],
    advantage: "lata",
    advantage_length_norm: "sqrt",
    kl_estimator: "k3",
    importance_sampling_level: "sequence",
    epsilon_high: 0.2,
    delta: null,
  });
  for (const key of [...ALGORITHM_KEYS, ...Object.keys(shapingKeys)]) expect(algorithm).toHaveProperty(key);
});

test.each([
  [["--temperature", "0"], "temperature is 0: training learns from samples"],
  [["--seed", "4294967296"], "--seed is 4294967296; expected 4294967295 or less."],
  [["--advantage", "turn_scores", "--loss-type", "dapo"], "gives none for task"],
  [["--run-name", "x"], "report_to is none"],
  [["--project", "x", "--report-to", "tensorboard"], "--report-to trackio"],
])("%s is refused before Python starts, with --dry-run too", async (flags, says) => {
  const { code, stderr } = await runCommand(
    ...["grpo", "configs/tiny/grpo.yaml", "--model", "models/tiny", "--dry-run", "--runs-dir", folder, ...flags],
  );
  expect([code, stderr]).toEqual([2, expect.stringContaining(says)]);
});

describe("docs/grpo-options.md", () => {
  // py/tests/test_preflight.py holds the same table against the installed GRPOConfig.
  const text = readFileSync(join(import.meta.dirname, "../../docs/grpo-options.md"), "utf8");
  const rows = text.split("\n## ").flatMap((section) =>
    section
      .split("\n")
      .map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()))
      .filter((cells) => cells.length === 6 && /^`\w+`$/.test(cells[1]!))
      .map(([, key, value, , needs]) => ({
        section: section.split("\n")[0]!,
        key: key!.slice(1, -1),
        value: value!,
        needs: needs!,
      })),
  );
  const keysOf = (section: string) => rows.filter((row) => row.section === section).map(({ key }) => key);

  test("has every key of the recipe, each key once, and the algorithm's under Algorithm", () => {
    const ours = Object.keys((grpo.schema as z.ZodObject).shape);
    expect(keysOf("Options of ours").sort()).toEqual(ours.sort());
    expect(keysOf("Algorithm").sort()).toEqual([...ALGORITHM_KEYS].sort());
    expect(new Set(rows.map(({ key }) => key)).size).toBe(rows.length);
  });

  test("says of every key that a rule refuses what it needs or excludes", () => {
    for (const rule of [...IGNORED, ...RANGES]) {
      const named = rows.filter(({ key }) => rule.keys.test(key));
      expect(named.length, String(rule.keys)).toBeGreaterThan(0);
      for (const { key, needs } of named) expect(needs, key).not.toBe("–");
    }
  });

  test("has the defaults that the rules read", () => {
    for (const [key, value] of Object.entries(DEFAULTS).filter(([key]) => key !== "use_vllm"))
      expect(rows.find((row) => row.key === key)?.value, key).toBe(value === null ? "none" : String(value));
  });
});
