import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { newestCheckpoint } from "../checkpoints.ts";
import { runCommand } from "../fixtures/run-command.ts";
import { makeTinyModel } from "../fixtures/tiny-model.ts";
import { readJsonLines } from "../trajectory-log.ts";

// Runs that are killed and go on, with real processes: what they leave behind is what an unbroken run leaves.

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "resume-"));
const runs = join(folder, "runs");
const model = join(folder, "model");
const LONG = 300_000;

beforeAll(async () => {
  makeTinyModel(model);
  await ended(start("whole"));
}, LONG);

// Rewards by the lengths of replies: a random model's differ, and so every step learns.
const settings = [
  ...[
    "--model",
    model,
    "--env",
    "./src/fixtures/lengths-env.ts",
    "--max-turn-tokens",
    "12",
    "--max-episode-tokens",
    "24",
  ],
  ...["--learning-rate", "1e-2", "--no-verify", "--max-steps", "6", "--save-strategy", "steps", "--save-steps", "1"],
];

function start(name: string, ...more: string[]): ChildProcess {
  const args = ["grpo", "configs/tiny/grpo.yaml", "--runs-dir", runs, "--name", name, ...settings, ...more];
  return spawn(process.execPath, ["--import", "tsx", join(root, "src/cli.ts"), ...args], { cwd: root, stdio: "pipe" });
}

async function ended(child: ChildProcess): Promise<{ code: number | null; stderr: string }> {
  const stderr: Buffer[] = [];
  child.stderr!.on("data", (data: Buffer) => stderr.push(data));
  const [code] = (await once(child, "exit")) as [number | null];
  return { code, stderr: Buffer.concat(stderr).toString() };
}

/** Waits until a run has a whole checkpoint of this step. */
async function reached(name: string, step: number): Promise<void> {
  while ((newestCheckpoint(join(runs, name)).checkpoint?.step ?? 0) < step)
    await new Promise((go) => setTimeout(go, 20));
}

/** All of a log that no clock decides. */
function lines(name: string, log: string): unknown[] {
  const clocks = /^time|_s$|runtime|per_second|step_time|_ms$|total_flos/;
  return readJsonLines(join(runs, name, log))
    .map(({ value }) => value as Record<string, unknown>)
    .filter((line) => !("train_loss" in line))
    .map((line) =>
      Object.fromEntries(
        Object.entries(line)
          .filter(([key]) => !clocks.test(key))
          .map(([key, value]) => [key, key === "policy" ? "" : value]),
      ),
    );
}

function expectSame(name: string, whole = "whole"): void {
  expect(lines(name, "trajectories/rank-0.jsonl")).toEqual(lines(whole, "trajectories/rank-0.jsonl"));
  expect(lines(name, "metrics.jsonl")).toEqual(lines(whole, "metrics.jsonl"));
  const weights = (run: string) => readFileSync(join(runs, run, "final", "model.safetensors"));
  expect(weights(name).equals(weights(whole))).toBe(true);
  expect(weights(name).equals(readFileSync(join(model, "model.safetensors")))).toBe(false);
  const stds = lines(whole, "metrics.jsonl").flatMap((line) => (line as { reward_std?: number }).reward_std ?? []);
  expect(stds.filter((std) => std > 0).length).toBeGreaterThan(3);
}

const manifest = (name: string) =>
  JSON.parse(readFileSync(join(runs, name, "manifest.json"), "utf8")) as {
    status: string;
    details: { resumed?: { from_step: number }[]; result: Record<string, unknown> };
  };

