import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { UserError } from "../../core/errors.ts";
import { groupAdvantages } from "../../core/reward.ts";
import golden from "./golden/reward-golden.json" with { type: "json" };
import { type HistoryStep, importHistory } from "./import-history.ts";
import { arxivOptions } from "./options.ts";
import {
  arxivComponents,
  type Expectation,
  type ScoringOptions,
  scoreSteps,
  stepOfTurn,
  stepReward,
} from "./rewards.ts";
import type { ArxivFacts } from "./types.ts";

const TASKS = Object.fromEntries(
  Object.entries(golden.tasks).map(([name, task]) => [name, { ...task, expected_paper: null } as Expectation]),
);
const SEARCH = "get_recently_submitted_cs_papers";

function score(name: string, history: readonly HistoryStep[], options: Partial<ScoringOptions> = {}) {
  const profile = options.profile ?? "project";
  return scoreSteps(importHistory(history, profile), TASKS[name]!, { profile, ...options });
}

function call(name: string, args: Record<string, unknown>, observation: string): HistoryStep {
  return { thought: "t", action: JSON.stringify({ name, args }), observation };
}
const search = (aspect: string, observation = "成功获取 5 篇论文") =>
  call(SEARCH, { aspect, days: 7, max_results: 5 }, observation);
const FINISH: HistoryStep = { thought: "t", action: "FINISH", observation: "任务完成" };

describe("the reference's golden trajectories, to 6 decimals", () => {
  test("there are 53", () => expect(golden.cases).toHaveLength(53));

  test.each(golden.cases)("$id $label", ({ task, history, training_step, reward, parts, metrics }) => {
    const got = score(task, history, {
      profile: "reference",
      curriculum_steps: golden.curriculum_steps,
      training_step,
    });
    expect(got.parts).toEqual(parts);
    expect(got.metrics).toMatchObject(metrics);
    expect(got.reward).toBe(reward);
    expect(got.success).toBe(metrics.strict);
  });
});

// The project profile judges all goldens as the reference does, but for these: [reward, strict].
const PROJECT: Record<string, [number, boolean]> = {
  "11": [-0.75, false], // a search that the environment made up
  "14": [1, false], // a blank observation
  "22": [1, true], // FINISH wrapped in JSON is FINISH
  "42": [-0.75, false], // an empty answer
  "43": [-0.75, false], // an answer cut in the middle
};

describe("the golden trajectories in the project profile", () => {
  test.each(golden.cases)("$id $label", ({ id, task, history, training_step, reward, metrics }) => {
    const got = score(task, history, { curriculum_steps: golden.curriculum_steps, training_step });
    expect([got.reward, got.success]).toEqual(PROJECT[id] ?? [reward, metrics.strict]);
  });

  test("an empty search is no good result", () => {
    const empty = [search("AI", "未获取到任何论文记录"), FINISH];
    expect(score("A", empty).parts.result_quality).toBe(0);
    expect(score("A", empty, { profile: "reference" }).parts.result_quality).toBe(1);
  });

  test("a fallback counts as a tool failure", () => {
    const made_up = [search("AI", "{'_mock_env': {'offline_fallback': True}}"), FINISH];
    expect(score("A", made_up).metrics.tool_exec_failures).toBe(1);
  });

  // Two of three arguments, the tool and the form are right, and are paid for: a known residual of the default weights, and
  // more weight on argument and outcome brings it below one half.
  test("a search of the wrong field is no success and earns clearly less (RW-01)", () => {
    const history = [search("CR"), FINISH];
    const { reward, success } = score("A", history);
    expect({ reward, success }).toEqual({ reward: 0.666667, success: false });
    const strict = { format: 0.5, process: 0.5, tool: 1, argument: 4, outcome: 4 };
    expect(score("A", history, { reward_weights: strict }).reward).toBeLessThan(0.5);
  });

  test.each([
    "Error-Correcting Codes Revisited",
    "A study of 工具执行失败: and 错误: markers",
    "无法解析 and offline_fallback",
  ])("a paper titled '%s' is not a failure (RW-10)", (title) => {
    const { reward, success } = score("A", [search("AI", `成功获取 1 篇论文: ${title}`), FINISH]);
    expect({ reward, success }).toEqual({ reward: 1, success: true });
  });

  test("success is judged by the last step, whatever came before (RW-08)", () => {
    expect(score("A", [FINISH, search("AI")]).metrics).toMatchObject({ finished: false, strict: false });
  });
});

