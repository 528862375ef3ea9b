import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runAlarms } from "./data-airline-alarms.ts";

const folder = mkdtempSync(join(tmpdir(), "alarms-"));

function training(name: string, points: readonly object[]): string {
  const dir = join(folder, name);
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, "metrics.jsonl"), points.map((point) => `${JSON.stringify(point)}\n`).join(""));
  return dir;
}

test("a run in order breaks no rule, and says what was read", () => {
  const point = { reward: 0.5, grad_norm: 0.1, "time/sampling_s": 600, "time/environment_s": 1, "time/learning_s": 90 };
  const dir = training(
    "good",
    Array.from({ length: 60 }, (_, step) => ({ step, ...point, "rollout/out_of_tokens": 0.1 })),
  );
  const { text, exit_code } = runAlarms([dir]);
  expect([text, exit_code]).toEqual([expect.stringMatching(/score_mean \(60\).*clip_ratio \(60\).*No rule/s), 0]);
});

test("a gradient that is no number stops the run, and a slow step is to be looked at", () => {
  const slow = { "time/sampling_s": 1400, "time/environment_s": 50, "time/learning_s": 60 };
  const dir = training("lost", [
    { step: 1, grad_norm: 0.1, ...slow },
    { step: 2, grad_norm: { $float: "NaN" } },
  ]);
  const { json, exit_code } = runAlarms([dir]);
  expect(json).toEqual([
    {
      alarms: [
        expect.objectContaining({ rule: "step_over_1500_s", step: 1, value: 1510, action: "check" }),
        expect.objectContaining({ rule: "nan_gradient", step: 2, value: null, action: "stop" }),
      ],
    },
  ]);
  expect(exit_code).toBe(1);
});

test.each([
  [[], /name a training run's folder/],
  [[join(folder, "none")], /there is no such folder/],
  [[folder], /neither metrics.jsonl of a training run nor eval_report.json/],
])("%j is refused", (folders, message) => {
  expect(() => runAlarms(folders)).toThrow(message);
});
