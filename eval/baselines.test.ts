import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { BaselineRow } from "../src/core/baselines.ts";
import { defineEnv } from "../src/core/env.ts";
import { arxivBaselines } from "../src/envs/arxiv/baselines.ts";
import { arxiv, arxivSpec } from "../src/envs/arxiv/env.ts";
import { importHistory } from "../src/envs/arxiv/import-history.ts";
import { expectationOf, scoreSteps } from "../src/envs/arxiv/rewards.ts";
import { findArxivTask } from "../src/envs/arxiv/tasks.ts";
import { runCommand } from "../src/fixtures/run-command.ts";
import { judgeBaselines } from "./gate.ts";

const BOUNDS = { aggregate: 0.3, category: 0.3 };

const play = (env = arxiv, options: unknown = { profile: "reference" }): Promise<BaselineRow[]> =>
  env.baselines
    .play({ policies: env.baselines.policies, split: "all", seed: 42, samples: 20, training_step: 100, options })
    .then(({ rows }) => rows);

const to4 = (value: number | null | undefined): number | null => (value == null ? null : Number(value.toFixed(4)));

describe.each(["reference", "project"])("the table of arXiv baselines, profile %s", (profile) => {
  const judged = play(arxiv, { profile }).then((rows) => judgeBaselines(rows, BOUNDS));

  // policy, plays, mean, std, least, most, exact path, mean arg, false finish, gap (spec/arxiv.md 8.3)
  test.each([
    ["gold", 81, 1, 0, 1, 1, 1, 1, 0, null],
    ["always_finish", 81, -0.6605, 0.349, -0.75, 0.7, 0.0617, 0, 0.9383, 1.6605],
    ["always_search", 81, -0.1599, 0.3067, -0.75, 0.6667, 0.1728, 0.1183, 0.7654, 1.1599],
    ["random_tool", 1620, -0.1997, 0.2677, -0.75, 1, 0.116, 0.0475, 0.8222, 1.1997],
    ["wrong_args", 81, 0.4334, 0.0904, 0.375, 0.7, 1, 0.1004, 0, 0.5666],
  ])("%s", async (policy, samples, mean, std, min, max, exact_tool_path, arg_score, false_finish, gap) => {
    const row = (await judged).policies.find((summary) => summary.policy === policy)!;
    expect({
      samples: row.samples,
      ...Object.fromEntries(
        Object.entries({ mean: row.mean, std: row.std, min: row.min, max: row.max, gap: row.gap, ...row.figures }).map(
          ([name, value]) => [name, to4(value)],
        ),
      ),
      finish_rate: row.finish_rate,
    }).toEqual({ samples, mean, std, min, max, gap, exact_tool_path, arg_score, false_finish, finish_rate: 1 });
  });

  // category, always_finish, always_search, random_tool, wrong_args
  test.each([
    ["search", -0.75, 0.4458, -0.0953, 0.4236],
    ["keyword_search", -0.75, -0.25, -0.25, 0.375],
    ["optional", -0.75, -0.25, -0.0025, 0.375],
    ["ref_form", -0.75, -0.25, -0.0594, 0.375],
    ["composite", -0.75, -0.25, -0.25, 0.4389],
    ["state", -0.75, -0.25, -0.1523, 0.375],
    ["constraint", -0.75, -0.0083, -0.167, 0.4083],
    ["infeasible", 0.7, -0.75, -0.75, 0.7],
    ["long_chain", -0.75, -0.25, -0.25, 0.4283],
    ["paper_reading", -0.75, -0.25, -0.25, 0.4683],
    ["paper_summary", -0.75, -0.25, -0.25, 0.455],
    ["figure_extraction", -0.75, -0.25, -0.25, 0.4639],
    ["figure_analysis", -0.75, -0.25, -0.25, 0.4417],
  ])("%s", async (category, ...means) => {
    const { policies } = await judged;
    const found = ["always_finish", "always_search", "random_tool", "wrong_args"].map((name) =>
      to4(policies.find(({ policy }) => policy === name)!.categories[category]!.mean),
    );
    expect(found).toEqual(means);
  });

  test("both gates pass; always_finish is excused nowhere, and on infeasible tasks its gap is just the bound", async () => {
    const { breaches, policies, categories } = await judged;
    expect(breaches).toEqual([]);
    expect(categories.length).toBe(13);
    const infeasible = policies.find(({ policy }) => policy === "always_finish")!.categories.infeasible!;
    expect(infeasible).toEqual({ samples: 5, excluded: 0, mean: 0.7, gap: 0.3 });
  });

  test("what counts as doing what gold does is what a sound scorer finds perfect", async () => {
    const wrong = (await play(arxiv, { profile })).filter(({ exact_reference, figures, category, reward }) => {
      const byScore = figures.exact_tool_path === true && (figures.arg_score ?? 1) === 1;
      return exact_reference !== (byScore && (category !== "infeasible" || reward === 1));
    });
    expect(wrong).toEqual([]);
  });

  test("a history of texts with the same synthetic observations earns the same", async () => {
    for (const { policy, task_id, reward } of (await play(arxiv, { profile })).filter(
      ({ policy }) => policy === "always_search" || policy === "wrong_args",
    )) {
      const task = findArxivTask(task_id)!;
      const search = { name: "get_recently_submitted_cs_papers", args: { aspect: "AI", days: 7, max_results: 5 } };
      const calls =
        policy === "always_search"
          ? [search]
          : task.steps.map(({ tool }) =>
              tool === search.name
                ? { name: tool, args: { ...search.args, aspect: "nonexistent_topic" } }
                : { name: tool, args: { ref: -1 } },
            );
      const history = [
        ...calls.map((call) => ({
          thought: "t",
          action: JSON.stringify(call),
          observation:
            call.name === "analyze_figure" ? "{'paper_id': 'P', 'answer': 'a'}" : "synthetic baseline action",
        })),
        { thought: "t", action: "FINISH", observation: "synthetic baseline finish" },
      ];
      const expected = { ...expectationOf(task), expected_paper_ids: null };
      const steps = importHistory(history, profile as "reference");
      const scored = scoreSteps(steps, expected, { profile: profile as "reference", training_step: 100 });
      expect([policy, task_id, scored.reward]).toEqual([policy, task_id, reward]);
    }
  });
});

