import { z } from "zod";
import type { ConfigValues, Preset } from "../config.ts";
import { type ShapingConfig, shapingKeys, widens } from "./shaping.ts";

// Which options of GRPO go together. An option that a run would ignore is refused as one that contradicts another is:
// whoever sets it expects it to do something. Read off TRL's GRPOTrainer; docs/grpo-options.md is the table for people.

// ----------------------------------------------------------------------------------------------------- presets

/** What each switch stands for: values of the config, explicit ones beside it win. */
export const PRESETS = {
  /** DAPO, arXiv:2503.14476. */
  dapo: { trainer: { loss_type: "dapo", epsilon_high: 0.28, mask_truncated_completions: true, beta: 0 } },
  /** GSPO, arXiv:2507.18071. */
  gspo: { trainer: { importance_sampling_level: "sequence" } },
  /** Dr. GRPO, arXiv:2503.20783. */
  dr_grpo: { trainer: { loss_type: "dr_grpo", scale_rewards: "none" } },
} as const satisfies Record<string, { trainer: ConfigValues } & ConfigValues>;

type PresetName = keyof typeof PRESETS;
const presetNames = Object.keys(PRESETS) as PresetName[];

const presetKey = (name: string, values: ConfigValues) =>
  z
    .boolean()
    .default(false)
    .describe(
      `${name}: ${Object.entries(values)
        .map(([key, value]) => `${key} ${value}`)
        .join(", ")}. Explicit flags win; presets combine.`,
    );

export const presetKeys = {
  dapo: presetKey("DAPO", { ...PRESETS.dapo.trainer, dynamic_sampling: true }),
  gspo: presetKey("GSPO", PRESETS.gspo.trainer),
  dr_grpo: presetKey("Dr. GRPO", PRESETS.dr_grpo.trainer),
};

/** The presets that are on, for `loadConfig`. */
export function presetsOf(values: ConfigValues): Preset[] {
  return presetNames.filter((name) => values[name] === true).map((name) => ({ switch: name, values: PRESETS[name] }));
}

/** Keys of GRPOConfig that decide what the algorithm is: they stand in every run's manifest, set or not. */
export const ALGORITHM_KEYS = [
  "loss_type",
  "importance_sampling_level",
  "epsilon",
  "epsilon_high",
  "delta",
  "scale_rewards",
  "multi_objective_aggregation",
  "mask_truncated_completions",
  "beta",
  "use_bias_correction_kl",
  "sync_ref_model",
  "ref_model_mixup_alpha",
  "ref_model_sync_steps",
  "num_generations",
  "num_iterations",
  "steps_per_generation",
  "generation_batch_size",
  "top_entropy_quantile",
  "entropy_coef",
  "use_adaptive_entropy",
  "entropy_coef_min",
  "entropy_coef_max",
  "entropy_coef_delta",
  "entropy_target",
  "off_policy_mask_threshold",
  "sapo_temperature_pos",
  "sapo_temperature_neg",
  "vespo_k_pos",
  "vespo_k_neg",
  "vespo_lambda_pos",
  "vespo_lambda_neg",
] as const;

type AlgorithmConfig = ShapingConfig & Record<PresetName, boolean>;

/**
 * What the manifest says about the algorithm: presets, shaping, and every algorithm key of TRL's.
 * @param effective The trainer's keys with the values that they have after TRL's own defaults.
 */
export function algorithmOf(config: AlgorithmConfig, effective: ConfigValues): ConfigValues {
  const own = Object.keys(shapingKeys) as (keyof ShapingConfig)[];
  return {
    presets: presetNames.filter((name) => config[name]),
    ...Object.fromEntries(own.map((key) => [key, config[key]])),
    advantage_length_norm: config.advantage_length_norm ?? (config.advantage === "lata" ? "sqrt" : "none"),
    ...Object.fromEntries(ALGORITHM_KEYS.map((key) => [key, effective[key] ?? null])),
    epsilon_high: effective.epsilon_high ?? effective.epsilon ?? null,
  };
}

// ------------------------------------------------------------------------------------- what excludes what