describe("a run of grpo goes on to the same weights, tasks and trajectories", () => {
  test("after kill -9", { timeout: LONG }, async () => {
    const first = start("killed");
    await reached("killed", 3);
    first.kill("SIGKILL");
    await once(first, "exit");
    expect(await ended(start("killed", "--resume"))).toMatchObject({ code: 0 });
    expectSame("killed");
    const { status, details } = manifest("killed");
    expect(status).toBe("completed");
    expect(details.resumed![0]!.from_step).toBeGreaterThanOrEqual(3);
    const { rollouts, groups, steps, policy_tokens } = manifest("whole").details.result;
    expect(details.result).toMatchObject({ rollouts, groups, steps, policy_tokens });
  });

  test("after Ctrl-C", { timeout: LONG }, async () => {
    const first = start("stopped");
    await reached("stopped", 2);
    first.kill("SIGINT");
    expect((await ended(first)).code).toBe(1);
    expect(manifest("stopped").status).toBe("stopped");
    expect(await ended(start("stopped", "--resume"))).toMatchObject({ code: 0 });
    expectSame("stopped");
  });

  test("ck_01: past half-written checkpoints, which are named; from the start where none is whole", {
    timeout: LONG,
  }, async () => {
    cpSync(join(runs, "whole"), join(runs, "half"), { recursive: true });
    const path = join(runs, "half", "manifest.json");
    writeFileSync(path, readFileSync(path, "utf8").replace('"status": "completed"', '"status": "failed"'));
    truncateSync(join(runs, "half", "checkpoint-6", "model.safetensors"), 100);
    rmSync(join(runs, "half", "checkpoint-5", "complete.json"));
    const { code, stderr } = await ended(start("half", "--resume"));
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stderr).toMatch(/checkpoint-6 is not whole: model.safetensors has 100 bytes instead of \d+: skipped/);
    expect(stderr).toContain("checkpoint-5 is not whole: complete.json, which is written last, is missing: skipped");
    expect(stderr).toContain("goes on from step 4");
    expectSame("half");

    writeFileSync(path, readFileSync(path, "utf8").replace('"status": "completed"', '"status": "running"'));
    for (const name of readdirSync(join(runs, "half")).filter((name) => name.startsWith("checkpoint-")))
      rmSync(join(runs, "half", name), { recursive: true });
    expect((await ended(start("half", "--resume"))).stderr).toContain("has no whole checkpoint: it begins again");
    expectSame("half");
  });
});

test(
  "a run that was never begun begins, with the settings that it would have without --resume",
  async () => {
    const settingsOf = async (...more: string[]) => {
      const { code, stdout } = await runCommand(
        "grpo",
        "--model",
        "models/tiny",
        "--dry-run",
        "--json",
        "--name",
        "no-such",
        ...more,
      );
      expect(code).toBe(0);
      return (JSON.parse(stdout) as { config: Record<string, unknown> }).config;
    };
    expect({ ...(await settingsOf("--resume")), resume: false }).toEqual(await settingsOf());
  },
  LONG,
);

describe("what --resume refuses", () => {
  const resume = (name: string, ...more: string[]) =>
    runCommand("grpo", "configs/tiny/grpo.yaml", "--runs-dir", runs, "--name", name, ...settings, "--resume", ...more);

  test("a complete run has nothing left to do", async () => {
    const { code, stdout } = await resume("whole", "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ recipe: "grpo", steps: 6 });
  });

  test("ck_10: other settings, with what they were", async () => {
    const { code, stderr } = await resume("whole", "--num-generations", "8", "--temperature", "0.5");
    expect(code).toBe(2);
    expect(stderr).toContain("temperature: 1 in the run, now 0.5");
    expect(stderr).toContain("trainer.num_generations: 4 in the run, now 8");
    expect(existsSync(join(runs, "whole", "lock"))).toBe(false);
  });

  test("a run of another recipe, a folder that is none, resume_anyway alone", async () => {
    expect((await runCommand("sft", "--runs-dir", runs, "--name", "whole", "--resume")).stderr).toContain(
      "is a run of 'grpo', not of 'sft'",
    );
    expect((await resume("../model")).code).toBe(2);
    expect((await runCommand("grpo", "--resume-anyway")).stderr).toContain("Add --resume");
  });
});
