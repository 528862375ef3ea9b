import { describe, expect, test } from "vitest";
import { passAt, passHat } from "../../../core/pass.ts";
import type { Trajectory } from "../../../core/trajectory.ts";
import { failureClass, spokenTexts, summariseEpisode } from "./episode.ts";
import { episode, episodesOf, noGroups, type PlayedTurn, record, referenceRun } from "./fixtures/episodes.ts";
import { evalReport, generalisation, type ReportSettings, splitEvalReport, stabilityDelta } from "./report.ts";
import { evalReportSchema, splitEvalReportSchema } from "./schema.ts";
import { binomialError } from "./statistics.ts";

const run = { env: "airline@1", policy: "model:x", variant: null, step: null, trials: 4, seed: 45 };

function reportOf(trajectories: readonly Trajectory[], changes: Partial<ReportSettings> = {}) {
  return evalReport(trajectories, { run, groups: noGroups, turn_tokens: "not counted", ...changes });
}

describe("pass^k and pass@k of one task", () => {
  test.each([
    ["n 4, c 1", 1, { hat: [0.25, 0, 0], at: [0.25, 0.5, 1] }],
    ["n 4, c 2", 2, { hat: [0.5, 1 / 6, 0], at: [0.5, 5 / 6, 1] }],
    ["n 4, c 0", 0, { hat: [0, 0, 0], at: [0, 0, 0] }],
    ["n 4, c 4", 4, { hat: [1, 1, 1], at: [1, 1, 1] }],
  ])("%s", (_, c, { hat, at }) => {
    const { overall } = reportOf(episodesOf({ a: [c, 4] }));
    const hats = [overall.pass_hat_1, overall.pass_hat_2, overall.pass_hat_4];
    const ats = [overall.pass_at_1, overall.pass_at_2, overall.pass_at_4];
    for (const [index, k] of [1, 2, 4].entries()) {
      expect(hats[index]).toBeCloseTo(hat[index]!, 12);
      expect(ats[index]).toBeCloseTo(at[index]!, 12);
      expect([hats[index], ats[index]]).toEqual([passHat(4, c, k), passAt(4, c, k)]);
    }
  });

  test("with fewer trials than k there is nothing to tell", () => {
    expect(reportOf(episodesOf({ a: [1, 2] })).overall).toMatchObject({
      pass_hat_2: 0,
      pass_hat_4: null,
      pass_at_4: null,
    });
  });
});

describe("groups", () => {
  test("25 of 64, 4 of 96, 6 of 40: 0.175 overall, 0.0735 generalisation", () => {
    const { trajectories, groups } = referenceRun({ covered_seen: 25, uncovered_seen: 4, unseen: 6 });
    const report = splitEvalReport(reportOf(trajectories, { groups }), groups);
    expect(report.overall.pass_hat_1).toBeCloseTo(0.175, 12);
    expect(report.covered_seen.pass_hat_1).toBeCloseTo(25 / 64, 12);
    expect(report.generalisation.pass_hat_1).toBeCloseTo(10 / 136, 12);
    expect(report.generalisation.pass_hat_1).toBeCloseTo(0.0735, 4);
    expect(report.generalisation.weights).toEqual({ uncovered_seen: 24, unseen: 10 });
    expect(report.overall.any_success).toBeCloseTo((16 + 4 + 6) / 50, 12);
  });

  test("weights are the groups' own sizes", () => {
    const groups = { covered_seen: [], uncovered_seen: ["a"], unseen: ["b", "c", "d"] };
    const report = reportOf(episodesOf({ a: [4, 4], b: [0, 4], c: [2, 4], d: [1, 4] }), { groups });
    expect(splitEvalReport(report, groups).generalisation.pass_hat_1).toBeCloseTo((1 + 3 * 0.25) / 4, 12);
  });

  test("where nobody knows what is covered there is no generalisation", () => {
    const groups = { covered_seen: null, uncovered_seen: null, unseen: ["a"] };
    const split = splitEvalReport(reportOf(episodesOf({ a: [1, 4], b: [4, 4] }), { groups }), groups);
    expect(split.generalisation).toMatchObject({ pass_hat_1: null, weights: { uncovered_seen: null, unseen: 1 } });
    expect(split.unseen.pass_hat_1).toBeCloseTo(0.25, 12);
    expect(splitEvalReportSchema.parse(split)).toEqual(split);
  });

  test("a group that was not played leaves no generalisation; one without tasks does not count", () => {
    const own = { pass_hat_1: 0.5, pass_hat_1_se: 0.1 };
    const none = { pass_hat_1: null, pass_hat_1_se: null };
    expect(
      generalisation([
        { size: 3, ...none },
        { size: 10, ...own },
      ]).pass_hat_1,
    ).toBeNull();
    expect(
      generalisation([
        { size: 0, ...none },
        { size: 10, ...own },
      ]),
    ).toMatchObject(own);
    expect(
      generalisation([
        { size: 0, ...none },
        { size: 0, ...none },
      ]).pass_hat_1,
    ).toBeNull();
  });
});