/** TRL's defaults of what the rules below read; a test holds them against the table in docs/grpo-options.md. */
export const DEFAULTS: ConfigValues = {
  loss_type: "dapo",
  importance_sampling_level: "token",
  epsilon: 0.2,
  epsilon_high: null,
  beta: 0,
  multi_objective_aggregation: "sum_then_normalize",
  use_bias_correction_kl: true,
  sync_ref_model: false,
  use_adaptive_entropy: false,
  entropy_coef_min: 0,
  entropy_coef_max: 1,
  use_vllm: false,
  num_iterations: 1,
  per_device_train_batch_size: 8,
  gradient_accumulation_steps: 1,
  steps_per_generation: null,
  generation_batch_size: null,
  max_steps: -1,
};

/** Effective values, of our keys and of the trainer's. */
type Get = (key: string) => unknown;

interface Ignored {
  keys: RegExp;
  /** Whether the key does something. */
  unless(get: Get, value: unknown): boolean;
  /** Why it does nothing, as the end of "KEY is VALUE, but …". */
  but(get: Get): string;
  instead: string;
}

const CLIPPING = ["grpo", "dapo", "dr_grpo", "bnpo", "luspo"];
const loss = (get: Get) => String(get("loss_type"));
const above0 = (value: unknown) => typeof value !== "number" || value > 0;

/** Why a loss is no plain mean over tokens, which shaped advantages need (airline.md 9.4). */
const SCALES_AGAIN: Record<string, string> = {
  grpo: "divides every rollout by its own length",
  sapo: "divides every rollout by its own length",
  dr_grpo: "divides by a constant length instead of the number of tokens",
  luspo: "adds up a rollout's tokens, so that long ones weigh more",
  vespo: "weighs a rollout by the sign of its one advantage",
};

const discounts = (get: Get) => get("advantage") === "turn_discount" || get("advantage") === "lata";
const divides = (get: Get) =>
  (get("advantage_length_norm") ?? (get("advantage") === "lata" ? "sqrt" : "none")) === "sqrt";

