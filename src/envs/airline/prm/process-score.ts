import type { KeywordMode } from "./placeholders.ts";
import type { ActionRecord } from "./records.ts";
import { CHEAP_REASONING, type PrmWeights, prmWeights, stepRules, trajectoryRules } from "./rules.ts";
import { readSteps, type Step } from "./steps.ts";

/** The score lies in [-0.5, 0.5], whatever the trajectory. */
export const SCORE_BOUND = 0.5;

export interface PrmOptions {
  /** Left out: substring, as the reference has it. */
  keyword_mode?: KeywordMode;
  /** P7. Left out: off, as in the reference's training (8.4). */
  cheap_reasoning?: "off" | "on";
  /** Left out: those that the reference ships. */
  weights?: PrmWeights;
}

/** A rule that fired. */
export interface FiredRule {
  id: string;
  /** The record's index; null: a rule of the whole trajectory. */
  step: number | null;
  score: number;
}

export interface ProcessScore {
  /** clip(mean + adjustments, -0.5, 0.5); 0 without records. */
  score: number;
  perStep: number[];
  mean: number;
  /** Sum of the trajectory's own rules. */
  adjustments: number;
  /** What made up the score, rules without weight left out. */
  fired: FiredRule[];
}

/** How well the calls of a trajectory were made, by rules alone (PRM-Lite, airline.md 8). Reads no outcome. */
export function processScore(actions: readonly ActionRecord[], options: PrmOptions = {}): ProcessScore {
  const { keyword_mode = "substring", cheap_reasoning = "off", weights = prmWeights } = options;
  const steps = readSteps(actions, keyword_mode);
  return scoreSteps(steps, cheap_reasoning === "on" ? { ...weights, cheap_reasoning: CHEAP_REASONING } : weights);
}

/** The score of records that were read before, under any weights. */
export function scoreSteps(steps: readonly Step[], weights: PrmWeights): ProcessScore {
  const fired: FiredRule[] = [];
  if (steps.length === 0) return { score: 0, perStep: [], mean: 0, adjustments: 0, fired };
  function fire(id: string, step: number | null, score: number | null): number {
    if (!score) return 0;
    fired.push({ id, step, score });
    return score;
  }
  const perStep = steps.map((step, index) =>
    stepRules.reduce((sum, { id, weight }) => sum + fire(id, index, weight(step, weights)), 0),
  );
  const mean = perStep.reduce((sum, score) => sum + score, 0) / steps.length;
  const adjustments = trajectoryRules.reduce((sum, { id, weight }) => sum + fire(id, null, weight(steps, weights)), 0);
  const score = Math.min(SCORE_BOUND, Math.max(-SCORE_BOUND, mean + adjustments));
  return { score, perStep, mean, adjustments, fired };
}
