import { existsSync, rmSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { UserError } from "../src/core/errors.ts";
import {
  type Ablation,
  type AblationRun,
  ablation,
  ablationName,
  BASELINE,
} from "../src/envs/airline/evaluation/ablation.ts";
import { compareWithPublished } from "../src/envs/airline/evaluation/published-figures.ts";
import {
  EVAL_REPORT,
  evalReportSchema,
  SPLIT_EVAL_REPORT,
  splitEvalReportSchema,
} from "../src/envs/airline/evaluation/schema.ts";
import { svgToPng } from "../src/png.ts";
import type { RunResult } from "../src/recipes/recipe.ts";
import { writeJson, writeWhole } from "../src/run-folder.ts";
import { ablationComparison, ablationProgression } from "./airline-plots.ts";
import { readReport } from "./airline-reports.ts";
import { ablationMarkdown, ablationText } from "./airline-tables.ts";
import { versionDifferences, versionsOf } from "./versions.ts";

// `trestle eval --env airline FOLDER… --output FOLDER`: the ablation of several benchmarks, from their report files alone.

export interface AblationOptions {
  output: string;
  /** One a folder, in order; left out: as the reports say, else the folder's own name. */
  names?: readonly string[];
  /** Compare what other data or options made too. */
  across_versions?: boolean;
}

/** Pixels; 10 inches at 150 dots each. */
const PNG_WIDTH = 1500;

/** Options of a benchmark that move no figure of an ablation: a variant's own reward, and which error rate is on top. */
const OWN_OPTIONS = ["reward", "prm", "metrics"];

/** @throws UserError for a folder without reports, and for reports that do not compare */
export function ablationCommand(paths: readonly string[], options: AblationOptions): RunResult {
  const { output, names, across_versions = false } = options;
  if (names && names.length !== paths.length)
    throw new UserError(`--names has ${names.length} names for ${paths.length} folders; expected one each, in order.`);
  const runs = paths.map((path, index) => readRun(path, names?.[index]));
  const table = ablation(runs);
  const versions = runs.slice(1).flatMap((run) => checkVersions(runs[0]!, run, across_versions));
  const notes = [...versions, ...gaps(runs, table), ...publishedLines(runs, table)];
  const plots = Object.entries({
    ablation_comparison: ablationComparison(table),
    ablation_progression: ablationProgression(table),
  });
  const files = plots.flatMap(([name, svg]) => writePlot(output, name, svg));
  const pictures = files.filter((file) => file.endsWith(".svg"));
  writeWhole(join(output, "ablation.md"), ablationMarkdown(table, notes, pictures));
  writeJson(join(output, "ablation.json"), { ...table, notes });
  const written = ["ablation.md", "ablation.json", ...files].map((file) => join(output, file));
  return {
    text: [ablationText(table, notes), `written: ${written.join(", ")}`].join("\n"),
    json: [...table.rows, { stability_delta: table.stability_delta, notes, written }],
  };
}

function readRun(path: string, given: string | undefined): AblationRun {
  if (!existsSync(path) || !statSync(path).isDirectory())
    throw new UserError(`${path}: there is no such folder; expected one with ${EVAL_REPORT}.`);
  const report = readReport(join(path, EVAL_REPORT), evalReportSchema);
  const split = readReport(join(path, SPLIT_EVAL_REPORT), splitEvalReportSchema);
  if (JSON.stringify([report.run, report.overall]) !== JSON.stringify([split.run, split.overall]))
    throw new UserError(`${path}: ${EVAL_REPORT} and ${SPLIT_EVAL_REPORT} are of two evaluations. Evaluate again.`);
  const { variant } = report.run;
  return { name: given ?? (variant === null ? basename(resolve(path)) : ablationName(variant)), path, report, split };
}

function checkVersions(first: AblationRun, other: AblationRun, across: boolean): string[] {
  const [one, two] = [versionsOf(first.path), versionsOf(other.path)];
  if (!one || !two) return [];
  const shared = (versions: typeof one) => ({
    ...versions,
    env_options: Object.fromEntries(Object.entries(versions.env_options).filter(([key]) => !OWN_OPTIONS.includes(key))),
  });
  const differences = versionDifferences(shared(one), shared(two));
  if (differences.length === 0) return [];
  const told = `${first.path} and ${other.path} were made with different versions: ${differences.join("; ")}.`;
  if (across) return [`NOTE: ${told}`];
  throw new UserError(`${told} Their numbers do not compare; --across-versions compares them all the same.`);
}

/** What a reader would miss in tables and plots, and why. */
function gaps(runs: readonly AblationRun[], { rows }: Ablation): string[] {
  const at = ({ name, report }: AblationRun) => `${name}${report.run.step === null ? "" : ` at ${report.run.step}`}`;
  const missing = runs.flatMap((run) => {
    const { turn_tokens, invalid } = run.report.overall;
    return [
      ...(turn_tokens.missing === null ? [] : [`${at(run)}: tokens per turn are missing: ${turn_tokens.missing}.`]),
      ...(invalid === 0
        ? []
        : [`${at(run)}: ${invalid} episodes failed outside the policy and count in no pass rate.`]),
    ];
  });
  const stepless = rows.filter(({ name, step }) => name !== BASELINE && step === null).map(({ name }) => name);
  return [
    ...missing,
    ...(stepless.length === 0
      ? []
      : [`Not in the progression, as their reports know no step: ${stepless.join(", ")}.`]),
  ];
}

function publishedLines(runs: readonly AblationRun[], { rows }: Ablation): string[] {
  const headline = new Set(rows.filter((row) => row.headline).map(({ name, step }) => `${name}/${step}`));
  const lines = runs
    .filter(({ name, report }) => headline.has(`${name}/${report.run.step}`))
    .flatMap(({ name, split }) => compareWithPublished(split, name));
  return [
    ...lines,
    "Published numbers are of the 50 original tasks with a language model as the user: docs/airline-published.md.",
  ];
}

/** The plot as SVG and PNG; one that can't be drawn leaves no older one behind. */
function writePlot(output: string, name: string, svg: string | null): string[] {
  const files = [`${name}.svg`, `${name}.png`];
  if (svg === null) {
    for (const file of files) rmSync(join(output, file), { force: true });
    return [];
  }
  const png = svgToPng(svg, PNG_WIDTH);
  writeWhole(join(output, files[0]!), svg);
  writeWhole(join(output, files[1]!), png);
  return files;
}
