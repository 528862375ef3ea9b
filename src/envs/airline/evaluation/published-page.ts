import {
  board,
  headlineClaims,
  hypotheses,
  type PlanTarget,
  type PublishedRun,
  planTargets,
  publishedDoNothing,
  publishedRuns,
  SFT_TARGET_GAIN,
  trainingCurves,
} from "./published.ts";
import {
  figure,
  overallOfGroups,
  PUBLISHED_EPISODES,
  publishedRun,
  publishedZ,
  recomputedGeneralisation,
} from "./published-figures.ts";
import { binomialError } from "./statistics.ts";

/** The comparison page, docs/airline-published.md: made of the published facts and what follows from them. */
export function publishedPage(): string {
  const [base, sft] = [publishedRun("base", null), publishedRun("sft", null)];
  const [peak, baseline] = [publishedRun("vanilla", 150), publishedRun("vanilla", 200)];
  const [best, lata] = [publishedRun("joint", 250), publishedRun("lata", 250)];
  const [of_best, of_lata, of_baseline] = [best, lata, baseline].map(
    (run) => recomputedGeneralisation(run, "counts")!,
  ) as [number, number, number];
  const highest = published((run) => recomputedGeneralisation(run));
  const error = binomialError(best.overall, PUBLISHED_EPISODES);
  const noted = publishedRuns.filter(({ note }) => note !== undefined);
  return `${[
    "# What was published for the airline tasks",
    "Printed by `trestle data airline published > docs/airline-published.md` from the facts in " +
      "`src/envs/airline/evaluation/published.ts`. None of these numbers is ours: they are those of the reference's report, " +
      "on τ-bench's 50 original airline tasks, four trials each, with a 72B model as the user. Group columns are mean pass^1.",
    "## Runs",
    table(
      [
        ...["run", "overall", "generalisation as published", "recomputed", "covered", "uncovered", "unseen"],
        ...["tokens p50", "error rate", "turns"],
      ],
      publishedRuns.map((run) => [
        `${nameOf(run)}${run.note === undefined ? "" : ` (${noted.indexOf(run) + 1})`}`,
        figure(run.overall),
        figure(run.generalisation),
        recomputed(run),
        ...[run.covered_seen, run.uncovered_seen, run.unseen].map((value) => figure(value)),
        figure(run.p50, 0),
        figure(run.error_rate),
        figure(run.turns, 2),
      ]),
    ),
    noted.map(({ note }, index) => `${index + 1}. ${note}`).join("\n"),
    "`recomputed` is (uncovered × 24 + unseen × 10) / 34 of the same row, bold where it is not what was published. It is " +
      "n/a where the group values belong to no evaluation: an estimate, or shares of no whole number of successes.",
    "## Reading aids",
    list([
      `With the formula applied LATA (${figure(of_lata)}) equals vanilla (${figure(of_baseline)}), and the joint gain in ` +
        `generalisation is ${percent(of_best / of_baseline - 1)}, not ${percent(headlineClaims.generalisation)}.`,
      `The best generalisation of all is that of ${nameOf(highest)}: ${figure(recomputedGeneralisation(highest))}.`,
      `Each overall value is c/${PUBLISHED_EPISODES}: one standard error is about ${figure(error, 2)}. ` +
        `${figure(best.overall)} against ${figure(baseline.overall)} is ${figure(publishedZ(best, baseline), 1)} standard ` +
        "errors of the difference; 5 % significance asks for 1.96.",
      `Doing nothing scores ${figure(publishedDoNothing.solved / publishedDoNothing.tasks, 2)} on these tasks ` +
        `(${publishedDoNothing.solved} of ${publishedDoNothing.tasks} need no action), more than any run.`,
      `SFT was to gain ${figure(SFT_TARGET_GAIN, 2)} over the base model; it lost ${figure(base.overall - sft.overall)}.`,
      ...publishedRuns.flatMap((run) => {
        const groups = overallOfGroups(run);
        return groups === null || Math.abs(groups - run.overall) < 0.0005
          ? []
          : [
              `The overall ${figure(run.overall)} of ${nameOf(run)} is not what its own groups give (${figure(groups)}).`,
            ];
      }),
      `The best run lies ${figure(best.overall - peak.overall)} above vanilla's own peak at step ${peak.step}.`,
    ]),
    "## Headline claims",
    `Joint at step ${best.step} against vanilla at step ${baseline.step}.`,
    table(
      ["figure", "claimed", "from the table"],
      [
        ["overall", percent(headlineClaims.overall), percent(best.overall / baseline.overall - 1)],
        ["error rate", percent(headlineClaims.error_rate), percent(best.error_rate / baseline.error_rate - 1)],
        ["tokens p50", percent(headlineClaims.p50), percent(best.p50! / baseline.p50! - 1)],
        ["generalisation", percent(headlineClaims.generalisation), percent(of_best / of_baseline - 1)],
      ],
    ),
    "## Hypotheses",
    table(
      ["", "statement", "verdict in the report", "our remark"],
      hypotheses.map(({ id, statement, verdict, remark }) => [id, statement, verdict, remark]),
    ),
    "## Plan targets that were missed",
    table(
      ["joint", "planned", "reached at best"],
      planTargets.map((target) => [targetNames[target.figure], planned(target), reached(target)]),
    ),
    "## τ-bench's board, airline",
    table(
      ["policy", ...board[0]!.pass_hat.map((_, index) => `pass^${index + 1}`)],
      board.map(({ policy, pass_hat }) => [policy, ...pass_hat.map((value) => figure(value))]),
    ),
    "## Training curves quoted",
    list(trainingCurves),
  ].join("\n\n")}\n`;
}

const runNames: Record<PublishedRun["variant"], string> = {
  base: "base 7B",
  sft: "SFT",
  vanilla: "vanilla",
  turn_discount: "turn-discount",
  prm_lite: "prm-lite",
  lata: "lata",
  joint: "joint",
};
const nameOf = ({ variant, step }: PublishedRun): string => [runNames[variant], step ?? []].flat().join(" ");

/** The run of which a figure is largest. */
function published(of: (run: PublishedRun) => number | null): PublishedRun {
  return publishedRuns.reduce((best, run) => ((of(run) ?? 0) > (of(best) ?? 0) ? run : best));
}

function recomputed(run: PublishedRun): string {
  const value = figure(recomputedGeneralisation(run));
  return run.generalisation === null || value === "n/a" || value === figure(run.generalisation)
    ? value
    : `**${value}**`;
}

const targetNames: Record<PlanTarget["figure"], string> = {
  overall: "overall",
  generalisation: "generalisation",
  p50: "tokens p50",
  error_rate: "error rate",
};

function planned({ low, high }: PlanTarget): string {
  if (low !== null && high !== null) return `${low.toFixed(2)}–${high.toFixed(2)}`;
  return low !== null ? `≥ ${low}` : `≤ ${high!.toFixed(2)}`;
}

/** The joint run's value that comes nearest to what was planned. */
function reached({ figure: name, high, low }: PlanTarget): string {
  const values = publishedRuns.flatMap((run) =>
    run.variant === "joint" ? ((name === "generalisation" ? recomputedGeneralisation(run) : run[name]) ?? []) : [],
  );
  const best = low === null ? Math.min(...values) : Math.max(...values);
  const met = (low === null || best >= low) && (high === null || low !== null || best <= high);
  return `${figure(best, name === "p50" ? 0 : 3)}${met ? " (met)" : ""}`;
}

const percent = (share: number): string => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(0)} %`;
const list = (items: readonly string[]): string => items.map((item) => `- ${item}`).join("\n");

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
