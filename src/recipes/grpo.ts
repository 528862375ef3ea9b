import { z } from "zod";
import { entries } from "../bridge/protocol.ts";
import { startPython } from "../bridge/python.ts";
import type { TaskSet } from "../core/env.ts";
import { createRandom } from "../core/random.ts";
import { pickTasks } from "../core/task-choice.ts";
import { loadEnv } from "../envs/index.ts";
import { summarizePoint } from "../metrics.ts";
import { writeReport } from "../report.ts";

import { outputOf } from "../world.ts";
import { adapterKeys, adapterOf } from "./adapters.ts";

import { curriculumKeys, planCurriculum, refuseStaleRates, staleRates } from "./curriculum.ts";
import { debugKeys, debugPreset } from "./debug.ts";
import { dynamicSamplingKeys, dynamicSamplingOf, resampledText } from "./dynamic-sampling.ts";
import { experimentFile, experimentKeys, experimentProblems, mockPreset, startProblems } from "./experiments.ts";
import { algorithmOf, optionProblems, presetKeys, presetsOf } from "./grpo-options.ts";
import { guardKeys, guardsOf } from "./guards.ts";
import { defineRecipe, type Recipe } from "./recipe.ts";
import { endRollouts, serveRollouts } from "./rollouts.ts";
import { shapingKeys, shapingOf } from "./shaping.ts";
import {
  chatKeys,
  chatOf,
  describePython,
  dryRun,
  envKeys,
  episodeKeys,
  finishRun,
  groupProblems,
  isTinyModel,
  localPath,
  longestGold,
  modelProblems,
  preflight,
  refuse,
  runKeys,
  samplingKeys,
  samplingOf,
  savedModel,
  temperatureProblems,
  trainerKey,
  turnProblems,
} from "./shared.ts";
import { startingPolicy } from "./starting-policy.ts";
import { openTrainingRun, planRun, resumeKeys } from "./training-run.ts";
import { validationKeys, validationOf } from "./validation.ts";
import { judgeVerification, verificationOf, verifyKeys } from "./verification.ts";

