import { join } from "node:path";
import { z } from "zod";
import { serveEpisodes } from "../bridge/episodes.ts";
import { entries } from "../bridge/protocol.ts";
import { startPython } from "../bridge/python.ts";
import { UserError } from "../core/errors.ts";
import { loadEnv } from "../envs/index.ts";
import { openMetrics, summarizePoint } from "../metrics.ts";
import { writeReport } from "../report.ts";
import { freeName, openRun } from "../run-folder.ts";
import { guestOf, nameForAll, noMetrics, openRankLog, outputOf } from "../world.ts";
import { curriculumKeys, planCurriculum, refuseStaleRates, staleRates } from "./curriculum.ts";
import { defineRecipe } from "./recipe.ts";
import {
  chatKeys,
  describePython,
  dryRun,
  envKeys,
  episodeKeys,
  finishRun,
  groupProblems,
  isTinyModel,
  localPath,
  longestGold,
  loraKeys,
  loraOf,
  modelProblems,
  preflight,
  refuse,
  requireFree,
  runKeys,
  samplingKeys,
  samplingOf,
  trainerKey,
  turnProblems,
} from "./shared.ts";
import { startingPolicy } from "./starting-policy.ts";

/** DAPO (arXiv:2503.14476) as TRL's keys; its dynamic sampling is a flag of its own. */
export const DAPO = { loss_type: "dapo", epsilon_high: 0.28, mask_truncated_completions: true, beta: 0 } as const;

/** Keys of GRPOConfig that decide what the algorithm is: they stand in every run's manifest, set or not. */
const ALGORITHM_KEYS = [
  "loss_type",
  "beta",
  "epsilon",
  "epsilon_high",
  "mask_truncated_completions",
  "importance_sampling_level",
  "scale_rewards",
  "num_generations",
  "num_iterations",
  "learning_rate",
];

