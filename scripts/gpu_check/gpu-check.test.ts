import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { afterAll, expect, test } from "vitest";
import { projectRoot } from "../../src/bridge/interpreter.ts";
import { type Facts, gpuChecks } from "./checks.ts";
import { type Check, formatOutcomes, lastLines, runChecks, start } from "./runner.ts";

const dir = mkdtempSync(join(tmpdir(), "gpu-check-"));
afterAll(() => rmSync(dir, { recursive: true }));

const check = (name: string, over: Partial<Check> = {}): Check => ({
  name,
  skip: null,
  limit_s: 20,
  run: async () => `${name} is well`,
  ...over,
});
const shell = (text: string, signal?: AbortSignal) =>
  start("bash", ["-c", text], { log: join(dir, "shell.log"), signal });
const alive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]![0] !== "Z";
  } catch {
    return false;
  }
};

test("a check that fails does not stop the others; the table tells all in order, the last line who failed", async () => {
  const outcomes = await runChecks(
    [
      check("slow", { run: () => sleep(50, "took its time") }),
      check("broken", { run: () => Promise.reject(new Error("no memory")) }),
      check("elsewhere", { skip: "no CUDA device" }),
      check("last", { alone: true }),
    ],
    { together: 2, total_s: 20 },
  );
  expect(outcomes.map(({ name, result, figure }) => [name, result, figure])).toEqual([
    ["slow", "passed", "took its time"],
    ["broken", "failed", "no memory"],
    ["elsewhere", "skipped", "no CUDA device"],
    ["last", "passed", "last is well"],
  ]);
  const table = formatOutcomes(outcomes);
  expect(table).toMatch(/^check +result +seconds +figure\nslow +passed +0\.\d+ +took its time\nbroken +failed +0\.0/);
  expect(table).toMatch(/\ngpu-check: 2 passed, 1 failed, 1 skipped: broken failed\.$/);
});

test("what measures runs alone, after those that share", async () => {
  let running = 0;
  const most: Record<string, number> = {};
  const watched = (name: string, alone = false) =>
    check(name, {
      alone,
      async run() {
        running += 1;
        await sleep(30);
        most[name] = running;
        running -= 1;
        return "";
      },
    });
  await runChecks([watched("a", true), watched("b"), watched("c"), watched("d", true)], { together: 4, total_s: 20 });
  expect(most).toMatchObject({ a: 1, d: 1 });
  expect(most.b! + most.c!).toBeGreaterThan(2);
});

test("a check beyond its limit is stopped with all that it started", async () => {
  let pids: number[] = [];
  const [outcome] = await runChecks(
    [
      check("hangs", {
        limit_s: 0.5,
        async run(signal) {
          const { child, done } = shell("sleep 60 & echo $!; echo $$; wait", signal);
          child.stdout!.on("data", (text: string) => pids.push(...text.trim().split("\n").map(Number)));
          const { code } = await done;
          throw new Error(`ended with ${code}`);
        },
      }),
    ],
    { together: 1, total_s: 20 },
  );
  expect(outcome).toMatchObject({ result: "failed", figure: "not done after 1 s: stopped" });
  expect(outcome!.seconds).toBeLessThan(5);
  expect(pids).toHaveLength(2);
  for (let tries = 0; pids.some(alive) && tries < 50; tries++) await sleep(20);
  pids = pids.filter(alive);
  expect(pids).toEqual([]);
});

test("what begins after the time is over fails by name, and what is optional is skipped", async () => {
  const outcomes = await runChecks(
    [check("first", { run: () => sleep(120, "") }), check("second"), check("extra", { optional: true })],
    { together: 1, total_s: 0.1 },
  );
  // the first was stopped by the time left to it, or had just made it
  expect(outcomes.slice(1).map(({ result, figure }) => [result, figure])).toEqual([
    ["failed", "not begun: 0.1 s are over"],
    ["skipped", "not begun: 0.1 s are over"],
  ]);
});

test("a process's output is kept and logged, and a command that is not there is told", async () => {
  const { stdout, tail, code } = await shell("echo out; echo err >&2; exit 3").done;
  expect({ stdout, code }).toEqual({ stdout: "out\n", code: 3 });
  expect(tail).toContain("err");
  expect(readFileSync(join(dir, "shell.log"), "utf8")).toContain("$ bash -c echo out");
  const missing = await start("/nonexistent/python", [], { log: join(dir, "missing.log") }).done;
  expect(missing).toMatchObject({ code: null, tail: expect.stringContaining("ENOENT") });
  expect(lastLines('Traceback:\n  File "x.py"\n    ^^^\nValueError: no\n\n')).toBe("Traceback: | ValueError: no");
});