test("with another seed random_tool draws others", async () => {
  const drawn = async (seed: number) => {
    const request = { policies: ["random_tool"], split: "all", samples: 1, training_step: 100, options: {} };
    const { rows } = await arxiv.baselines.play({ ...request, seed });
    return rows.filter(({ policy }) => policy === "random_tool").map(({ reward }) => reward);
  };
  expect(await drawn(42)).toEqual(await drawn(42));
  expect(await drawn(42)).not.toEqual(await drawn(62));
});

test("before step 30 the curriculum weighs form more, as in stored histories (golden 05)", async () => {
  const request = { policies: ["always_search"], split: "all", seed: 42, samples: 1, options: {} };
  for (const [training_step, reward] of [
    [29, 0.761905],
    [30, 0.666667],
  ] as const) {
    const { rows } = await arxiv.baselines.play({ ...request, training_step });
    expect(rows.findLast(({ task_id }) => task_id === "search_CL_7d_5")!.reward).toBe(reward);
  }
});

describe("a leak put in on purpose", () => {
  /** A scorer that pays the whole reward for something in one category alone. */
  function leaky(leaks: (tools: readonly string[], calls: number) => boolean) {
    return defineEnv({
      ...arxivSpec,
      baselines: arxivBaselines((steps, expected, options) => {
        const score = scoreSteps(steps, expected, options);
        const calls = steps.filter(({ action }) => action.type === "call").length;
        if (!leaks(expected.expected_tools, calls)) return score;
        // as a matcher would that looks at the keys of arguments and not at their values
        return { ...score, reward: 1, metrics: { ...score.metrics, arg_score: 1 } };
      }),
    });
  }

  test("one recent search is right whatever it asks for: the category gate fails, the aggregate one passes", async () => {
    const env = leaky((tools, calls) => tools.join() === "get_recently_submitted_cs_papers" && calls === 1);
    const { breaches, policies } = judgeBaselines(await play(env), BOUNDS);
    expect(breaches.filter(({ gate }) => gate === "aggregate")).toEqual([]);
    const search = breaches.filter(({ category }) => category === "search").map(({ policy }) => policy);
    expect(search).toEqual(expect.arrayContaining(["always_search", "wrong_args"]));
    // 12 of 81 tasks: too few to show in the mean of all
    expect(policies.find(({ policy }) => policy === "always_search")!.gap).toBeGreaterThan(0.9);
  });

  test("any closing thought of a blocked task is taken for an explanation: doing nothing is not excused by it", async () => {
    const env = leaky((tools, calls) => tools.length === 0 && calls === 0);
    const { breaches } = judgeBaselines(await play(env), BOUNDS);
    expect(new Set(breaches.map(({ gate, category }) => `${gate} ${category}`))).toEqual(
      new Set(["category infeasible"]),
    );
    expect(breaches.map(({ policy }) => policy)).toEqual(["always_finish", "wrong_args", "finish_with_refusal"]);
  });
});

