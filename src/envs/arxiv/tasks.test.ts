import { describe, expect, test } from "vitest";
import { startEpisode } from "../../core/episode.ts";
import { arxivSpec } from "./env.ts";
import { arxivOptions } from "./options.ts";
import { expectationOf } from "./rewards.ts";
import { loadArxivSplit } from "./splits.ts";
import { type ArxivTaskRecord, arxivTasks, findArxivTask, parseArxivTasks, smokeTasks } from "./tasks.ts";
import { TOOL_NAMES } from "./tools/index.ts";
import type { ArxivTask } from "./types.ts";
import { goldReplies } from "./wordings.ts";

const options = arxivOptions.parse({});
const all = await loadArxivSplit("all,smoke", options);

async function play(task: ArxivTask, replies: readonly string[], profile: "project" | "reference" = "project") {
  const episode = await startEpisode(arxivSpec, task, { ...options, profile }, { seed: 7 });
  for (const reply of replies) await episode.reply(reply);
  return episode.finish();
}

describe("the task files", () => {
  test("81 tasks in 13 categories, and 8 smoke tasks", () => {
    const counts: Record<string, number> = {};
    for (const { category } of arxivTasks()) counts[category] = (counts[category] ?? 0) + 1;
    expect(counts).toEqual({
      search: 12,
      keyword_search: 3,
      optional: 5,
      ref_form: 10,
      composite: 8,
      state: 8,
      constraint: 6,
      infeasible: 5,
      long_chain: 6,
      paper_reading: 5,
      paper_summary: 5,
      figure_extraction: 4,
      figure_analysis: 4,
    });
    expect(arxivTasks()).toHaveLength(81);
    expect(smokeTasks()).toHaveLength(8);
    expect(new Set([...arxivTasks(), ...smokeTasks()].map(({ id }) => id)).size).toBe(89);
    expect(new Set(arxivTasks().flatMap(({ steps }) => steps.map(({ tool }) => tool)))).toEqual(new Set(TOOL_NAMES));
    for (const { note } of arxivTasks()) expect(note).not.toBe("");
  });

  test("only one text stands twice: that of ref_ctrl_null_translate and infeasible_no_session", () => {
    const tasks = [...arxivTasks(), ...smokeTasks()];
    const twins = tasks.filter(
      ({ task }) => tasks.filter((other) => other.task.toLowerCase() === task.toLowerCase()).length > 1,
    );
    expect(twins.map(({ id }) => id)).toEqual(["ref_ctrl_null_translate", "infeasible_no_session"]);
  });

  test("every value of a search stands in its sentence, the keyword tasks' window too", () => {
    for (const { task, steps } of arxivTasks().filter(({ category }) => /search/.test(category))) {
      for (const value of Object.values(steps[0]!.args)) expect(task).toContain(String(value));
    }
  });

  test("no sentence or note gives its task's id away", () => {
    for (const { id, task } of all.tasks) expect(task).not.toContain(id);
  });

  test("an ordinal may be a word, and the id finds its task", () => {
    expect(findArxivTask("state_ref_ordinal_cn")).toMatchObject({
      task: expect.stringContaining("third"),
      steps: [{ args: { ref: 3 } }],
    });
    expect(findArxivTask("search_01")?.category).toBe("search");
    expect(findArxivTask("nobody")).toBeNull();
  });

  test("what comes before a task is its whole dependency chain", () => {
    const prior = findArxivTask("translate_01")!.prior!;
    expect(prior.map(({ tool }) => tool)).toEqual(["get_recently_submitted_cs_papers", "download_arxiv_pdf"]);
  });

  // RW-03: with one list of steps there is nothing to keep in step by hand.
  test("expected tools and arguments are the same steps", () => {
    for (const task of all.tasks) {
      const { expected_tools, expected_tool_args } = expectationOf(task);
      expect(expected_tools.map((tool, i) => ({ tool, args: expected_tool_args![i] }))).toEqual(task.steps);
      expect(task.expected_paper_ids).toHaveLength(task.steps.length);
    }
  });
});