describe("structured outcomes", () => {
  const facts = (over: Partial<ArxivFacts> = {}) => ({
    tool: SEARCH,
    paper_id: null,
    result: [{}],
    empty: false,
    answer: null,
    repairs: [],
    ...over,
  });
  const turn = (kind: "ok" | "tool_error" | "fallback", text: string, over?: Partial<ArxivFacts>) =>
    stepOfTurn({
      thought: "t",
      action: { name: SEARCH, args: { aspect: "AI", days: 7, max_results: 5 } },
      outcome: { kind, payload: facts(over), text },
    });
  const finish = stepOfTurn({ thought: "done", action: null, outcome: { kind: "terminal", text: "" } });
  const unread = stepOfTurn({ thought: "", action: null, outcome: { kind: "parse_error", text: "?" } });
  const judge = (...steps: ReturnType<typeof stepOfTurn>[]) => scoreSteps(steps, TASKS.A!, { profile: "project" });

  test.each([
    ["right", [turn("ok", "Observation: 5 papers"), finish], 1, true, null],
    ["a text full of markers", [turn("ok", "Error: 工具执行失败: 无法解析 offline_fallback"), finish], 1, true, null],
    ["nothing found", [turn("ok", "Observation: no papers", { empty: true }), finish], 1, true, null],
    ["a tool error", [turn("tool_error", "all is well", { result: null }), finish], -0.75, false, "hard_invalid"],
    ["a fallback", [turn("fallback", "5 papers"), finish], -0.75, false, "hard_invalid"],
    ["a reply that can't be read", [turn("ok", "5 papers"), unread], -0.75, false, "hard_invalid"],
    ["truncated", [turn("ok", "5 papers")], 0.625, false, null],
  ] as const)("%s", (_, steps, reward, success, gate) => {
    const got = judge(...steps);
    expect({ reward: got.reward, success: got.success, gate: got.metrics.gate }).toEqual({ reward, success, gate });
  });
});

test("step rewards", () => {
  const [finish, good, unread, failed, garbage] = importHistory(
    [
      FINISH,
      search("AI"),
      { action: "PARSE_ERROR", observation: "无法解析 Action", parse_failed: true },
      search("AI", "工具执行失败: x"),
      { action: "garbage", observation: "" },
    ],
    "reference",
  ).map(stepReward);
  expect({ finish, good, unread, failed, garbage }).toEqual({
    finish: 0.1,
    good: 0.1,
    unread: -0.4,
    failed: -0.2,
    garbage: -0.2,
  });
});

test.each([
  [
    [1, 1, -1, -1],
    [0.999999, 0.999999, -0.999999, -0.999999],
  ],
  [
    [0.5, 0.5],
    [0, 0],
  ],
  [
    [1, 0.666667, -0.25, 0.666667],
    [1.029619, 0.313363, -1.656344, 0.313363],
  ],
])("group advantages of %j", (rewards, advantages) => {
  expect(groupAdvantages(rewards).map((advantage) => Math.round(advantage * 1e6) / 1e6)).toEqual(advantages);
});

describe("weights", () => {
  const history = [search("LG"), FINISH];

  test("those given replace the defaults, the rest stay", () => {
    expect(score("A", history, { reward_weights: { outcome: 0, argument: 0 } }).reward).toBe(1);
    expect(score("A", history, { reward_weights: { outcome: 0, format: 0, tool: 0, process: 0 } }).reward).toBe(
      0.333333,
    );
  });

  test.each([
    [
      { speed: 1 },
      "reward_weights has 'speed'; the arXiv reward has weights for format, tool, argument, process, outcome.",
    ],
    [{ efficiency: 1 }, "reward_weights has 'efficiency'"], // diagnostics always weigh 0
    [{ tool: -1 }, "reward_weights.tool is -1; expected a number ≥ 0."],
    [{ tool: Number.NaN }, "reward_weights.tool is NaN"],
    [{ tool: 1e308, outcome: 1e308 }, "reward_weights.tool is 1e+308; expected at most 1000000."],
    [{ format: 0, tool: 0, argument: 0, process: 0, outcome: 0 }, "reward_weights are all 0"],
  ])("%j is refused", (reward_weights: Record<string, number>, message) => {
    const scoring = () => score("A", history, { reward_weights });
    expect(scoring).toThrow(UserError);
    expect(arxivOptions.safeParse({ reward_weights }).success).toBe(false); // before anything is played
    expect(scoring).toThrow(message);
  });

  test("the curriculum scales three weights, and ends at its step", () => {
    const at = (training_step: number | null) => score("A", history, { training_step, curriculum_steps: 30 }).reward;
    expect([at(0), at(29), at(30), at(null)]).toEqual([0.761905, 0.761905, 0.666667, 0.666667]);
  });
});