// ------------------------------------------------------------------------------------------------ which checks run

const help = {
  "": "\n  merge  Merge adapters",
  sft: "--qlora --precision --resume --nproc",
  grpo: "--resume --nproc",
};
const facts: Facts = {
  gpus: ["H1"],
  bf16: true,
  versions: { torch: "2.11.0" },
  cuda: "13.0",
  others: [],
  lacks: [],
  cpus: 16,
  vllm: true,
  requests: true,
  bitsandbytes: true,
};
const skipped = (given: Partial<Facts>, place: { cpu?: boolean; help?: typeof help } = {}) =>
  Object.fromEntries(
    gpuChecks({ ...facts, ...given }, { python: "python3", dir, cpu: false, help, ...place })
      .filter(({ skip }) => skip !== null)
      .map(({ name, skip }) => [name, skip]),
  );

test("with two GPUs and all packages only gloo on one GPU is left out, with one what NCCL refuses; each by name", () => {
  expect(skipped({ gpus: ["H1", "H1"] })).toEqual({ "two ranks (gloo)": "there are two GPUs: see nccl" });
  expect(skipped({})).toEqual({
    "two ranks (nccl)": "one GPU, on which NCCL refuses two ranks: see gloo",
    "grpo, two processes": "one GPU",
    "vllm server, grpo": "one GPU: weights go to a server by NCCL, which joins no two processes on one",
  });
});

test("what is not installed, and what this version cannot do, is skipped by name", () => {
  const names = (given: object) => Object.keys(given).filter((name) => !(name in skipped({})));
  expect(names(skipped({ vllm: false }))).toEqual([
    "vllm's speed",
    "vllm colocate, grpo",
    "vllm server, sampling",
    "vllm colocate, asleep while learning",
  ]);
  expect(skipped({ bitsandbytes: false })["sft, qlora (nf4)"]).toBe("bitsandbytes is not installed");
  const old = skipped({}, { help: { "": "", sft: "", grpo: "" } });
  expect(old).toMatchObject({
    "sft, qlora (nf4)": "this version has no --qlora",
    "lora, then merge": "this version has no merge",
    "resume after Ctrl-C": "this version has no --resume",
  });
});

test("names are unique, as they name folders and logs, and only the last is given up where time is short", () => {
  const checks = gpuChecks(facts, { python: "python3", dir, cpu: false, help });
  expect(new Set(checks.map(({ name }) => name.replaceAll(/\W+/g, "-"))).size).toBe(checks.length);
  expect(checks.filter(({ optional }) => optional)).toEqual([checks.at(-1)]);
});

test("lacking features fail the first check", async () => {
  const [versions] = gpuChecks(
    { ...facts, lacks: ["TRL 0.28.0 lacks a thing."] },
    { python: "", dir, cpu: false, help },
  );
  await expect(versions!.run(new AbortController().signal)).rejects.toThrow("TRL 0.28.0 lacks a thing.");
});

test.skipIf(existsSync("/proc/driver/nvidia/version"))(
  "without a GPU it runs to its end: all but the versions is skipped with the reason, exit code 0",
  { timeout: 240_000 },
  async () => {
    const { stdout, stderr, exitCode } = await execa(join(projectRoot, "scripts", "gpu-check"), [], { reject: false });
    rmSync(/^Logs and runs: (.+)$/m.exec(stderr)![1]!, { recursive: true });
    const lines = stdout.trim().split("\n");
    expect(exitCode).toBe(0);
    expect(lines[1]).toMatch(/^versions and features +passed .*torch \d/);
    const middle = lines.slice(2, -2);
    expect(middle.length).toBeGreaterThan(12);
    for (const line of middle) expect(line).toMatch(/ skipped +no CUDA device$/);
    expect(lines.at(-2)).toBe(`gpu-check: 1 passed, 0 failed, ${middle.length} skipped.`);
    expect(lines.at(-1)).toBe("There is no CUDA device here: nothing of a GPU was checked.");
  },
);
