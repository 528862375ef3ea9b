import { join } from "node:path";
import { z } from "zod";
import { serveEpisodes } from "../bridge/episodes.ts";
import { entries } from "../bridge/protocol.ts";
import { startPython } from "../bridge/python.ts";
import type { Env } from "../core/env.ts";
import { UserError } from "../core/errors.ts";
import { loadEnv } from "../envs/index.ts";
import { writeRows } from "../expert-rows.ts";
import { shortNumber, summarizePoint } from "../metrics.ts";
import { writeReport } from "../report.ts";
import { outputOf } from "../world.ts";
import { adapterKeys, adapterOf } from "./adapters.ts";
import { openExam } from "./exams.ts";
import { loadPairs, longerSides } from "./pairs.ts";
import { defineRecipe } from "./recipe.ts";
import {
  chatKeys,
  chatOf,
  describePython,
  dryRun,
  envKeys,
  fileHash,
  finishRun,
  isTinyModel,
  localPath,
  longestRows,
  modelProblems,
  preflight,
  refuse,
  runKeys,
  savedModel,
  trainerKey,
} from "./shared.ts";
import { newestSft, startingPolicy } from "./starting-policy.ts";
import { openTrainingRun, planRun, resumeKeys } from "./training-run.ts";
import { judgeVerification, solutionBudgets, verificationOf, verifyKeys } from "./verification.ts";

/** Pairs that may be left out because they are longer than max_length. */
const MAX_SHARE_TOO_LONG = 0.01;

/** Keys of DPOConfig that decide what the algorithm is: they stand in every run's manifest, set or not. */
const ALGORITHM_KEYS = [
  "loss_type",
  "loss_weights",
  "beta",
  "label_smoothing",
  "f_divergence_type",
  "ld_alpha",
  "use_weighting",
  "sync_ref_model",
  "precompute_ref_log_probs",
  "learning_rate",
];

const config = z.object({
  ...runKeys,
  ...resumeKeys,
  ...envKeys,
  pairs: z
    .string()
    .nullable()
    .default(null)
    .describe(
      "A file that 'data arxiv dpo' wrote; or a run's folder, or a log, whose trajectories are paired as that command does.",
    ),
  split: z
    .string()
    .nullable()
    .default(null)
    .describe("Whose tasks are paired, where pairs names trajectories; left out: what may be trained on."),
  model: z
    .string()
    .nullable()
    .default(null)
    .describe(
      "A folder in Hugging Face format, or a hub id; left out: the newest SFT result of the tiny model, made first where there is none.",
    ),
  max_length: z
    .int()
    .positive()
    .default(4096)
    .describe("Tokens of a side with its prompt; longer pairs are left out, and refused where they are more than 1 %."),
  ...verifyKeys,
  ...adapterKeys,
  ...chatKeys,
  ...trainerKey("DPOConfig"),
});

