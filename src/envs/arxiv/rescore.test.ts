import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { UserError } from "../../core/errors.ts";
import { createRandom } from "../../core/random.ts";
import { arxiv } from "./env.ts";
import golden from "./golden/reward-golden.json" with { type: "json" };
import { rescoreLine } from "./rescore.ts";
import { arxivComponents } from "./rewards.ts";
import { arxivTasks } from "./tasks.ts";
import type { ArxivTask, Call } from "./types.ts";
import { terminalThought } from "./wordings.ts";

const REFERENCE = { profile: "reference" } as const;
const PROJECT = { profile: "project" } as const;

const S = (aspect: string, days = 7, max_results = 5): Call => ({
  tool: "get_recently_submitted_cs_papers",
  args: { aspect, days, max_results },
});
const D = (ref: number): Call => ({ tool: "download_arxiv_pdf", args: { ref } });
const T = (ref: number): Call => ({ tool: "translate_arxiv_pdf", args: { ref } });
const Q = (ref: number): Call => ({ tool: "get_paper_cache_status", args: { ref } });
const M = (ref: number, style: string, max_words: number): Call => ({
  tool: "summarize_paper",
  args: { ref, style, max_words },
});
const R = (ref: number, section: string): Call => ({ tool: "get_paper_content", args: { ref, section } });
const F = (ref: number): Call => ({ tool: "extract_paper_figures", args: { ref } });
const BAD = S("nonexistent_topic");

/** A line whose calls were never played: they got stand-in observations. */
function line(task_id: string, calls: readonly (Call | [Call, string])[], thought = "baseline") {
  const history = calls.map((item) => {
    const [{ tool, args }, observation] = Array.isArray(item) ? item : [item, observationOf(item)];
    return { thought: "baseline", action: { name: tool, args }, observation };
  });
  return {
    task_id,
    training_step: 100,
    history: [...history, { thought, action: "FINISH", observation: "synthetic baseline finish" }],
  };
}

function observationOf({ tool }: Call): string {
  return tool === "analyze_figure" ? '{"paper_id": "P1", "answer": "a plot"}' : "synthetic baseline action";
}

