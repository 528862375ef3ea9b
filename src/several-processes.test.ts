// Trainings in two processes, gloo between them, from the command line to the files: what they learn, what they leave,
// and that they end together. What the Pythons do among themselves is in py/tests/test_ranks.py.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { alive } from "./bridge/fixtures/processes.ts";
import { chooseInterpreter, projectRoot } from "./bridge/interpreter.ts";
import { newestCheckpoint } from "./checkpoints.ts";
import { runCommand } from "./fixtures/run-command.ts";
import { readJsonLines, readTrajectories } from "./trajectory-log.ts";

const LONG = 300_000; // each rank starts a Python that imports torch
const folder = mkdtempSync(join(tmpdir(), "several-"));
afterAll(() => rmSync(folder, { recursive: true }));
const runs = join(folder, "runs");
const model = join(folder, "model");
const python = chooseInterpreter({}).path;
const trestle = ["node", join(projectRoot, "bin", "trestle.mjs")];

const makeModel = `
import sys
from tiny import tiny_model, tiny_tokenizer
tokenizer = tiny_tokenizer()
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 1024}
tiny_model(tokenizer, end_rate=0, **shape).save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
`;

beforeAll(() => {
  const PYTHONPATH = [join(projectRoot, "py"), join(projectRoot, "py/tests")].join(":");
  execFileSync(python, ["-c", makeModel, model], { env: { ...process.env, PYTHONPATH }, stdio: "pipe" });
}, LONG);

/** GRPO with one group of 8 a step: with two ranks it lies across them. */
const grpo = (...more: string[]) => [
  ...["grpo", "configs/tiny/grpo.yaml", "--env", "./src/fixtures/lengths-env.ts", "--model", model],
  ...["--runs-dir", runs, "--json", "--max-turn-tokens", "12", "--max-episode-tokens", "24"],
  ...["--num-generations", "8", "--learning-rate", "1e-2", "--beta", "0.1", ...more],
];
const half = ["--per-device-train-batch-size", "4"];
const two = [...half, "--nproc", "2"];
const torchrun = [python, "-m", "torch.distributed.run", "--no-python", "--standalone", "--nproc-per-node", "2"];

function start(command: readonly string[]) {
  const env = { ...process.env, OMP_NUM_THREADS: "1" };
  const child = spawn(command[0]!, command.slice(1), { cwd: projectRoot, stdio: ["ignore", "pipe", "pipe"], env });
  const written = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    child[name].on("data", (text) => {
      written[name] += text;
    });
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((resolve) =>
    child.once("close", (code) => resolve({ code, ...written })),
  );
  return { child, ended, written };
}

const run = (command: readonly string[]) => start(command).ended;
const json = (...path: string[]) => JSON.parse(readFileSync(join(runs, ...path), "utf8")) as Record<string, unknown>;
const metricsOf = (name: string) =>
  existsSync(join(runs, name, "metrics.jsonl"))
    ? readJsonLines(join(runs, name, "metrics.jsonl")).map(({ value }) => value as Record<string, number>)
    : [];
const losses = (name: string) => metricsOf(name).flatMap(({ loss }) => loss ?? []);
const stepped = (name: string, { stderr }: { stderr: string }) =>
  vi.waitFor(() => expect(losses(name).length, stderr).toBeGreaterThan(0), { timeout: 120_000, interval: 50 });

/** Everything under a process: its id, and the rank where it is a rank's Node. */
function tree(pid: number): { pid: number; command: string }[] {
  const rows = execFileSync("ps", ["-eo", "pid=,ppid=,args="], { encoding: "utf8" })
    .trim()
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line)!)
    .map(([, child, parent, command]) => ({ pid: Number(child), parent: Number(parent), command: command! }));
  const under = (parent: number): typeof rows =>
    rows.filter((row) => row.parent === parent).flatMap((row) => [row, ...under(row.pid)]);
  return under(pid);
}

const environment = (pid: number) => readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
const rankOf = (pid: number) =>
  Number(
    environment(pid)
      .find((each) => each.startsWith("RANK="))
      ?.slice(5) ?? "-1",
  );