export const grpo: Recipe = defineRecipe({
  name: "grpo",
  several_processes: true,
  summary: "Group Relative Policy Optimization on environment rollouts (arXiv:2402.03300); --dapo, --gspo, --dr-grpo",
  examples: [
    "grpo --dapo",
    "grpo configs/grpo-arxiv.yaml --model runs/sft-arxiv/final --gspo",
    "grpo --model models/my-sft --env ./my-env.ts --split train --dr-grpo",
    "grpo --dapo --advantage turn_discount --advantage-alpha-unit turn",
    "grpo --exp prm_lite_lata --mock",
    "grpo configs/search-qwen3-8b.yaml --debug",
  ],
  config: z.object({
    ...runKeys,
    ...resumeKeys,
    ...envKeys,
    split: z.string().nullable().default(null).describe("Tasks to train on; left out: the environment's first split."),
    model: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "A folder in Hugging Face format, or a hub id; left out: the newest SFT result of the tiny model, made first where there is none.",
      ),
    task_ids: z.array(z.string()).default([]).describe("Only these tasks of the split."),
    ...experimentKeys,
    ...debugKeys,
    ...presetKeys,
    ...dynamicSamplingKeys,
    ...samplingKeys,
    ...episodeKeys,
    max_invalid_share: z
      .number()
      .min(0)
      .max(1)
      .default(0.2)
      .describe("Share of a step's rollouts that may fail in the environment before the run stops."),
    ...shapingKeys,
    ...curriculumKeys,
    ...guardKeys,
    ...validationKeys,
    ...verifyKeys,
    ...adapterKeys,
    ...chatKeys,
    ...trainerKey("GRPOConfig"),
  }),
  // Settings for real models would teach the tiny one nothing, and the other way round.
  defaultFile({ model, env = "arxiv" }) {
    if (env !== "arxiv") return null;
    const tiny = model === undefined || isTinyModel(String(model));
    return localPath(tiny ? "configs/grpo-tiny.yaml" : "configs/grpo-arxiv.yaml");
  },
  namedFile: experimentFile,
  presets: (values) => [...presetsOf(values), ...mockPreset(values), ...debugPreset(values)],

  async run(asked, context) {
    const { progress, world } = context;
    const planned = planRun("grpo", asked, context, grpo.schema);
    if (planned.done) return planned.done;
    const { dir, config: given } = planned;
    const dynamic_sampling = dynamicSamplingOf(given, planned.given);
    const env = await loadEnv(given.env);
    const split = given.split ?? env.splits[0]!;
    refuse(experimentProblems({ ...given, env: env.name }));
    const tasks = pickTasks(await env.load(split, given.env_options), given.task_ids);
    const chat = chatOf(env, given);
    const adapter = adapterOf(given, planned.given);
    refuse([
      ...(given.model === null ? [] : modelProblems(localPath(given.model))),
      ...startProblems(given),
      ...optionProblems(given, planned.given),
      ...groupProblems(given.trainer, world.size),
      ...temperatureProblems(given),
      ...turnProblems(tasks, given.max_turns),
      ...(given.advantage === "turn_scores" ? await scoreProblems(tasks) : []),
    ]);
    const { guards, canary } = await guardsOf(given, planned.given, env, tasks);
    const validation = await validationOf(
      given,
      { given: planned.given, flags: context.flags ?? new Set() },
      env,
      tasks,
    );
    const { max_steps } = given.trainer;
    const steps = typeof max_steps === "number" && max_steps > 0 ? max_steps : null;
    const stages = planCurriculum(given.curriculum, tasks, steps);
    const measured = { env_id: env.id, curriculum: given.curriculum };
    if (!given.stale_rates) refuseStaleRates(split, staleRates(tasks, { ...measured, model: null }));
    const model = given.model === null ? await startingPolicy(given, context) : localPath(given.model);
    const config = { ...given, model, split, dynamic_sampling: dynamic_sampling !== null };
    const stale = staleRates(tasks, { ...measured, model });
    if (!config.stale_rates) refuseStaleRates(split, stale);
    for (const change of stale) progress.line(`The rates of ${split} were measured with ${change}.`);

    const python = await startPython({ interpreter: config.python ?? undefined, stderr: outputOf(world) });
    try {
      const { trainer, max_turn_tokens, max_episode_tokens, max_context_tokens } = config;
      const budgets = { max_turn_tokens, max_episode_tokens, max_context_tokens, max_length: null };
      const held = config.debug ? [] : [tasks, ...(canary ? [canary] : [])];
      const gold = (await Promise.all(held.map(longestGold))).flat();
      const { effective } = await preflight(
        python,
        { recipe: "grpo", model, trainer, ...adapter, ...chat, gold, budgets },
        context,
      );
      if (context.dry_run) return dryRun("grpo", config, [`${dir}: ${tasks.ids.length} tasks of ${split}`]);

      const details = {
        env: env.id,
        split,
        tasks: tasks.ids.length,
        dynamic_sampling,
        algorithm: algorithmOf(config, effective),
        curriculum: stages,
        guards,
        validation: validation?.about ?? null,
      };
      const about = { recipe: "grpo", command: context.command, seed: config.seed, data: tasks.sources, details };
      const training = openTrainingRun(
        { ...planned, config },
        { ...about, ...(await describePython(python)) },
        context,
      );
      const { run } = training;
      const shown = ["reward", "rollout/success", "loss", "entropy", "rollout/invalid"];
      const status = (step: number, values: Record<string, number>) => `grpo: ${summarizePoint(step, values, shown)}`;
      const served = serveRollouts(training, { tasks, canary, validation, config, status }, context);
      progress.line(`grpo: ${model} on ${tasks.ids.length} tasks of ${split}, into ${dir}`);
      return await finishRun(run, training.logs, async () => {
        const request = entries.grpo.request.parse({
          model,
          policy: `model:${dir}`,
          output_dir: dir,
          resume_from: training.checkpoint?.dir ?? null,
          seed: config.seed,
          trainer,
          ...adapter,
          ...chat,
          task_ids: tasks.ids,
          stages: stages.map(({ from_step, task_ids }) => ({ from_step, task_ids })),
          dynamic_sampling,
          sampling: samplingOf(config),
          shaping: shapingOf(config),
          guards,
          validation: validation && { ...validation.request, sampling: samplingOf(config) },
          verification: verificationOf(config, `model:${dir}`, tasks.ids, samplingOf(config)),
        });
        try {
          const trained = entries.grpo.result.parse(await python.call("grpo", request, { answer: served.answer }));
          progress.end();
          const result = judgeVerification("grpo", trained, request.verification, run, progress);
          if (result.steps > 0 && served.counters().finished === 0)
            throw new Error("The trainer took steps without playing an episode: its rollout function was not called.");
          const bridge_share = result.bridge_s / result.train_s;
          const { answer_ms, env_ms } = served.counters();
          const { invalid, groups, groups_without_signal } = result;
          return {
            result: { ...result, bridge_share, invalid, groups, groups_without_signal, answer_ms, env_ms },
            report: () => (world.rank === 0 ? writeReport(dir) : []),
            text: [
              `grpo: ${result.steps} steps, ${result.rollouts} rollouts (${invalid} invalid), ${Math.round(result.train_s)} s`,
              `bridge: ${(100 * bridge_share).toFixed(2)} % of the run's time; groups without signal: ${groups_without_signal} of ${groups}`,
              ...resampledText(result.dynamic_sampling),
              ...savedModel(run, config),
            ].join("\n"),
          };
        } finally {
          await endRollouts(served, dir, context);
        }
      });
    } finally {
      await python.close();
    }
  },
});

/** Advantages by the scores of turns need an environment that gives some: told by its first task's worked solution. */
async function scoreProblems(tasks: TaskSet): Promise<string[]> {
  const task_id = tasks.ids[0]!;
  const episode = await tasks.start(task_id, { seed: 0 });
  for (const reply of tasks.replies("gold", task_id, createRandom(0))) await episode.reply(reply);
  const { turn_scores } = await episode.finish();
  return turn_scores
    ? []
    : [
        `advantage is turn_scores, but ${tasks.env_id} gives none for task '${task_id}': its score() returns no ` +
          "turn_scores. Choose another advantage, or return them from there.",
      ];
}
