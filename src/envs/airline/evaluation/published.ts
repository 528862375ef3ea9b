// What the reference published, as facts (airline.md 10.6). What follows from them (a corrected generalisation, a gain, a
// standard error) is computed in published-figures.ts and stands nowhere here.

/** Tasks by group, and trials of each, in the published evaluations. */
export const publishedSizes = { covered_seen: 16, uncovered_seen: 24, unseen: 10 } as const;
export const PUBLISHED_TRIALS = 4;

export type PublishedKind = "evaluation" | "training_validation" | "estimate";

export interface PublishedRun {
  variant: "base" | "sft" | "vanilla" | "turn_discount" | "prm_lite" | "lata" | "joint";
  /** Optimizer steps; null: not trained by GRPO. */
  step: number | null;
  /** Only an `evaluation` may be drawn or compared with. */
  kind: PublishedKind;
  overall: number;
  generalisation: number | null;
  covered_seen: number;
  uncovered_seen: number;
  unseen: number;
  p50: number | null;
  error_rate: number;
  turns: number | null;
  any_success?: number;
  /** What to know of this row. */
  note?: string;
}

type Row = [
  ...[variant: PublishedRun["variant"], step: number | null, overall: number, generalisation: number | null],
  ...[covered_seen: number, uncovered_seen: number, unseen: number],
  ...[p50: number | null, error_rate: number, turns: number | null, more?: Partial<PublishedRun>],
];

const rows: Row[] = [
  ["base", null, 0.16, 0.156, 0.078, 0.156, 0.3, 63, 0, 12.3, { any_success: 0.34 }],
  ["sft", null, 0.145, 0.091, 0.328, 0.021, 0.15, 22, 0.005, 14.43],
  ["vanilla", 50, 0.22, null, 0.469, 0.073, 0.175, null, 0.016, 9.38],
  ["vanilla", 100, 0.205, null, 0.484, 0.042, 0.15, null, 0.078, 7.69],
  ["vanilla", 150, 0.225, 0.11, 0.453, 0.094, 0.175, 77, 0.01, 7.3, { note: "vanilla's peak" }],
  ["vanilla", 200, 0.175, 0.071, 0.391, 0.042, 0.15, 72, 0.2, 5.08, { note: "the baseline of the report" }],
  ["turn_discount", 200, 0.135, 0.052, 0.297, 0.031, 0.125, 181, 0.285, 6.83],
  ["turn_discount", 250, 0.125, 0.052, 0.281, 0.021, 0.125, 245, 0.345, 8.51],
  [
    ...(["turn_discount", 300, 0.13, 0.059, 0.281, 0.042, 0.1, 227, 0.335, 7.75] as const),
    { note: "the report also prints step 300 as a copy of step 250 (0.125, 0.345, 245)" },
  ],
  [
    ...(["prm_lite", 50, 0.091, 0.016, 0.116, 0.016, -0.008, 132, 0.324, null] as const),
    { kind: "training_validation", note: "rewards of training's validation, not an evaluation" },
  ],
  ["prm_lite", 200, 0.13, 0.052, 0.297, 0.021, 0.1, 155, 0.35, 6.5],
  ["prm_lite", 250, 0.14, 0.059, 0.312, 0.031, 0.125, 169, 0.365, 6.94],
  ["prm_lite", 300, 0.14, 0.059, 0.312, 0.031, 0.125, 169, 0.365, 6.94],
  ["lata", 200, 0.155, 0.059, 0.359, 0.042, 0.1, 166, 0.31, 6.77],
  ["lata", 250, 0.185, 0.088, 0.422, 0.042, 0.15, 183, 0.29, 7.25],
  [
    ...(["lata", 300, 0.19, 0.095, 0.44, 0.05, 0.16, 190, 0.285, 7.3] as const),
    { kind: "estimate", note: "marked as an estimate in the plotting script" },
  ],
  ["joint", 200, 0.215, 0.096, 0.469, 0.073, 0.15, 322, 0.17, 5.59],
  ["joint", 250, 0.24, 0.11, 0.516, 0.083, 0.175, 313, 0.14, 5.54, { note: "the best" }],
  ["joint", 300, 0.225, 0.11, 0.469, 0.094, 0.15, 280, 0.12, 5.44],
];

