import type { Ablation, AblationRow, Figure } from "../src/envs/airline/evaluation/ablation.ts";
import { textTable } from "../src/report.ts";
import { number } from "./tables.ts";

// An ablation of the airline family as text and Markdown.

const heads = [
  ...["run", "step", "overall", "generalisation", "covered", "uncovered", "unseen", "tokens p50", "error rate"],
  ...["turns", "any", "pass^4", "need action"],
];

/** "0.175 ± 0.027"; without its error where that is not known. */
function figure({ value, se }: Figure, digits = 3): string {
  return se === null || value === null ? number(value, digits) : `${number(value, digits)} ± ${number(se, digits)}`;
}

function cells(row: AblationRow): string[] {
  return [
    row.headline ? `${row.name} *` : row.name,
    row.step === null ? "n/a" : String(row.step),
    ...[row.overall, row.generalisation].map((it) => figure(it)),
    ...[row.covered_seen, row.uncovered_seen, row.unseen].map(({ value }) => number(value)),
    figure(row.turn_tokens_p50, 0),
    figure(row.error_rate),
    number(row.avg_turns, 2),
    number(row.any_success),
    number(row.pass_hat_4),
    number(row.pass_hat_1_need_action),
  ];
}

function explanations({ rows, stability_delta }: Ablation): string[] {
  const deltas = Object.entries(stability_delta).flatMap(([name, delta]) =>
    delta === null ? [] : [`${name} ${delta >= 0 ? "+" : "−"}${number(Math.abs(delta))}`],
  );
  return [
    `${rows[0]!.tasks} tasks, ${rows[0]!.trials} trials each; ± is one standard error over tasks; * is the latest step, which the comparison shows.`,
    `Doing nothing scores ${number(rows[0]!.baseline_do_nothing)} on these tasks; 'need action' is pass^1 on the others.`,
    ...(deltas.length === 0 ? [] : [`Δstability, pass^1 at step 300 minus step 150: ${deltas.join(", ")}.`]),
  ];
}

export function ablationText(table: Ablation, notes: readonly string[]): string {
  return [textTable([heads, ...table.rows.map(cells)]), "", ...explanations(table), ...notes].join("\n");
}

/** @param plots file names beside the page */
export function ablationMarkdown(table: Ablation, notes: readonly string[], plots: readonly string[]): string {
  const line = (row: readonly string[]) => `| ${row.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  const bold = (row: AblationRow) => cells(row).map((cell) => (row.highlighted && row.headline ? `**${cell}**` : cell));
  return `${[
    "# Ablation of the airline tasks",
    [line(heads), line(heads.map(() => "---")), ...table.rows.map((row) => line(bold(row)))].join("\n"),
    explanations(table).join("\n"),
    ...(notes.length === 0 ? [] : [notes.map((note) => `- ${note}`).join("\n")]),
    ...plots.map((file) => `![${file.replace(/\.\w+$/, "")}](${file})`),
  ].join("\n\n")}\n`;
}
