import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { referenceRun } from "./fixtures/episodes.ts";
import { publishedRuns } from "./published.ts";
import {
  compareWithPublished,
  overallOfGroups,
  publishedCounterpart,
  publishedRun,
  publishedZ,
  recomputedGeneralisation,
  recoveredCounts,
} from "./published-figures.ts";
import { publishedPage } from "./published-page.ts";
import { evalReport, splitEvalReport } from "./report.ts";

const evaluations = publishedRuns.filter(({ kind }) => kind === "evaluation");

describe("generalisation by the formula", () => {
  test.each([
    ["base", null, 0.198],
    ["sft", null, 0.059],
    ["vanilla", 50, 0.103],
    ["vanilla", 100, 0.074],
    ["vanilla", 150, 0.118],
    ["vanilla", 200, 0.074],
    ["turn_discount", 200, 0.059],
    ["turn_discount", 250, 0.052],
    ["turn_discount", 300, 0.059],
    ["prm_lite", 200, 0.044],
    ["prm_lite", 250, 0.059],
    ["prm_lite", 300, 0.059],
    ["lata", 200, 0.059],
    ["lata", 250, 0.074],
    ["joint", 200, 0.096],
    ["joint", 250, 0.11],
    ["joint", 300, 0.11],
  ] as const)("%s %s", (variant, step, expected) => {
    expect(recomputedGeneralisation(publishedRun(variant, step))!).toBeCloseTo(expected, 3);
    expect(recomputedGeneralisation(publishedRun(variant, step))!.toFixed(3)).toBe(expected.toFixed(3));
  });

  test("an estimate and training's rewards have none", () => {
    expect(publishedRuns.filter((run) => recomputedGeneralisation(run) === null).map(({ kind }) => kind)).toEqual([
      "training_validation",
      "estimate",
    ]);
  });

  test("by whole counts LATA equals vanilla, and the joint gain is a half", () => {
    const [vanilla, lata, joint] = [
      publishedRun("vanilla", 200),
      publishedRun("lata", 250),
      publishedRun("joint", 250),
    ].map((run) => recomputedGeneralisation(run, "counts")!);
    expect(lata).toBe(vanilla);
    expect(joint! / vanilla!).toBeCloseTo(1.5, 12);
  });
});

describe("the table", () => {
  test("every evaluation's groups are whole numbers of successes; but for one they add up to its overall value", () => {
    expect(evaluations).toHaveLength(17);
    const off = evaluations.filter((run) => Math.abs(overallOfGroups(run)! - run.overall) > 1e-10);
    expect(off.map(({ variant, step }) => [variant, step])).toEqual([["prm_lite", 200]]);
    expect(overallOfGroups(off[0]!)).toBeCloseTo(0.125, 12);
  });

  test("step 300 of LATA is of no evaluation", () => {
    expect(recoveredCounts(publishedRun("lata", 300))).toBeNull();
  });

  test("the best against the baseline is not significant at 5 %", () => {
    expect(publishedZ(publishedRun("joint", 250), publishedRun("vanilla", 200))).toBeCloseTo(1.61, 2);
  });
});

describe("a report of ours beside it", () => {
  const { trajectories, groups } = referenceRun({ covered_seen: 25, uncovered_seen: 4, unseen: 6 });
  const named = (variant: string | null, step: number | null) => {
    const run = { env: "airline@1", policy: "x", variant, step, trials: 4, seed: 0 };
    const report = splitEvalReport(evalReport(trajectories, { run, groups, turn_tokens: "no" }), groups);
    return compareWithPublished(report, "mine");
  };

  test("the base run always, the same experiment and step where there is one", () => {
    const lines = named("prm_lite_lata", 250);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(
      /overall 0\.175 ± 0\.\d{3}, any 0\.520, turns 1\.00; base 7B .* 0\.160, any 0\.340, turns 12\.30/,
    );
    expect(lines[1]).toMatch("doing nothing scores 0.000");
    expect(lines[2]).toMatch(/published joint at step 250: overall 0\.240, generalisation 0\.110 .*ours 0\.074/);
    expect(named("lata", 300)).toHaveLength(2);
    expect(named(null, null)).toHaveLength(2);
  });

  test("an estimate is nothing to compare with", () => {
    expect(publishedCounterpart("lata", 300)).toBeNull();
    expect(publishedCounterpart("lata", 250)).toMatchObject({ overall: 0.185 });
  });
});

test("the committed page is the one that is printed", () => {
  const path = join(import.meta.dirname, "../../../../docs/airline-published.md");
  expect(readFileSync(path, "utf8")).toBe(publishedPage());
});
