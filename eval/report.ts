import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { BenchmarkRules } from "../src/core/measure.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { writeJson, writeWhole } from "../src/run-folder.ts";
import { mean } from "./pass.ts";
import { interval, judgementLine, type Labelled, number } from "./tables.ts";
import { type Versions, versionLines } from "./versions.ts";

// A benchmark's report: summary.json, report.md, raw_data.csv and, where there were errors, errors.csv. Nothing in them
// depends on the clock or on the folder, so the same play gives the same bytes.

export interface Report {
  policy: string;
  versions: Versions;
  /** What was set that can move a number: seed, temperature, limits. */
  settings: Record<string, unknown>;
  rows: readonly Labelled[];
  trajectories: readonly Trajectory[];
  category(task_id: string): string;
  rules: BenchmarkRules | null;
}

/** Writes the report into a folder; returns the paths, report.md first. */
export function writeReports(dir: string, report: Report): string[] {
  const { policy, versions, settings, rows, trajectories } = report;
  const splits = rows.map(({ label, judged }) => ({ ...judgementLine(label, judged), by_task: judged.by_task }));
  const errors = trajectories.filter(({ reward }) => reward === null);
  writeJson(join(dir, "summary.json"), { policy, versions, settings, splits });
  writeWhole(join(dir, "report.md"), markdown(report));
  writeWhole(join(dir, "raw_data.csv"), csv(trajectories.map((item) => detailOf(item, report.category))));
  if (errors.length > 0) writeWhole(join(dir, "errors.csv"), csv(errors.map(errorOf)));
  else rmSync(join(dir, "errors.csv"), { force: true });
  return ["report.md", "summary.json", "raw_data.csv", "errors.csv"]
    .map((name) => join(dir, name))
    .filter((path) => existsSync(path));
}

// -------------------------------------------------------------------------------------------------------- Markdown

type Cell = string | number;

function markdown(report: Report): string {
  const { policy, versions, settings } = report;
  const blocks = [
    `# Benchmark of ${policy}`,
    [
      `- settings: ${Object.entries(settings)
        .map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`)
        .join(", ")}`,
      ...versionLines(versions),
    ].join("\n"),
    "Rates over tasks are means of the tasks' own rates; those over episodes name their denominator. 95 %: percentile " +
      "bootstrap over tasks. Episodes that failed in the environment count in no rate. Wall-clock times are in timing.json.",
    ...report.rows.flatMap((row) => splitBlocks(row, report)),
  ];
  return `${blocks.filter((block) => block !== "").join("\n\n")}\n`;
}

function splitBlocks({ label, judged }: Labelled, report: Report): string[] {
  const { measures, cost_per_success, median_turns, failures, bands } = judged;
  const own = new Set(report.rules?.measures.map(({ name }) => name));
  const everywhere = Object.entries(measures).filter(([name]) => !own.has(name));
  const ks = Object.keys(judged.pass_hat);
  const skipped = ks.filter((k) => judged.skipped_tasks[k]! > 0);
  const measured = ([name, { value, over, episodes, interval: range }]: (typeof everywhere)[number]): Cell[] => [
    name,
    number(value),
    interval(range),
    `${episodes} ${over}`,
  ];
  return [
    `## ${label}`,
    `${judged.tasks} tasks, ${judged.trials} trials each: ${judged.episodes} episodes judged, ${judged.invalid} failed in the environment, ` +
      `${judged.missing.length} missing or failed.${judged.complete ? "" : " **INCOMPLETE**"}`,
    "### Performance",
    table(["mean", "value", "95 %", "over"], everywhere.map(measured)),
    table(
      ["median turns", "value", "95 %", "over"],
      Object.entries(median_turns).map(([name, { value, episodes, interval: range }]) => [
        name,
        number(value, 1),
        interval(range, 1),
        `${episodes} episodes`,
      ]),
    ),
    "### Reliability",
    table(
      ["k", "pass^k", "95 %", "pass@k", "95 %", "tasks"],
      ks.map((k) => [
        k,
        number(judged.pass_hat[k]!),
        interval(judged.pass_hat_interval[k]!),
        number(judged.pass_at[k]!),
        interval(judged.pass_at_interval[k]!),
        judged.tasks - judged.skipped_tasks[k]!,
      ]),
    ),
    "pass^k: all of k trials succeed, C(c,k)/C(n,k); pass@k: at least one does. pass^1 is the success rate." +
      skipped.map((k) => ` Left out of k = ${k}: ${judged.skipped_tasks[k]} tasks with fewer valid trials.`).join(""),
    Object.keys(judged.criteria).length === 0
      ? ""
      : table(
          ["criterion", ...ks.flatMap((k) => [`pass^${k}`, "95 %"])],
          Object.entries(judged.criteria).map(([name, { pass_hat, pass_hat_interval }]) => [
            name,
            ...ks.flatMap((k) => [number(pass_hat[k]!), interval(pass_hat_interval[k]!)]),
          ]),
        ),
    "### Accuracy and reward",
    table(
      ["mean", "value", "95 %", "over"],
      [
        ["reward", number(judged.mean_reward), interval(judged.mean_reward_interval), `${judged.tasks} tasks`],
        ...Object.entries(measures)
          .filter(([name]) => own.has(name))
          .map(measured),
      ],
    ),
    "### Cost per success",
    "What all episodes took, failures too, for each success.",
    table(
      ["cost", "per success", "95 %", "total", "successes"],
      Object.entries(cost_per_success).map(([name, { value, total, successes, interval: range }]) => [
        name,
        number(value, 1),
        interval(range, 1),
        total,
        successes,
      ]),
    ),
    "### Failure shapes",
    failures.episodes === 0
      ? "No episode failed."
      : table(
          ["shape", "episodes", "share", "95 %"],
          Object.entries(failures.shapes).map(([name, { episodes, share, interval: range }]) => [
            name,
            `${episodes} of ${failures.episodes}`,
            number(share),
            interval(range),
          ]),
        ),
    "### Difficulty bands",
    `Tasks by success rate: floor (below 0.2) ${bands.floor}, middle ${bands.middle}, ceiling (above 0.8) ${bands.ceiling}, of ${bands.tasks}.`,
    Object.keys(judged.categories).length === 0
      ? ""
      : table(
          ["category", "tasks", "pass^1", "reward"],
          Object.entries(judged.categories).map(([name, { tasks, pass_hat_1, mean_reward }]) => [
            name,
            tasks,
            number(pass_hat_1),
            number(mean_reward),
          ]),
        ),
    "### Tasks",
    taskTable(Object.keys(judged.by_task), report),
  ];
}

