import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import type { PairRow } from "../core/pair.ts";
import { writeRows } from "../expert-rows.ts";
import { runCommand as run } from "../fixtures/run-command.ts";
import { readPairRows } from "../pair-data.ts";
import { readJsonLines } from "../trajectory-log.ts";
import { fileHash } from "./shared.ts";

const folder = mkdtempSync(join(tmpdir(), "dpo-"));
const runs = join(folder, "runs");
const GUESS = "./examples/guess-the-number.ts";
const LONG = 300_000; // every run starts a Python that imports torch

const pairs = join(folder, "pairs.jsonl");
const config = ["configs/tiny/dpo.yaml", "--model", "models/tiny", "--runs-dir", runs];
const dpo = (name: string, ...more: string[]) => run("dpo", ...config, "--name", name, ...more);
const json = (...path: string[]) => JSON.parse(readFileSync(join(runs, ...path), "utf8")) as Record<string, unknown>;

function write(name: string, text: string): string {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

beforeAll(async () => {
  for (const policy of ["gold", "always_fifty"]) {
    const played = ["--env", GUESS, "--policy", policy, "--split", "train", "--runs-dir", runs, "--name", policy];
    expect((await run("rollout", ...played)).code).toBe(0);
  }
  const logs = [join(runs, "gold"), join(runs, "always_fifty")];
  expect((await run("data", GUESS, "dpo", ...logs, "--output", pairs)).code).toBe(0);
}, LONG);

const untouched = (name: string) => expect(existsSync(join(runs, name))).toBe(false);
const rows = () => readPairRows(pairs).rows;
function pairsOf(name: string, made: PairRow[], manifest: Record<string, unknown> = {}): string {
  writeRows(join(folder, name), { rows: made, manifest });
  return join(folder, name);
}

describe("refused before Python starts", () => {
  const refused = async (says: RegExp, ...flags: string[]) => {
    const { code, stderr, stdout } = await dpo("no", ...flags);
    expect(stderr).toMatch(says);
    expect([code, stdout]).toEqual([2, ""]);
    untouched("no");
  };

  test(
    "no pairs: the commands that make them, which the command line takes",
    async () => {
      const { code, stderr } = await dpo("no");
      expect(code).toBe(2);
      const commands = [...stderr.matchAll(/npx tsx src\/cli\.ts (.*)/g)].map(([, line]) => line!.split(" "));
      expect(commands.map(([name]) => name)).toEqual(["rollout", "data", "dpo"]);
      expect(commands[0]!.join(" ")).toMatch(/--policy model:models\/tiny --split train --repeat 8 --temperature 0\.8/);
      expect((await run(...commands[0]!, "--dry-run")).code).toBe(0);
      expect((await run(...commands[1]!)).stderr).toMatch(/dpo-rollouts: there is no such log or run folder/);
      expect((await run(...commands[2]!, "--env", GUESS)).stderr).toMatch(
        /pairs is '.*dpo-pairs.jsonl': there is no such/,
      );
    },
    LONG,
  );

  test("no pairs and no model: sft comes first, and the settings of the tiny model are taken", async () => {
    const { code, stderr } = await run("dpo", "--runs-dir", join(folder, "empty"));
    expect(code).toBe(2);
    expect(stderr).toMatch(/settings: .*dpo-tiny\.yaml/);
    expect(stderr).toMatch(/cli\.ts sft .*\n.*rollout --env arxiv --env-options '{"prompt":"minimal"}' .*v3_81:train/);
  });

  test("pairs that are none", async () => {
    await refused(/pairs is '.*nowhere': there is no such file or folder/, "--pairs", join(folder, "nowhere"));
    await refused(/empty.jsonl', which is empty/, "--pairs", write("empty.jsonl", "\n"));
    await refused(/line 1: 'rejected'|line 1: .*rejected/, "--pairs", write("half.jsonl", '{"chosen": []}\n'));
    await refused(/text.jsonl, line 1: not JSON/, "--pairs", write("text.jsonl", "hello\n"));
    await refused(/no trajectories/, "--pairs", folder);
  });

  test("pairs that were made for something else", async () => {
    const [row] = rows();
    await refused(
      /pairs of arxiv@3, but env is guess-the-number@1/,
      "--pairs",
      pairsOf("a.jsonl", [row!], { env: "arxiv@3" }),
    );
    await refused(/split is 'train', but the pairs of .* are made already/, "--pairs", pairs, "--split", "train");
    const styled = pairsOf("style.jsonl", [row!], { env_options: { protocol: { style: "continuation" } } });
    await refused(
      /of the continuation style, and env_options ask for the chat style/,
      "--env",
      "arxiv",
      "--pairs",
      styled,
    );
    await refused(/only train may be trained on/, "--pairs", join(runs, "gold"), "--split", "test");
  });

  test("DT-06: pairs without a difference", async () => {
    const [one, two] = rows() as [PairRow, PairRow];
    const blank = { ...two, chosen: [{ reply: " ", observations: [] }] };
    const file = pairsOf("same.jsonl", [{ ...one, chosen: one.rejected }, blank]);
    await refused(/none of the 2 pairs can teach anything/, "--pairs", file);
  });

  test("a log of one policy pairs with nothing, and says why", async () => {
    await refused(/nothing to pair.*one_trajectory 50/s, "--pairs", join(runs, "gold"));
  });

  test("LoRA keys that would be ignored", async () => {
    await refused(/lora_r is set, but LoRA is off/, "--pairs", pairs, "--lora-r", "4");
    await refused(/DPO switches dropout off/, "--pairs", pairs, "--lora", "--lora-dropout", "0.1");
    await refused(/lm_head/, "--pairs", pairs, "--lora", "--lora-target-modules", "q_proj,lm_head");
  });
});

test("refused by preflight: keys of TRL, and pairs too long; --dry-run writes nothing", { timeout: LONG }, async () => {
  const flags = ["--max-length", "20", "--label-smoothing", "0.1", "--bea", "0.2"];
  const { code, stderr } = await dpo("no", "--pairs", pairs, ...flags, "--dry-run");
  expect(code).toBe(2);
  expect(stderr).toMatch(/trainer\.bea: DPOConfig has no such key. Did you mean 'beta'/);
  expect(stderr).toMatch(/max_length is 20, but more than 1 % of the rows are longer.*--max-length \d+/);
  const dry = await dpo("no", "--pairs", join(runs, "always_fifty"), "--pairs", pairs, "--dry-run", "--json");
  expect(dry.code).toBe(0);
  expect(JSON.parse(dry.stdout)).toMatchObject({ recipe: "dpo", config: { pairs, max_length: 1024 } });
  untouched("no");
});

test("four steps from configs/tiny raise the margin; the manifest counts and hashes the pairs", {
  timeout: LONG,
}, async () => {
  const { code, stdout } = await dpo("dpo", "--pairs", pairs, "--beta", "0.3", "--json");
  expect(code).toBe(0);
  const [line] = stdout
    .trim()
    .split("\n")
    .map((text) => JSON.parse(text) as Record<string, number>);
  expect(line).toMatchObject({ steps: 4, margin_before: 0, pairs: rows().length });
  expect(line!.margin_after).toBeGreaterThan(0.02);
  expect(json("dpo", "manifest.json")).toMatchObject({
    recipe: "dpo",
    status: "completed",
    data: { [pairs]: fileHash(pairs) },
    details: {
      env: "guess-the-number@1",
      split: "train",
      pairs: { rows: rows().length, tasks: rows().length, sha256: fileHash(join(runs, "dpo", "pairs.jsonl")) },
      algorithm: { beta: 0.3, loss_type: "default", learning_rate: 1e-3 },
      result: { dropped: { identical: 0, empty: 0, too_long: 0 }, margin_after: line!.margin_after },
    },
  });
  const points = readJsonLines(join(runs, "dpo", "metrics.jsonl")).map(({ value }) => value as Record<string, number>);
  const losses = points.flatMap(({ loss }) => loss ?? []);
  expect(losses).toHaveLength(4);
  expect(losses[0]).toBeCloseTo(Math.log(2), 3);
  expect(losses[3]).toBeLessThan(losses[0]!);
  expect(points[3]).toMatchObject({ "rewards/accuracies": expect.any(Number), "rewards/margins": expect.any(Number) });
  expect(readdirSync(join(runs, "dpo"))).toEqual(
    expect.arrayContaining(["pairs.jsonl", "pairs.manifest.json", "report.html", "learning-curve.svg", "final"]),
  );
  expect(readFileSync(join(runs, "dpo", "report.html"), "utf8")).toContain("Rewards of the pairs");
  expect(existsSync(join(runs, "dpo", "lock"))).toBe(false);
});

test("a run's folder is paired as the data command does it; a LoRA adapter is trained", { timeout: LONG }, async () => {
  const mixed = join(runs, "gold", "trajectories", "rank-1.jsonl"); // the other policy's, in one folder
  writeFileSync(mixed, readFileSync(join(runs, "always_fifty", "trajectories", "rank-0.jsonl")));
  const lora = ["--lora", "--lora-r", "4", "--max-steps", "2", "--learning-rate", "1e-3"];
  const { code, stdout, stderr } = await dpo("lora", "--pairs", join(runs, "gold"), ...lora);
  expect(code).toBe(0);
  expect(stderr).toMatch(/100 trajectories of 50 tasks/);
  expect(stdout).toMatch(/margin 0 → \d[\d.e-]*, pairs told apart/);
  expect(readPairRows(join(runs, "lora", "pairs.jsonl")).rows.map(({ id }) => id)).toEqual(rows().map(({ id }) => id));
  expect(Object.keys(json("lora", "manifest.json").data as object)).toEqual([
    "gold/trajectories/rank-0.jsonl",
    "gold/trajectories/rank-1.jsonl",
  ]);
  expect(existsSync(join(runs, "lora", "final", "adapter_config.json"))).toBe(true);
  expect(existsSync(join(runs, "lora", "final", "ref"))).toBe(false);
});
