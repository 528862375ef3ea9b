import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { beforeAll, describe, expect, test, vi } from "vitest";
import type { Trajectory } from "../src/core/trajectory.ts";
import { runCommand as run } from "../src/fixtures/run-command.ts";
import { readTrajectories } from "../src/trajectory-log.ts";
import { planTrials } from "./tasks.ts";

const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "resume-"));
const runs = join(folder, "runs");

const logOf = (name: string) => join(runs, name, "trajectories", "rank-0.jsonl");
const RESULTS = ["trajectories/rank-0.jsonl", "summary.json", "report.md", "raw_data.csv"];
/** By file, a hash of its bytes. */
const results = (name: string) =>
  RESULTS.map((file) => [
    file,
    createHash("sha256")
      .update(readFileSync(join(runs, name, file)))
      .digest("hex"),
  ]);
const manifestOf = (name: string) => JSON.parse(readFileSync(join(runs, name, "manifest.json"), "utf8"));
const lines = (path: string) => (existsSync(path) ? readFileSync(path, "utf8").split("\n").length - 1 : 0);

const plays = ["bench", "--policy", "random_tool", "--split", "iid_test,ood_test", "--runs-dir", runs];

/** The command in a process of its own, killed as soon as `when` holds. Whether it was still at work. */
async function killed(when: () => boolean, ...argv: string[]): Promise<boolean> {
  const child: ChildProcess = spawn(process.execPath, ["--import", "tsx", "src/cli.ts", ...argv], {
    cwd: root,
    stdio: "ignore",
  });
  let ended = false;
  const end = new Promise<void>((resolve) => {
    child.once("close", () => {
      ended = true;
      resolve();
    });
  });
  while (!ended && !when()) await new Promise((resolve) => setTimeout(resolve, 1));
  const atWork = !ended;
  child.kill("SIGKILL");
  await end;
  return atWork;
}

beforeAll(async () => {
  expect((await run(...plays, "--repeat", "4", "--name", "unbroken")).code).toBe(0);
});

test("a benchmark killed in the middle ends with the bytes of an unbroken one", async () => {
  const many = [...plays, "--repeat", "60"];
  expect((await run(...many, "--name", "whole")).code).toBe(0);
  const atWork = await killed(() => lines(logOf("killed")) >= 200, ...many, "--name", "killed");
  expect(atWork).toBe(true);
  const before = lines(logOf("killed"));
  expect(before).toBeLessThan(22 * 60);
  expect(existsSync(join(runs, "killed", "summary.json"))).toBe(false);
  expect(manifestOf("killed").status).toBe("running");

  const again = await killed(
    () => lines(logOf("killed")) >= before + 200,
    ...["bench", "--resume", "--name", "killed", "--runs-dir", runs],
  );
  expect(again).toBe(true);
  const resumed = await run("bench", "--resume", "--name", "killed", "--runs-dir", runs);
  expect(resumed.code).toBe(0);
  expect(results("killed")).toEqual(results("whole"));
  const { status, details } = manifestOf("killed");
  expect(status).toBe("completed");
  expect(details.sittings).toHaveLength(1); // those that were killed left no account
  expect(details.sittings[0].episodes).toBeLessThan(22 * 60 - before);
  expect(lines(join(runs, "killed", "timing.jsonl"))).toBe(22 * 60);
}, 120_000);

test("whichever byte the log was cut at, and whatever lines are gone, the resumed one is the same", async () => {
  const whole = readFileSync(logOf("unbroken"));
  await fc.assert(
    fc.asyncProperty(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 1, max: 5 }), async (at, nth) => {
      rmSync(join(runs, "cut"), { recursive: true, force: true });
      cpSync(join(runs, "unbroken"), join(runs, "cut"), { recursive: true });
      const left = whole
        .subarray(0, Math.floor(at * whole.length))
        .toString("latin1")
        .split("\n");
      const text = left.filter((_, index) => index % (nth + 1) !== nth || index === left.length - 1).join("\n");
      writeFileSync(logOf("cut"), text, "latin1");
      expect((await run("bench", "--resume", "--name", "cut", "--runs-dir", runs)).code).toBe(0);
      expect(results("cut")).toEqual(results("unbroken"));
    }),
    { numRuns: 12 },
  );
}, 120_000);

test("five good rows, an error row and a cut line: five are kept, the others played, none twice (EV-08)", async () => {
  const task_ids = "search_CR_14d_10,search_CV_1d_1";
  const some = [...plays, "--task-ids", task_ids, "--repeat", "4"];
  await run(...some, "--name", "eight");
  const played = readFileSync(logOf("eight"), "utf8").split("\n");
  await run(...some, "--name", "mended");
  const failed = { reward: null, success: false, ended_by: "error", ended_why: "step: down" };
  const row = JSON.stringify({ ...(JSON.parse(played[5]!) as Trajectory), ...failed });
  writeFileSync(logOf("mended"), [...played.slice(0, 5), row, played[6]!.slice(0, 300)].join("\n"));
  const { code, stderr } = await run("bench", "--resume", "--name", "mended", "--runs-dir", runs);
  expect([code, stderr]).toEqual([0, expect.stringContaining("5 of 8 episodes are there, 3 are played")]);
  expect(results("mended")).toEqual(results("eight"));
  expect(manifestOf("mended").details.sittings.at(-1)).toMatchObject({ episodes: 3 });
});