function weights(name: string): Float32Array {
  const bytes = readFileSync(join(runs, name, "final", "model.safetensors"));
  const header = 8 + Number(bytes.readBigUInt64LE(0));
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset + header, bytes.byteOffset + bytes.length));
}

test("two ranks learn what one process learns with the doubled batch, and leave one run", {
  timeout: LONG,
}, async () => {
  const alone = await run([...trestle, ...grpo("--name", "one", "--max-steps", "3")]);
  expect(alone.code, alone.stderr).toBe(0);
  const both = await run([...trestle, ...grpo(...two, "--name", "two", "--max-steps", "3")]);
  expect(both.code, both.stderr).toBe(0);

  expect(losses("one")).toHaveLength(3);
  for (const [step, loss] of losses("one").entries()) expect(losses("two")[step]).toBeCloseTo(loss, 5);
  for (const loss of losses("one").slice(1)) expect(Math.abs(loss)).toBeGreaterThan(1e-4);
  const [first, second] = [weights("one"), weights("two")];
  expect(second).toHaveLength(first.length);
  expect(Math.max(...first.map((weight, index) => Math.abs(weight - second[index]!)))).toBeLessThan(1e-4); // Adam makes much of little

  const played = (name: string, rank: number) =>
    readTrajectories(join(runs, name, "trajectories", `rank-${rank}.jsonl`)).map(
      ({ task_id, seed, trial, policy_step, turns, reward }) => ({
        ...{ task_id, seed, trial, policy_step, reward },
        replies: turns.map(({ reply }) => reply),
      }),
    );
  const ordered = (rows: ReturnType<typeof played>) =>
    rows.sort((a, b) => a.policy_step! - b.policy_step! || a.trial - b.trial);
  expect(ordered([...played("two", 0), ...played("two", 1)])).toEqual(ordered(played("one", 0)));
  expect(new Set(played("two", 1).map(({ trial }) => trial))).toEqual(new Set([4, 5, 6, 7]));
  for (const step of [0, 1, 2]) {
    const group = [...played("two", 0), ...played("two", 1)].filter(({ policy_step }) => policy_step === step);
    expect(new Set(group.map(({ task_id, seed }) => `${task_id} ${seed}`)).size).toBe(1);
  }

  expect(both.stdout.trim().split("\n")).toHaveLength(1);
  expect(JSON.parse(both.stdout)).toMatchObject({ recipe: "grpo", steps: 3, rollouts: 24, groups: 3, invalid: 0 });
  expect(json("two", "manifest.json")).toMatchObject({
    status: "completed",
    command: expect.stringContaining("--nproc 2"),
    details: { processes: 2, result: { rollouts: 24 } },
  });
  expect(readdirSync(join(runs, "two")).filter((name) => /report|curve|lock/.test(name))).toEqual(
    readdirSync(join(runs, "one")).filter((name) => /report|curve|lock/.test(name)),
  );
  expect(metricsOf("two").map(({ step }) => step)).toEqual(metricsOf("one").map(({ step }) => step));
});

test("kill -9 of a rank: all are gone within 10 s, though the other waits for its environment, and one message says which", {
  timeout: LONG,
}, async () => {
  const hold = join(folder, "hold");
  const options = ["--env-options", JSON.stringify({ hold })];
  const { child, ended, written } = start([
    ...trestle,
    ...grpo(...two, ...options, "--name", "killed", "--max-steps", "9999"),
  ]);
  await stepped("killed", written);
  writeFileSync(hold, "");
  await new Promise((resolve) => setTimeout(resolve, 500));
  const steps = losses("killed").length;
  const all = tree(child.pid!);
  expect(all.filter(({ command }) => command.includes("pythonia"))).toHaveLength(2);
  const victim = all.find(({ pid, command }) => command.includes("trestle.mjs") && rankOf(pid) === 1)!;
  process.kill(victim.pid, "SIGKILL");
  const begin = performance.now();
  const { code, stdout, stderr } = await ended;
  await vi.waitFor(() => expect(all.filter(({ pid }) => alive(pid))).toEqual([]), { timeout: 10_000, interval: 50 });
  expect(performance.now() - begin).toBeLessThan(10_000);
  expect([code, stdout]).toEqual([3, ""]);
  expect(stderr.match(/Rank \d/g)).toHaveLength(1);
  expect(stderr).toContain("Rank 1 of 2 was killed by SIGKILL (by hand, or by the system because memory ran out)");
  expect(stderr).not.toContain("Traceback");
  expect(losses("killed")).toHaveLength(steps);
  expect(json("killed", "manifest.json")).toMatchObject({
    status: "failed",
    details: { error: expect.stringMatching(/^Rank 1 of 2 is gone/) },
  });
  expect(existsSync(join(runs, "killed", "lock"))).toBe(false);
});

