import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Env } from "./core/env.ts";
import { pairSettings } from "./core/pair.ts";
import { createRandom } from "./core/random.ts";
import { expertRowSchema } from "./core/task.ts";
import type { Trajectory } from "./core/trajectory.ts";
import { loadEnv } from "./envs/index.ts";
import { runCommand as run } from "./fixtures/run-command.ts";
import { pairData, readPairRows } from "./pair-data.ts";

const folder = mkdtempSync(join(tmpdir(), "pairs-"));
const GUESS = "./examples/guess-the-number.ts";
const arxiv = await loadEnv("arxiv");
const guess = await loadEnv(GUESS);
const settings = { ...pairSettings.parse({}), seed: 42 };
let count = 0;

function file(...lines: (string | object)[]): string {
  const path = join(folder, `${++count}.jsonl`);
  writeFileSync(path, lines.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join(""));
  return path;
}

async function play(env: Env, split: string, task_id: string, replies: readonly string[], trial = 0) {
  const tasks = await env.load(split);
  const episode = await tasks.start(task_id, { seed: trial, trial, policy: "test" });
  for (const reply of replies) await episode.reply(reply);
  return episode.finish();
}
async function policyOf(env: Env, split: string, task_id: string, policy: string): Promise<Trajectory> {
  return play(env, split, task_id, (await env.load(split)).replies(policy, task_id, createRandom(1)));
}
const pairs = (env: Env, files: string[], more: Partial<Parameters<typeof pairData>[1]> = {}) =>
  pairData(env, { files, family: env.name, env_options: {}, settings, ...more });

const call = (name: string, args: object) => `Thought: t\nAction: ${JSON.stringify({ name, args })}`;
const FINISH = "Thought: Every step is done.\nAction: FINISH";
const SEARCH = { name: "get_recently_submitted_cs_papers", args: { aspect: "AI", days: 10, max_results: 5 } };

describe("from a log", () => {
  test("the file of pairs can be read back, and a changed one is refused; its manifest says what it is made of", async () => {
    const task = "multi_cr5_cache1";
    const log = file(
      await policyOf(arxiv, "train", task, "gold"),
      await policyOf(arxiv, "train", task, "always_finish"),
    );
    const output = join(folder, "out", "pairs.jsonl");
    const { code, stdout } = await run("data", "arxiv", "dpo", log, "--output", output, "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      output,
      rows: 1,
      statistics: { tasks: { split: 51, played: 1, paired: 1 } },
    });
    const { rows, manifest } = readPairRows(output);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({ id: `${task}#0`, task_id: task, shared: [], chosen_reward: 1 });
    expect(rows[0]!.chosen[0]!.reply).toContain("get_recently_submitted_cs_papers");
    expect(rows[0]!.rejected[0]!.reply).toContain("Action: FINISH");
    expect(manifest).toMatchObject({
      kind: "arxiv_dpo",
      split: "v3_81:train",
      settings,
      overlaps: { tasks_outside_split: 0 },
      lines: { paired_from: 2, rescored: 0 },
      tasks: [{ task_id: task, trajectories: 2, pairs: 1, why: null }],
      file: { name: "pairs.jsonl", rows: 1 },
    });
    expect(JSON.stringify([rows, manifest])).not.toContain(folder);
    writeFileSync(output, readFileSync(output, "utf8").replace("Thought", "thought"));
    expect(() => readPairRows(output)).toThrow(/not the rows that .*manifest/);
  });

  test("either side with the shared turns is a row of worked solutions, and plays in the environment as it stands", async () => {
    const task = "chain_ro5_dl_three";
    const gold = (await arxiv.load("train")).replies("gold", task, createRandom(1));
    const early = await play(arxiv, "train", task, [...gold.slice(0, 2), FINISH]);
    const log = file(early, await play(arxiv, "train", task, gold));
    const { rows } = await pairs(arxiv, [log], { settings: { ...settings, span: "rest" } });
    const [row] = rows;
    expect(row!.shared).toHaveLength(2);
    expect(row!.rejected).toEqual([{ reply: FINISH, observations: [] }]);
    for (const side of [row!.chosen, row!.rejected]) {
      const { id, task_id, prompt, shared } = row!;
      const whole = expertRowSchema.parse({ id, task_id, prompt, turns: [...shared, ...side], meta: {} });
      const again = await play(
        arxiv,
        "train",
        task_id,
        whole.turns.map(({ reply }) => reply),
      );
      const dialogue = whole.turns.flatMap(({ reply, observations }) => [
        { role: "assistant" as const, content: reply },
        ...observations,
      ]);
      expect(again.messages).toEqual([...prompt, ...dialogue]);
    }
  });

  test("equal files, equal bytes, in whatever order they are named; a run's folder is its logs", async () => {
    const ids = ["search_CL_7d_5", "multi_cr5_cache1"];
    const lines: Trajectory[] = [];
    for (const id of ids)
      for (const policy of ["gold", "wrong_args", "always_finish"])
        lines.push(await policyOf(arxiv, "train", id, policy));
    const dir = join(folder, "run", "trajectories");
    mkdirSync(dir, { recursive: true });
    const text = (some: readonly object[]) => some.map((line) => `${JSON.stringify(line)}\n`).join("");
    writeFileSync(join(dir, "rank-0.jsonl"), text(lines.slice(0, 4)));
    writeFileSync(join(dir, "rank-1.jsonl"), text(lines.slice(4)));
    const made = await pairs(arxiv, [join(folder, "run")]);
    const files = ["rank-1.jsonl", "rank-0.jsonl", "rank-0.jsonl"].map((name) => join(dir, name));
    expect((await pairs(arxiv, files)).rows).toEqual(made.rows);
    expect(made.rows.map(({ task_id }) => task_id).sort()).toEqual([...ids].sort());
    expect(made.manifest.sources).toMatchObject([
      { file: "run/trajectories/rank-0.jsonl" },
      { file: "run/trajectories/rank-1.jsonl" },
    ]);
  });

  test("rewards are judged again under the options given, so a log's own can't mix with them", async () => {
    const task = "search_CL_7d_5";
    const gold = { ...(await policyOf(arxiv, "train", task, "gold")), reward: -1 };
    const { rows, manifest } = await pairs(arxiv, [file(gold, await policyOf(arxiv, "train", task, "always_finish"))]);
    expect(rows[0]).toMatchObject({ chosen_reward: 1 });
    expect(manifest.lines).toMatchObject({ rescored: 1 });
  });

  test("in the continuation style, whose logs have the opening before the first reply alone, each reply gets it", async () => {
    const replies = [call(SEARCH.name, SEARCH.args), " t\nAction: FINISH"];
    const other = [replies[0]!, ` t\nAction: {"name": "download_arxiv_pdf", "args": {"ref": 2}}`, " t\nAction: FINISH"];
    const task = "multi_lg10_dl3";
    const log = file(await play(arxiv, "train", task, replies), await play(arxiv, "train", task, other));
    const env_options = { protocol: { style: "continuation" } };
    const { rows } = await pairs(arxiv, [log], { env_options });
    const [row] = rows;
    expect(row!.shared[0]!.reply).toBe(replies[0]);
    expect([row!.chosen[0]!.reply, row!.rejected[0]!.reply].sort()).toEqual(
      [`Thought:${replies[1]}`, `Thought:${other[1]}`].sort(),
    );
  });
});

