import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../fixtures/run-command.ts";
import { makeTinyModel } from "../fixtures/tiny-model.ts";
import { readJsonLines, readTrajectories } from "../trajectory-log.ts";

// Runs that a guard ends, with real processes: the exit code, the reason in the manifest, and what is left in the folder.

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "guarded-"));
const runs = join(folder, "runs");
const model = join(folder, "model");
const LONG = 300_000;

beforeAll(() => {
  makeTinyModel(model);
}, LONG);

/** guess-the-number with another reward: an expression over `last` (the last reply), `task` and `step` (training's). */
function envWithReward(name: string, reward: string): string {
  const path = join(folder, `${name}.ts`);
  const source = readFileSync(join(root, "examples/guess-the-number.ts"), "utf8")
    .replace('"zod"', JSON.stringify(import.meta.resolve("zod")))
    .replaceAll("../src/", `${join(root, "src")}/`)
    .replace("score({ turns, final_state })", "score({ turns, final_state, training_step }, task)")
    .replace(
      "return { reward: found,",
      `const reply = turns.at(-1)?.reply ?? ""; const step = training_step ?? 0; void [task, reply, step];
    return { reward: ${reward},`,
    );
  writeFileSync(path, source);
  return path;
}

const VARIED = "(reply.length % 7) / 7";

async function grpo(name: string, reward: string, ...flags: string[]) {
  const argv = ["grpo", "configs/tiny/grpo.yaml", "--model", model, "--runs-dir", runs, "--name", name];
  const result = await runCommand(...argv, "--env", envWithReward(name, reward), "--json", ...flags);
  const read = (...path: string[]) =>
    JSON.parse(readFileSync(join(runs, name, ...path), "utf8")) as Record<string, unknown>;
  return { ...result, read, path: (...parts: string[]) => join(runs, name, ...parts) };
}

const failed = (stop_reason: string, steps: number) => ({
  status: "failed",
  details: { result: { stop_reason, steps } },
});

describe("a guard ends the run with exit code 1", () => {
  test("rewards without variance at the start: nothing is saved, the summary says why", { timeout: LONG }, async () => {
    const { code, stderr, stdout, read, path } = await grpo("dead", "0.5", "--max-steps", "9");
    expect([code, read("manifest.json")]).toEqual([1, expect.objectContaining({ status: "failed" })]);
    expect(read("manifest.json")).toMatchObject(failed("reward_variance_dead", 5));
    expect(stderr).toMatch(/No group had any difference in reward in the last 5 logs.*Nothing is saved/s);
    expect(JSON.parse(stdout)).toMatchObject({ model: null, stop_reason: "reward_variance_dead" });
    expect([existsSync(path("final")), existsSync(path("checkpoint-5"))]).toEqual([false, false]);
    expect(read("reward_probe_summary.json")).toMatchObject({ samples: 40, groups: 10, informative_groups: 0 });
    expect(existsSync(path("verification_report.json"))).toBe(false);
  });

  test("the canary's tasks, of another split, earn too little", { timeout: LONG }, async () => {
    const canary = ["--min-canary-reward", "0.1", "--canary-steps", "2", "--canary-patience", "2"];
    const told = ["--report-to", "tensorboard"];
    const tasks = ["--canary-tasks", "n1,n3", "--canary-split", "test"];
    const { code, read, path } = await grpo(
      "canary",
      `task.id === "n1" || task.id === "n3" ? -0.5 : ${VARIED}`,
      ...canary,
      ...tasks,
      ...told,
      "--max-steps",
      "9",
    );
    expect([code, read("manifest.json")]).toMatchObject([1, failed("canary_threshold", 4)]);
    const played = readTrajectories(path("canary", "rank-0.jsonl"));
    expect(played.map(({ task_id, policy_step }) => `${task_id} ${policy_step}`)).toEqual(
      [2, 4].flatMap((step) => ["n1", "n3"].flatMap((id) => Array<string>(4).fill(`${id} ${step}`))),
    );
    expect(existsSync(path("tensorboard"))).toBe(true);
    const training = readTrajectories(path("trajectories", "rank-0.jsonl"));
    expect(training).toHaveLength(32);
    expect(training.some(({ task_id }) => ["n1", "n3"].includes(task_id))).toBe(false);
    const points = readJsonLines(path("metrics.jsonl")).map(({ value }) => value as Record<string, number>);
    expect(points.flatMap((point) => point["canary/reward"] ?? [])).toEqual([-0.5, -0.5]);
    expect(read("reward_probe_summary.json")).toMatchObject({ samples: 32, groups: 8 });
    expect(read("manifest.json")).toMatchObject({
      details: { guards: { canary: { min_reward: 0.1, task_ids: ["n1", "n3"] } }, result: { groups: 8 } },
    });
  });

  test("a policy below its stage's least: verification", { timeout: LONG }, async () => {
    const flags = ["--allow-zero-variance", "--max-steps", "1"];
    const { code, stderr, read, path } = await grpo("unverified", "-0.5", ...flags);
    expect([code, read("manifest.json")]).toMatchObject([1, failed("verification", 1)]);
    expect(stderr).toMatch(/verification: mean_reward is -0.500; a policy after grpo should reach -0.2/);
    expect(read("verification_report.json")).toMatchObject({ passed: false, value: -0.5, episodes: 16, valid: 16 });
    expect(readTrajectories(path("verification", "rank-0.jsonl"))).toHaveLength(16);
    expect(existsSync(path("final", "config.json"))).toBe(true);
  });

  test("an environment that breaks: the summary of what was played is written all the same", {
    timeout: LONG,
  }, async () => {
    const reward = `step < 1 ? ${VARIED} : (() => { throw new Error("no database"); })()`;
    const { code, stderr, read } = await grpo("broken", reward, "--max-steps", "5");
    expect(code).toBe(1);
    expect(stderr).toMatch(/8 of 8 rollouts of this step failed/);
    expect(read("reward_probe_summary.json")).toMatchObject({ samples: 16, groups: 4 });
  });
});

