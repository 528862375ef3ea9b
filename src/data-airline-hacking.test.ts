import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Trajectory } from "./core/trajectory.ts";
import { runHacking } from "./data-airline-hacking.ts";
import { episode } from "./envs/airline/evaluation/fixtures/episodes.ts";
import { runCommand } from "./fixtures/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "hacking-"));

function log(name: string, trajectories: readonly Trajectory[]): string {
  const path = join(folder, name);
  writeFileSync(path, trajectories.map((trajectory) => `${JSON.stringify(trajectory)}\n`).join(""));
  return path;
}

const played = [0, 50].flatMap((policy_step) =>
  ["a", "b"].map((task_id) =>
    episode({ task_id, policy_step, metrics: { hack_padding: policy_step / 10 } }, [
      { reply: policy_step === 0 ? `Hello ${task_id}.` : "I cancel it." },
    ]),
  ),
);

test("a pattern a row, a step a column", async () => {
  const [path, output] = [log("two.jsonl", played), join(folder, "out.json")];
  const { code, stdout } = await runCommand("data", "airline", "hacking", path, "--output", output);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^step\s+0\s+50\n/);
  expect(stdout).toMatch(/\npadding\s+0\.000\s+5\.000\n/);
  expect(stdout).toMatch(/\nmemorised_openings\s+0\.000\s+1\.000\n/);
  expect(JSON.parse(readFileSync(output, "utf8"))).toHaveLength(2);
  expect((await runCommand("data", "airline", "hacking", path, "--seed", "1")).code).toBe(2);
});

test.each([
  ["no files", () => [], "name trajectory logs"],
  ["another family's", () => [log("arxiv.jsonl", [episode({ env: "arxiv@3" })])], "it is of arxiv@3"],
  [
    "nothing judged",
    () => [log("lost.jsonl", [episode({ reward: null, ended_by: "error" })])],
    "no judged trajectories",
  ],
])("%s", (_, files, message) => {
  expect(() => runHacking(files())).toThrow(message);
});