describe("error rates", () => {
  const failing = record("get_user_details", { user_id: "x" }, "Error: user not found");
  const fine = record("list_all_airports");
  const turn = (turn: Partial<PlayedTurn>): PlayedTurn => ({ reply: "", ...turn });
  const trajectories = [
    episode({ trial: 0 }, [turn({ records: [failing] }), turn({ records: [fine] })]),
    episode({ trial: 1 }, [turn({ unknown_tools: ["fly"] }), turn({ records: [fine] })]),
    episode({ trial: 2, metrics: { terminated_by: "loop" }, ended_by: "truncated" }),
    episode({ trial: 3, ended_by: "timeout", ended_why: "the user did not answer", reward: null }, []),
    episode({ trial: 4, metrics: { terminated_by: "contaminated" } }),
  ];

  test("by trajectory: guards, and what failed outside; contamination is none", () => {
    const { overall } = reportOf(trajectories);
    expect(overall).toMatchObject({ error_rate_trajectory: 2 / 5, error_rate: 2 / 5, episodes: 4, invalid: 1 });
  });

  test("by call: errors and unknown tools over executed calls", () => {
    const { overall } = reportOf(trajectories, { error_rate_kind: "call" });
    expect(overall).toMatchObject({ error_rate_call: 2 / 4, error_rate: 2 / 4, error_rate_trajectory: 2 / 5 });
  });

  test("no call was made", () => {
    expect(reportOf([episode()]).overall).toMatchObject({ error_rate_call: null, error_rate: 0 });
  });
});

describe("tokens per turn", () => {
  const two = [{ reply: "Hello." }, { reply: "Bye." }];
  const trajectories = [
    episode({ trial: 0 }, two),
    episode({ trial: 1 }, two),
    episode({ task_id: "synth-01" }, [{ reply: "" }]),
  ];

  test("figures of a hand-made report, empty texts being 0 tokens", () => {
    const { turn_tokens } = reportOf(trajectories, {
      turn_tokens: [[63, 22], [77, 100], [0]],
      turn_token_limit: 100,
    }).overall;
    expect(turn_tokens).toMatchObject({ p50: 63, mean: 52.4, messages: 5, share_at_limit: 0.2, missing: null });
    expect(turn_tokens.p95).toBeCloseTo(95.4, 10);
    expect(turn_tokens.p50_se).toBeGreaterThan(0);
  });

  test("not counted: null, and why", () => {
    const { turn_tokens } = reportOf(trajectories, { turn_tokens: "the policy is behind an API" }).overall;
    expect(turn_tokens).toMatchObject({ p50: null, p50_se: null, missing: "the policy is behind an API" });
  });

  test("what is counted is what is said, without thinking and calls", () => {
    const call = `<tool_call>\n{"name": "think", "arguments": {"thought": "x"}}\n</tool_call>`;
    const played = episode({}, [{ reply: `<think>Hm.</think>I look.\n${call}` }, { reply: call }, { reply: "Bye." }]);
    expect(spokenTexts(played)).toEqual(["I look.", "", "Bye."]);
  });

  test("as many counts as messages", () => {
    expect(() => summariseEpisode(episode(), [1, 2])).toThrow("2 counts of tokens for the 1 messages");
  });
});

