import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { main } from "../cli.ts";
import { makeTinyModel } from "../fixtures/tiny-model.ts";
import { readJsonLines, readTrajectories } from "../trajectory-log.ts";

// The whole path with real processes: a model made on the spot trains two steps, is saved, and is played.

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "recipes-"));
const runs = join(folder, "runs");
const model = join(folder, "model");
const LONG = 300_000; // every recipe starts a Python that imports torch

beforeAll(() => {
  makeTinyModel(model);
}, LONG);

const json = (...path: string[]) => JSON.parse(readFileSync(join(runs, ...path), "utf8")) as Record<string, unknown>;
const started = (name: string) => ["--model", model, "--runs-dir", runs, "--name", name];

test("what can be seen before a model loads is refused by --dry-run", { timeout: LONG }, async () => {
  expect(await main(["sft", "configs/tiny/sft.yaml", ...started("no"), "--max-length", "5", "--dry-run"])).toBe(2);
  expect(await main(["quickstart", "--dry-run", "--split", "nope"])).toBe(2);
  expect(await main(["quickstart", "--dry-run", "--name", ".."])).toBe(2);
  expect(existsSync(join(runs, "no"))).toBe(false);
});

test("--rows wins over the split of a settings file, not over --split", { timeout: LONG }, async () => {
  const rows = join(folder, "expert-rows.jsonl");
  const split = ["--split", "train"];
  expect(await main(["data", "./examples/guess-the-number.ts", "sft", ...split, "--output", rows])).toBe(0);
  const sft = ["sft", "configs/tiny/sft.yaml", ...started("no"), "--rows", rows, "--max-length", "4096", "--dry-run"];
  expect(await main(sft)).toBe(0);
  expect(await main([...sft, ...split])).toBe(2);
});

describe("two steps from configs/tiny", () => {
  test("sft", { timeout: LONG }, async () => {
    expect(await main(["sft", "configs/tiny/sft.yaml", ...started("sft"), "--learning-rate", "1e-3", "--json"])).toBe(
      0,
    );
    expect(json("sft", "manifest.json")).toMatchObject({
      recipe: "sft",
      status: "completed",
      versions: { trl: expect.any(String), torch: expect.any(String), node: process.versions.node },
      details: { rows: 50, result: { steps: 2, rows_dropped: 0 } },
    });
    expect(json("sft", "config.json")).toMatchObject({ trainer: { learning_rate: 1e-3, max_steps: 2 } });
    expect(existsSync(join(runs, "sft", "final", "config.json"))).toBe(true);
    const losses = readJsonLines(join(runs, "sft", "metrics.jsonl")).flatMap(
      ({ value }) => (value as { loss?: number }).loss ?? [],
    );
    expect(losses).toHaveLength(2);
    expect(losses.every(Number.isFinite)).toBe(true);
    expect(readdirSync(join(runs, "sft"))).toEqual(
      expect.arrayContaining(["rows.jsonl", "report.html", "learning-curve.svg"]),
    );
    expect(existsSync(join(runs, "sft", "lock"))).toBe(false);
  });

  test("grpo --dapo: the algorithm stands in the manifest, every rollout in the log", { timeout: LONG }, async () => {
    expect(
      await main(["grpo", "configs/tiny/grpo.yaml", ...started("grpo"), "--dapo", "--beta", "0.01", "--json"]),
    ).toBe(0);
    const manifest = json("grpo", "manifest.json");
    expect(manifest).toMatchObject({
      status: "completed",
      details: {
        algorithm: {
          loss_type: "dapo",
          epsilon_high: 0.28,
          mask_truncated_completions: true,
          beta: 0.01,
          num_generations: 4,
        },
        result: { steps: 2, rollouts: 16, groups: 4, invalid: 0, bridge_share: expect.any(Number) },
      },
    });
    const trajectories = readTrajectories(join(runs, "grpo", "trajectories", "rank-0.jsonl"));
    expect(trajectories).toHaveLength(16);
    for (let first = 0; first < 16; first += 4) {
      const group = trajectories.slice(first, first + 4);
      expect(new Set(group.map(({ task_id, seed }) => `${task_id} ${seed}`)).size).toBe(1);
      expect(group.map(({ trial }) => trial)).toEqual([0, 1, 2, 3]);
    }
    expect(trajectories.map(({ policy_step }) => policy_step)).toEqual([...Array(8).fill(0), ...Array(8).fill(1)]);
    expect(trajectories.every(({ tokens }) => tokens.policy > 0 && tokens.prompt > 0)).toBe(true);
  });

  test("a LoRA adapter", { timeout: LONG }, async () => {
    expect(await main(["sft", "configs/tiny/sft.yaml", ...started("lora"), "--lora", "--lora-r", "4", "--json"])).toBe(
      0,
    );
    expect(existsSync(join(runs, "lora", "final", "adapter_config.json"))).toBe(true);
    const { parameters } = (json("lora", "manifest.json").details as { result: { parameters: Record<string, number> } })
      .result;
    expect(parameters.trainable).toBeLessThan(parameters.total! / 2);
  });
});