describe("the score format", () => {
  test.each(golden.cases)(
    "golden $id, its task inline",
    async ({ id, task, history, training_step, reward, parts }) => {
      const inline = golden.tasks[task as keyof typeof golden.tasks];
      const got = await rescoreLine({ id, task: inline, history, training_step }, REFERENCE);
      expect(got).toMatchObject({ id, task_id: null, reward, parts });
      expect(got.warning).toBeUndefined();
    },
  );

  const history = [{ thought: "", action: "FINISH", observation: "" }];

  test.each<[string, unknown, string]>([
    ["a number", 7, "not a line to score"],
    ["null", null, "not a line to score"],
    ["no history", { task_id: "search_AI_1d_3" }, "has either 'history' or 'turns'"],
    ["a history that is no list", { task_id: "x", history: {} }, "history: Invalid input: expected array"],
    ["a step that is no object", { task_id: "x", history: ["FINISH"] }, "history.0: Invalid input: expected object"],
    ["a thought that is no text", { task_id: "x", history: [{ thought: 3 }] }, "history.0.thought"],
    ["a step that is a text", { task_id: "x", history, training_step: "1" }, "training_step: Invalid input"],
    ["no task", { history }, "names its task by 'task_id'"],
    ["an inline task without tools", { task: {}, history }, "task: expected_tools: Invalid input"],
    [
      "two lists of different length",
      { task: { expected_tools: ["a", "b"], expected_tool_args: [{}] }, history },
      "expected_tool_args has 1 entries, expected_tools has 2",
    ],
    [
      "a blocked task without a reason",
      { task: { expected_tools: [], expected_terminal_mode: "blocked" }, history },
      "a blocked task has a reason",
    ],
  ])("refuses %s", async (_, wrong, message) => {
    await expect(rescoreLine(wrong, PROJECT)).rejects.toThrow(UserError);
    await expect(rescoreLine(wrong, PROJECT)).rejects.toThrow(message);
  });

  test("a task that nobody knows earns 0 and says that it is to be skipped", async () => {
    expect(await rescoreLine({ id: 3, task_id: "gone", history }, PROJECT)).toEqual({
      id: 3,
      task_id: "gone",
      reward: 0,
      parts: Object.fromEntries(arxivComponents.map(({ name }) => [name, null])),
      metrics: { profile: "project", unknown_task: true },
      skipped: "no arXiv task 'gone'",
    });
  });

  test("expected tools without expected arguments: a warning, unless null says so (RW-03)", async () => {
    const task = { expected_tools: ["get_paper_cache_status"] };
    expect(await rescoreLine({ task, history }, PROJECT)).toMatchObject({
      parts: { argument: null },
      warning: expect.stringContaining("no expected_tool_args"),
    });
    expect(
      (await rescoreLine({ task: { ...task, expected_tool_args: null }, history }, PROJECT)).warning,
    ).toBeUndefined();
  });

  test("a trajectory's forced_finish speaks of its last step", async () => {
    const { task, history, training_step } = golden.cases[0]!;
    const inline = golden.tasks[task as "A"];
    const forced = await rescoreLine({ task: inline, history, training_step, forced_finish: true }, PROJECT);
    expect(forced.reward).toBe(0.775);
  });

  test("structured outcomes go before texts", async () => {
    const step = {
      thought: "t",
      action: { name: "get_paper_cache_status", args: { ref: 2 } },
      observation: "all fine",
    };
    const outcome = { kind: "tool_error", payload: { tool: "get_paper_cache_status", paper_id: null } };
    const failed = { task: golden.tasks.G, history: [{ ...step, outcome }, ...history] };
    expect((await rescoreLine(failed, PROJECT)).metrics).toMatchObject({ tool_exec_failures: 1, gate: "hard_invalid" });
  });

  test("a line of a trajectory log is judged by its turns; one whose environment failed has no reward", async () => {
    const turns = [{ reply: "", thought: "t", action: null, outcome: { kind: "terminal", text: "" } }];
    const log = { env: "arxiv@1", task_id: "infeasible_zero_index", turns, policy_step: 3, ended_by: "terminated" };
    expect(await rescoreLine(log, PROJECT)).toMatchObject({
      reward: 0.7,
      metrics: { terminal_semantics: "ambiguous" },
    });
    expect(await rescoreLine({ ...log, ended_by: "error" }, PROJECT)).toMatchObject({ reward: null });
  });

  test.each(["project", "reference"] as const)("our own logs earn what they earned: %s profile", async (profile) => {
    const tasks = await arxiv.load("all", { profile });
    const ids = tasks.ids.filter((_, i) => i % 4 === 0);
    expect(ids.length).toBeGreaterThan(20);
    for (const policy of arxiv.policies) {
      for (const task_id of ids) {
        const episode = await tasks.start(task_id, { seed: 1, policy_step: 3 });
        for (const reply of tasks.replies(policy, task_id, createRandom(task_id))) await episode.reply(reply);
        const { reward, parts, ...log } = JSON.parse(JSON.stringify(await episode.finish()));
        expect(reward).toBeTypeOf("number");
        expect(await rescoreLine(log, { profile })).toMatchObject({ task_id, reward, parts });
        if (policy === "gold") expect([task_id, reward]).toEqual([task_id, 1]);
      }
    }
  });

  test("10,000 lines in less than 5 s", async () => {
    const lines = Array.from({ length: 10_000 }, (_, i) => {
      const { task, history, training_step } = golden.cases[i % golden.cases.length]!;
      return i % 2 === 0
        ? { id: i, task: golden.tasks[task as "A"], history, training_step }
        : { id: i, task_id: "chain_cv5_cache_dl_tr_cache", history, training_step };
    });
    const begin = performance.now();
    for (const item of lines) await rescoreLine(item, PROJECT);
    const took_ms = performance.now() - begin;
    console.log(`10,000 lines scored in ${took_ms.toFixed(0)} ms`);
    expect(took_ms).toBeLessThan(5000);
  });
});

