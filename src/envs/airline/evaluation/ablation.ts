import { UserError } from "../../../core/errors.ts";
import { stabilityDelta } from "./report.ts";
import type { EvalReport, SplitEvalReport } from "./schema.ts";

// An ablation: the reports of several runs side by side (airline.md 11.5). All of it is read from report files.

/** One run's reports under the name that tables and plots give it. */
export interface AblationRun {
  name: string;
  /** Where the reports lie, for messages. */
  path: string;
  report: EvalReport;
  split: SplitEvalReport;
}

/** A value with one standard error; null: not measured. */
export interface Figure {
  value: number | null;
  se: number | null;
}

export interface AblationRow {
  name: string;
  step: number | null;
  policy: string;
  /** Whether this row stands for its name in the comparison: the one of its latest step. */
  headline: boolean;
  highlighted: boolean;
  tasks: number;
  trials: number;
  overall: Figure;
  generalisation: Figure;
  covered_seen: Figure;
  uncovered_seen: Figure;
  unseen: Figure;
  turn_tokens_p50: Figure;
  error_rate: Figure;
  /** Tool stability: 1 − error rate. */
  stability: Figure;
  any_success: number | null;
  pass_hat_4: number | null;
  avg_turns: number | null;
  avg_tool_calls: number | null;
  baseline_do_nothing: number | null;
  pass_hat_1_need_action: number | null;
}

export interface Ablation {
  rows: AblationRow[];
  /** By name: pass^1 at step 300 minus that at step 150; null where one of them is missing. */
  stability_delta: Record<string, number | null>;
}

/** Names of experiments in the order of the reference's panels; others follow as they came. */
const order = ["vanilla", "turn_discount", "prm_lite", "lata", "joint"];
/** The name that stands for the method as a whole. */
export const HIGHLIGHTED = "joint";
export const BASELINE = "vanilla";

/** What the ablation calls an experiment where nobody names it otherwise. */
export function ablationName(variant: string): string {
  return variant === "prm_lite_lata" ? HIGHLIGHTED : variant;
}

/**
 * The table behind text and plots.
 * @throws UserError where two runs have one name and step, or runs are of different tasks, trials or error rates
 */
export function ablation(runs: readonly AblationRun[]): Ablation {
  const [first] = runs;
  if (!first) throw new UserError("Name one folder with reports or more.");
  for (const run of runs.slice(1)) refuseIncomparable(first, run);
  const names = [...new Set(runs.map(({ name }) => name))].sort((a, b) => place(a) - place(b));
  const rows = names.flatMap((name) => rowsOf(runs.filter((run) => run.name === name)));
  const points = (name: string) =>
    rows.filter((row) => row.name === name).map(({ step, overall }) => ({ step, pass_hat_1: overall.value }));
  return { rows, stability_delta: Object.fromEntries(names.map((name) => [name, stabilityDelta(points(name))])) };
}

const place = (name: string): number => (order.includes(name) ? order.indexOf(name) : order.length);

function rowsOf(runs: readonly AblationRun[]): AblationRow[] {
  const sorted = [...runs].sort((a, b) => stepOf(a) - stepOf(b));
  return sorted.map((run, index) => {
    const next = sorted[index + 1];
    if (next && stepOf(next) === stepOf(run))
      throw new UserError(
        `${run.path} and ${next.path} are both '${run.name}' at step ${run.report.run.step ?? "n/a"}; ` +
          "give them different names with --names.",
      );
    return rowOf(run, next === undefined);
  });
}

const stepOf = ({ report }: AblationRun): number => report.run.step ?? -1;

function rowOf({ name, split, report }: AblationRun, headline: boolean): AblationRow {
  const { overall, generalisation, covered_seen, uncovered_seen, unseen } = split;
  const passed = (figures: { pass_hat_1: number | null; pass_hat_1_se: number | null }): Figure => ({
    value: figures.pass_hat_1,
    se: figures.pass_hat_1_se,
  });
  return {
    name,
    step: report.run.step,
    policy: report.run.policy,
    headline,
    highlighted: name === HIGHLIGHTED,
    tasks: overall.tasks,
    trials: report.run.trials,
    overall: passed(overall),
    generalisation: passed(generalisation),
    covered_seen: passed(covered_seen),
    uncovered_seen: passed(uncovered_seen),
    unseen: passed(unseen),
    turn_tokens_p50: { value: overall.turn_tokens.p50, se: overall.turn_tokens.p50_se },
    error_rate: { value: overall.error_rate, se: overall.error_rate_se },
    stability: { value: overall.error_rate === null ? null : 1 - overall.error_rate, se: overall.error_rate_se },
    any_success: overall.any_success,
    pass_hat_4: overall.pass_hat_4,
    avg_turns: overall.avg_turns,
    avg_tool_calls: overall.avg_tool_calls,
    baseline_do_nothing: overall.baseline_do_nothing,
    pass_hat_1_need_action: overall.pass_hat_1_need_action,
  };
}

/** Different tasks or rules give numbers that do not compare. */
function refuseIncomparable(first: AblationRun, other: AblationRun): void {
  const differences: string[] = [];
  const tasks = ({ report }: AblationRun) => report.tasks.map(({ task_id, group }) => `${task_id} ${group}`).sort();
  const compare = (what: string, of: (run: AblationRun) => unknown) => {
    const [one, two] = [of(first), of(other)];
    if (JSON.stringify(one) !== JSON.stringify(two)) differences.push(`${what} ${one} and ${two}`);
  };
  compare("environment", ({ report }) => report.run.env);
  compare("trials", ({ report }) => report.run.trials);
  compare("error rate by", ({ report }) => report.error_rate_kind);
  if (JSON.stringify(tasks(first)) !== JSON.stringify(tasks(other))) differences.push("other tasks, or other groups");
  if (differences.length > 0)
    throw new UserError(
      `${first.path} and ${other.path} do not compare: ${differences.join("; ")}. Evaluate both on the same split, with ` +
        "the same --repeat and options.",
    );
}
