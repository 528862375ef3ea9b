import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { chooseInterpreter } from "./bridge/interpreter.ts";
import { runCommand } from "./fixtures/run-command.ts";
import { planMerges } from "./merge.ts";

const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "merge-"));
const LONG = 300_000; // starts a Python that imports torch

/** A file and the folders above it. */
function write(path: string, content: unknown): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
}

function fakeAdapter(dir: string, base: string | null = model): string {
  write(join(dir, "adapter_config.json"), { peft_type: "LORA", base_model_name_or_path: base });
  write(join(dir, "adapter_model.safetensors"), "weights");
  return dir;
}

function fakeRun(name: string, recipe: string, steps: number): string {
  const dir = join(folder, name);
  const manifest = { recipe, name, status: "completed", started: "", versions: {}, data: {} };
  write(join(dir, "manifest.json"), { ...manifest, details: { result: { steps } } });
  return dir;
}

const model = join(folder, "Some-Base");
write(join(model, "config.json"), {});

describe("what becomes of what", () => {
  const plan = (options: Partial<Parameters<typeof planMerges>[0]>) => {
    const notes: string[] = [];
    const merges = planMerges({ adapters: [], out: "out", ...options }, (text) => notes.push(text));
    return { outputs: merges.map(({ output }) => output), dirs: merges.map(({ adapter }) => adapter.dir), notes };
  };

  test("a run's checkpoints by their steps, and its final adapter in the place of the last one", () => {
    const run = fakeRun("checkpoints", "grpo", 1000);
    for (const step of [900, 1000, 20]) fakeAdapter(join(run, `checkpoint-${step}`));
    fakeAdapter(join(run, "final"));
    fakeAdapter(join(run, "checkpoint-best"));
    const { outputs, dirs, notes } = plan({ run });
    expect(outputs).toEqual([20, 900, 1000].map((step) => join("out", `Some-Base-grpo-step${step}`)));
    expect(dirs.at(-1)).toBe(join(run, "final"));
    expect(notes).toEqual([]);
  });

  test("CK-01 a checkpoint that is not whole is left out by name", () => {
    const run = fakeRun("half", "dpo", 30);
    for (const step of [10, 20, 30]) fakeAdapter(join(run, `checkpoint-${step}`));
    rmSync(join(run, "checkpoint-10", "adapter_model.safetensors"));
    expect(plan({ run }).outputs).toEqual([20, 30].map((step) => join("out", `Some-Base-dpo-step${step}`)));
    write(join(run, "checkpoint-20", "complete.json"), {});
    const { outputs, notes } = plan({ run });
    expect(outputs).toEqual([join("out", "Some-Base-dpo-step20")]);
    expect(notes).toEqual([
      `${join(run, "checkpoint-10")} is not whole: left out.`,
      `${join(run, "checkpoint-30")} is not whole: left out.`,
    ]);
  });

  test("adapters by themselves, with the base that is named; the step from the trainer's record, else the folder", () => {
    const plain = fakeAdapter(join(folder, "loose", "my-adapter"), null);
    const recorded = fakeAdapter(join(folder, "loose", "other"));
    write(join(recorded, "trainer_state.json"), { global_step: 7 });
    const other = join(folder, "runs", "my-sft", "final");
    write(join(other, "config.json"), {});
    expect(plan({ adapters: [plain, recorded], base: other }).outputs).toEqual([
      join("out", "my-sft-grpo-my-adapter"),
      join("out", "my-sft-grpo-step7"),
    ]);
    expect(plan({ run: recorded }).outputs).toEqual([join("out", "Some-Base-grpo-step7")]);
  });

  test("mistakes say what to do", () => {
    const full = fakeRun("full", "sft", 3);
    write(join(full, "final", "config.json"), {});
    const none = fakeAdapter(join(folder, "none"), null);
    const gone = fakeAdapter(join(folder, "gone"), join(folder, "Some-Bose"));
    const twice = [1, 2].map((number) => fakeAdapter(join(folder, `twice-${number}`, "checkpoint-5")));
    for (const [options, says] of [
      [{}, "name a run's folder, or adapters with --adapter DIR"],
      [{ run: full, adapters: [none] }, "adapters come from one of them"],
      [{ run: join(folder, "nope") }, "there is no such folder; expected a run's"],
      [{ run: fakeRun("empty", "grpo", 0) }, "holds no checkpoint and no final model"],
      [{ run: full }, "trained all parameters, no adapter"],
      [{ adapters: [model] }, "is a whole model, no adapter"],
      [{ adapters: [join(folder, "nope")] }, "there is no such folder"],
      [{ adapters: [folder] }, "holds no whole adapter"],
      [{ adapters: [none] }, "names no base model (base_model_name_or_path). Name it: --base MODEL."],
      [{ adapters: [gone] }, `Did you mean ${model}? Name it: --base MODEL.`],
      [{ adapters: [none], base: join(folder, "Some-Bose") }, "--base: model is"],
      [{ adapters: twice }, "would both become"],
    ] as const)
      expect(() => plan(options)).toThrow(says);
  });
});