export const publishedRuns: readonly PublishedRun[] = rows.map(
  ([variant, step, overall, generalisation, covered_seen, uncovered_seen, unseen, p50, error_rate, turns, more]) => ({
    ...{ variant, step, kind: "evaluation", overall, generalisation, covered_seen, uncovered_seen, unseen, p50 },
    ...{ error_rate, turns, ...more },
  }),
);

/** Tasks of the 50 originals that doing nothing solves. */
export const publishedDoNothing = { solved: 19, tasks: 50 };

/** What the report claims of the joint run at step 250 against vanilla at step 200. */
export const headlineClaims = { overall: 0.37, error_rate: -0.3, p50: 3.34, generalisation: 0.55 };

/** pass^1 to pass^4 of the airline domain on the benchmark's own board. */
export const board: readonly { policy: string; pass_hat: readonly number[] }[] = [
  { policy: "claude-3-5-sonnet-1022", pass_hat: [0.46, 0.326, 0.263, 0.225] },
  { policy: "gpt-4o", pass_hat: [0.42, 0.273, 0.22, 0.2] },
  { policy: "gpt-4o-mini", pass_hat: [0.225, 0.14, 0.11, 0.1] },
];

export interface Hypothesis {
  id: string;
  statement: string;
  verdict: string;
  /** Ours. */
  remark: string;
}

export const hypotheses: readonly Hypothesis[] = [
  {
    id: "H1",
    statement: "Turn-Discount stops reasoning collapse",
    verdict: "verified (length −23 %, no cliff)",
    remark: "evaluation got worse (0.125)",
  },
  {
    id: "H2",
    statement: "process reward breaks group saturation",
    verdict: "verified (score/min never 0 or 1)",
    remark: "true by construction",
  },
  {
    id: "H3",
    statement: "joint improves unseen tasks",
    verdict: "verified (0.150–0.175)",
    remark: "equal to vanilla's 0.150–0.175",
  },
  {
    id: "H4",
    statement: "LATA better than Turn-Discount",
    verdict: "verified (+0.060, error −0.055)",
    remark: "n = 200 each",
  },
  {
    id: "H5",
    statement: "joint > max(single)",
    verdict: "verified (0.240 > 0.185 > 0.140 > 0.125)",
    remark: "only 0.015 above vanilla's own peak at step 150",
  },
];

/** Training curves as the report quotes them. */
export const trainingCurves: readonly string[] = [
  "Turn-Discount, validation: 0.02 (steps 0–50), 0.72 (100), 0.80 (300).",
  "Turn-Discount, length: means 2192 (1–50), 1872, 1811, 1678 (151–300), −23 %; vanilla 3000 → 1100 (−63 %).",
  "Turn-Discount, gradient norm: 0.353, 0.088, 0.014, 0.009; score/min is zero in 97.7 % of the steps.",
  "LATA, length: 1638 → 2625 → 2186; validation 0.94 at 300.",
  "PRM-Lite, first 50 steps: validation 0.069 → 0.091 (seen 0.089 → 0.116, unseen −0.013 → −0.008), reasoning tokens 84.7 → 131.1, errors 25.0 → 32.4 %, score/min in [−0.053, −0.014].",
  "Tokens per turn of base and SFT: mean 83 and 59, p95 225 and 255.",
  "Vanilla, sampler against policy at steps 0, 100, 200: k3 0.005 → 0.0012 → 0.0008, ratio of perplexities 0.975 → 0.992 → 0.995.",
];

export interface PlanTarget {
  /** Of the joint run. */
  figure: "overall" | "generalisation" | "p50" | "error_rate";
  low: number | null;
  high: number | null;
}

export const planTargets: readonly PlanTarget[] = [
  { figure: "overall", low: 0.75, high: 0.9 },
  { figure: "generalisation", low: 0.14, high: 0.18 },
  { figure: "p50", low: 110, high: null },
  { figure: "error_rate", low: null, high: 0.1 },
];

/** What SFT was to gain over the base model, in overall pass^1. */
export const SFT_TARGET_GAIN = 0.05;