test("any subset of tasks plays as it does among the others", async () => {
  const all = new Map(readTrajectories(logOf("unbroken")).map((row) => [`${row.task_id}/${row.trial}`, row]));
  const ids = ["multi_ro3_dl_two", "search_kw_rag", "state_cache_two"];
  await run(...plays, "--repeat", "2", "--task-ids", ids.join(","), "--name", "subset");
  const subset = readTrajectories(logOf("subset"));
  expect(subset).toHaveLength(6);
  for (const row of subset) expect(row).toEqual(all.get(`${row.task_id}/${row.trial}`));
});

test("each (task, trial) has a seed of its own, whatever else is planned", () => {
  const ids = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 8 }), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(ids, fc.integer({ min: 1, max: 6 }), fc.integer({ min: 0, max: 99 }), (task_ids, trials, seed) => {
      const plan = planTrials(task_ids, trials, seed);
      const alone = planTrials([task_ids.at(-1)!], trials, seed);
      expect(plan.slice(-trials)).toEqual(alone);
      expect(planTrials([...task_ids].reverse(), trials + 1, seed)).toEqual(expect.arrayContaining(plan));
      expect(new Set(plan.map((request) => request.seed)).size).toBe(plan.length);
    }),
  );
});

test("a benchmark that is whole is only judged again", async () => {
  const before = results("unbroken");
  for (const file of ["summary.json", "report.md"]) rmSync(join(runs, "unbroken", file));
  const { code, stderr } = await run("bench", "--resume", "--name", "unbroken", "--runs-dir", runs);
  expect([code, stderr]).toEqual([0, expect.stringContaining("88 of 88 episodes are there, 0 are played")]);
  expect(results("unbroken")).toEqual(before);
});

describe("what can't go on is told, and nothing is touched", () => {
  const resume = (...argv: string[]) => run("bench", "--resume", "--runs-dir", runs, ...argv);

  test.each<[string, string[], RegExp]>([
    ["no name", [], /resume is set without a name: say which benchmark/],
    [
      "no such run",
      ["--name", "unborken"],
      /unborken holds no run, or a broken manifest.json; only a benchmark can go on/,
    ],
    [
      "other settings",
      ["--name", "unbroken", "--seed", "46", "--policy", "gold"],
      /can't go on under other settings: seed is 46, was 45; policy is "gold", was "random_tool"|policy is "gold", was "random_tool"; seed is 46, was 45/,
    ],
    ["other splits", ["--name", "unbroken", "--split", "dev"], /split is \["dev"\], was \["iid_test","ood_test"\]/],
  ])("%s", async (_, argv, message) => {
    const { code, stdout, stderr } = await resume(...argv);
    expect(stderr).toMatch(message);
    expect([code, stdout]).toEqual([2, ""]);
  });

  test("a run that is no benchmark", async () => {
    await run("rollout", "--split", "dev", "--runs-dir", runs, "--name", "a-rollout");
    expect((await resume("--name", "a-rollout")).stderr).toMatch(/holds a run of rollout; only a benchmark can go on/);
  });

  test("data that changed meanwhile", async () => {
    cpSync(join(runs, "unbroken"), join(runs, "stale"), { recursive: true });
    const manifest = manifestOf("stale");
    manifest.data["data/arxiv/snapshot.json"] = "0";
    writeFileSync(join(runs, "stale", "manifest.json"), JSON.stringify(manifest));
    const before = results("stale");
    const { code, stderr } = await resume("--name", "stale");
    expect([code, stderr]).toEqual([2, expect.stringContaining("data/arxiv/snapshot.json has changed")]);
    expect(results("stale")).toEqual(before);
  });

  test("a log with an episode of another benchmark", async () => {
    cpSync(join(runs, "unbroken"), join(runs, "mixed"), { recursive: true });
    const [first, ...others] = readTrajectories(logOf("mixed"));
    const rows = [{ ...first!, seed: 1 }, ...others].map((row) => JSON.stringify(row));
    writeFileSync(logOf("mixed"), `${rows.join("\n")}\n`);
    const { code, stderr } = await resume("--name", "mixed");
    expect([code, stderr]).toEqual([2, expect.stringMatching(/line 1: .*\/0 with seed 1 is no episode of this/)]);
  });
});

// A model of a million parameters, in a process of its own each time.
describe("a local model", () => {
  const task_ids = "search_AI_1d_3,search_kw_agentic_rl,infeasible_unsupported_action";
  const argv = [
    ...["bench", "--policy", "model:models/tiny", "--split", "dev", "--task-ids", task_ids, "--repeat", "4"],
    ...["--batch-size", "3", "--env-options", '{"prompt": "minimal"}', "--max-turns", "2", "--max-turn-tokens", "90"],
    ...["--runs-dir", runs],
  ];

  test("killed between batches or within one, it ends with the same bytes", async () => {
    vi.stubEnv("OMP_NUM_THREADS", "1"); // more threads only wait for each other on a machine that is busy
    await run(...argv, "--name", "model-whole");
    const whole = readTrajectories(logOf("model-whole"));
    expect(whole).toHaveLength(12);
    expect(new Set(whole.map(({ turns }) => turns[0]!.reply)).size).toBeGreaterThan(4); // it does sample

    expect(await killed(() => lines(logOf("model-killed")) >= 5, ...argv, "--name", "model-killed")).toBe(true);
    const text = readFileSync(logOf("model-killed"), "utf8").split("\n");
    writeFileSync(logOf("model-killed"), text.slice(0, 5).join("\n").slice(0, -40)); // within the second batch
    const { stderr } = await run("bench", "--resume", "--name", "model-killed", "--runs-dir", runs);
    expect(stderr).toContain("4 of 12 episodes are there, 9 are played"); // the second batch again, as a whole
    expect(results("model-killed")).toEqual(results("model-whole"));
    vi.unstubAllEnvs();
  }, 300_000);
});
