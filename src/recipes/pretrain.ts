import { cpSync, existsSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { serveEpisodes } from "../bridge/episodes.ts";
import { entries } from "../bridge/protocol.ts";
import { startPython } from "../bridge/python.ts";
import { createRandom } from "../core/random.ts";
import { renderReply } from "../envs/arxiv/protocol.ts";
import { loadEnv } from "../envs/index.ts";
import { openMetrics, summarizePoint } from "../metrics.ts";
import { writeReport } from "../report.ts";
import { freeName, openRun, writeWhole } from "../run-folder.ts";
import { makeDialogue, type Stage } from "../tiny/dialogues.ts";
import { defineRecipe } from "./recipe.ts";
import { dryRun, envKeys, finishRun, localPath, refuse, requireFree, requireWritable, runKeys } from "./shared.ts";

const steps = z.int().nonnegative();

export const pretrain = defineRecipe({
  name: "pretrain",
  summary: "A small base model from scratch: tokenizer and weights, from generated function-calling dialogues",
  examples: ["pretrain configs/pretrain-tiny.yaml", "pretrain configs/tiny/pretrain.yaml"],
  config: z.object({
    ...runKeys,
    ...envKeys,
    split: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "Its worked solutions are known to the tokenizer, not to the model; left out: the environment's first.",
      ),
    copy_to: z.string().nullable().default(null).describe("A folder that the finished model replaces."),
    threads: z
      .int()
      .positive()
      .max(1024)
      .nullable()
      .default(null)
      .describe("CPU threads; left out: torch's own choice."),
    vocab_size: z.int().min(300).default(2048),
    hidden_size: z.int().positive().max(4096).default(128),
    intermediate_size: z.int().positive().max(16_384).default(384),
    layers: z.int().positive().max(64).default(4),
    heads: z.int().positive().max(64).default(4),
    initializer_range: z.number().positive().default(0.02),
    copy_steps: steps.default(2000).describe("Steps on single calls named with all their arguments."),
    short_steps: steps.default(1500).describe("Steps on up to 2 calls and 3 tools."),
    full_steps: steps.default(1500).describe("Steps on up to 5 calls and 9 tools."),
    held_out: z.int().positive().default(200).describe("Full dialogues that are never trained on."),
    batch_size: z.int().positive().default(8).describe("Small: copying takes steps, not tokens."),
    learning_rate: z.number().positive().default(3e-3).describe("AdamW's, for embeddings, norms and biases."),
    matrix_learning_rate: z.number().positive().default(0.02).describe("Muon's, for the layers' matrices."),
    warmup_steps: z.int().positive().default(40),
    bf16: z
      .boolean()
      .default(false)
      .describe("Matrix products in bfloat16: faster where the CPU has instructions for it."),
    log_steps: z.int().positive().default(100),
    held_out_steps: z.int().positive().default(400).describe("Steps between two looks at the held-out dialogues."),
  }),
  defaultFile: () => localPath("configs/pretrain-tiny.yaml"),

  async run(config, context) {
    const { progress } = context;
    const env = await loadEnv(config.env);
    const split = config.split ?? env.splits[0]!;
    const dir = join(config.runs_dir, config.name ?? freeName(config.runs_dir, "pretrain"));
    requireFree(dir);
    refuse([...shapeProblems(config), ...(config.copy_to === null ? [] : copyProblems(config.copy_to))]);
    const { rows } = await env.expert(split, config.env_options);
    const { sources } = await env.load(split, config.env_options);
    if (context.dry_run) return dryRun("pretrain", config, [dir]);

    const python = await startPython({ interpreter: config.python ?? undefined });
    try {
      const run = openRun({
        dir,
        recipe: "pretrain",
        config,
        command: context.command,
        seed: config.seed,
        versions: { python: python.info.version },
        data: sources,
      });
      const metrics = openMetrics(run.path("metrics.jsonl"));
      return await finishRun(run, [metrics], async () => {
        const lines = (name: string, values: readonly unknown[]) => {
          writeWhole(run.path(name), values.map((value) => `${JSON.stringify(value)}\n`).join(""));
          return run.path(name);
        };
        const dialogues = (name: string, stage: Stage, count: number) =>
          lines(
            `dialogues-${name}.jsonl`,
            Array.from({ length: count }, (_, i) =>
              makeDialogue({ random: createRandom(`${config.seed}/${name}/${i}`), renderReply, stage }),
            ),
          );
        const stages = (["copy", "short", "full"] as const).map((stage) => ({
          dialogues: stage,
          steps: config[`${stage}_steps`],
        }));
        const request = entries.pretrain.request.parse({
          seed: config.seed,
          output_dir: dir,
          threads: config.threads,
          dialogues: {
            ...Object.fromEntries(
              stages.map(({ dialogues: stage, steps }) => [stage, dialogues(stage, stage, steps * config.batch_size)]),
            ),
            held_out: dialogues("held_out", "full", config.held_out),
          },
          tokenizer_rows: [lines("tokenizer-rows.jsonl", rows)],
          vocab_size: config.vocab_size,
          shape: {
            hidden_size: config.hidden_size,
            intermediate_size: config.intermediate_size,
            layers: config.layers,
            heads: config.heads,
            initializer_range: config.initializer_range,
          },
          stages,
          batch_size: config.batch_size,
          learning_rate: config.learning_rate,
          matrix_learning_rate: config.matrix_learning_rate,
          warmup_steps: config.warmup_steps,
          bf16: config.bf16,
          log_steps: config.log_steps,
          held_out_steps: config.held_out_steps,
        });
        progress.line(
          `pretrain: ${stages.map(({ dialogues, steps }) => `${steps} ${dialogues}`).join(", ")} steps, into ${dir}`,
        );
        const served = serveEpisodes({
          tasks: await env.load(split, config.env_options),
          log: null,
          onLog(step, values) {
            metrics.write(step, values);
            progress.status(`pretrain: ${summarizePoint(step, values, ["loss", "held_out/actions", "tokens"])}`);
          },
          onNote: progress.line,
        });
        const result = entries.pretrain.result.parse(await python.call("pretrain", request, { answer: served.answer }));
        progress.end();
        const model = config.copy_to ?? run.path("final");
        if (config.copy_to) replaceModel(run.path("final"), config.copy_to);
        return {
          result,
          report: () => writeReport(dir),
          text:
            `pretrain: ${result.steps} steps, ${result.tokens} tokens, ${Math.round(result.train_s / 60)} minutes, ` +
            `${result.parameters} parameters; held-out actions exact ${result["held_out/actions"]?.toFixed(3)}\n` +
            `model: ${model}\nNext: npx tsx src/cli.ts sft --model ${model}`,
        };
      });
    } finally {
      await python.close();
    }
  },
});