test("an older task's one paper: a share of all papers resolved", () => {
  const expected: Expectation = { ...TASKS.B!, expected_paper_ids: null, expected_paper: "2608.14546v1" };
  const download = (paper: string) =>
    call("download_arxiv_pdf", { ref: 1 }, `{'paper_id': '${paper}', 'status': 'READY'}`);
  const judge = (...history: HistoryStep[]) =>
    scoreSteps(importHistory(history, "reference"), expected, { profile: "reference" }).metrics;
  expect(judge(search("CV"), download("2608.14546v2"), download("2608.1v1"), FINISH).ref_score).toBe(0.5);
  expect(judge(search("CV"), FINISH)).toMatchObject({ ref_score: 0, ref_applicable: true });
});

describe("whatever the history", () => {
  const name = fc.constantFrom(
    SEARCH,
    "download_arxiv_pdf",
    "analyze_figure",
    "get_paper_cache_status",
    "FINISH",
    "nope",
    "",
  );
  const args = fc.oneof(
    fc.dictionary(
      fc.constantFrom("aspect", "days", "ref", "figure_no", "__proto__", "x"),
      fc.jsonValue({ maxDepth: 2 }),
    ),
    fc.constant({ aspect: "AI", days: 7, max_results: 5 }),
    fc.jsonValue({ maxDepth: 1 }),
  );
  const action = fc.oneof(
    fc.constantFrom("FINISH", "finish ", "FORCE_STOP", "ERROR", "PARSE_ERROR", "{}", "[]", "null", ""),
    fc.record({ name, args }).map((call) => JSON.stringify(call)),
    fc.record({ name, parameters: args }),
    fc.jsonValue({ maxDepth: 2 }),
    fc.string(),
  );
  const observation = fc.oneof(
    fc.constantFrom(
      "成功获取 5 篇论文",
      "",
      "工具执行失败: x",
      "无法解析",
      "{'paper_id': 'P1', 'answer': 'a'}",
      "未获取到任何论文记录",
    ),
    fc.string(),
    fc.jsonValue({ maxDepth: 1 }),
  );
  const history = fc.array(
    fc.record({ thought: fc.string(), action, observation, parse_failed: fc.boolean(), forced_finish: fc.boolean() }),
    { maxLength: 8 },
  );
  const task = fc.constantFrom(...Object.keys(TASKS));
  const profile = fc.constantFrom("project" as const, "reference" as const);
  const training_step = fc.constantFrom(null, 0, 100);

  test("reward and parts stay in range, a success is never punished, and nothing changes by being judged", () => {
    fc.assert(
      fc.property(task, history, profile, training_step, (task, history, profile, training_step) => {
        const before = JSON.stringify(history);
        const first = score(task, history, { profile, training_step, curriculum_steps: 30 });
        expect(first.reward).toBeGreaterThanOrEqual(-1);
        expect(first.reward).toBeLessThanOrEqual(1);
        for (const { name, range } of arxivComponents) {
          const part = first.parts[name]!;
          if (part === null) expect(name).toBe("argument");
          else expect(part >= range[0] && part <= range[1]).toBe(true);
        }
        if (first.success && profile === "project") expect(first.reward).toBeGreaterThan(0.5);
        if (first.metrics.gate !== null) expect(first.reward).toBeLessThanOrEqual(-0.25);
        expect(score(task, history, { profile, training_step, curriculum_steps: 30 })).toEqual(first);
        expect(JSON.stringify(history)).toBe(before);
      }),
      { numRuns: 1000 },
    );
  });

  test("arguments that nobody asked for never pay", () => {
    const extra = fc.dictionary(fc.constantFrom("foo", "bar", "session_id"), fc.jsonValue({ maxDepth: 1 }), {
      minKeys: 1,
    });
    fc.assert(
      fc.property(task, history, profile, extra, (task, history, profile, extra) => {
        const calls = history.map((step) => ({ ...step, action: objectOf(step.action) }));
        const padded = calls.map((step) => ({ ...step, action: withArgs(step.action, extra) }));
        expect(score(task, padded, { profile }).reward).toBeLessThanOrEqual(score(task, calls, { profile }).reward);
      }),
    );
  });

  test("the order of keys in a call moves nothing", () => {
    fc.assert(
      fc.property(task, history, profile, (task, history, profile) => {
        const turned = history.map((step) => ({ ...step, action: reversed(objectOf(step.action)) }));
        expect(score(task, turned, { profile })).toEqual(score(task, history, { profile }));
      }),
    );
  });
});

function objectOf(action: unknown): unknown {
  if (typeof action !== "string") return action;
  try {
    return JSON.parse(action) ?? action;
  } catch {
    return action;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function withArgs(action: unknown, extra: Record<string, unknown>): unknown {
  if (!isRecord(action)) return action;
  const key = action.parameters ? "parameters" : "args";
  return isRecord(action[key]) ? { ...action, [key]: { ...action[key], ...extra } } : action;
}

function reversed(value: unknown): unknown {
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, inner]) => [key, reversed(inner)]),
  );
}