describe("of another family", () => {
  test("what its spec says is enough", async () => {
    const lines = await Promise.all(
      ["n2", "n4", "n6"].flatMap((id) => [
        policyOf(guess, "train", id, "gold"),
        policyOf(guess, "train", id, "always_fifty"),
      ]),
    );
    const { rows, statistics } = await pairs(guess, [file(...lines)]);
    expect(rows.map(({ task_id }) => task_id)).toEqual(["n2", "n4", "n6"]);
    expect(rows[0]).toMatchObject({
      shared: [],
      chosen: [{ reply: "compare 50" }],
      rejected: [{ reply: "answer 50" }],
    });
    expect(statistics.shares).toEqual({ with_spread: 1, paired: 1 });
  });

  test("one that does not say which tasks may be trained on, and a split that may not", async () => {
    await expect(pairs({ ...guess, pairs: null }, [file()])).rejects.toThrow(/does not say which of its tasks may be/);
    await expect(pairs(guess, [file()], { split: "test" })).rejects.toThrow(/only train may be trained on/);
  });

  test("whatever is played: no held-out task, one prompt, and a margin", async () => {
    const replies = fc.array(fc.constantFrom("compare 50", "compare 25", "answer 2", "answer 50", "what?"), {
      maxLength: 4,
    });
    const played = fc.record({ task: fc.constantFrom("n1", "n2", "n3", "n4"), replies });
    await fc.assert(
      fc.asyncProperty(fc.array(played, { minLength: 2, maxLength: 10 }), async (all) => {
        const lines = await Promise.all(
          all.map(({ task, replies: said }, trial) =>
            play(guess, Number(task.slice(1)) % 2 === 0 ? "train" : "test", task, said, trial),
          ),
        );
        const found = await pairs(guess, [file(...lines)]).catch((error: Error) => {
          expect(error.message).toMatch(/nothing to pair/);
          return null;
        });
        for (const { task_id, prompt, chosen_reward, rejected_reward, meta } of found?.rows ?? []) {
          expect(["n2", "n4"]).toContain(task_id);
          expect(chosen_reward - rejected_reward).toBeGreaterThan(0.05);
          expect(prompt).toEqual(lines[0]!.messages.slice(0, 1));
          expect(meta.source_split).toBe("train");
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("what is left out or refused", async () => {
  const task = "search_CL_7d_5";
  const gold = await policyOf(arxiv, "train", task, "gold");
  const early = await policyOf(arxiv, "train", task, "always_finish");

  test("held-out tasks, other prompts, failed episodes and a cut last line are counted", async () => {
    const held = await policyOf(arxiv, "iid_test", "search_CR_14d_10", "gold");
    // a train task's id over a held-out task's sentence
    const disguised = { ...held, task_id: task };
    const failed = { ...gold, reward: null, ended_by: "error", ended_why: "x" };
    const log = file(gold, early, held, disguised, failed);
    writeFileSync(log, `${readFileSync(log, "utf8")}{"env": "arx`);
    const { rows, manifest, notes } = await pairs(arxiv, [log]);
    expect(rows.map(({ task_id }) => task_id)).toEqual([task]);
    expect(manifest.lines).toMatchObject({
      paired_from: 2,
      left_out: {
        not_in_split: { lines: 1, tasks: { search_CR_14d_10: 1 } },
        other_prompt: { lines: 1 },
        invalid: { lines: 1 },
        cut: { lines: 1 },
      },
    });
    expect(notes).toContain("left out: 1 trajectories of tasks that are not in the split (search_CR_14d_10)");
  });

  test("every malformed line is named by file and number, and nothing is written", async () => {
    const output = join(folder, "never.jsonl");
    const log = file(
      "",
      gold,
      "{broken",
      "[]",
      { ...gold, turns: 3 },
      { ...gold, env: "arxiv@0" },
      { ...gold, messages: gold.messages.slice(0, 1) },
      { task_id: task, history: [{ thought: "t" }, 3] },
      { env: "search@1", task_id: task, history: [{ thought: "t", action: "FINISH" }] },
      early,
    );
    const { code, stderr, stdout } = await run("data", "arxiv", "dpo", log, "--output", output);
    expect([code, stdout]).toEqual([2, ""]);
    const lines = stderr.trim().split("\n");
    const told = [
      /not JSON/,
      /must be an object/,
      /turns/,
      /arxiv@0, not of arxiv@1/,
      /not those of its turns/,
      /history/,
      /search@1, not of arxiv/,
    ];
    for (const [index, message] of told.entries()) {
      expect(lines[index]).toContain(`${log}, line ${index + 3}: `);
      expect(lines[index]).toMatch(message);
    }
    expect(lines).toHaveLength(told.length + 1);
    expect(existsSync(output)).toBe(false);
  });

  test.each([
    [
      "one trajectory of each task",
      () => [gold],
      /nothing to pair. 1 trajectories of 1 tasks.*one_trajectory 1.*--repeat 8/,
    ],
    ["equal rewards", () => [gold, { ...gold, trial: 1, seed: 1 }], /equal_rewards 1/],
    ["no line", () => [], /No trajectory of the split has a reward. Sample .*trestle rollout/],
  ])("nothing to pair: %s", async (_, lines, message) => {
    const output = join(folder, "never.jsonl");
    const { code, stderr } = await run("data", "arxiv", "dpo", file(...lines()), "--output", output);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
    expect(existsSync(output)).toBe(false);
  });

  test.each([
    [["dpo"], /name the file to write/],
    [["dpo", "--output", "x.jsonl"], /name the trajectories to pair.*trestle rollout --env arxiv/],
    [["dpo", "nowhere.jsonl", "--output", "x.jsonl"], /nowhere.jsonl: there is no such log or run folder/],
    [["dpo", folder, "--output", "x.jsonl"], /has no trajectories/],
    [["dpo", "x", "--check", "--output", "x.jsonl"], /takes no --check/],
    [["dpo", "x", "--days", "3", "--output", "x.jsonl"], /--days is of data arxiv snapshot-build/],
    [["dpo", "x", "--min-reward-gap", "-1", "--output", "x.jsonl"], /min_reward_gap/],
    [["dpo", "x", "--env-options", '{"promt": "full"}', "--output", "x.jsonl"], /promt/],
    [["sft", "--span", "rest", "--output", "x.jsonl"], /--span is of data arxiv dpo/],
  ])("data arxiv %j", async (argv, message) => {
    const { code, stderr } = await run("data", "arxiv", ...argv);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  });

  test("few tasks with a pair: a warning", async () => {
    const others = ["search_LG_3d_10", "search_RO_3d_8", "search_CR_7d_5", "search_CV_14d_3"];
    const lines = await Promise.all(others.map((id) => policyOf(arxiv, "train", id, "gold")));
    const output = join(folder, "few.jsonl");
    const log = file(gold, early, ...lines);
    const { code, stdout } = await run("data", "arxiv", "dpo", log, "--output", output);
    expect(code).toBe(0);
    expect(stdout).toMatch(/tasks with a pair: 1 of 5 \(20.0 %\)/);
    expect(stdout).toMatch(/WARNING: fewer than 25.0 % of the tasks/);
  });
});