test("quickstart: every stage, a table and a curve; run again, it has nothing left to do", {
  timeout: LONG,
}, async () => {
  const quickstart = [
    ...["quickstart", "--model", model, "--runs-dir", runs, "--repeat", "1", "--split", "train,test"],
    ...["--sft-config", "configs/tiny/sft.yaml", "--grpo-config", "configs/tiny/grpo.yaml", "--json"],
  ];
  expect(await main(quickstart)).toBe(0);
  const results = json("quickstart", "results.json") as { splits: Record<string, unknown>[] };
  expect(results.splits.map(({ split }) => split)).toEqual(["train", "test"]);
  expect(results.splits[0]).toMatchObject({
    tasks: 50,
    trials: 1,
    before: { complete: true },
    after: { complete: true },
  });
  expect(existsSync(join(runs, "quickstart", "grpo", "learning-curve.svg"))).toBe(true);
  const first = json("quickstart", "grpo", "manifest.json");
  const begin = performance.now();
  expect(await main(quickstart)).toBe(0);
  expect(performance.now() - begin).toBeLessThan(20_000);
  expect(json("quickstart", "grpo", "manifest.json")).toEqual(first);
});

test("the continuation style: sft, grpo and bench speak it, and bench takes it from the model's run", {
  timeout: LONG,
}, async () => {
  const env_options = {
    prompt: "minimal",
    protocol: { style: "continuation" },
    sft: { gold: true, derivations: "none", refusal_share: 0, views: 1 },
  };
  const common = ["--env", "arxiv", "--env-options", JSON.stringify(env_options), "--runs-dir", runs, "--json"];
  const rows = ["--model", "models/tiny", "--split", "v3_81:train", "--per-device-train-batch-size", "2"];
  expect(await main(["sft", "configs/tiny/sft.yaml", ...common, ...rows, "--name", "style-sft"])).toBe(0);

  const trained = ["--model", join(runs, "style-sft", "final"), "--split", "v6:rl_train", "--name", "style-grpo"];
  const budgets = ["--max-turn-tokens", "80", "--max-episode-tokens", "320", "--max-context-tokens", "1536"];
  // two steps of SFT teach nothing: no gate could be passed
  const one = ["--max-steps", "1", "--per-device-train-batch-size", "4", "--no-verify"];
  expect(await main(["grpo", "configs/tiny/grpo.yaml", ...common, ...trained, ...budgets, ...one])).toBe(0);
  expect(json("style-grpo", "manifest.json")).toMatchObject({ details: { result: { steps: 1, rollouts: 4 } } });

  const policy = ["--policy", `model:${join(runs, "style-grpo", "final")}`, "--task-ids", "multi_ai3_tr1"];
  const bench = ["bench", ...policy, ...budgets, "--split", "iid_test", "--repeat", "2", "--name", "style-bench"];
  expect(await main([...bench, "--runs-dir", runs, "--json"])).toBe(0);
  expect(json("style-bench", "config.json")).toMatchObject({ env_options: { protocol: { style: "continuation" } } });
  for (const name of ["style-grpo", "style-bench"]) {
    const played = readTrajectories(join(runs, name, "trajectories", "rank-0.jsonl"));
    expect(played.length).toBeGreaterThan(0);
    for (const { turns } of played) for (const { reply } of turns) expect(reply).not.toContain("Observation:");
  }
});

test("tools go through the chat template: sft, grpo and bench write them, and a template that ignores them is refused", {
  timeout: LONG,
}, async () => {
  const env = ["--env", join(root, "src/fixtures/sums-env.ts"), "--runs-dir", runs, "--json"];
  const rows = ["--model", model, "--max-steps", "1", "--per-device-train-batch-size", "2"];
  const sft = ["sft", ...env, ...rows];
  expect(await main([...sft, "--name", "tools-no", "--dry-run"])).toBe(2);
  expect(await main([...sft, "--name", "tools-no", "--dry-run", "--env-options", '{"template": false}'])).toBe(0);
  expect(await main([...sft, "--name", "tools-no", "--dry-run", "--chat-template", "hermse"])).toBe(2);
  expect(await main([...sft, "--name", "tools-sft", "--chat-template", "hermes", "--no-verify"])).toBe(0);
  const trained = join(runs, "tools-sft", "final");
  expect(readFileSync(join(trained, "chat_template.jinja"), "utf8")).toContain("<tools>");

  const budgets = ["--max-turn-tokens", "80", "--max-episode-tokens", "160"];
  const few = ["--max-steps", "1", "--per-device-train-batch-size", "4", "--num-generations", "4", "--no-verify"];
  const grpo = ["grpo", ...env, "--model", trained, ...few, ...budgets, "--allow-zero-variance"];
  expect(await main([...grpo, "--name", "tools-grpo"])).toBe(0);
  const policy = ["--policy", `model:${join(runs, "tools-grpo", "final")}`];
  expect(await main(["bench", ...policy, ...budgets, ...env, "--name", "tools-bench"])).toBe(0);
  for (const name of ["tools-grpo", "tools-bench"]) {
    const played = readTrajectories(join(runs, name, "trajectories", "rank-0.jsonl"));
    expect(played.length).toBeGreaterThan(0);
    for (const { tokens } of played) expect(tokens.prompt).toBeGreaterThan(300); // the tools' section alone
  }
});

