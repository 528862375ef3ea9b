import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { readReport } from "../eval/airline-reports.ts";
import { UserError } from "./core/errors.ts";
import { type Curve, type RunCurves, stopRules } from "./envs/airline/evaluation/alarms.ts";
import {
  EVAL_REPORT,
  evalReportSchema,
  SPLIT_EVAL_REPORT,
  splitEvalReportSchema,
} from "./envs/airline/evaluation/schema.ts";
import type { RunResult } from "./recipes/recipe.ts";
import { textTable } from "./report.ts";
import { readJsonLines } from "./trajectory-log.ts";

/**
 * `data airline alarms`: the rules by which a run should be stopped or looked at (airline.md 11.6), on the curves of a
 * training run, and on what the benchmarks of its checkpoints measured.
 * @param folders of runs: training's with metrics.jsonl, benchmarks' with their report files
 * @throws UserError without a folder, and for one that is neither
 */
export function runAlarms(folders: readonly string[]): RunResult {
  if (folders.length === 0)
    throw new UserError("data airline alarms: name a training run's folder, and those of its benchmarks if there are.");
  const found = folders.map(curvesOf);
  const curves = joined(found);
  const alarms = stopRules(curves);
  const read = Object.entries(curves).map(([name, curve]) => `${name} (${curve.length})`);
  return {
    text: [
      `read: ${read.join(", ")}`,
      alarms.length === 0
        ? "No rule is broken."
        : textTable([
            ["step", "rule", "value", "do", "advice"],
            ...alarms.map(({ step, rule, value, action, advice }) => [
              String(step),
              rule,
              Number.isFinite(value) ? value.toFixed(3) : String(value),
              action,
              advice,
            ]),
          ]),
    ].join("\n"),
    json: [{ alarms: alarms.map((alarm) => ({ ...alarm, value: Number.isFinite(alarm.value) ? alarm.value : null })) }],
    exit_code: alarms.some(({ action }) => action === "stop") ? 1 : 0,
  };
}

function curvesOf(folder: string): RunCurves {
  if (!existsSync(folder) || !statSync(folder).isDirectory())
    throw new UserError(`${folder}: there is no such folder; expected a run's.`);
  const metrics = join(folder, "metrics.jsonl");
  if (existsSync(metrics)) return trainingCurves(metrics);
  if (existsSync(join(folder, EVAL_REPORT))) return benchmarkCurves(folder);
  throw new UserError(`${folder}: it has neither metrics.jsonl of a training run nor ${EVAL_REPORT} of a benchmark.`);
}

/** What the rules read, by the names that training's curves have. */
const TRAINING: { [Name in keyof RunCurves]?: readonly string[] } = {
  score_mean: ["reward"],
  grad_norm: ["grad_norm"],
  step_s: ["time/sampling_s", "time/environment_s", "time/learning_s"],
  clip_ratio: ["rollout/out_of_tokens"],
};

function trainingCurves(path: string): RunCurves {
  const points = readJsonLines(path).map(({ value }) => value as Record<string, unknown>);
  const curves = Object.entries(TRAINING).map(([name, sources]): [string, Curve] => [
    name,
    points.flatMap((point) => {
      const values = sources.map((source) => number(point[source]));
      const known = values.filter((value) => value !== null);
      if (known.length < values.length) return [];
      return [{ step: Number(point.step), value: known.reduce((sum, value) => sum + value, 0) }];
    }),
  ]);
  return Object.fromEntries(curves.filter(([, curve]) => curve.length > 0));
}

/** NaN and infinity stand as {"$float": "NaN"} in the curves. */
function number(value: unknown): number | null {
  if (typeof value === "number") return value;
  const carried = (value as { $float?: unknown } | null | undefined)?.$float;
  return typeof carried === "string" ? Number(carried) : null;
}

function benchmarkCurves(folder: string): RunCurves {
  const { run, overall } = readReport(join(folder, EVAL_REPORT), evalReportSchema);
  const { generalisation } = readReport(join(folder, SPLIT_EVAL_REPORT), splitEvalReportSchema);
  const { step } = run;
  if (step === null)
    throw new UserError(`${folder}: ${EVAL_REPORT} does not know the step of its policy, so it belongs on no curve.`);
  const at = (value: number | null): Curve => (value === null ? [] : [{ step, value }]);
  return {
    generalisation: at(generalisation.pass_hat_1),
    turn_tokens_p50: at(overall.turn_tokens.p50),
    error_rate: at(overall.error_rate),
  };
}

/** The points of several folders on one curve each, in the order of their steps. */
function joined(found: readonly RunCurves[]): RunCurves {
  const names = [...new Set(found.flatMap((curves) => Object.keys(curves)))] as (keyof RunCurves)[];
  return Object.fromEntries(
    names
      .map((name) => [name, found.flatMap((curves) => curves[name] ?? []).sort((a, b) => a.step - b.step)] as const)
      .filter(([, curve]) => curve.length > 0),
  );
}
