import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chooseInterpreter } from "./bridge/interpreter.ts";
import type { Trajectory } from "./core/trajectory.ts";
import { runCommand } from "./fixtures/run-command.ts";
import { TINY_MODEL } from "./recipes/shared.ts";
import { readTrajectories } from "./trajectory-log.ts";

const folder = mkdtempSync(join(tmpdir(), "merge-search-"));

/** An adapter that changes what the model writes, as a long training would. */
const program = `
import sys, torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer
base, folder = sys.argv[1:]
torch.manual_seed(1)
lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM")
model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora)
for name, weight in model.named_parameters():
    if "lora_B" in name:
        torch.nn.init.normal_(weight, std=0.08)
model.save_pretrained(folder)
AutoTokenizer.from_pretrained(base).save_pretrained(folder)
`;

test("a merged adapter writes what base and adapter write, and earns the same", { timeout: 300_000 }, async () => {
  const adapter = join(folder, "adapter");
  const env = { ...process.env, OMP_NUM_THREADS: "1" };
  execFileSync(chooseInterpreter({}).path, ["-c", program, TINY_MODEL, adapter], { env, stdio: "pipe" });
  const merge = await runCommand("merge", "--base", TINY_MODEL, "--adapter", adapter, "--out", folder, "--json");
  expect([merge.code, merge.code === 0 || merge.stderr]).toEqual([0, true]);
  const proof = JSON.parse(merge.stdout) as {
    output: string;
    largest_logit_difference: number;
    adapter_effect: number;
  };
  expect(proof.largest_logit_difference).toBeLessThan(1e-3);
  expect(proof.adapter_effect).toBeGreaterThan(1);

  const plays = join(folder, "plays");
  const tasks = "q007/run_001/round_002,q012/run_001/round_002,q038/run_003/round_001,q052/run_003/round_002";
  const play = async (name: string, model: string): Promise<Trajectory[]> => {
    const few = ["--env", "search", "--split", "eval", "--task-ids", tasks, "--env-options", '{"prompt": "compact"}'];
    const budget = ["--max-turn-tokens", "144", "--max-episode-tokens", "144", "--temperature", "0", "--repeat", "1"];
    const where = ["--policy", `model:${model}`, "--name", name, "--runs-dir", plays];
    const { code, stderr } = await runCommand("bench", ...few, ...budget, ...where);
    expect([code, code === 0 || stderr]).toEqual([0, true]);
    return readTrajectories(join(plays, name, "trajectories", "rank-0.jsonl"));
  };
  const played = (log: readonly Trajectory[]) =>
    log.map(({ task_id, messages, parts, reward }) => ({ task_id, messages, parts, reward }));
  const merged = played(await play("merged", proof.output));
  expect(merged).toHaveLength(4);
  expect(merged).toEqual(played(await play("adapter", adapter)));
  expect(merged).not.toEqual(played(await play("base", TINY_MODEL)));
});