// Ways to game the reward that were found in the field. task, calls before FINISH, reward.
const NOT_DOWNLOADED = "工具执行失败: PDF is not downloaded";
const BAD_CASES: [string, string, (Call | [Call, string])[], number][] = [
  ["a tool call on an infeasible task", "infeasible_unknown_id", [S("AI")], -0.75],
  ["right tools, wrong arguments: chain", "chain_cv5_cache_dl_tr_cache", [BAD, Q(-1), D(-1), T(-1), Q(-1)], 0.428333],
  ["right tools, wrong arguments: composite", "multi_cv5_dl1_cache_tr", [BAD, D(-1), Q(-1), T(-1)], 0.441667],
  ["a search, whatever the task (a known residual)", "search_CL_7d_5", [S("AI")], 0.666667],
  ["done without doing it", "state_cache_before_dl", [], -0.75],
  ["summary budget ignored", "summary_ai5_tldr60", [S("AI"), D(1), M(1, "tldr", 250)], 0.888889],
  ["summary style ignored", "summary_cv5_structured120", [S("CV"), D(2), M(2, "bullet", 120)], 0.888889],
  ["summary without a download", "summary_cl5_bullet250", [S("CL"), [M(3, "bullet", 250), NOT_DOWNLOADED]], -0.75],
  [
    "summary of the wrong paper, one download too many",
    "summary_ro5_structured250",
    [S("RO"), D(1), D(2), M(2, "structured", 250)],
    0.545952,
  ],
  ["a section that nobody asked for", "read_ai5_default", [S("AI"), D(2), R(2, "method")], 0.833333],
  ["figures without a download", "figure_cv5_ref1", [S("CV"), [F(1), NOT_DOWNLOADED]], -0.75],
  ["figures of the wrong paper", "figure_ro5_ref2", [S("RO"), D(2), D(3), F(3)], 0.545952],
  ["figures never extracted", "figure_cv5_ref3", [S("CV")], -0.25],
];

test.each(BAD_CASES)("bad case: %s", async (_, task_id, calls, reward) => {
  expect((await rescoreLine(line(task_id, calls), REFERENCE)).reward).toBe(reward);
  expect((await rescoreLine(line(task_id, calls), PROJECT)).reward).toBe(reward);
});

describe("policies that don't try, on the 81 tasks", () => {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  async function rewards(
    calls: (task: ArxivTask) => Call[],
    tasks = arxivTasks(),
    thought?: (task: ArxivTask) => string,
  ): Promise<number> {
    const lines = tasks.map((task) => line(task.id, calls(task), thought?.(task)));
    const scored = await Promise.all(lines.map((item) => rescoreLine(item, REFERENCE)));
    return mean(scored.map(({ reward }) => reward!));
  }
  const of = (category: string) => arxivTasks().filter((task) => task.category === category);
  const wrong = ({ tool }: Call): Call => (tool === BAD.tool ? BAD : { tool, args: { ref: -1 } });

  test("gold calls, with a reason where there is one to give, earn 1", async () => {
    expect(arxivTasks()).toHaveLength(81);
    expect(await rewards(({ steps }) => steps, arxivTasks(), terminalThought)).toBe(1);
  });

  // Means to 4 decimals, as measured on the reference implementation.
  test.each<[string, (task: ArxivTask) => Call[], number, Record<string, number>]>([
    ["always_finish", () => [], -0.6605, { search: -0.75, infeasible: 0.7 }],
    [
      "always_search",
      () => [S("AI")],
      -0.1599,
      { search: 0.4458, constraint: -0.0083, state: -0.25, infeasible: -0.75 },
    ],
    [
      "wrong_args",
      ({ steps }) => steps.map(wrong),
      0.4334,
      {
        search: 0.4236,
        keyword_search: 0.375,
        composite: 0.4389,
        constraint: 0.4083,
        long_chain: 0.4283,
        paper_reading: 0.4683,
        paper_summary: 0.455,
        figure_extraction: 0.4639,
        figure_analysis: 0.4417,
      },
    ],
  ])("%s", async (_, calls, all, categories) => {
    expect(await rewards(calls)).toBeCloseTo(all, 4);
    for (const [category, expected] of Object.entries(categories)) {
      expect([category, await rewards(calls, of(category))]).toEqual([category, expect.closeTo(expected, 4)]);
    }
  });

  test("random_tool over 20 seeds", async () => {
    const picks = [S("AI"), D(1), T(1), Q(1)];
    const pick = (seed: number, id: string) =>
      picks[Number(createHash("sha256").update(`${seed}:${id}`).digest().readBigUInt64BE() % 4n)]!;
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => rewards((task) => [pick(42 + i, task.id)])));
    expect(mean(all)).toBeCloseTo(-0.1997, 4);
  });
});