/** What would fail only when the network is built, or teach it nothing. */
export function shapeProblems(
  shape: Record<"hidden_size" | "heads" | "copy_steps" | "short_steps" | "full_steps", number>,
) {
  const { hidden_size, heads } = shape;
  const problems: string[] = [];
  if (hidden_size % (2 * heads) !== 0)
    problems.push(
      `hidden_size is ${hidden_size} with ${heads} heads; a head's size must be whole and even (rotary positions). ` +
        `Set --hidden-size ${Math.max(1, Math.round(hidden_size / (2 * heads))) * 2 * heads}.`,
    );
  if (shape.copy_steps + shape.short_steps + shape.full_steps === 0)
    problems.push("copy_steps, short_steps and full_steps are all 0: nothing would be learnt.");
  return problems;
}

/** A folder that is replaced must be a model's: anything else in it would be lost. */
export function copyProblems(folder: string): string[] {
  if (!existsSync(folder)) {
    requireWritable(folder);
    return [];
  }
  const free = statSync(folder).isDirectory() && (readdirSync(folder).length === 0 || isModelFolder(folder));
  return free
    ? []
    : [`copy_to is ${folder}, which is no model's folder and would be replaced. Name a new folder, or a model's.`];
}

/** A model saved by this recipe or by transformers, and nothing else. */
function isModelFolder(folder: string): boolean {
  const entries = readdirSync(folder, { withFileTypes: true });
  return (
    entries.some(({ name }) => name === "config.json") &&
    entries.every((entry) => entry.isFile() && /\.(json|safetensors|jinja|txt|md|model)$/.test(entry.name))
  );
}

/** Copies beside and renames: the old model is there until the new one is whole. */
export function replaceModel(from: string, to: string): void {
  const half = `${to}.tmp`;
  rmSync(half, { recursive: true, force: true });
  cpSync(from, half, { recursive: true });
  rmSync(to, { recursive: true, force: true });
  renameSync(half, to);
}