export const IGNORED: readonly Ignored[] = [
  {
    keys: /^epsilon$|^delta$/,
    unless: (get) => CLIPPING.includes(loss(get)),
    but: (get) => `loss_type ${loss(get)} does not clip by it`,
    instead: `Leave it out, or take one of ${CLIPPING.join(", ")}.`,
  },
  {
    keys: /^epsilon_high$/,
    unless: (get) => [...CLIPPING, "cispo"].includes(loss(get)),
    but: (get) => `loss_type ${loss(get)} does not clip by it`,
    instead: `Leave it out, or take one of ${CLIPPING.join(", ")}, cispo.`,
  },
  {
    keys: /^sapo_/,
    unless: (get) => loss(get) === "sapo",
    but: (get) => `loss_type is ${loss(get)}`,
    instead: "Add --loss-type sapo, or leave it out.",
  },
  {
    keys: /^vespo_/,
    unless: (get) => loss(get) === "vespo",
    but: (get) => `loss_type is ${loss(get)}`,
    instead: "Add --loss-type vespo, or leave it out.",
  },
  {
    keys: /^importance_sampling_level$/,
    unless: (get) => loss(get) !== "vespo",
    but: () => "loss_type vespo weighs whole rollouts by a rule of its own",
    instead: "Leave it out.",
  },
  {
    keys: /^scale_rewards$/,
    unless: (get) => get("multi_objective_aggregation") !== "normalize_then_sum",
    but: () => "multi_objective_aggregation normalize_then_sum divides by the deviation in any case",
    instead: "Leave one of them out.",
  },
  {
    keys: /^(kl_estimator|use_bias_correction_kl|sync_ref_model|ref_model_.*)$/,
    unless: (get) => get("beta") !== 0,
    but: () => "beta is 0, so there is no KL term and no reference model",
    instead: "Set --beta above 0, or leave it out.",
  },
  {
    keys: /^use_bias_correction_kl$/,
    unless: (get) => get("kl_estimator") !== "squared",
    but: () => "kl_estimator squared takes no importance weight",
    instead: "Leave it out.",
  },
  {
    keys: /^ref_model_/,
    unless: (get) => get("sync_ref_model") === true,
    but: () => "sync_ref_model is off, so the reference stays as it is",
    instead: "Add --sync-ref-model, or leave it out.",
  },
  {
    keys: /^sync_ref_model$/,
    unless: (get) => get("lora") !== true,
    but: () => "with LoRA the reference is the model without its adapter, and there is nothing to synchronize",
    instead: "Leave one of them out.",
  },
  {
    keys: /^entropy_(coef_(min|max|delta)|target)$/,
    unless: (get) => get("use_adaptive_entropy") === true,
    but: () => "use_adaptive_entropy is off",
    instead: "Add --use-adaptive-entropy, or leave it out.",
  },
  {
    keys: /^vllm_/,
    unless: (get) => get("use_vllm") === true,
    but: () => "rollouts are not sampled with vLLM",
    instead: "Leave it out.",
  },
  {
    keys: /^run_name$/,
    unless: (get) => ![undefined, null, "none"].includes(get("report_to") as string),
    but: () => "report_to is none",
    instead: "Name a back end (--report-to tensorboard), or leave it out.",
  },
  {
    keys: /^(project|trackio_.*)$/,
    unless: (get) => /trackio|auto/.test(JSON.stringify(get("report_to") ?? "none")),
    but: (get) => `report_to is ${JSON.stringify(get("report_to") ?? "none")}`,
    instead: "Add --report-to trackio, or leave it out.",
  },
  {
    keys: /^num_train_epochs$/,
    unless: (get) => !(Number(get("max_steps")) > 0),
    but: (get) => `max_steps is ${get("max_steps")} and ends the run`,
    instead: "Leave one of them out (--max-steps -1 counts epochs).",
  },
  {
    keys: /^advantage_alpha(_unit)?$/,
    unless: discounts,
    but: (get) => `advantage is ${get("advantage")}, which discounts nothing`,
    instead: "Add --advantage turn_discount or lata, or leave it out.",
  },
  {
    keys: /^advantage_length_base$/,
    unless: divides,
    but: () => "nothing is divided by a length",
    instead: "Add --advantage-length-norm sqrt, or leave it out.",
  },
  {
    keys: /^advantage_length_norm$/,
    unless: (get, value) => !(get("advantage") === "lata" && value === "none"),
    but: () => "lata without it is turn_discount",
    instead: "Take --advantage turn_discount.",
  },
  {
    keys: /^off_policy_mask_threshold$/,
    unless: (get) => !get("widens"),
    but: () => "it masks a rollout by the sign of its one advantage, and shaped advantages are one a token",
    instead: "Leave one of them out.",
  },
  {
    keys: /^advantage(_length_norm)?$/,
    unless: (get) => !get("widens") || SCALES_AGAIN[loss(get)] === undefined,
    but: (get) => `loss_type ${loss(get)} ${SCALES_AGAIN[loss(get)]}, which would scale it again`,
    instead: "Take loss_type dapo, bnpo or cispo: means over tokens.",
  },
];

interface Range {
  keys: RegExp;
  /** Not asked of what is no number: Python says what type it expects. */
  fits(value: number, get: Get): boolean;
  expected(get: Get): string;
}

const upperClip = (get: Get) => 1 + Number(get("epsilon_high") ?? get("epsilon"));

export const RANGES: readonly Range[] = [
  { keys: /^epsilon$/, fits: (value) => value > 0 && value < 1, expected: () => "more than 0 and less than 1" },
  {
    keys: /^epsilon_high$/,
    fits: (value, get) => (loss(get) === "cispo" ? value >= 1 : value > 0),
    expected: (get) =>
      loss(get) === "cispo" ? "1 or more, as 5: cispo clips the importance ratio itself at it" : "more than 0",
  },
  {
    keys: /^delta$/,
    fits: (value, get) => value > upperClip(get),
    expected: (get) => `more than 1 + epsilon_high (${upperClip(get)}), where the upper clip already is`,
  },
  { keys: /^top_entropy_quantile$/, fits: (value) => value >= 0 && value <= 1, expected: () => "0 to 1" },
  {
    keys: /^(sapo_temperature_.*|vespo_lambda_.*|off_policy_mask_threshold)$/,
    fits: above0,
    expected: () => "more than 0",
  },
  { keys: /^(vespo_k_.*|entropy_coef_.*|entropy_target)$/, fits: (value) => value >= 0, expected: () => "0 or more" },
  { keys: /^ref_model_mixup_alpha$/, fits: (value) => value > 0 && value <= 1, expected: () => "more than 0, up to 1" },
  { keys: /^ref_model_sync_steps$/, fits: (value) => value >= 1, expected: () => "1 or more" },
];

