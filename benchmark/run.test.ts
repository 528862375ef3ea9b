import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Judgement } from "../eval/run.ts";
import { runCommand as run } from "../src/fixtures/run-command.ts";
import { readTrajectories } from "../src/trajectory-log.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-"));
const runs = join(folder, "runs");

async function bench(name: string, ...argv: string[]) {
  const { code, stdout, stderr } = await run("bench", "--runs-dir", runs, "--name", name, "--json", ...argv);
  if (stdout === "") throw new Error(stderr);
  return {
    code,
    lines: stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Judgement),
  };
}

const textOf = (name: string, file: string) => readFileSync(join(runs, name, file), "utf8");

describe.each(["project", "reference"])("on the 81 tasks, %s profile", (profile) => {
  const on = ["--split", "all", "--env-options", JSON.stringify({ profile })];

  test("gold is 81 of 81 strict, in every trial", async () => {
    const { code, lines } = await bench(`gold-${profile}`, "--policy", "gold", ...on);
    expect(code).toBe(0);
    expect(lines.at(-1)).toMatchObject({
      tasks: 81,
      trials: 3,
      episodes: 243,
      pass_hat: { "1": 1, "2": 1, "3": 1 },
      pass_hat_interval: { "1": [1, 1], "3": [1, 1] },
      mean_reward: 1,
      bands: { floor: 0, middle: 0, ceiling: 81 },
      failures: { episodes: 0 },
      criteria: { strict: { pass_hat: { "1": 1 } } },
      measures: {
        false_finish_rate: { value: 0, episodes: 243 },
        ref_accuracy: { value: 1, episodes: 177 },
        blocked_semantics_accuracy: { value: 1, episodes: 15 },
      },
    });
    const strict = readTrajectories(join(runs, `gold-${profile}`, "trajectories", "rank-0.jsonl")).filter(
      ({ metrics }) => metrics.strict === true,
    );
    expect(new Set(strict.map(({ task_id }) => task_id)).size).toBe(81);
  });

  test("always_finish finishes all and solves nothing: 76 of 81 are false finishes (section 8.3)", async () => {
    const { lines } = await bench(`idle-${profile}`, "--policy", "always_finish", ...on);
    const judged = lines.at(-1)!;
    expect(judged).toMatchObject({
      pass_hat: { "1": 0, "2": 0, "3": 0 },
      pass_at: { "1": 0, "3": 0 },
      criteria: { finished: { pass_hat: { "1": 1, "3": 1 } } },
      median_turns: { of_successes: { value: null, episodes: 0 }, of_failures: { value: 1, episodes: 243 } },
      cost_per_success: { turns: { value: null, total: 243, successes: 0 } },
      failures: { episodes: 243, shapes: { failed_claiming_done: { episodes: 243, share: 1 } } },
      bands: { floor: 81, middle: 0, ceiling: 0 },
    });
    const { false_finish_rate, false_finish_of_completed, tool_accuracy, blocked_semantics_accuracy } = judged.measures;
    expect(false_finish_rate).toMatchObject({ value: expect.closeTo(0.9383, 4), episodes: 243 });
    expect(false_finish_of_completed).toMatchObject({ value: expect.closeTo(0.9383, 4), episodes: 243 });
    expect(tool_accuracy!.value).toBeCloseTo(0.0617, 4);
    for (const k of ["1", "2", "3"]) expect(judged.criteria.accurate!.pass_hat[k]).toBeCloseTo(5 / 81, 10);
    expect(blocked_semantics_accuracy).toMatchObject({ value: 0, episodes: 15 });
    expect(judged.mean_reward).toBeCloseTo(-0.6605, 4);
    const [low, high] = false_finish_rate!.interval!;
    expect([low > 0.87, low < 0.9383, high > 0.9383, high <= 1]).toEqual([true, true, true, true]);
  });
});

test("false finishes are told over all episodes and over those that finished, apart", async () => {
  // format_only calls and stops: it finishes; cut at one turn, it never does.
  const { lines } = await bench(
    "cut",
    "--policy",
    "format_only",
    "--split",
    "dev",
    "--max-turns",
    "1",
    "--repeat",
    "1",
  );
  const { measures, failures } = lines.at(-1)!;
  expect(measures.false_finish_rate).toMatchObject({ value: 0, episodes: 8 });
  expect(measures.false_finish_of_completed).toMatchObject({ value: null, episodes: 0, interval: null });
  expect(measures.completion_rate!.value).toBe(0);
  expect(failures.shapes).toMatchObject({ failed_at_limit: { episodes: 8, share: 1 } });
});

