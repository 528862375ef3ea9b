import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runCommand } from "../fixtures/run-command.ts";
import { readJsonLines, readTrajectories } from "../trajectory-log.ts";

// An experiment end to end with the scripted user, offline (airline.md 13.10): training, a benchmark, the ablation's plots.

const runs = mkdtempSync(join(tmpdir(), "airline-"));
const LONG = 300_000;
const tasks = ["--task-ids", "synth-38,synth-44"];
const short = ["--max-turns", "3", "--max-turn-tokens", "66", "--runs-dir", runs];
const options = JSON.stringify({
  prompt: { mode: "date-only", tools: false },
  protocol: { tool_response_max_chars: 256 },
});

async function train(name: string) {
  const mock = ["--exp", "prm_lite_lata", "--mock", "--model", "models/tiny", ...tasks, ...short];
  const small = ["--num-generations", "2", "--per-device-train-batch-size", "4", "--gradient-accumulation-steps", "1"];
  const steps = ["--max-steps", "2", "--save-strategy", "steps", "--save-steps", "2", "--seed", "5"];
  const result = await runCommand("grpo", ...mock, ...small, ...steps, "--name", name, "--json");
  expect([result.code, result.code === 0 || result.stderr]).toEqual([0, true]);
  return readTrajectories(join(runs, name, "trajectories", "rank-0.jsonl")).map(
    ({ env_ms: _, policy: __, ...episode }) => episode,
  );
}

test("the joint experiment trains, logs what its rewards are made of, and is the same again", {
  timeout: LONG,
}, async () => {
  const first = await train("joint");
  expect(first).toHaveLength(8);
  expect(new Set(first.map(({ task_id }) => task_id))).toEqual(new Set(["synth-38", "synth-44"]));
  for (const { reward, parts } of first) expect(reward).toBeCloseTo(parts.outcome! + 0.3 * parts.process!, 12);
  const points = readJsonLines(join(runs, "joint", "metrics.jsonl")).map(
    ({ value }) => value as Record<string, number>,
  );
  const [point] = points;
  for (const name of ["reward_components/outcome", "reward_components/process", "rollout/process_mean"])
    expect(point).toHaveProperty([name]);
  for (const name of ["rollout/prm_P6", "rollout/prm_B2", "rollout/hack_invented_tools", "adv/abs_mean"])
    expect(point).toHaveProperty([name]);
  expect(points.some((each) => (each["adv/first100_share"] ?? 0) > 0.5)).toBe(true);
  for (const file of ["final/adapter_config.json", "checkpoint-2/adapter_config.json", "report.html"])
    expect(existsSync(join(runs, "joint", file))).toBe(true);
  expect(readFileSync(join(runs, "joint", "final", "chat_template.jinja"), "utf8")).toContain("<tool_response>");
  expect(await train("again")).toEqual(first);
});

test("its benchmark leaves the family's reports, and the ablation its plots", { timeout: LONG }, async () => {
  const policy = ["--policy", `model:${join(runs, "joint", "final")}`, "--env", "airline", "--env-options", options];
  const played = await runCommand(
    "bench",
    ...policy,
    "--split",
    "test",
    ...tasks,
    ...short,
    "--repeat",
    "2",
    "--name",
    "bench",
  );
  expect([played.code, played.code === 0 || played.stderr]).toEqual([0, true]);
  const report = JSON.parse(readFileSync(join(runs, "bench", "eval_report.json"), "utf8")) as Record<string, unknown>;
  expect(JSON.stringify(report)).toMatch(/"variant":\s*"prm_lite_lata"/);
  const output = join(runs, "ablation");
  const drawn = await runCommand("eval", "--env", "airline", join(runs, "bench"), "--output", output, "--json");
  expect([drawn.code, drawn.code === 0 || drawn.stderr]).toEqual([0, true]);
  for (const plot of ["ablation_comparison", "ablation_progression"]) {
    expect(readFileSync(join(output, `${plot}.svg`), "utf8")).toMatch(/<svg/);
    expect(
      readFileSync(join(output, `${plot}.png`))
        .subarray(1, 4)
        .toString(),
    ).toBe("PNG");
  }
});