/** What is wrong with several options together; null: nothing. */
const TOGETHER: readonly ((get: Get) => string | null)[] = [
  (get) =>
    loss(get) === "cispo" && get("epsilon_high") === null
      ? "loss_type cispo clips the importance ratio itself at epsilon_high, which left out is epsilon (0.2): every " +
        "ratio would be cut to a fifth. Set --epsilon-high 5."
      : null,
  (get) =>
    loss(get) === "luspo" && get("importance_sampling_level") !== "sequence"
      ? "loss_type luspo is a form of GSPO and needs one ratio a rollout. Add --gspo, or choose another loss_type."
      : null,
  (get) =>
    Number(get("entropy_coef_min")) > Number(get("entropy_coef_max"))
      ? `entropy_coef_min is ${get("entropy_coef_min")}, more than entropy_coef_max (${get("entropy_coef_max")}).`
      : null,
  generationProblem,
];

/** Generations and optimizer steps must fit into each other: TRL would mix batches without a word. */
function generationProblem(get: Get): string | null {
  const accumulation = Number(get("gradient_accumulation_steps"));
  const processes = Number(process.env.WORLD_SIZE ?? 1);
  const whole = get("generation_batch_size");
  const rounds =
    whole === null
      ? Number(get("steps_per_generation") ?? accumulation)
      : Number(whole) / (Number(get("per_device_train_batch_size")) * processes);
  const said = whole === null ? `steps_per_generation is ${rounds}` : `generation_batch_size makes ${rounds} batches`;
  if (![accumulation, rounds].every((count) => Number.isInteger(count) && count > 0)) return null; // Python's to say
  if (rounds % accumulation !== 0 && accumulation % rounds !== 0)
    return (
      `${said}, gradient_accumulation_steps ${accumulation}: an optimizer step would learn from parts of two ` +
      `generations. Make one a multiple of the other.`
    );
  if (Number(get("num_iterations")) > 1 && rounds < accumulation)
    return (
      `num_iterations is ${get("num_iterations")}, but ${said}, fewer than gradient_accumulation_steps ` +
      `(${accumulation}): the rollouts would be counted again within one optimizer step. Make it ${accumulation}.`
    );
  return null;
}

export type GrpoOptions = AlgorithmConfig & { lora: boolean; trainer: ConfigValues };

/**
 * Options of GRPO that would be ignored, contradict each other, or lie outside their range, a sentence each.
 * @param given Our own keys that the user set.
 */
export function optionProblems(config: GrpoOptions, given: ReadonlySet<string>): string[] {
  const { trainer } = config;
  const own = Object.keys(shapingKeys) as (keyof ShapingConfig)[];
  const values: ConfigValues = { ...DEFAULTS, ...withoutNulls(trainer), lora: config.lora, widens: widens(config) };
  for (const key of own) values[key] = config[key];
  const get: Get = (key) => values[key];
  // A switch that is off is no wish, unless it is one that TRL has on.
  const set = [
    ...Object.entries(withoutNulls(trainer)).filter(([key, value]) => value !== false || DEFAULTS[key] === true),
    ...own.filter((key) => given.has(key)).map((key): [string, unknown] => [key, config[key]]),
  ];
  const ignored = set.flatMap(([key, value]) => {
    const rule = IGNORED.find(({ keys, unless }) => keys.test(key) && !unless(get, value));
    return rule ? [`${key} is ${value}${origin(config, key, value)}, but ${rule.but(get)}. ${rule.instead}`] : [];
  });
  const outside = set.flatMap(([key, value]) => {
    const range = RANGES.find(({ keys, fits }) => keys.test(key) && typeof value === "number" && !fits(value, get));
    return range ? [`${key} is ${value}${origin(config, key, value)}; expected ${range.expected(get)}.`] : [];
  });
  return [...new Set([...ignored, ...outside, ...TOGETHER.flatMap((problem) => problem(get) ?? [])])];
}

/** " (from --dapo)" where a preset set the value. */
function origin(config: GrpoOptions, key: string, value: unknown): string {
  const preset = presetNames.find((name) => config[name] && (PRESETS[name].trainer as ConfigValues)[key] === value);
  return preset ? ` (from --${preset.replaceAll("_", "-")})` : "";
}

function withoutNulls(values: ConfigValues): ConfigValues {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null));
}