describe("beside pass^1", () => {
  test("doing nothing, tasks that need an action, strict", () => {
    const idle = { needs_action: false };
    const { overall } = reportOf([
      ...episodesOf({ a: [1, 2], b: [0, 2] }),
      episode({ task_id: "c", success: true, metrics: { ...idle, strict: false } }),
      episode({ task_id: "c", trial: 1, success: true, metrics: idle }),
    ]);
    expect(overall).toMatchObject({ tasks: 3, baseline_do_nothing: 1 / 3, tasks_need_action: 2 });
    expect(overall.pass_hat_1).toBeCloseTo(1.5 / 3, 12);
    expect(overall.pass_hat_1_need_action).toBeCloseTo(0.25, 12);
    expect(overall.pass_hat_1_strict).toBeCloseTo((0.5 + 0 + 0.5) / 3, 12);
  });

  test("an episode that the environment failed is no failure of the policy", () => {
    const lost = episode({ task_id: "a", trial: 2, ended_by: "error", reward: null });
    const report = reportOf([...episodesOf({ a: [1, 2] }), lost]);
    expect(report.tasks[0]).toMatchObject({ n: 2, c: 1, pass_hat_1: 0.5 });
    expect(report.overall.failures).toEqual({ UNKNOWN_FAILURE: 1, EXCEPTION: 1 });
  });

  test("one standard error over tasks: below the binomial's, where tasks differ less than chance would have it", () => {
    const { trajectories } = referenceRun({ covered_seen: 16, uncovered_seen: 24, unseen: 10 });
    expect(reportOf(trajectories).overall.pass_hat_1_se).toBeCloseTo(0, 12);
    const { pass_hat_1_se } = reportOf(episodesOf({ a: [4, 4], b: [0, 4], c: [2, 4] })).overall;
    expect(pass_hat_1_se).toBeCloseTo(Math.sqrt(0.25 / 3), 12);
    expect(binomialError(0.2, 200)).toBeCloseTo(0.0283, 4);
  });

  test("Δstability is step 300 minus step 150", () => {
    const points = [
      { step: 150, pass_hat_1: 0.225 },
      { step: 200, pass_hat_1: 0.175 },
      { step: 300, pass_hat_1: 0.24 },
    ];
    expect(stabilityDelta(points)).toBeCloseTo(0.015, 12);
    expect(stabilityDelta(points.slice(1))).toBeNull();
    expect(stabilityDelta(points, [150, 200])).toBeCloseTo(-0.05, 12);
  });
});

describe("failure classes, the first that fits", () => {
  const replies = (many: number, reply = "Go on.") => Array.from({ length: many }, () => ({ reply }));
  const answered = (content: string) => [{ reply: "", observations: [{ role: "tool" as const, content }] }];
  test.each([
    ["EXCEPTION", episode({ ended_by: "error" }, replies(30))],
    ["EXCEPTION", episode({ metrics: { terminated_by: "context" } })],
    ["TIMEOUT_OR_LOOP", episode({}, replies(29, "I am sorry"))],
    ["NO_ASSISTANT_RESPONSE", episode({}, [])],
    ["MODEL_REFUSED_OR_GAVEUP", episode({}, replies(28, "I'm Sorry, that is not allowed."))],
    ["TOOL_CALL_ERROR", episode({}, answered("Error: reservation not found"))],
    ["LONG_HORIZON_DRIFT", episode({}, replies(16))],
    ["UNKNOWN_FAILURE", episode({}, replies(15))],
    ["UNKNOWN_FAILURE", episode({}, [...replies(1, "I cannot say."), ...answered("[]"), ...replies(1)])],
  ])("%s", (name, played) => {
    expect(failureClass(played)).toBe(name);
  });
});

describe("report files", () => {
  test("are read back as they were written", () => {
    const { trajectories, groups } = referenceRun({ covered_seen: 25, uncovered_seen: 4, unseen: 6 });
    const report = reportOf(trajectories, { groups });
    const split = splitEvalReport(report, groups);
    const through = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
    expect(evalReportSchema.parse(through(report))).toEqual(report);
    expect(splitEvalReportSchema.parse(through(split))).toEqual(split);
  });

  test("an episode twice is refused", () => {
    expect(() => reportOf([episode(), episode()])).toThrow("task 'synth-00', trial 0 more than once");
  });

  test("so is a log of another family", () => {
    const strange = episode({ env: "arxiv@3" });
    strange.turns[0]!.outcome.payload = { tool: "search" };
    expect(() => reportOf([strange])).toThrow("the log is of arxiv@3");
  });
});
