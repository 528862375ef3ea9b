// What is checked on a GPU machine, and how: mostly our own commands on the tiny model, a few steps each.

import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { projectRoot } from "../../src/bridge/interpreter.ts";
import { type Check, lastLines, type Started, start } from "./runner.ts";

/** What probe.py prints. */
export interface Facts {
  gpus: string[];
  bf16: boolean;
  versions: Record<string, string | null>;
  cuda: string | null;
  /** Versions outside the pins, a line. */
  others: string[];
  /** Features that the installed libraries lack. */
  lacks: string[];
  cpus: number;
  vllm: boolean;
  requests: boolean;
  bitsandbytes: boolean;
}

/** Where and with what the checks run. */
export interface Place {
  python: string;
  /** Run folders and a log of each check. */
  dir: string;
  /** Lets the checks that could run on a CPU run there. */
  cpu: boolean;
  /** What `cli.ts`, `cli.ts sft` and `cli.ts grpo` say with --help. */
  help: Record<"" | "sft" | "grpo", string>;
}

// A policy that wanders in a few steps, so that a weight sync that does not happen shows: its logprobs then differ by
// more than MOVED from those it began with, and a sampler that follows stays within CLOSE of the trainer.
const GRPO = ["--env", "./scripts/gpu_check/letters.ts", "--split", "train"];
GRPO.push(
  "--num-generations",
  "8",
  "--per-device-train-batch-size",
  "16",
  "--beta",
  "0",
  "--max-context-tokens",
  "512",
);
GRPO.push("--max-turn-tokens", "24", "--max-episode-tokens", "64", "--lr-scheduler-type", "constant");
const WANDERS = ["--learning-rate", "3e-3", "--max-steps", "4", "--save-strategy", "no"];
const MOVED = 0.3;
const CLOSE = 0.1;
const SFT = ["configs/tiny/sft.yaml", "--max-steps", "3"];