test("sft on whole conversations tells what it left out, and its options are refused for other rows", {
  timeout: LONG,
}, async () => {
  const dialogue = [
    { role: "user", content: "What is 1 + 1?" },
    { role: "assistant", tool_calls: [{ function: { name: "add", arguments: '{"a": 1.0, "b": 1}' } }] },
    { role: "tool", content: "2" },
    { role: "assistant", content: "It is 2." },
  ];
  const rows = join(folder, "conversations.jsonl");
  const lines = [dialogue, dialogue, dialogue.slice(0, 1), dialogue.slice(1)];
  writeFileSync(rows, lines.map((messages) => `${JSON.stringify({ messages })}\n`).join(""));
  const env = ["--env", join(root, "src/fixtures/sums-env.ts"), "--chat-template", "hermes", "--no-verify", "--json"];
  const sft = ["sft", ...env, ...started("conversations"), "--max-steps", "1", "--mask-final-newline"];
  expect(await main([...sft, "--dry-run"])).toBe(2);
  expect(await main([...sft, "--rows", rows])).toBe(0);
  expect(json("conversations", "manifest.json")).toMatchObject({
    data: { [rows]: expect.any(String) },
    details: {
      rows: 4,
      result: {
        rows: 2,
        rows_dropped: 2,
        conversations: { rows: 4, kept: 2, dropped: { no_assistant: 1, render_error: 1, too_long: 0 } },
      },
    },
  });
  expect(readFileSync(join(runs, "conversations", "rows.jsonl"), "utf8")).toBe(readFileSync(rows, "utf8"));
});

/** A command line in a process of its own. */
async function cli(...argv: string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, ["--import", "tsx", "src/cli.ts", ...argv], { cwd: root, stdio: "pipe" });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (text) => {
    stdout += text;
  });
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

describe("refused before a model loads", () => {
  test.each([
    ["a misspelt key (LN-05)", ["--num-generation", "4"], /num_generation.*num_generations/s],
    ["a key that TRL had once (LN-05)", ["--max-prompt-length", "512"], /max_prompt_length/],
    ["a report backend that is not there", ["--report-to", "wandbb"], /report_to is 'wandbb'/],
    [
      "a budget that no gold reply fits",
      ["--max-turn-tokens", "3"],
      /max_turn_tokens is 3, but the longest gold reply takes \d+ tokens/,
    ],
  ])("%s", { timeout: LONG }, async (_, flags, message) => {
    const { code, stdout, stderr } = await cli(
      "grpo",
      "configs/tiny/grpo.yaml",
      ...started("refused"),
      ...flags,
      "--json",
    );
    expect(stderr).toMatch(message);
    expect([code, stdout]).toEqual([2, ""]);
    expect(existsSync(join(runs, "refused"))).toBe(false);
  });
});

test("an environment that fails too often stops the run: exit 1, the first error's text, the folder in order", {
  timeout: LONG,
}, async () => {
  const env = join(folder, "broken-env.ts");
  const source = readFileSync(join(root, "examples/guess-the-number.ts"), "utf8")
    .replace('"zod"', JSON.stringify(import.meta.resolve("zod")))
    .replaceAll("../src/", `${join(root, "src")}/`)
    .replace(
      "async step(state, reply) {",
      'async step(state, reply) {\n    if (!/^(compare|answer) \\d+$/.test(reply)) throw new Error("the database is down");',
    );
  writeFileSync(env, source);
  const { code, stdout, stderr } = await cli(
    "grpo",
    "configs/tiny/grpo.yaml",
    ...started("broken"),
    "--env",
    env,
    "--json",
  );
  expect(stderr).toMatch(/8 of 8 rollouts of this step failed.*the database is down/s);
  expect([code, stdout]).toEqual([1, ""]);
  expect(json("broken", "manifest.json")).toMatchObject({ status: "failed" });
  expect(readTrajectories(join(runs, "broken", "trajectories", "rank-0.jsonl"))).toHaveLength(8);
  expect(existsSync(join(runs, "broken", "lock"))).toBe(false);
});
