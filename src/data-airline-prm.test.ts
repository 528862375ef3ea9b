import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Trajectory } from "./core/trajectory.ts";
import { runPrm } from "./data-airline-prm.ts";
import { episode, record } from "./envs/airline/evaluation/fixtures/episodes.ts";
import { publishedPage } from "./envs/airline/evaluation/published-page.ts";
import { runCommand } from "./fixtures/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "prm-"));
const USER = `{"reservations": ["MDCLVA"]}`;

/** A success of two records and a failure of many, of each of two tasks. */
const trajectories: Trajectory[] = ["a", "b"].flatMap((task_id) => [
  episode({ task_id, success: true }, [
    { reply: "", records: [record("get_user_details", { user_id: "emma_kim_9957" }, USER)] },
    { reply: "", records: [record("cancel_reservation", { reservation_id: "MDCLVA" })] },
  ]),
  episode(
    { task_id, trial: 1 },
    Array.from({ length: 16 }, () => ({
      reply: "",
      records: [record("get_user_details", { user_id: "unknown" }, "Error: user not found")],
    })),
  ),
]);
const lost = episode({ trial: 2, reward: null, ended_by: "error" });

function run(name: string, lines: readonly unknown[]): string {
  const dir = join(folder, name);
  mkdirSync(join(dir, "trajectories"), { recursive: true });
  writeFileSync(join(dir, "trajectories", "rank-0.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  return dir;
}

describe("validation", () => {
  const dir = run("log", [...trajectories, lost]);

  test("the measures of a log, beside what was reported", () => {
    const { text, json, exit_code } = runPrm("prm-validate", { files: [dir] });
    expect(json).toEqual([expect.objectContaining({ trajectories: 4, tasks: 2, bad_behaviour: 2, invalid: 1 })]);
    expect(json[0]).toMatchObject({ accepted: { separates: true, spreads: true } });
    expect(text).toMatch(/successes minus failures\s+\+0\.\d{4}\s+\+0\.025\s+yes/);
    expect(text).toContain("1 trajectories failed outside the policy and are left out");
    expect(exit_code).toBe(0);
  });

  test("scores that tell nothing fail the gate", () => {
    const turned = trajectories.map((trajectory) => ({ ...trajectory, success: !trajectory.success }));
    expect(runPrm("prm-validate", { files: [run("turned", turned)] }).exit_code).toBe(1);
  });

  test("stored trajectories, and options of the scorer", () => {
    const file = join(folder, "stored.jsonl");
    const actions = [record("get_user_details", { user_id: "anya_li_1" }, USER)];
    writeFileSync(file, `${JSON.stringify({ task_id: "a", success: true, actions })}\n`);
    const bad = (env_options: Record<string, unknown>) =>
      runPrm("prm-validate", { files: [file], env_options }).json[0];
    expect(bad({})).toMatchObject({ bad_behaviour: 1 });
    expect(bad({ prm: { keyword_mode: "token" } })).toMatchObject({ bad_behaviour: 0 });
  });

  test.each([
    ["no file", { files: [] }, "name trajectory logs or folders of runs"],
    ["nothing in it", { files: [run("empty", [])] }, "there are no trajectories"],
    ["something else", { files: [run("strange", [{ a: 1 }])] }, "line 1: expected a trajectory"],
    ["another option", { files: ["x"], env_options: { user: {} } }, "reads prm of --env-options alone; got user"],
    ["an unknown value", { files: ["x"], env_options: { prm: { a: 1 } } }, `prm {"a":1} is not known`],
  ])("%s", (_, options, message) => {
    expect(() => runPrm("prm-validate", options)).toThrow(message);
  });
});

test("search: the best of all choices is no worse than the weights in use, and the file has no infinity", () => {
  const output = join(folder, "search.json");
  const { text } = runPrm("prm-search", { files: [run("search", trajectories)], output });
  const found = JSON.parse(readFileSync(output, "utf8")) as {
    tried: number;
    best: { objective: number }[];
    current: { objective: number };
  };
  expect(found.tried).toBe(4 * 4 * 2 * 4 * 3 + 3 * 3 * 3 * 3 * 2);
  expect(found.best[0]!.objective).toBeGreaterThanOrEqual(found.current.objective);
  expect(text).toMatch(/in use\s+[+-]\d/);
});

test("the commands", async () => {
  const dir = run("command", trajectories);
  const validated = await runCommand("data", "airline", "prm-validate", dir, "--json");
  expect([validated.code, JSON.parse(validated.stdout)]).toEqual([0, expect.objectContaining({ trajectories: 4 })]);
  const token = JSON.stringify({ prm: { keyword_mode: "token" } });
  expect((await runCommand("data", "airline", "prm-search", dir, "--env-options", token)).stdout).toContain("in use");
  expect((await runCommand("data", "airline", "published")).stdout).toBe(publishedPage());
  const seeded = await runCommand("data", "airline", "prm-search", dir, "--seed", "1");
  expect([seeded.code, seeded.stderr]).toEqual([2, expect.stringContaining("takes neither --split nor --seed")]);
  expect((await runCommand("data", "airline", "published", "--seed", "1")).code).toBe(2);
});