export function gpuChecks(facts: Facts, place: Place): Check[] {
  const { cpu, dir, python, help } = place;
  const model = bfloat16Copy(join(dir, "model"));
  const noGpu = facts.gpus.length === 0 ? "no CUDA device" : null;
  const gpuOrCpu = noGpu && !cpu ? noGpu : null;
  const without = (command: "" | "sft" | "grpo", word: string) =>
    help[command].includes(word) ? null : `this version has no ${word.trim()}`;
  const noVllm = noGpu ?? (facts.vllm && facts.requests ? null : "vllm is not installed: pip install 'trl[vllm]'");
  const two = noGpu ?? (facts.gpus.length < 2 ? "one GPU" : null);

  const log = (name: string) => join(dir, `${name.replaceAll(/\W+/g, "-")}.log`);
  const trestle = (name: string, args: string[], signal: AbortSignal, env: NodeJS.ProcessEnv = {}) => {
    const own = ["--runs-dir", dir, "--name", name.replaceAll(/\W+/g, "-"), "--python", python, "--json"];
    return jsonOf(cli(log(name), [...args, ...own], env, signal));
  };
  const python3 = (name: string, args: string[], signal: AbortSignal, env: NodeJS.ProcessEnv = {}) =>
    jsonOf(start(python, args, { log: log(name), cwd: projectRoot, env: { ...quiet, ...env }, signal }));
  const compare = (name: string, one: string, other: string, signal: AbortSignal) =>
    python3(name, [script("models.py"), one, other], signal) as Promise<{ weights: number; logprobs: number }>;

  const training = (name: string, args: string[], limit_s = 90): Check => ({
    name,
    skip: gpuOrCpu,
    limit_s,
    run: async (signal) => describe(await trestle(name, args, signal)),
  });

  /** GRPO whose rollouts vLLM samples: its logprobs have to follow weights that move. */
  const follows = (name: string, args: string[], env: NodeJS.ProcessEnv, signal: AbortSignal) => {
    const run = ["grpo", "--model", model, ...GRPO, ...WANDERS, "--use-vllm", ...args];
    return trestle(name, run, signal, env).then(async (result) => {
      const [name_of] = [name.replaceAll(/\W+/g, "-")];
      const steps = metricsOf(join(dir, name_of)).map((line) => line["sampling/sampling_logp_difference/mean"]);
      const differences = steps.filter((value) => typeof value === "number");
      const moved = (await compare(name, model, String(result.model), signal)).logprobs;
      const worst = Math.max(...differences);
      const figure = `sampler ${show(worst)} nats from the trainer at most; the weights moved logprobs by ${show(moved)}`;
      if (differences.length < 3 || !(worst < CLOSE)) throw new Error(`${figure}; expected less than ${CLOSE}`);
      if (!(moved > MOVED)) throw new Error(`${figure}: too little to show a sync (expected ${MOVED})`);
      return figure;
    });
  };

  return [
    {
      name: "versions and features",
      skip: null,
      limit_s: 10,
      run: async () => {
        if (facts.lacks.length > 0) throw new Error(facts.lacks.join(" "));
        const names = Object.entries(facts.versions).map(([name, version]) => `${name} ${version}`);
        return [facts.gpus.join(", ") || "CPU", `CUDA ${facts.cuda ?? "none"}`, ...names].join(", ");
      },
    },
    training("sft, precision by hardware", ["sft", ...SFT, "--model", "models/tiny"]),
    {
      ...training("sft, fp16", ["sft", ...SFT, "--model", "models/tiny", ...fp16(help.sft)]),
      skip: noGpu,
    },
    training("sft, gradient checkpointing", [
      ...["sft", ...SFT, "--model", "models/tiny", "--gradient-checkpointing", "true"],
    ]),
    {
      ...training("sft, qlora (nf4)", ["sft", ...SFT, "--model", "models/tiny", "--qlora"]),
      skip: noGpu ?? without("sft", "--qlora") ?? (facts.bitsandbytes ? null : "bitsandbytes is not installed"),
      run: async (signal) => {
        const result = await trestle("sft, qlora (nf4)", ["sft", ...SFT, "--model", "models/tiny", "--qlora"], signal);
        const { quantization } = result.hardware as { quantization?: unknown };
        if (quantization !== "nf4") throw new Error(`the base was loaded as ${String(quantization)}; expected nf4`);
        return describe(result);
      },
    },
    {
      name: "lora, then merge",
      skip: gpuOrCpu ?? without("", "\n  merge"),
      limit_s: 120,
      run: async (signal) => {
        const name = "lora, then merge";
        const trained = await trestle(name, ["sft", ...SFT, "--model", "models/tiny", "--lora"], signal);
        const args = ["--base", "models/tiny", "--adapter", String(trained.model), "--out", join(dir, "merged")];
        const merged = await jsonOf(cli(log(name), ["merge", ...args, "--python", python, "--json"], {}, signal));
        return `largest logit difference ${show(Number(merged.largest_logit_difference))}`;
      },
    },
    training("grpo, our sampler", ["grpo", "--model", "models/tiny", ...GRPO, ...WANDERS]),
    {
      name: "resume after Ctrl-C",
      skip: gpuOrCpu ?? without("grpo", "--resume"),
      limit_s: 150,
      run: async (signal) => {
        const name = "resume after Ctrl-C";
        const run = ["grpo", "--model", "models/tiny", ...GRPO, "--learning-rate", "1e-3", "--max-steps", "12"];
        run.push("--save-steps", "3");
        const whole = await trestle(`${name} whole`, run, signal);
        const folder = name.replaceAll(/\W+/g, "-");
        const own = ["--runs-dir", dir, "--name", folder, "--python", python, "--json"];
        const first = cli(log(name), [...run, ...own], {}, signal);
        while (first.child.exitCode === null && !checkpoints(join(dir, folder)).includes("checkpoint-3"))
          await sleep(20, undefined, { signal });
        first.child.kill("SIGINT");
        await first.done;
        if (checkpoints(join(dir, folder)).includes("checkpoint-12"))
          throw new Error("it had ended before it was stopped");
        const resumed = await trestle(name, [...run, "--resume"], signal);
        const { weights } = await compare(name, String(whole.model), String(resumed.model), signal);
        if (!(weights < 1e-3)) throw new Error(`the weights differ by ${show(weights)}; expected less than 0.001`);
        return `weights ${show(weights)} from the unbroken run's`;
      },
    },
    {
      name: "two ranks (gloo)",
      skip: gpuOrCpu ?? (two === null ? "there are two GPUs: see nccl" : null),
      limit_s: 90,
      run: async (signal) => ranks(await python3("two ranks (gloo)", [script("two_ranks.py"), model, "gloo"], signal)),
    },
    {
      name: "two ranks (nccl)",
      skip: two === "one GPU" ? "one GPU, on which NCCL refuses two ranks: see gloo" : two,
      limit_s: 90,
      run: async (signal) => ranks(await python3("two ranks (nccl)", [script("two_ranks.py"), model, "nccl"], signal)),
    },
    {
      ...training("grpo, two processes", ["grpo", "--model", "models/tiny", ...GRPO, ...WANDERS, "--nproc", "2"], 120),
      skip: two ?? without("grpo", "--nproc"),
    },
    {
      name: "our sampler's speed",
      skip: gpuOrCpu,
      limit_s: 90,
      alone: true,
      run: async (signal) =>
        speed(await python3("our sampler's speed", [script("rollouts.py"), model, "ours"], signal)),
    },
    {
      name: "vllm's speed",
      skip: noVllm,
      limit_s: 120,
      alone: true,
      run: async (signal) => speed(await python3("vllm's speed", [script("rollouts.py"), model, "vllm"], signal)),
    },
    {
      name: "vllm colocate, grpo",
      skip: noVllm,
      limit_s: 150,
      alone: true,
      run: (signal) => follows("vllm colocate, grpo", ["--vllm-gpu-memory-utilization", "0.2"], {}, signal),
    },
    {
      name: "vllm server, sampling",
      skip: noVllm,
      limit_s: 120,
      alone: true,
      run: (signal) =>
        serving(log("vllm server"), python, model, {}, signal, async (url) =>
          speed(await python3("vllm server, sampling", [script("rollouts.py"), model, url], signal)),
        ),
    },
    {
      name: "vllm server, grpo",
      skip: noVllm ?? (two ? "one GPU: weights go to a server by NCCL, which joins no two processes on one" : null),
      limit_s: 150,
      alone: true,
      run: (signal) =>
        serving(log("vllm server"), python, model, { CUDA_VISIBLE_DEVICES: "1" }, signal, (url) =>
          follows(
            "vllm server, grpo",
            ["--vllm-mode", "server", "--vllm-server-base-url", url],
            { CUDA_VISIBLE_DEVICES: "0" },
            signal,
          ),
        ),
    },
    {
      name: "vllm colocate, asleep while learning",
      skip: noVllm,
      limit_s: 150,
      alone: true,
      optional: true,
      run: (signal) => {
        const args = ["--vllm-gpu-memory-utilization", "0.2", "--vllm-enable-sleep-mode", "true"];
        return follows("vllm colocate, asleep while learning", args, {}, signal);
      },
    },
  ];
}