test("two ranks, one killed after a checkpoint, go on to the same weights, tasks and trajectories; one process may not", {
  timeout: LONG,
}, async () => {
  const saving = ["--max-steps", "5", "--save-strategy", "steps", "--save-steps", "1", "--save-total-limit", "2"];
  expect((await run([...trestle, ...grpo(...two, ...saving, "--name", "unbroken")])).code).toBe(0);
  const { child, ended } = start([...trestle, ...grpo(...two, ...saving, "--name", "broken")]);
  await vi.waitFor(() => expect(newestCheckpoint(join(runs, "broken")).checkpoint?.step).toBeGreaterThanOrEqual(2), {
    timeout: 120_000,
    interval: 20,
  });
  const all = tree(child.pid!);
  process.kill(all.find(({ pid, command }) => command.includes("pythonia") && rankOf(pid) === 1)!.pid, "SIGKILL");
  await ended;
  const resume = ["--runs-dir", runs, "--name", "broken", "--resume"];
  const alone = await run([...trestle, "grpo", ...resume]);
  expect([alone.code, alone.stderr]).toEqual([
    2,
    expect.stringContaining("was trained by 2 processes, not by 1. Go on with --nproc 2"),
  ]);
  const resumed = await run([...trestle, "grpo", ...resume, "--nproc", "2"]);
  expect([resumed.code, resumed.stderr]).toEqual([0, expect.stringMatching(/goes on from step [2345]/)]);
  for (const rank of [0, 1]) {
    const played = (name: string) =>
      readTrajectories(join(runs, name, "trajectories", `rank-${rank}.jsonl`)).map((trajectory) => ({
        ...trajectory,
        policy: "",
        env_ms: 0,
      }));
    expect(played("broken")).toEqual(played("unbroken"));
  }
  expect(losses("broken")).toEqual(losses("unbroken"));
  const weights = (name: string) => readFileSync(join(runs, name, "final", "model.safetensors"));
  expect(weights("broken").equals(weights("unbroken"))).toBe(true);
});

test("LN-01, LN-04: under accelerate launch each Python has its own rank; Ctrl-C stops all after one step, with a model", {
  timeout: LONG,
}, async () => {
  const accelerate = [python, "-m", "accelerate.commands.launch", "--no_python"];
  const config = ["--config_file", "configs/accelerate/cpu_2.yaml"];
  const command = [
    ...accelerate,
    ...config,
    ...trestle,
    ...grpo(...half, "--name", "accelerated", "--max-steps", "9999"),
  ];
  const { child, ended, written } = start(command);
  await stepped("accelerated", written);
  const all = tree(child.pid!);
  const pythons = all.filter(({ command }) => command.includes("pythonia"));
  expect(pythons.map(({ pid }) => rankOf(pid)).sort()).toEqual([0, 1]);
  child.kill("SIGINT");
  const { stdout } = await ended;
  await vi.waitFor(() => expect(all.filter(({ pid }) => alive(pid))).toEqual([]), { timeout: 5_000, interval: 50 });
  const result = JSON.parse(stdout) as { stop_reason: string; steps: number };
  expect(result.stop_reason).toBe("stop_requested");
  expect(existsSync(join(runs, "accelerated", "final", "config.json"))).toBe(true);
  expect(json("accelerated", "manifest.json")).toMatchObject({ status: "stopped", details: { processes: 2 } });
  for (const rank of [0, 1])
    expect(readTrajectories(join(runs, "accelerated", "trajectories", `rank-${rank}.jsonl`))).toHaveLength(
      4 * result.steps,
    );
});