test("the report has the sections of 7.4 in order, its versions, and a row a task; the CSV a row an episode", async () => {
  await bench("report", "--policy", "random_tool", "--split", "iid_test,ood_test", "--repeat", "2");
  const report = textOf("report", "report.md");
  const first = report.slice(report.indexOf("## iid_test"), report.indexOf("## ood_test"));
  expect(first.match(/^### .*/gm)).toEqual(
    [
      "Performance",
      "Reliability",
      "Accuracy and reward",
      "Cost per success",
      "Failure shapes",
      "Difficulty bands",
      "Tasks",
    ].map((title) => `### ${title}`),
  );
  expect(first).toContain("Left out of k = 3: 18 tasks with fewer valid trials.");
  for (const part of ["arxiv@1", '"profile":"project"', "seed 45, repeat 2"]) expect(report).toContain(part);
  for (const path of ["data/arxiv/snapshot.json", "data/arxiv/splits/v3_81.json", "data/arxiv/tasks.json"])
    expect(report).toMatch(new RegExp(`${path}: sha256 [0-9a-f]{64}\n`));
  expect(first.match(/^\| search_CR_14d_10 \| search \| 2 \|/m)).not.toBeNull();

  const csv = textOf("report", "raw_data.csv").trim().split("\r\n");
  expect(csv).toHaveLength(1 + 22 * 2);
  expect(csv[0]).toMatch(/^task_id,category,trial,seed,success,reward,turns,ended_by,.*,metric_false_finish,/);
  expect(existsSync(join(runs, "report", "errors.csv"))).toBe(false);
  const summary = JSON.parse(textOf("report", "summary.json"));
  expect(summary).toMatchObject({
    policy: "random_tool",
    versions: {
      env: "arxiv@1",
      env_options: { profile: "project" },
      data: { "data/arxiv/snapshot.json": expect.stringMatching(/^[0-9a-f]{64}$/) },
    },
    settings: { seed: 45, repeat: 2 },
  });
  expect(summary.splits.map(({ split, tasks }: { split: string; tasks: number }) => [split, tasks])).toEqual([
    ["iid_test", 18],
    ["ood_test", 4],
  ]);
});

test("episodes that failed are in errors.csv, counted, and in no rate", async () => {
  const env = join(folder, "breaks.mts");
  const example = JSON.stringify(join(import.meta.dirname, "../examples/guess-the-number.ts"));
  const core = JSON.stringify(join(import.meta.dirname, "../src/core/env.ts"));
  writeFileSync(
    env,
    `import { spec } from ${example}; import { defineEnv } from ${core};
     export const breaks = defineEnv({ ...spec, step(state, ...rest) {
       if (state.secret === 3) throw new Error('down, "again"');
       return spec.step(state, ...rest);
     } });`,
  );
  const { code, lines } = await bench("breaks", "--env", env, "--policy", "gold", "--split", "test", "--repeat", "2");
  expect(code).toBe(1);
  expect(lines.at(-1)).toMatchObject({
    episodes: 98,
    invalid: 2,
    complete: false,
    missing: ["n3/0", "n3/1"],
    pass_hat: { "1": 1 },
    skipped_tasks: { "1": 1 },
    failures: { episodes: 2, shapes: { failed_with_error: { episodes: 2, share: 1 } } },
  });
  expect(textOf("breaks", "errors.csv").split("\r\n")[1]).toMatch(/^n3,0,\d+,error,"step: down, ""again"""$/);
});

describe("choosing tasks", () => {
  test("by category", async () => {
    const { lines } = await bench(
      "by-category",
      "--policy",
      "gold",
      "--split",
      "all",
      "--categories",
      "infeasible,state",
    );
    expect(Object.keys(lines.at(-1)!.categories)).toEqual(["infeasible", "state"]);
  });

  test("a category that is not there is the user's mistake", async () => {
    const { code, stderr } = await run("bench", "--split", "dev", "--categories", "serch", "--runs-dir", runs);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/has none 'serch'; did you mean 'search'\? It has /)]);
  });
});

describe("eval compares", () => {
  const path = (name: string) => join(runs, name);

  test("two policies under the same versions, with the family's measures", async () => {
    const { code, stdout } = await run("eval", path("idle-project"), path("gold-project"), "--json");
    expect(code).toBe(0);
    const [idle, gold, comparison] = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(idle.measures.false_finish_rate.value).toBeCloseTo(0.9383, 4);
    expect([gold.versions.env, comparison]).toEqual(["arxiv@1", expect.objectContaining({ tasks: 81, difference: 1 })]);
  });

  test.each([
    ["another scorer's profile", "gold-reference", /profile "project" and "reference"/],
    ["another environment", "breaks", /environment arxiv@1 and guess-the-number@1/],
  ])("%s is refused, and taken with the flag", async (_, other, message) => {
    const refused = await run("eval", path("idle-project"), path(other));
    expect([refused.code, refused.stdout]).toEqual([2, ""]);
    expect(refused.stderr).toMatch(message);
    expect(refused.stderr).toContain("--across-versions");
    const taken = await run("eval", path("idle-project"), path(other), "--across-versions");
    expect(taken.stdout).toMatch(/NOTE: .* were made with different versions/);
  });

  test.each([
    ["snapshot", "data/arxiv/snapshot.json"],
    ["split", "data/arxiv/splits/v3_81.json"],
  ])("another %s is refused", async (_, file) => {
    const argv = ["--policy", "gold", "--split", "dev", "--repeat", "1"];
    for (const name of ["here", "there"]) if (!existsSync(path(name))) await bench(name, ...argv);
    const summary = JSON.parse(textOf("there", "summary.json"));
    summary.versions.data = { ...JSON.parse(textOf("here", "summary.json")).versions.data, [file]: "0".repeat(64) };
    writeFileSync(join(path("there"), "summary.json"), JSON.stringify(summary));
    const { code, stderr } = await run("eval", path("here"), path("there"));
    expect([code, stderr]).toEqual([2, expect.stringMatching(new RegExp(`${file} [0-9a-f]{12} and 0{12}`))]);
  });

  test("a log alone is compared by its environment's id, which is told", async () => {
    const log = join(folder, "alone.jsonl");
    writeFileSync(log, textOf("idle-project", "trajectories/rank-0.jsonl"));
    const { code, stdout } = await run("eval", path("gold-project"), log);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/note: .*alone.jsonl without a benchmark's summary/)]);
  });
});