const quiet = {
  HF_HUB_OFFLINE: "1",
  TRANSFORMERS_OFFLINE: "1",
  VLLM_NO_USAGE_STATS: "1",
  TOKENIZERS_PARALLELISM: "false",
};
const script = (file: string) => join("scripts", "gpu_check", file);

export function cli(log: string, args: string[], env: NodeJS.ProcessEnv = {}, signal?: AbortSignal): Started {
  const command = ["--import", "tsx", join("src", "cli.ts"), ...args];
  return start(process.execPath, command, { log, cwd: projectRoot, env: { ...quiet, ...env }, signal });
}

/** The last line of JSON that a process printed. @throws Error with its last words where it failed */
async function jsonOf(started: Started): Promise<Record<string, unknown>> {
  const { code, stdout, tail } = await started.done;
  if (code !== 0) throw new Error(`exit code ${code}: ${lastLines(tail)}`);
  // vLLM writes its log to stdout, also while it ends.
  const line = stdout.split("\n").findLast((each) => each.startsWith("{")) ?? "";
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    throw new Error(`no JSON came, but: ${lastLines(tail)}`);
  }
}

/** Runs `work` with a server that `vllm serve` starts as docs/vllm.md says. */
async function serving(
  log: string,
  python: string,
  model: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
  work: (url: string) => Promise<string>,
): Promise<string> {
  const port = await freePort();
  const args = ["-m", "vllm.entrypoints.cli.main", "serve", model, "--host", "127.0.0.1", "--port", String(port)];
  args.push("--weight-transfer-config", '{"backend": "nccl"}', "--logprobs-mode", "processed_logprobs");
  args.push("--gpu-memory-utilization", "0.2", "--max-model-len", "2048", "--enforce-eager");
  const settings = { ...quiet, VLLM_SERVER_DEV_MODE: "1", ...env };
  const server = start(python, args, { log, cwd: projectRoot, env: settings, signal });
  const url = `http://127.0.0.1:${port}`;
  try {
    while (!(await answers(`${url}/health`))) {
      if (server.child.exitCode !== null) throw new Error(`vllm serve ended: ${lastLines((await server.done).tail)}`);
      await sleep(500, undefined, { signal });
    }
    return await work(url);
  } finally {
    await server.kill();
  }
}

