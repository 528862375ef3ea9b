import { z } from "zod";
import { entries } from "../bridge/protocol.ts";
import { PythonError, startPython } from "../bridge/python.ts";
import { GuardError, UserError } from "../core/errors.ts";
import { loadEnv } from "../envs/index.ts";
import { summarizePoint } from "../metrics.ts";
import { writeReport } from "../report.ts";
import { outputOf } from "../world.ts";
import { adapterKeys, adapterOf } from "./adapters.ts";
import { guardKeys, guardsOf } from "./guards.ts";
import { defineRecipe, type Recipe } from "./recipe.ts";
import { endRollouts, serveRollouts } from "./rollouts.ts";
import {
  chatKeys,
  chatOf,
  describePython,
  dryRun,
  envKeys,
  episodeKeys,
  finishRun,
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
import { defaultTeacher, openTeacher, teacherKeys } from "./teacher.ts";
import { openTrainingRun, planRun, resumeKeys } from "./training-run.ts";
import { judgeVerification, verificationOf, verifyKeys } from "./verification.ts";

export const opd: Recipe = defineRecipe({
  name: "opd",
  several_processes: true,
  summary: "On-policy distillation (arXiv:2306.13649): the student plays, a teacher scores each of its tokens",
  examples: [
    "opd",
    "opd configs/opd-arxiv.yaml --model runs/sft-arxiv/final",
    "opd configs/opd-arxiv.yaml --teacher api:Qwen/Qwen2.5-7B-Instruct --temperature 1 --model runs/sft-arxiv/final",
  ],
  config: z.object({
    ...runKeys,
    ...resumeKeys,
    ...envKeys,
    split: z.string().nullable().default(null).describe("Tasks to play; left out: the environment's first split."),
    model: z
      .string()
      .nullable()
      .default(null)
      .describe(
        "The student: a folder in Hugging Face format, or a hub id; left out: the newest SFT result of the tiny model.",
      ),
    ...teacherKeys,
    lmbda: z.number().default(1).describe("Share of the student's own samples: 1 is all there is."),
    ...samplingKeys,
    ...episodeKeys,
    max_invalid_share: z
      .number()
      .min(0)
      .max(1)
      .default(0.2)
      .describe("Share of a step's rollouts that may fail in the environment before the run stops."),
    ...guardKeys,
    ...verifyKeys,
    ...adapterKeys,
    ...chatKeys,
    ...trainerKey("DistillationConfig"),
  }),
  // Settings for real models would teach the tiny one nothing, and the other way round.
  defaultFile({ model, env = "arxiv" }) {
    if (env !== "arxiv") return null;
    const tiny = model === undefined || isTinyModel(String(model));
    return localPath(tiny ? "configs/opd-tiny.yaml" : "configs/opd-arxiv.yaml");
  },

  async run(asked, context) {
    const { progress, world } = context;
    const planned = planRun("opd", asked, context, opd.schema);
    if (planned.done) return planned.done;
    const { dir, config: given } = planned;
    if (given.lmbda !== 1)
      throw new UserError(
        `lmbda is ${given.lmbda}; expected 1. Every token here is the student's own: there is no set of others' ` +
          "replies to mix in (sft learns from those).",
      );
    const env = await loadEnv(given.env);
    const split = given.split ?? env.splits[0]!;
    const tasks = await env.load(split, given.env_options);
    const chat = chatOf(env, given);
    const adapter = adapterOf(given, planned.given);
    refuse([
      ...(given.model === null ? [] : modelProblems(localPath(given.model))),
      ...temperatureProblems(given),
      ...turnProblems(tasks, given.max_turns),
    ]);
    const { guards, canary } = await guardsOf(given, planned.given, env, tasks);
    const student = given.model === null ? null : localPath(given.model);
    const named = given.teacher ?? (await defaultTeacher({ ...given, model: student }));
    const recorded = [context.command, JSON.stringify(given)];
    const teacher = openTeacher({ ...given, teacher: named }, { given: planned.given, recorded });
    if (given.teacher === null) progress.line(`No --teacher: learning from ${teacher.name}.`);
    const model = student ?? (await startingPolicy(given, context));
    const config = { ...given, model, split, teacher: teacher.name };

    const python = await startPython({
      stderr: outputOf(world),
      interpreter: config.python ?? undefined,
      env: teacher.env,
    });
    try {
      const { trainer, max_turn_tokens, max_episode_tokens, max_context_tokens } = config;
      const budgets = { max_turn_tokens, max_episode_tokens, max_context_tokens, max_length: null };
      const sampling = samplingOf(config);
      const gold = [...(await longestGold(tasks)), ...(canary ? await longestGold(canary) : [])];
      const common = {
        model,
        trainer,
        ...adapter,
        ...chat,
        sampling,
        teacher: teacher.request,
      };
      await preflight(python, { recipe: "opd", ...common, gold, budgets }, context);
      if (context.dry_run) return dryRun("opd", config, [`${dir}: ${tasks.ids.length} tasks of ${split}`]);

      const details = {
        env: env.id,
        split,
        tasks: tasks.ids.length,
        teacher: teacher.details,
        guards,
        algorithm: { beta: trainer.beta ?? 1, lmbda: 1, learning_rate: trainer.learning_rate ?? "default" },
      };
      const about = { recipe: "opd", command: context.command, seed: config.seed, data: tasks.sources, details };
      const training = openTrainingRun(
        { ...planned, config },
        { ...about, ...(await describePython(python)) },
        context,
      );
      const { run } = training;
      const shown = ["opd/reverse_kl", "reward", "rollout/success", "loss", "rollout/invalid"];
      const status = (step: number, values: Record<string, number>) => `opd: ${summarizePoint(step, values, shown)}`;
      const served = serveRollouts(training, { tasks, canary, config, status }, context);
      progress.line(`opd: ${model} towards ${teacher.name} on ${tasks.ids.length} tasks of ${split}, into ${dir}`);
      return await finishRun(run, training.logs, async () => {
        const request = entries.opd.request.parse({
          ...common,
          policy: `model:${dir}`,
          output_dir: dir,
          resume_from: training.checkpoint?.dir ?? null,
          seed: config.seed,
          task_ids: tasks.ids,
          guards,
          verification: verificationOf(config, `model:${dir}`, tasks.ids, sampling),
        });
        try {
          const trained = entries.opd.result.parse(
            await callTrainer(() => python.call("opd", request, { answer: served.answer })),
          );
          progress.end();
          const result = judgeVerification("opd", trained, request.verification, run, progress);
          if (result.steps > 0 && served.counters().finished === 0)
            throw new Error("The trainer took steps without playing an episode: its rollout function was not called.");
          const bridge_share = result.bridge_s / result.train_s;
          const { invalid, answer_ms, env_ms } = served.counters();
          const calls = teacher.request.kind === "api" ? `, ${result.teacher_calls} calls` : "";
          return {
            result: { ...result, bridge_share, invalid, answer_ms, env_ms },
            report: () => (world.rank === 0 ? writeReport(dir) : []),
            text: [
              `opd: ${result.steps} steps, ${result.rollouts} rollouts (${invalid} invalid), ${Math.round(result.train_s)} s`,
              `teacher: ${teacher.name}, ${result.teacher_tokens} tokens scored, ${result.missing_logprobs} left out${calls}`,
              `bridge: ${(100 * bridge_share).toFixed(2)} % of the run's time`,
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

/** A teacher that is gone ends the run as a guard does: with its sentence, and no stack. */
async function callTrainer(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof PythonError && error.type === "TeacherError")
      throw new GuardError(error.message.replace(/^TeacherError: /, ""));
    throw error;
  }
}