describe("--nproc: the first signal saves, the second does not wait", () => {
  test.each([
    ["once", 1, "stopped"],
    ["twice", 130, "running"],
  ])("%s", { timeout: LONG }, async (times, expected, status) => {
    const name = `signal-${times}`;
    const hold = join(folder, name);
    const options = ["--env-options", JSON.stringify({ hold })];
    const { child, ended, written } = start([
      ...trestle,
      ...grpo(...two, ...options, "--name", name, "--max-steps", "9999"),
    ]);
    await stepped(name, written);
    const all = tree(child.pid!);
    if (times === "twice") writeFileSync(hold, "");
    child.kill("SIGINT");
    if (times === "twice") {
      await new Promise((resolve) => setTimeout(resolve, 1_200));
      child.kill("SIGINT");
    }
    const { code, stderr } = await ended;
    await vi.waitFor(() => expect(all.filter(({ pid }) => alive(pid))).toEqual([]), { timeout: 3_000, interval: 50 });
    expect(code).toBe(expected);
    expect(stderr.match(/SIGINT: all ranks are asked to save and stop/g)).toHaveLength(1);
    expect(json(name, "manifest.json")).toMatchObject({ status });
    expect(existsSync(join(runs, name, "final"))).toBe(times === "once");
    expect(readdirSync(join(runs, name)).some((file) => file.startsWith("checkpoint-"))).toBe(times === "once");
  });
});

describe("mistakes are told once, before a model loads", () => {
  const once = (text: string, part: RegExp) => expect(text.match(new RegExp(part, "g"))).toHaveLength(1);

  test("a launcher's ranks without a name", { timeout: LONG }, async () => {
    const { stdout, stderr } = await run([...torchrun, ...trestle, ...grpo(...half)]);
    once(stderr, /name is not set, and 2 processes have to agree on it\. Set --name\./);
    once(stderr, /rank *: 0[^=]*exitcode *: 2/);
    expect(stdout).toBe("");
  });

  test("what only Python sees", { timeout: LONG }, async () => {
    const wrong = ["--name", "wrong", "--learning-rate", "fast"];
    const { stderr } = await run([...torchrun, ...trestle, ...grpo(...half, ...wrong)]);
    once(stderr, /trainer\.learning_rate is 'fast'; expected a number\./);
    once(stderr, /Root Cause[^=]*rank *: 0[^=]*exitcode *: 2/);
    expect(existsSync(join(runs, "wrong"))).toBe(false);
  });

  test("--nproc: in one process, before the others start", { timeout: LONG }, async () => {
    const odd = await runCommand(...grpo(...two, "--num-generations", "3"));
    expect([odd.code, odd.stdout]).toEqual([2, ""]);
    once(
      odd.stderr,
      /8 rollouts a step \(per_device_train_batch_size 4 × 1 × 2 processes\) do not divide into groups of 3/,
    );

    const dry = await runCommand(...grpo(...two, "--dry-run"));
    expect([dry.code, JSON.parse(dry.stdout)]).toMatchObject([0, { config: { name: "grpo-lengths-env" } }]);

    const none = await runCommand("grpo", "--nproc", "2", "--runs-dir", join(folder, "empty"));
    expect(none.code).toBe(2);
    once(none.stderr, /with 2 processes none is made on the way\. Make one first: npx tsx src\/cli\.ts sft/);
    expect((await runCommand(...grpo("--nproc", "0"))).stderr).toBe(
      "--nproc is '0'; expected a whole number from 1 to 9999.\n",
    );
  });

  test("a command for one process, under a launcher; variables that make no sense", async () => {
    vi.stubEnv("WORLD_SIZE", "2").stubEnv("RANK", "0").stubEnv("LOCAL_RANK", "0");
    vi.stubEnv("MASTER_ADDR", "127.0.0.1").stubEnv("MASTER_PORT", "1");
    try {
      const bench = await runCommand("bench", "--policy", "gold");
      expect(bench).toMatchObject({ code: 2, stderr: /^bench runs in one process, and WORLD_SIZE is 2\./ });
      vi.stubEnv("RANK", "2");
      expect(await runCommand(...grpo("--name", "x"))).toMatchObject({ code: 2, stderr: /^RANK is '2'; expected/ });
    } finally {
      vi.unstubAllEnvs();
    }
  });
});