function taskTable(task_ids: readonly string[], { trajectories, category, rules }: Report): string {
  const criteria = rules?.criteria ?? [];
  const byTask = new Map<string, Trajectory[]>();
  for (const trajectory of trajectories)
    byTask.set(trajectory.task_id, [...(byTask.get(trajectory.task_id) ?? []), trajectory]);
  return table(
    ["task", "category", "trials", "success", ...criteria, "reward", "turns"],
    task_ids.map((task_id) => {
      const own = (byTask.get(task_id) ?? []).filter(({ reward }) => reward !== null);
      const rate = (of: (episode: Trajectory) => number) => number(mean(own.map(of)));
      return [
        task_id,
        category(task_id),
        own.length,
        rate(({ success }) => Number(success)),
        ...criteria.map((name) => rate(({ metrics }) => Number(metrics[name] === true))),
        rate(({ reward }) => reward!),
        number(mean(own.map(({ turns }) => turns.length)), 1),
      ];
    }),
  );
}

function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const line = (cells: readonly Cell[]) =>
    `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

// ------------------------------------------------------------------------------------------------------------- CSV

type Row = Record<string, unknown>;

function detailOf(trajectory: Trajectory, category: (task_id: string) => string): Row {
  const { task_id, trial, seed, turns, ended_by, ended_why, reward, success, tokens, parts, metrics } = trajectory;
  return {
    task_id,
    category: category(task_id),
    trial,
    seed,
    success,
    reward,
    turns: turns.length,
    ended_by,
    ended_why,
    prompt_tokens: tokens.prompt,
    policy_tokens: tokens.policy,
    observation_tokens: tokens.observation,
    tools: turns.flatMap(({ action }) => action?.name ?? []).join(" "),
    ...prefixed("part_", parts),
    ...prefixed("metric_", metrics),
  };
}

const errorOf = ({ task_id, trial, seed, ended_by, ended_why }: Trajectory): Row => ({
  task_id,
  trial,
  seed,
  ended_by,
  ended_why,
});

const prefixed = (prefix: string, values: Row): Row =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}${name}`, value]));

/** RFC 4180, with a head; a field that a row lacks, or that is null, is empty. */
function csv(rows: readonly Row[]): string {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const cell = (value: unknown) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows.map((row) => columns.map((column) => row[column]))]
    .map((row) => `${row.map(cell).join(",")}\r\n`)
    .join("");
}