describe("gold replies", () => {
  test.each(all.tasks.map((task) => [task.id, task] as const))(
    "%s: a strict success with reward 1",
    async (_, task) => {
      for (const profile of ["project", "reference"] as const) {
        for (const variant of [0, 1]) {
          const trajectory = await play(task, goldReplies(task, variant), profile);
          expect(trajectory).toMatchObject({ reward: 1, success: true, ended_by: "terminated", ended_why: null });
          expect(trajectory.turns.map(({ outcome }) => outcome.kind)).toEqual([
            ...task.steps.map(() => "ok"),
            "terminal",
          ]);
        }
      }
    },
  );

  // TR-01: the text alone does not say which task it is.
  test("two tasks of one text each have their own right answer (TR-01)", async () => {
    const [translate, refuse] = ["ref_ctrl_null_translate", "infeasible_no_session"].map(
      (id) => all.tasks.find((task) => task.id === id)!,
    ) as [ArxivTask, ArxivTask];
    expect(translate.task).toBe(refuse.task);
    const rewards = await Promise.all([
      play(translate, goldReplies(translate)),
      play(translate, goldReplies(refuse)),
      play(refuse, goldReplies(refuse)),
      play(refuse, goldReplies(translate)),
    ]);
    expect(rewards.map(({ success }) => success)).toEqual([true, false, true, false]);
  });
});

describe("a task file that is wrong is refused, naming file, task and fault", () => {
  const good: ArxivTaskRecord = {
    id: "a",
    task: "Download paper 1.",
    steps: [{ tool: "download_arxiv_pdf", args: { ref: 1 } }],
  };
  test.each<[string, unknown, RegExp]>([
    ["no list", { a: good }, /t\.json: expected a list/],
    ["no object", ["a"], /t\.json: task '#1'/],
    ["a key that no task has", [{ ...good, step: [] }], /task 'a': .*step/],
    ["a bad mode", [{ ...good, terminal_mode: "done" }], /task 'a': terminal_mode/],
    [
      "blocked without a reason",
      [{ ...good, steps: [], terminal_mode: "blocked" }],
      /terminal_reason: a blocked task needs one of missing_context/,
    ],
    [
      "a reason without blocked",
      [{ ...good, terminal_reason: "missing_context" }],
      /terminal_reason: only a blocked task/,
    ],
    [
      "a reason that nobody knows",
      [{ ...good, steps: [], terminal_mode: "blocked", terminal_reason: "tired" }],
      /terminal_reason/,
    ],
    ["an id that stands twice", [good, good], /the id 'a' stands twice/],
    [
      "an unknown tool",
      [{ ...good, steps: [{ tool: "upload", args: {} }] }],
      /task 'a': steps\[0\]: unknown tool 'upload'/,
    ],
    [
      "arguments that the tool refuses",
      [{ ...good, steps: [{ tool: "analyze_figure", args: { figure_no: 9 } }] }],
      /steps\[0\]: analyze_figure: figure_no/,
    ],
    [
      "an argument that the tool lacks",
      [{ ...good, setup: [{ tool: "download_arxiv_pdf", args: { paper: 1 } }] }],
      /setup\[0\]: download_arxiv_pdf: .*paper/,
    ],
    [
      "a step without arguments (RW-03)",
      [{ ...good, steps: [{ tool: "download_arxiv_pdf" }] }],
      /task 'a': steps\.0\.args/,
    ],
    ["a prerequisite that is missing", [{ ...good, depends_on: "b" }], /depends_on 'b' is no task/],
    [
      "a prerequisite in a circle",
      [
        { ...good, depends_on: "b" },
        { ...good, id: "b", depends_on: "a" },
      ],
      /comes back to 'a'/,
    ],
  ])("%s", (_, value, message) => {
    expect(() => parseArxivTasks(value, "t.json")).toThrow(message);
  });

  test("defaults", () => {
    expect(parseArxivTasks([good], "t.json")).toEqual([
      {
        ...good,
        category: "misc",
        difficulty: "medium",
        setup: [],
        requires_offline: false,
        note: "",
        termination: "FINISH",
        terminal_mode: "completed",
        terminal_reason: null,
        max_iterations: null,
        depends_on: null,
        expected_paper_ids: null,
      },
    ]);
  });
});