async function answers(url: string): Promise<boolean> {
  return fetch(url, { signal: AbortSignal.timeout(2000) }).then(
    (response) => response.ok,
    () => false,
  );
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** The tiny model, stored as what a GPU computes in: vLLM would take 16 bits of another kind for 32. */
function bfloat16Copy(folder: string): string {
  if (existsSync(folder)) return folder;
  cpSync(join(projectRoot, "models", "tiny"), folder, { recursive: true });
  const path = join(folder, "config.json");
  const config = JSON.parse(readFileSync(path, "utf8")) as object;
  writeFileSync(path, JSON.stringify({ ...config, dtype: "bfloat16" }, null, 2));
  return folder;
}

function metricsOf(run: string): Record<string, unknown>[] {
  const lines = readFileSync(join(run, "metrics.jsonl"), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

const checkpoints = (run: string): string[] =>
  existsSync(run) ? readdirSync(run).filter((name) => /^checkpoint-\d+$/.test(name)) : [];

/** fp16 by our own switch where there is one, else by TRL's. */
const fp16 = (help: string): string[] => (help.includes("--precision") ? ["--precision", "fp16"] : ["--fp16", "true"]);

const show = (value: number): string => value.toPrecision(2);

function describe(result: Record<string, unknown>): string {
  const { steps, train_loss, train_s, peak_memory_gib, hardware } = result as {
    steps: number;
    train_loss: unknown;
    train_s: number;
    peak_memory_gib: number | null;
    hardware?: { device: string; dtype: string };
  };
  if (typeof train_loss !== "number") throw new Error(`the loss is ${JSON.stringify(train_loss)}; expected a number`);
  const memory = peak_memory_gib === null ? "" : `, ${peak_memory_gib.toFixed(2)} GiB`;
  return `${steps} steps on ${hardware?.device} in ${hardware?.dtype}, ${train_s.toFixed(1)} s, loss ${train_loss.toFixed(3)}${memory}`;
}

const ranks = ({ gradients }: Record<string, unknown>): string =>
  `gradients ${show(Number(gradients))} of one process's`;

const speed = ({ tokens_per_s, logprobs, device, dtype }: Record<string, unknown>): string =>
  `${Math.round(Number(tokens_per_s))} tokens/s, logprobs ${show(Number(logprobs))} nats from the model's (${device}, ${dtype})`;
