import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { z } from "zod";
import { serveEpisodes } from "../bridge/episodes.ts";
import { entries } from "../bridge/protocol.ts";
import { startPython } from "../bridge/python.ts";
import { UserError } from "../core/errors.ts";
import { loadEnv } from "../envs/index.ts";
import { summarizePoint } from "../metrics.ts";
import { writeReport } from "../report.ts";

import { outputOf } from "../world.ts";

import { adapterKeys, adapterOf } from "./adapters.ts";
import { openExam } from "./exams.ts";
import { defineRecipe, type Recipe } from "./recipe.ts";
import { conversationKeys, loadSftRows } from "./sft-rows.ts";
import {
  chatKeys,
  chatOf,
  describePython,
  dryRun,
  envKeys,
  finishRun,
  isTinyModel,
  localPath,
  modelProblems,
  preflight,
  refuse,
  runKeys,
  savedModel,
  TINY_MODEL,
  trainerKey,
} from "./shared.ts";
import { openTrainingRun, planRun, resumeKeys } from "./training-run.ts";
import { judgeVerification, solutionBudgets, verificationOf, verifyKeys } from "./verification.ts";

/** By environment. Settings for real models would teach the tiny one nothing, and the other way round. */
const DEFAULT_FILES: Record<string, { tiny: string; real: string }> = {
  arxiv: { tiny: "configs/sft-tiny.yaml", real: "configs/sft-arxiv.yaml" },
  airline: { tiny: "configs/airline/sft-tiny.yaml", real: "configs/airline/sft.yaml" },
};

export const sft: Recipe = defineRecipe({
  name: "sft",
  several_processes: true,
  summary: "Supervised fine-tuning on worked solutions, loss on the policy's tokens only",
  examples: ["sft", "sft configs/sft-arxiv.yaml --lora --learning-rate 1e-4 --num-train-epochs 2"],
  config: z.object({
    ...runKeys,
    ...resumeKeys,
    ...envKeys,
    split: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "Where the solutions come from; left out: what the environment says may be trained on, else its first.",
      ),
    model: z.string().default(TINY_MODEL).describe("A folder in Hugging Face format, or a hub id."),
    rows: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "A file of rows, as 'data arxiv sft' writes it, or of conversations {messages, tools?}; left out: made from the split.",
      ),
    max_length: z
      .int()
      .positive()
      .default(4096)
      .describe("Tokens of a row; longer ones are left out, and refused where they are more than 1 %."),
    ...conversationKeys,
    matrix_learning_rate: z
      .number()
      .positive()
      .nullable()
      .default(null)
      .describe(
        "Muon's, for the layers' matrices: small models learn in fewer steps; left out: trainer.optim for all.",
      ),
    ...verifyKeys,
    ...adapterKeys,
    ...chatKeys,
    ...trainerKey("SFTConfig"),
  }),
  defaultFile({ model = TINY_MODEL, env = "arxiv" }) {
    const tiny = model === TINY_MODEL || isTinyModel(String(model));
    const files = DEFAULT_FILES[String(env)];
    return files ? localPath(tiny ? files.tiny : files.real) : null;
  },

  async run(given, context) {
    const { progress, world } = context;
    const planned = planRun("sft", given, context, sft.schema);
    if (planned.done) return planned.done;
    const { dir, config } = planned;
    const env = await loadEnv(config.env);
    const chat = chatOf(env, config);
    const adapter = adapterOf(config, planned.given);
    const split = config.split ?? env.pairs?.split ?? env.splits[0]!;
    const flags = context.flags ?? new Set();
    const rowsWin = flags.has("rows") && !flags.has("split"); // over the split of a settings file
    if (config.rows && planned.given.has("split") && !rowsWin)
      throw new UserError("rows and split are both set; rows come from one of them. Leave out the other.");
    const model = localPath(config.model);
    refuse(modelProblems(model));
    const tasks = await env.load(split, config.env_options);
    const rows = await loadSftRows(config, planned.given, { env, tasks });

    const python = await startPython({ interpreter: config.python ?? undefined, stderr: outputOf(world) });
    try {
      const { trainer, max_length } = config;
      const budgets = { max_turn_tokens: null, max_episode_tokens: null, max_context_tokens: null, max_length };
      const gold = rows.measured;
      const { longest } = await preflight(
        python,
        { recipe: "sft", model, trainer, ...adapter, ...chat, gold, budgets },
        context,
      );
      const size = rows.conversations
        ? `${rows.count} conversations`
        : `${rows.count} rows, the longest ${longest?.total ?? "?"} tokens`;
      if (context.dry_run) return dryRun("sft", config, [`${dir}: ${size}`]);

      const training = openTrainingRun(
        planned,
        {
          recipe: "sft",
          command: context.command,
          seed: config.seed,
          ...(await describePython(python)),
          data: rows.data,
          details: { env: env.id, split: config.rows ? null : split, rows: rows.count },
        },
        context,
      );
      const { run, metrics } = training;
      // Another rank may be on another machine, or be quicker than rank 0: it reads rows of its own.
      const folder = world.rank > 0 ? mkdtempSync(join(tmpdir(), "trestle-rows-")) : null;
      const rows_path = folder ? join(folder, "rows.jsonl") : run.path("rows.jsonl");
      rows.write(rows_path);
      progress.line(`sft: ${model} on ${size}, into ${dir}`);
      const exams = { verification: openExam(tasks, () => training.log("verification")) };
      return await finishRun(run, training.logs, async () => {
        const request = entries.sft.request.parse({
          model,
          output_dir: dir,
          resume_from: training.checkpoint?.dir ?? null,
          seed: config.seed,
          trainer,
          ...adapter,
          ...chat,
          rows_path,
          max_length,
          decode_arguments: config.decode_arguments,
          mask_final_newline: config.mask_final_newline,
          write_tools: config.write_tools,
          matrix_learning_rate: config.matrix_learning_rate,
          verification: verificationOf(config, `model:${dir}`, tasks.ids, solutionBudgets(longest)),
        });
        const served = serveEpisodes({
          tasks: null,
          log: null,
          exams,
          onLog(step, values) {
            metrics.write(step, values);
            progress.status(`sft: ${summarizePoint(step, values, ["loss", "mean_token_accuracy", "learning_rate"])}`);
          },
          onNote: progress.line,
          onCheckpoint: training.onCheckpoint,
        });
        try {
          const trained = entries.sft.result.parse(await python.call("sft", request, { answer: served.answer }));
          progress.end();
          const result = judgeVerification("sft", trained, request.verification, run, progress);
          return {
            result,
            report: () => (world.rank === 0 ? writeReport(dir) : []),
            text: [
              `sft: ${result.steps} steps, ${result.tokens.policy} policy tokens a pass, ${Math.round(result.train_s)} s, loss ${result.train_loss?.toFixed(4)}`,
              ...savedModel(run, config),
            ].join("\n"),
          };
        } finally {
          await served.closeAll();
          if (folder) rmSync(folder, { recursive: true });
        }
      });
    } finally {
      await python.close();
    }
  },
});