export const grpo = defineRecipe({
  name: "grpo",
  several_processes: true,
  summary:
    "Group Relative Policy Optimization on environment rollouts (arXiv:2402.03300); --dapo, GSPO, Dr.GRPO by flags",
  examples: [
    "grpo --dapo",
    "grpo configs/grpo-arxiv.yaml --model runs/sft-arxiv/final --importance-sampling-level sequence",
    "grpo --model models/my-sft --env ./my-env.ts --split train --loss-type dr_grpo --scale-rewards none",
  ],
  config: z.object({
    ...runKeys,
    ...envKeys,
    split: z.string().nullable().default(null).describe("Tasks to train on; left out: the environment's first split."),
    model: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "A folder in Hugging Face format, or a hub id; left out: the newest SFT result of the tiny model, made first where there is none.",
      ),
    dapo: z
      .boolean()
      .default(false)
      .describe(
        `DAPO: ${Object.entries(DAPO)
          .map(([key, value]) => `${key} ${value}`)
          .join(", ")}. Explicit flags win.`,
      ),
    dynamic_sampling: z.boolean().default(false).describe("DAPO's resampling of groups without signal. Not there yet."),
    ...samplingKeys,
    ...episodeKeys,
    max_invalid_share: z
      .number()
      .min(0)
      .max(1)
      .default(0.2)
      .describe("Share of a step's rollouts that may fail in the environment before the run stops."),
    ...curriculumKeys,
    ...loraKeys,
    ...chatKeys,
    ...trainerKey("GRPOConfig"),
  }),
  // Settings for real models would teach the tiny one nothing, and the other way round.
  defaultFile({ model, env = "arxiv" }) {
    if (env !== "arxiv") return null;
    const tiny = model === undefined || isTinyModel(String(model));
    return localPath(tiny ? "configs/grpo-tiny.yaml" : "configs/grpo-arxiv.yaml");
  },
  preset: ({ dapo }) => (dapo === true ? { switch: "dapo", values: { trainer: { ...DAPO } } } : null),

  async run(given, context) {
    const { progress, world } = context;
    if (given.dynamic_sampling)
      throw new UserError("dynamic_sampling is not there yet: --dapo runs without it. Leave --dynamic-sampling out.");
    const env = await loadEnv(given.env);
    const split = given.split ?? env.splits[0]!;
    const tasks = await env.load(split, given.env_options);
    const continuation = env.continuation(given.env_options);
    const lora = loraOf(given, context.given);
    const dir = join(
      given.runs_dir,
      nameForAll(given.name, world, () => freeName(given.runs_dir, `grpo-${env.name}`)),
    );
    if (world.rank === 0) requireFree(dir);
    refuse([
      ...(given.model === null ? [] : modelProblems(localPath(given.model))),
      ...groupProblems(given.trainer, world.size),
      ...turnProblems(tasks, given.max_turns),
    ]);
    const { max_steps } = given.trainer;
    const steps = typeof max_steps === "number" && max_steps > 0 ? max_steps : null;
    const stages = planCurriculum(given.curriculum, tasks, steps);
    const measured = { env_id: env.id, curriculum: given.curriculum };
    if (!given.stale_rates) refuseStaleRates(split, staleRates(tasks, { ...measured, model: null }));
    const model = given.model === null ? await startingPolicy(given, context) : localPath(given.model);
    const config = { ...given, model, split };
    const stale = staleRates(tasks, { ...measured, model });
    if (!config.stale_rates) refuseStaleRates(split, stale);
    for (const change of stale) progress.line(`The rates of ${split} were measured with ${change}.`);

    const python = await startPython({ interpreter: config.python ?? undefined, stderr: outputOf(world) });
    try {
      const { trainer, chat_template_kwargs, max_turn_tokens, max_episode_tokens, max_context_tokens } = config;
      const budgets = { max_turn_tokens, max_episode_tokens, max_context_tokens, max_length: null };
      const gold = await longestGold(tasks);
      await preflight(
        python,
        { recipe: "grpo", model, trainer, lora, chat_template_kwargs, continuation, gold, budgets },
        context,
      );
      if (context.dry_run) return dryRun("grpo", config, [`${dir}: ${tasks.ids.length} tasks of ${split}`]);

      const algorithm = Object.fromEntries(ALGORITHM_KEYS.map((key) => [key, trainer[key] ?? "default"]));
      const run =
        world.rank > 0
          ? guestOf("grpo", dir)
          : openRun({
              dir,
              recipe: "grpo",
              config,
              command: context.command,
              seed: config.seed,
              ...(await describePython(python)),
              data: tasks.sources,
              details: {
                env: env.id,
                split,
                tasks: tasks.ids.length,
                processes: world.size,
                dapo: config.dapo,
                dynamic_sampling: false,
                algorithm,
                curriculum: stages,
              },
            });
      const metrics = world.rank > 0 ? noMetrics : openMetrics(run.path("metrics.jsonl"));
      const log = openRankLog(run, world);
      const served = serveEpisodes({
        tasks,
        log,
        max_turns: config.max_turns ?? undefined,
        timeout_ms: config.episode_timeout_ms,
        max_invalid_share: config.max_invalid_share,
        onLog(step, values) {
          metrics.write(step, values);
          progress.status(
            `grpo: ${summarizePoint(step, values, ["reward", "rollout/success", "loss", "entropy", "rollout/invalid"])}`,
          );
        },
        onNote: progress.line,
      });
      progress.line(`grpo: ${model} on ${tasks.ids.length} tasks of ${split}, into ${dir}`);
      return await finishRun(run, [metrics, log], async () => {
        const request = entries.grpo.request.parse({
          model,
          policy: `model:${dir}`,
          output_dir: dir,
          seed: config.seed,
          trainer,
          lora,
          chat_template_kwargs,
          continuation,
          task_ids: tasks.ids,
          stages: stages.map(({ from_step, task_ids }) => ({ from_step, task_ids })),
          sampling: samplingOf(config),
        });
        const before = python.stats().crossing_ms;
        try {
          const result = entries.grpo.result.parse(await python.call("grpo", request, { answer: served.answer }));
          progress.end();
          if (result.steps > 0 && served.counters().finished === 0)
            throw new Error("The trainer took steps without playing an episode: its rollout function was not called.");
          const bridge_share = (python.stats().crossing_ms - before) / (1000 * result.train_s);
          const { invalid, groups, groups_without_signal } = result;
          const { answer_ms, env_ms } = served.counters();
          return {
            result: { ...result, bridge_share, invalid, groups, groups_without_signal, answer_ms, env_ms },
            report: () => (world.rank === 0 ? writeReport(dir) : []),
            text: [
              `grpo: ${result.steps} steps, ${result.rollouts} rollouts (${invalid} invalid), ${Math.round(result.train_s)} s`,
              `bridge: ${(100 * bridge_share).toFixed(2)} % of the run's time; groups without signal: ${groups_without_signal} of ${groups}`,
              `model: ${run.path("final")}`,
              `Next: npx tsx src/cli.ts bench --policy model:${run.path("final")}`,
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