export const dpo = defineRecipe({
  name: "dpo",
  several_processes: true,
  summary: "Direct Preference Optimization (arXiv:2305.18290) on pairs of the policy's own trajectories",
  examples: [
    "dpo --pairs runs/dpo-pairs.jsonl",
    "dpo configs/dpo-arxiv.yaml --pairs runs/dpo-pairs.jsonl --model runs/sft-arxiv/final --lora",
    "dpo --pairs runs/my-rollouts --model runs/sft-arxiv/final --beta 0.2 --loss-type ipo",
  ],
  config,
  // Settings for real models would teach the tiny one nothing, and the other way round.
  defaultFile({ model, env = "arxiv" }) {
    if (env !== "arxiv") return null;
    const tiny = model === undefined || isTinyModel(String(model));
    return localPath(tiny ? "configs/dpo-tiny.yaml" : "configs/dpo-arxiv.yaml");
  },

  async run(asked, context) {
    const { progress, world } = context;
    const planned = planRun("dpo", asked, context, config);
    if (planned.done) return planned.done;
    const { dir, config: given } = planned;
    const env = await loadEnv(given.env);
    const chat = chatOf(env, given);
    const adapter = adapterOf(given, planned.given);
    refuse([
      ...(given.model === null ? [] : modelProblems(localPath(given.model))),
      ...adapterProblems(given, planned.given),
    ]);
    if (given.pairs === null) throw new UserError(await howToMakePairs(env, given));
    const { env: family, env_options, split, seed } = given;
    const pairs = await loadPairs({ path: given.pairs, env, family, env_options, split, seed });
    for (const note of pairs.notes) progress.line(note);
    const made = typeof pairs.manifest.split === "string" ? pairs.manifest.split : null;
    const tasks = await env.load(split ?? made ?? env.splits[0]!, env_options);
    const model = given.model === null ? await startingPolicy(given, context) : localPath(given.model);
    const settings = { ...given, model };

    const python = await startPython({ stderr: outputOf(world), interpreter: settings.python ?? undefined });
    try {
      const { trainer, max_length } = settings;
      const budgets = { max_turn_tokens: null, max_episode_tokens: null, max_context_tokens: null, max_length };
      const { rows } = pairs;
      const gold = longestRows(longerSides(rows), Math.floor(MAX_SHARE_TOO_LONG * rows.length) + 1);
      const { longest } = await preflight(
        python,
        { recipe: "dpo", model, trainer, ...adapter, ...chat, gold, budgets },
        context,
      );
      const paired = new Set(rows.map(({ task_id }) => task_id)).size;
      const size = `${rows.length} pairs of ${paired} tasks, the longest ${longest?.total ?? "?"} tokens`;
      if (context.dry_run) return dryRun("dpo", settings, [`${dir}: ${size}`]);

      const details = {
        env: env.id,
        split: split ?? pairs.manifest.split ?? null,
        algorithm: Object.fromEntries(ALGORITHM_KEYS.map((key) => [key, trainer[key] ?? "default"])),
      };
      const about = { recipe: "dpo", command: context.command, seed, data: pairs.data, details };
      const training = openTrainingRun(
        { ...planned, config: settings },
        { ...about, ...(await describePython(python)) },
        context,
      );
      const { run, metrics } = training;
      const pairs_path = run.path("pairs.jsonl");
      writeRows(pairs_path, pairs);
      run.update({
        details: {
          ...run.manifest.details,
          pairs: {
            rows: rows.length,
            tasks: paired,
            sha256: fileHash(pairs_path),
            settings: pairs.manifest.settings ?? null,
          },
        },
      });
      progress.line(`dpo: ${model} on ${size}, into ${dir}`);
      return await finishRun(run, training.logs, async () => {
        const request = entries.dpo.request.parse({
          model,
          output_dir: dir,
          resume_from: training.checkpoint?.dir ?? null,
          seed,
          trainer,
          ...adapter,
          ...chat,
          pairs_path,
          max_length,
          verification: verificationOf(settings, `model:${dir}`, tasks.ids, solutionBudgets(longest)),
        });
        const shown = ["loss", "rewards/margins", "rewards/accuracies", "learning_rate"];
        const served = serveEpisodes({
          tasks: null,
          log: null,
          exams: { verification: openExam(tasks, () => training.log("verification")) },
          onLog(step, values) {
            metrics.write(step, values);
            progress.status(`dpo: ${summarizePoint(step, values, shown)}`);
          },
          onNote: progress.line,
          onCheckpoint: training.onCheckpoint,
        });
        try {
          const trained = entries.dpo.result.parse(await python.call("dpo", request, { answer: served.answer }));
          progress.end();
          const result = judgeVerification("dpo", trained, request.verification, run, progress);
          const { margin_before, margin_after, accuracy_after, chosen_logp_before, chosen_logp_after } = result;
          const change = (before: number, after: number | null) =>
            `${shortNumber(before)} → ${after === null ? "lost" : shortNumber(after)}`;
          return {
            result,
            report: () => (world.rank === 0 ? writeReport(dir) : []),
            text: [
              `dpo: ${result.steps} steps on ${result.pairs} pairs, ${Math.round(result.train_s)} s, loss ${result.train_loss?.toFixed(4)}`,
              `margin ${change(margin_before, margin_after)}, pairs told apart ${accuracy_after === null ? "lost" : shortNumber(accuracy_after)}, ` +
                `log-probability of the chosen reply ${change(chosen_logp_before, chosen_logp_after)}`,
              ...savedModel(run, given),
            ].join("\n"),
          };
        } finally {
          await served.closeAll();
        }
      });
    } finally {
      await python.close();
    }
  },
});

type Config = z.output<typeof config>;

/** What TRL would ignore, or refuse only after the model has loaded. */
function adapterProblems({ lora, qlora, lora_target_modules, trainer }: Config, given: ReadonlySet<string>): string[] {
  if (!lora && !qlora) return [];
  return [
    ...(given.has("lora_dropout") && trainer.disable_dropout !== false
      ? ["lora_dropout is set, but DPO switches dropout off. Add --no-disable-dropout, or leave it out."]
      : []),
    ...(lora_target_modules.includes("lm_head")
      ? ["lora_target_modules names lm_head, whose adapter DPO's loss would not train. Leave it out."]
      : []),
  ];
}

/** The commands that make pairs of the policy that is to be trained. */
async function howToMakePairs(env: Env, { model, env: family, env_options, runs_dir, split }: Config): Promise<string> {
  if (!env.pairs)
    return `pairs is not set: name a file of pairs. ${env.name} does not say which of its tasks may be trained on, so its trajectories can't become pairs: give its spec 'pairs'.`;
  const style = env.continuation(env_options);
  const found = model === null ? await newestSft(runs_dir, family, style) : localPath(model);
  const policy = found ?? join(runs_dir, "sft-tiny", "final");
  const options = Object.keys(env_options).length > 0 ? ` --env-options '${JSON.stringify(env_options)}'` : "";
  const of = split ?? env.pairs.split;
  const output = join(runs_dir, "dpo-pairs.jsonl");
  const trestle = "  npx tsx src/cli.ts";
  return [
    "pairs is not set: DPO learns from pairs of trajectories of the policy that is to be trained. These make them:",
    ...(found === null ? [`${trestle} sft --runs-dir ${runs_dir} --name sft-tiny`] : []),
    `${trestle} rollout --env ${family}${options} --policy model:${policy} --split ${of} --repeat 8 --temperature 0.8 --seed 42 --runs-dir ${runs_dir} --name dpo-rollouts`,
    `${trestle} data ${family} dpo ${join(runs_dir, "dpo-rollouts")}${options} --split ${of} --output ${output}`,
    `Then: npx tsx src/cli.ts dpo --pairs ${output} --model ${policy}`,
  ].join("\n");
}