test("sft is verified too, and told only: a policy that can't be read ends with 0", { timeout: LONG }, async () => {
  const argv = ["sft", "configs/tiny/sft.yaml", "--model", model, "--runs-dir", runs, "--name", "sft", "--json"];
  const { code, stderr } = await runCommand(...argv);
  expect([code, stderr]).toEqual([0, expect.stringMatching(/warning: verification: parse_rate is 0\.\d+.*reach 0.3/)]);
  const report = JSON.parse(readFileSync(join(runs, "sft", "verification_report.json"), "utf8")) as { value: number };
  expect(report).toMatchObject({ stage: "sft", passed: false, episodes: 16 });
  const played = readTrajectories(join(runs, "sft", "verification", "rank-0.jsonl"));
  expect(played.every(({ policy_step, messages }) => policy_step === 2 && messages.length > 0)).toBe(true);
});

test("validation plays a split and a turn budget of its own, and the gap is told and logged", {
  timeout: LONG,
}, async () => {
  const flags = ["--validate-steps", "2", "--validate-split", "test", "--max-turns", "9", "--max-steps", "4"];
  // Success hangs on the reward here: training's tasks are even numbers, the test split's odd ones.
  const reward = `task.secret % 2 === 0 ? 1 - (reply.length % 7) / 70 : 0`;
  const { code, stderr, path, read } = await grpo("validated", reward, "--no-verify", ...flags);
  expect([code, stderr.includes("nothing is validated")]).toEqual([0, false]);
  const played = readTrajectories(path("validation", "rank-0.jsonl"));
  expect(played).toHaveLength(100);
  expect(new Set(played.map(({ policy_step }) => policy_step))).toEqual(new Set([2, 4]));
  expect(played.every(({ task_id }) => Number(task_id.slice(1)) % 2 === 1)).toBe(true);
  expect(readTrajectories(path("trajectories", "rank-0.jsonl"))).toHaveLength(32);
  const points = readJsonLines(path("metrics.jsonl")).map(({ value }) => value as Record<string, number>);
  const validated = points.filter((point) => "validation/success" in point);
  expect(validated.map((point) => point["validation/reward"])).toEqual([0, 0]);
  for (const point of validated)
    expect(point["validation/gap"]).toBeCloseTo(point["rollout/success"]! - point["validation/success"]!, 12);
  expect(read("manifest.json")).toMatchObject({
    details: { validation: { split: "test", tasks: 50, samples: 1, steps: 2, max_turns: null } },
  });
});
