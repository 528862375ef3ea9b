import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { entries, type Verified } from "../bridge/protocol.ts";
import type { RunFolder } from "../run-folder.ts";
import { GATES, judgeVerification, verificationOf } from "./verification.ts";

const dir = mkdtempSync(join(tmpdir(), "verification-"));
const run = { dir, path: (...parts: string[]) => join(dir, ...parts) } as unknown as RunFolder;
const sampling = {
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  max_turn_tokens: 80,
  max_episode_tokens: 200,
  max_context_tokens: null,
};
const ids = Array.from({ length: 40 }, (_, index) => `t${index}`);
const request = verificationOf({ verify: true, seed: 42 }, "model:x", ids, sampling);

const figures = (mean_reward: number | null, parse_rate: number | null = 1): Verified => ({
  episodes: 16,
  valid: mean_reward === null ? 0 : 16,
  mean_reward,
  parse_rate,
  success: 0,
});

test("8 tasks, twice each at temperature 0.3, the same ones for the same seed", () => {
  expect(request).toMatchObject({ samples: 2, sampling: { temperature: 0.3, max_turn_tokens: 80 } });
  expect(new Set(request!.task_ids).size).toBe(8);
  expect(verificationOf({ verify: true, seed: 42 }, "model:x", ids, sampling)).toEqual(request);
  expect(verificationOf({ verify: true, seed: 43 }, "model:x", ids, sampling)!.task_ids).not.toEqual(request!.task_ids);
  expect(verificationOf({ verify: true, seed: 42 }, "model:x", ["one"], sampling)!.task_ids).toEqual(["one"]);
  expect(verificationOf({ verify: false, seed: 42 }, "model:x", ids, sampling)).toBeNull();
  expect(entries.sft.request.shape.verification.parse(request)).toEqual(request);
});

const completed = "max_steps_or_epochs_completed";

test.each([
  ["grpo", figures(-0.2), completed, null],
  ["grpo", figures(-0.201), "verification", /^verification: mean_reward is -0.201/],
  ["opd", figures(-0.75), "verification", /^verification/],
  ["opd", figures(null), "verification", /could not be measured/],
  ["dpo", figures(-0.3), completed, null],
  ["dpo", figures(-0.31), completed, /^warning: verification: mean_reward is -0.310; a policy after dpo/],
  ["sft", figures(-0.75, 0.3), completed, null],
  ["sft", figures(1, 0.29), completed, /^warning: verification: parse_rate is 0.290.*reach 0.3/],
] as const)("%s with %o", (stage, verification, stop_reason, line) => {
  rmSync(join(dir, "verification_report.json"), { force: true });
  const lines: string[] = [];
  const progress = { line: (text: string) => void lines.push(text), status() {}, end() {} };
  const before = { stop_reason: completed, steps: 3, verification };
  expect(judgeVerification(stage, before, request, run, progress)).toEqual({ ...before, stop_reason });
  expect(lines).toHaveLength(line ? 1 : 0);
  if (line) expect(lines[0]).toMatch(line);
  const report = JSON.parse(readFileSync(join(dir, "verification_report.json"), "utf8")) as Record<string, unknown>;
  expect(report).toMatchObject({ stage, ...GATES[stage], passed: line === null, temperature: 0.3, episodes: 16 });
  expect(report.value).toBe(verification[GATES[stage].measure]);
});

test("a run that was stopped before it, or that does without, has no report and keeps its reason", () => {
  rmSync(join(dir, "verification_report.json"), { force: true });
  const progress = { line: () => expect.unreachable(), status() {}, end() {} };
  const stopped = { stop_reason: "canary_threshold", verification: null };
  expect(judgeVerification("grpo", stopped, request, run, progress)).toBe(stopped);
  const without = { stop_reason: completed, verification: null };
  expect(judgeVerification("grpo", without, null, run, progress)).toBe(without);
  expect(existsSync(join(dir, "verification_report.json"))).toBe(false);
});