const makeRun = `
import json, sys
import torch
from peft import LoraConfig, get_peft_model
from tiny import tiny_model, tiny_tokenizer
base, run = sys.argv[1:]
tokenizer = tiny_tokenizer()
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "tie_word_embeddings": True}
model = tiny_model(tokenizer, end_rate=0, **shape)
model.save_pretrained(base)
tokenizer.save_pretrained(base)
model.config._name_or_path = model.name_or_path = base
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "lm_head"]))
for name in ("checkpoint-1", "checkpoint-2", "final"):
    with torch.no_grad():
        for each in model.parameters():
            if each.requires_grad:
                each.add_(0.1 * torch.randn_like(each))
    model.save_pretrained(f"{run}/{name}")
    tokenizer.save_pretrained(f"{run}/{name}")
`;

describe("merging for real", () => {
  const base = join(folder, "Tiny-Base");
  const run = join(folder, "runs", "my-run");

  beforeAll(() => {
    const PYTHONPATH = [join(root, "py"), join(root, "py/tests")].join(":");
    execFileSync(chooseInterpreter({}).path, ["-c", makeRun, base, run], {
      env: { ...process.env, PYTHONPATH, OMP_NUM_THREADS: "1" },
      stdio: "pipe",
    });
    cpSync(join(fakeRun("for-its-manifest", "opd", 2), "manifest.json"), join(run, "manifest.json"));
  }, LONG);

  test("a run, with its proof; an output stays as it is without --force", { timeout: LONG }, async () => {
    const out = join(folder, "merged");
    const { code, stdout, stderr } = await runCommand("merge", run, "--out", out, "--json");
    expect([code, stderr]).toEqual([0, expect.stringContaining("merge: ")]);
    const results = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(results).toHaveLength(2);
    expect(readdirSync(out).sort()).toEqual(["Tiny-Base-opd-step1", "Tiny-Base-opd-step2"]);
    const facts = JSON.parse(readFileSync(join(out, "Tiny-Base-opd-step2", "merge.json"), "utf8"));
    expect(facts).toMatchObject({ base, adapter: join(run, "final"), run, recipe: "opd", step: 2, dtype: "fp32" });
    expect(results[1]).toMatchObject({ ...facts, untied_embeddings: true });
    expect(facts.largest_logit_difference).toBeLessThan(1e-5);
    expect(facts.adapter_effect).toBeGreaterThan(0.01);

    const again = await runCommand("merge", run, "--out", out);
    expect([again.code, again.stderr]).toEqual([2, expect.stringMatching(/step1 is there already.*--force/)]);

    const final = ["--adapter", join(run, "final"), "--out", out];
    const forced = await runCommand("merge", ...final, "--dtype", "bf16", "--force");
    expect(forced.stdout).toMatch(/step2: bf16, largest logit difference \S+ of \S+ allowed on 8 prompts/);
    expect(forced.stdout).toMatch(/output head has a matrix of its own/);
  });

  test("a mistake leaves no folder behind", { timeout: LONG }, async () => {
    const out = join(folder, "not", "there");
    const broken = join(folder, "runs", "broken", "checkpoint-1");
    cpSync(join(run, "checkpoint-1"), broken, { recursive: true });
    writeFileSync(join(broken, "adapter_model.safetensors"), "x");
    const { code, stderr } = await runCommand("merge", "--adapter", broken, "--out", out);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/adapter can't be loaded/)]);
    expect(existsSync(out)).toBe(false);
    expect((await runCommand("merge", "--adapter", broken)).stderr).toMatch(/--out is missing/);
    const inFile = await runCommand("merge", run, "--out", join(broken, "adapter_model.safetensors", "x"));
    expect([inFile.code, inFile.stderr]).toEqual([2, expect.stringMatching(/is a file/)]);
  });

  test("killed at any moment, no half model stands under its name, and it can be run again", {
    timeout: LONG,
  }, async () => {
    const out = join(folder, "killed");
    const target = join(out, "Tiny-Base-opd-step1");
    const moments = [
      () => existsSync(`${target}.tmp`), // while it is written
      () => existsSync(target), // between the first and the second
    ];
    for (const moment of moments) {
      const child = spawn(process.execPath, ["--import", "tsx", "src/cli.ts", "merge", run, "--out", out], {
        cwd: root,
        stdio: "ignore",
        detached: true,
      });
      const ended = once(child, "exit");
      while (!moment() && child.exitCode === null) await sleep(1);
      try {
        process.kill(-child.pid!, "SIGKILL");
      } catch {} // it was quicker
      await ended;
      for (const name of readdirSync(out).filter((each) => /step\d+$/.test(each)))
        expect(readdirSync(join(out, name))).toEqual(expect.arrayContaining(["merge.json", "model.safetensors"]));
    }
    const last = await runCommand("merge", run, "--out", out);
    const finished = existsSync(join(out, "Tiny-Base-opd-step2")) && last.code === 2; // before it was killed
    if (!finished) expect(last).toMatchObject({ code: 0, stderr: expect.stringMatching(/step1 is there, .*: kept/) });
    expect(readdirSync(out).sort()).toEqual(["Tiny-Base-opd-step1", "Tiny-Base-opd-step2"]);
  });
});
