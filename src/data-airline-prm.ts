import { UserError } from "./core/errors.ts";
import { airlineOptions } from "./envs/airline/options.ts";
import type { PrmOptions } from "./envs/airline/prm/process-score.ts";
import { prmWeights } from "./envs/airline/prm/rules.ts";
import { type PrmSample, readSample } from "./envs/airline/prm/samples.ts";
import { type PrmCandidate, searchPrm } from "./envs/airline/prm/search.ts";
import { type PrmReport, validatePrm } from "./envs/airline/prm/validate.ts";
import type { RunResult } from "./recipes/recipe.ts";
import { textTable } from "./report.ts";
import { writeJson } from "./run-folder.ts";
import { logsOf, readJsonLines } from "./trajectory-log.ts";

// `data airline prm-validate` and `prm-search`: whether process scores say something about stored trajectories, and the
// search that chose their weights (airline.md 8.7).

export const prmActions = ["prm-validate", "prm-search"] as const;
export type PrmAction = (typeof prmActions)[number];

export interface PrmCommand {
  /** Trajectory logs, folders of runs, or trajectories of 7.4 as JSON lines. */
  files: readonly string[];
  /** The result as JSON. */
  output?: string;
  env_options?: Record<string, unknown>;
}

/** @throws UserError without files, and for a line that is no trajectory */
export function runPrm(action: PrmAction, { files, output, env_options = {} }: PrmCommand): RunResult {
  const name = `data airline ${action}`;
  if (files.length === 0) throw new UserError(`${name}: name trajectory logs or folders of runs.`);
  const options = readOptions(name, env_options);
  const { samples, invalid } = readSamples(files);
  if (samples.length === 0) throw new UserError(`${name}: there are no trajectories in ${files.join(", ")}.`);
  const left = invalid === 0 ? [] : [`${invalid} trajectories failed outside the policy and are left out`];
  const result = action === "prm-validate" ? validation(samples, options) : search(samples, options);
  if (output !== undefined) writeJson(output, result.json);
  const written = output === undefined ? [] : [`written: ${output}`];
  return {
    text: [result.text, ...left, ...written].join("\n"),
    json: [{ ...result.json, invalid }],
    exit_code: result.exit_code,
  };
}

function readOptions(name: string, env_options: Record<string, unknown>): PrmOptions {
  const other = Object.keys(env_options).find((key) => key !== "prm");
  if (other) throw new UserError(`${name} reads prm of --env-options alone; got ${other}.`);
  const parsed = airlineOptions.shape.prm.safeParse(env_options.prm ?? {});
  if (!parsed.success)
    throw new UserError(`${name}: --env-options: prm ${JSON.stringify(env_options.prm)} is not known.`);
  return parsed.data;
}

function readSamples(files: readonly string[]): { samples: PrmSample[]; invalid: number } {
  const lines = files
    .flatMap(logsOf)
    .flatMap((path) => readJsonLines(path).map(({ line, value }) => ({ value, where: `${path}, line ${line}` })));
  const valid = lines.filter(({ value }) => !isInvalid(value));
  return {
    samples: valid.map(({ value, where }) => readSample(value, where)),
    invalid: lines.length - valid.length,
  };
}

/** A rollout that the environment or an endpoint failed: it is neither a success nor a failure. */
function isInvalid(value: unknown): boolean {
  const { reward, infra } = (value ?? {}) as { reward?: unknown; infra?: unknown };
  return reward === null || infra === true;
}

interface Told {
  text: string;
  json: Record<string, unknown>;
  exit_code: 0 | 1;
}

const signed = (value: number | null): string =>
  value === null ? "n/a" : `${value < 0 ? "-" : "+"}${Math.abs(value).toFixed(4)}`;
const verdict = (fits: boolean | null): string => (fits === null ? "n/a" : fits ? "yes" : "NO");

function validation(samples: readonly PrmSample[], options: PrmOptions): Told {
  const report = validatePrm(samples, options);
  const { accepted } = report;
  return {
    text: [
      `${report.trajectories} trajectories of ${report.tasks} tasks`,
      textTable([["measure", "value", "reported", "accepted"], ...measures(report)]),
      "",
      textTable([
        ["rule", "fired", "total"],
        ...Object.entries(report.rules).map(([id, { fired, total }]) => [id, String(fired), signed(total)]),
      ]),
    ].join("\n"),
    json: { ...report },
    exit_code: Object.values(accepted).includes(false) ? 1 : 0,
  };
}

/** Beside each what was reported of the reference's vanilla run at step 150, or what was asked for. */
function measures(report: PrmReport): string[][] {
  const { accepted, by_records } = report;
  const reported: Record<string, string> = { "1": "-0.103", "2": "+0.001", "15+": "-0.05 to -0.10" };
  return [
    ["successes minus failures", signed(report.separation), "+0.025", verdict(accepted.separates)],
    ["mean of successes", signed(report.success_mean), "", ""],
    ["mean of failures", signed(report.failure_mean), "", ""],
    ["spread within a task", signed(report.intra_group_std), "+0.049", verdict(accepted.spreads)],
    [`bad behaviour (${report.bad_behaviour})`, signed(report.bad_behaviour_mean), "-0.148", ""],
    ...Object.entries(by_records).map(([records, value]) => [
      `records: ${records}`,
      signed(value),
      reported[records] ?? "",
      "",
    ]),
    ["share at a bound", signed(report.clipped_share), "below +0.05", verdict(accepted.rarely_clips)],
  ];
}

function search(samples: readonly PrmSample[], options: PrmOptions): Told {
  const found = searchPrm(samples, { keyword_mode: options.keyword_mode });
  const row = (name: string, { objective, terms, weights }: PrmCandidate) => [
    name,
    ...[objective, terms.group_std, terms.bad_behaviour, terms.short_over_long, terms.short_success].map(signed),
    changes(weights),
  ];
  const json = {
    tried: found.tried,
    best: found.best.map(writable),
    current: writable(found.current),
  };
  return {
    text: [
      `${found.tried} choices of weights on ${samples.length} trajectories`,
      textTable([
        ["choice", "objective", "spread", "bad", "short - long", "short", "weights that differ"],
        ...found.best.map((candidate, index) => row(`#${index + 1}`, candidate)),
        row("in use", found.current),
      ]),
    ].join("\n"),
    json,
    exit_code: 0,
  };
}

function changes(weights: PrmCandidate["weights"]): string {
  const differing = Object.entries(weights).filter(
    ([name, value]) => value !== prmWeights[name as keyof typeof weights],
  );
  return differing.map(([name, value]) => `${name} ${Number.isFinite(value) ? value : "off"}`).join(", ") || "none";
}

/** Infinity, a length penalty that is off, is null in JSON. */
function writable({ weights, ...candidate }: PrmCandidate): Record<string, unknown> {
  const { length_free } = weights;
  return { ...candidate, weights: { ...weights, length_free: Number.isFinite(length_free) ? length_free : null } };
}
