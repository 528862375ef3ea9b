// What stops or questions a run of this family: the rules of the reference's plan (airline.md 11.6). Curves in, alarms
// out. How far training's rollouts and validation lie apart, src/recipes/validation.ts watches in every family.

/** One curve: values at optimizer steps, in order. A gradient norm may be NaN. */
export type Curve = readonly { step: number; value: number }[];

/** What the rules read; a curve that is left out raises nothing. */
export interface RunCurves {
  /** Mean reward of the rollouts. */
  score_mean?: Curve;
  /** Generalisation pass^1 of the evaluations. */
  generalisation?: Curve;
  grad_norm?: Curve;
  /** Median tokens per turn of the evaluations. */
  turn_tokens_p50?: Curve;
  /** Seconds a step. */
  step_s?: Curve;
  /** Share of trajectories with an error. */
  error_rate?: Curve;
  /** Share of completions that were cut. */
  clip_ratio?: Curve;
}

export interface Alarm {
  rule: StopRule["name"];
  step: number;
  value: number;
  /** `stop`: going on is worth nothing. `check`: somebody should look. */
  action: "stop" | "check";
  advice: string;
}

interface StopRule {
  name: string;
  curve: keyof RunCurves;
  action: Alarm["action"];
  advice: string;
  /** The first point that breaks the rule; undefined: none does. */
  broken(curve: Curve): Curve[number] | undefined;
}

/** Steps that a mean of the score is taken over, since one step's is noisy. */
const SCORE_WINDOW = 10;
const RISING_OVER = 3;

/** The first value from a step on. */
const judgedAt = (step: number, curve: Curve) => curve.find((point) => point.step >= step);

export const stopRuleTable: readonly StopRule[] = [
  {
    name: "score_below_0.1_at_50",
    curve: "score_mean",
    action: "check",
    advice: "check the reward wiring",
    broken(curve) {
      const at = judgedAt(50, curve);
      if (!at) return undefined;
      const last = curve.filter(({ step }) => step <= at.step).slice(-SCORE_WINDOW);
      const value = last.reduce((sum, point) => sum + point.value, 0) / last.length;
      return value < 0.1 ? { step: at.step, value } : undefined;
    },
  },
  {
    name: "generalisation_below_0.05_at_100",
    curve: "generalisation",
    action: "check",
    advice: "check the scale of the process reward",
    broken(curve) {
      const at = judgedAt(100, curve);
      return at && at.value < 0.05 ? at : undefined;
    },
  },
  {
    name: "nan_gradient",
    curve: "grad_norm",
    action: "stop",
    advice: "stop: the policy's weights are lost",
    broken: (curve) => curve.find(({ value }) => Number.isNaN(value)),
  },
  {
    name: "p50_below_30",
    curve: "turn_tokens_p50",
    action: "stop",
    advice: "abandon: the policy no longer reasons",
    broken: (curve) => curve.find(({ value }) => value < 30),
  },
  {
    name: "step_over_1500_s",
    curve: "step_s",
    action: "check",
    advice: "profile: the simulator's latency first",
    broken: (curve) => curve.find(({ value }) => value > 1500),
  },
  {
    name: "error_rate_over_0.40_rising",
    curve: "error_rate",
    action: "check",
    advice: "check the rules P1 to P3",
    broken: (curve) =>
      curve.find(({ value }, index) => {
        const before = curve.slice(Math.max(0, index - RISING_OVER + 1), index + 1);
        const rises =
          before.length === RISING_OVER && before.every((p, i) => i === 0 || p.value > before[i - 1]!.value);
        return value > 0.4 && rises;
      }),
  },
  {
    name: "clip_ratio_over_0.20",
    curve: "clip_ratio",
    action: "check",
    advice: "shorten: replies are cut at the completion's limit",
    broken: (curve) => curve.find(({ value }) => value > 0.2),
  },
];

/** The rules that a run breaks, one alarm each, at the first step that breaks it; the earliest first. */
export function stopRules(curves: RunCurves): Alarm[] {
  return stopRuleTable
    .flatMap(({ name, curve, action, advice, broken }): Alarm[] => {
      const at = broken(curves[curve] ?? []);
      return at ? [{ rule: name, step: at.step, value: at.value, action, advice }] : [];
    })
    .sort((a, b) => a.step - b.step);
}
