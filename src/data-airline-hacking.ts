import { UserError } from "./core/errors.ts";
import { hackingByStep, type StepHacking } from "./envs/airline/evaluation/hacking-by-step.ts";
import type { RunResult } from "./recipes/recipe.ts";
import { textTable } from "./report.ts";
import { writeJson } from "./run-folder.ts";
import { logsOf, readTrajectories } from "./trajectory-log.ts";

/**
 * `data airline hacking`: patterns of reward hacking in trajectory logs, by optimizer step (airline.md 11.6).
 * @throws UserError without files, and for logs of another family
 */
export function runHacking(files: readonly string[], output?: string): RunResult {
  if (files.length === 0) throw new UserError("data airline hacking: name trajectory logs or folders of runs.");
  const trajectories = files.flatMap(logsOf).flatMap((path) => {
    const own = readTrajectories(path);
    const strange = own.find(({ env }) => !env.startsWith("airline@"));
    if (strange) throw new UserError(`${path}: expected a log of the airline; it is of ${strange.env}.`);
    return own;
  });
  const steps = hackingByStep(trajectories);
  if (steps.length === 0) throw new UserError(`data airline hacking: no judged trajectories in ${files.join(", ")}.`);
  if (output !== undefined) writeJson(output, steps);
  return {
    text: [table(steps), ...(output === undefined ? [] : [`written: ${output}`])].join("\n"),
    json: steps.map((step) => ({ ...step })),
  };
}

/** A pattern a row, a step a column: there are more patterns than fit side by side. */
function table(steps: readonly StepHacking[]): string {
  const counted = [...new Set(steps.flatMap(({ counts }) => Object.keys(counts)))];
  const row = (name: string, of: (step: StepHacking) => number | null | undefined) => [
    name,
    ...steps.map((step) => of(step)?.toFixed(3) ?? "n/a"),
  ];
  return textTable([
    ["step", ...steps.map(({ step }) => (step === null ? "n/a" : String(step)))],
    ["episodes", ...steps.map(({ episodes }) => String(episodes))],
    ...counted.map((name) => row(name.replace(/^hack_/, ""), ({ counts }) => counts[name])),
    row("memorised_openings", ({ memorised_openings }) => memorised_openings),
    row("lucky_groups", ({ lucky_groups }) => lucky_groups),
    row("late_share", ({ late_share }) => late_share),
    row("late_share_gap", ({ late_share_gap }) => late_share_gap),
  ]);
}