describe("trestle baselines", () => {
  const run = (...argv: string[]) => runCommand("baselines", ...argv);

  test("exits with 0 where both gates pass, and says so", async () => {
    const { code, stdout } = await run("--profile", "reference");
    expect(stdout).toMatch(/always_search +81 +-0\.1599 +0\.3067 /);
    expect(stdout).toContain("Both gates pass");
    expect(code).toBe(0);
  });

  test("exits with 1 where weights leak in one category, naming policy, figure and bound", async () => {
    const weights = ["--env-options", '{"reward_weights": {"argument": 0, "outcome": 0}}'];
    const { code, stdout } = await run("--policies", "always_search", ...weights);
    expect(stdout).toContain("The category gate fails");
    expect(stdout).toContain("always_search in category search: 1.0000 is 0.0000 below the 1.0000 of gold");
    expect(stdout).not.toContain("over all tasks:");
    expect(code).toBe(1);
  });

  test("--json is a line a policy, then the verdict; --output leaves a report", async () => {
    const output = join(mkdtempSync(join(tmpdir(), "baselines-")), "report");
    const { code, stdout } = await run("--json", "--min-category-gap", "0.31", "--output", output, "--top", "2");
    const lines = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.length).toBe(10);
    expect(lines[0]).toMatchObject({ policy: "gold", mean: 1, gap: null });
    expect(lines.at(-1)).toMatchObject({ env: "arxiv@1", passed: false, bounds: { aggregate: 0.3, category: 0.31 } });
    expect(code).toBe(1);
    const report = JSON.parse(readFileSync(join(output, "baseline_report.json"), "utf8"));
    expect(report.rows.length).toBe(8 * 81 + 1620);
    expect(report.rows[0]).toMatchObject({
      policy: "gold",
      exact_tool_path: true,
      arg_score: 1,
      components: { tool: 1 },
    });
    expect(report.top.always_search.map((row: BaselineRow) => row.task_id)).toEqual([
      "search_CL_7d_5",
      "search_CR_7d_5",
    ]);
    expect(Object.keys(report.sources)).toContain("data/arxiv/tasks.json");
    const page = readFileSync(join(output, "baseline_report.md"), "utf8");
    expect(page).toContain("| wrong_args | 81 | 0.4334 |");
    expect(page).toContain("The category gate fails");
  });

  test("an environment of one file has a gate too", async () => {
    const { code, stdout } = await run("--env", "./examples/guess-the-number.ts");
    expect(stdout).toMatch(/always_fifty +50 +0\.0200/);
    expect(code).toBe(0);
  });

  const file = join(mkdtempSync(join(tmpdir(), "baselines-")), "taken");
  writeFileSync(file, "");
  test.each([
    [["--policies", "always_serach"], /policies has 'always_serach'; did you mean 'always_search'\?/],
    [["--profile", "strict"], /env_options of arxiv: profile/],
    [["--random-samples", "0"], /--random-samples is 0; expected/],
    [["--random-samples", "3", "--policies", "always_finish"], /none of always_finish draws anything/],
    [["--min-category-gap", "nan"], /--min-category-gap is 'nan'; expected a number/],
    [["--top", "3"], /top is set, but only the report has that list/],
    [["--split", "nowhere"], /no group 'nowhere'/],
    [["--output", file], /output is '.*taken', which can't be a folder/],
  ])("%j is the user's mistake", async (argv, message) => {
    const { code, stdout, stderr } = await run(...argv);
    expect(stderr).toMatch(message);
    expect([code, stdout]).toEqual([2, ""]);
  });
});
