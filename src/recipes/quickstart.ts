import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { play } from "../../benchmark/play.ts";
import { bench } from "../../benchmark/run.ts";
import { joinTaskSets, planTrials } from "../../benchmark/tasks.ts";
import { compare, gainByTask, type Judgement } from "../../eval/run.ts";
import { judgeSplits } from "../../eval/tables.ts";
import { loadConfig } from "../config.ts";
import { GuardError } from "../core/errors.ts";
import type { Trajectory } from "../core/trajectory.ts";
import { loadEnv } from "../envs/index.ts";
import { textTable, writeReport } from "../report.ts";
import { configHash, lockFolder, readManifest, shownPath, writeJson } from "../run-folder.ts";
import { readTrajectories } from "../trajectory-log.ts";
import { grpo } from "./grpo.ts";
import { defineRecipe, type Recipe, type RunContext } from "./recipe.ts";
import { sft } from "./sft.ts";
import { fileHash, localPath, modelProblems, refuse, requireWritable, runKeys, runName, TINY_MODEL } from "./shared.ts";
import { tinyBase } from "./starting-policy.ts";

/** Keys of the GRPO config under which its policies are measured too. */
const AS_TRAINED = [
  "env",
  "env_options",
  "max_turns",
  "max_turn_tokens",
  "max_episode_tokens",
  "max_context_tokens",
  "episode_timeout_ms",
  "chat_template_kwargs",
] as const;

interface Stage {
  name: string;
  recipe: Recipe;
  file: string | null;
  flags: Record<string, unknown>;
}

export const quickstart = defineRecipe({
  name: "quickstart",
  summary: "The whole chain on a CPU in minutes: tiny base, SFT, GRPO with DAPO, and a table of what it brought",
  examples: ["quickstart", "quickstart --seed 1 --name seed-1"],
  config: z.object({
    ...runKeys,
    name: runName.default("quickstart").describe("Its folder in runs_dir."),
    model: z.string().default(TINY_MODEL).describe("The base that SFT starts from."),
    sft_config: z.string().default("configs/sft-tiny.yaml"),
    grpo_config: z.string().default("configs/grpo-tiny.yaml"),
    split: z
      .array(z.string())
      .default(["v6:rl_train", "dev", "iid_test", "ood_test"])
      .describe("What is measured, before and after."),
    repeat: z.int().min(1).default(8).describe("Trials of each task."),
    temperature: z.number().min(0).default(1).describe("Of the measurement; 1: the policy as it was trained."),
    bench_seed: z.int().nonnegative().default(45),
  }),

  async run(config, context) {
    const { progress } = context;
    const begin = performance.now();
    const model = config.model === TINY_MODEL ? await tinyBase(config, context) : localPath(config.model);
    refuse(modelProblems(model));
    const dir = join(config.runs_dir, config.name);
    requireWritable(dir);
    const { seed } = config;
    const common = { runs_dir: dir, ...(config.python ? { python: config.python } : {}) };
    const from = (name: string) => `model:${join(dir, name, "final")}`;
    const training: Stage[] = [
      { name: "sft", recipe: sft, file: localPath(config.sft_config), flags: { ...common, seed, model } },
      {
        name: "grpo",
        recipe: grpo,
        file: localPath(config.grpo_config),
        flags: { ...common, seed, model: join(dir, "sft", "final"), dapo: true },
      },
    ];
    const trained = loadStage(training[1]!).config;
    const measure = {
      ...common,
      ...Object.fromEntries(AS_TRAINED.map((key) => [key, trained[key]])),
      split: config.split,
      repeat: config.repeat,
      temperature: config.temperature,
      seed: config.bench_seed,
    };
    const stages: Stage[] = [
      ...training,
      { name: "bench-before", recipe: bench, file: null, flags: { ...measure, policy: from("sft") } },
      { name: "bench-after", recipe: bench, file: null, flags: { ...measure, policy: from("grpo") } },
    ];
    const env = await loadEnv(String(trained.env));
    for (const split of config.split) await env.load(split, trained.env_options as Record<string, unknown>);
    if (context.dry_run) {
      const loaded = stages.map((stage) => ({ stage: stage.name, config: loadStage(stage).config }));
      return { text: JSON.stringify(loaded, null, 2), json: loaded };
    }

    // What a stage made depends on all before it, so the key of each holds the one before.
    const unlock = lockFolder(dir);
    try {
      let key = configHash([fileHash(join(model, "model.safetensors"))]);
      const done: string[] = [];
      for (const [index, stage] of stages.entries()) {
        const label = `[${index + 1}/${stages.length}] ${stage.name}`;
        const { config: stageConfig } = loadStage(stage);
        key = configHash([key, stageConfig]);
        const folder = join(dir, stage.name);
        const status = stageKey(folder) === key ? readManifest(folder)?.status : undefined;
        if (status === "completed") {
          progress.line(`${label}: already there, in ${folder}`);
          done.push(stage.name);
          continue;
        }
        if (status === undefined) {
          rmSync(folder, { recursive: true, force: true }); // made with other settings
          mkdirSync(folder, { recursive: true });
          writeJson(join(folder, "stage.json"), { key });
        }
        progress.line(`${label}: ${stage.recipe.summary}`);
        await runStage(stage, { resume: status !== undefined }, context);
      }
      return await summarize(dir, config, context, done, performance.now() - begin);
    } finally {
      unlock();
    }
  },
});

function loadStage(stage: Stage, more: Record<string, unknown> = {}) {
  const { recipe, file, name } = stage;
  const flags = { ...stage.flags, ...more, name };
  return loadConfig<Record<string, unknown>>({
    recipe: recipe.name,
    schema: recipe.schema,
    file,
    flags,
    presets: recipe.presets,
  });
}

/** The key under which a stage was begun; null where it was not. */
function stageKey(folder: string): string | null {
  if (!existsSync(join(folder, "stage.json"))) return null;
  return (JSON.parse(readFileSync(join(folder, "stage.json"), "utf8")) as { key: string }).key;
}

async function runStage(stage: Stage, how: { resume: boolean }, context: RunContext): Promise<void> {
  const { config, given } = loadStage(stage, how);
  const result = await stage.recipe.run(config, { ...context, given });
  context.progress.line(result.text);
  if (result.exit_code === 1)
    throw new GuardError(`quickstart stopped in its stage '${stage.name}'. Run it again to go on from there.`);
}

const share = (value: number | null) => (value === null ? "n/a" : value.toFixed(3));
const range = (value: readonly [number, number] | null) =>
  value ? `[${value.map((end) => end.toFixed(3)).join(", ")}]` : "n/a";

interface QuickstartConfig {
  split: string[];
  repeat: number;
  bench_seed: number;
  seed: number;
}

async function summarize(
  dir: string,
  config: QuickstartConfig,
  context: RunContext,
  done: readonly string[],
  total_ms: number,
) {
  const grpoConfig = JSON.parse(readFileSync(join(dir, "grpo", "config.json"), "utf8")) as {
    env: string;
    env_options: Record<string, unknown>;
  };
  const env = await loadEnv(grpoConfig.env);
  const sets = await Promise.all(config.split.map((split) => env.load(split, grpoConfig.env_options)));
  const [before, after] = ["bench-before", "bench-after"].map((name) =>
    judgeSplits(sets, readTrajectories(join(dir, name, "trajectories", "rank-0.jsonl")), config.repeat),
  ) as [Labelled[], Labelled[]];

  // Policies that do nothing stand beside every result.
  const tasks = joinTaskSets(sets);
  const idle: Trajectory[] = [];
  const policy = env.policies.includes("always_finish") ? "always_finish" : "gold";
  await play({
    tasks,
    policy,
    episodes: planTrials(tasks.ids, 1, config.bench_seed),
    log: { write: (trajectory) => void idle.push(trajectory) },
    seed: config.bench_seed,
    max_turns: null,
    timeout_ms: 60_000,
    progress: context.progress,
  });
  const baseline = judgeSplits(sets, idle, 1);

  const rows = before.map(({ label, judged }, index) => {
    const trained = after[index]!.judged;
    const gain = compare(judged, trained);
    return { split: label, baseline: baseline[index]!.judged, before: judged, after: trained, gain };
  });
  const table = textTable([
    [
      "split",
      "tasks",
      "trials",
      policy,
      "SFT pass^1",
      "95 %",
      "GRPO pass^1",
      "95 %",
      "gain",
      "95 %",
      "SFT pass^3",
      "GRPO pass^3",
    ],
    ...rows.map(({ split, baseline, before, after, gain }) => [
      split,
      String(before.tasks),
      String(before.trials),
      share(baseline.pass_hat["1"] ?? null),
      share(before.pass_hat["1"] ?? null),
      range(before.pass_hat_1_interval),
      share(after.pass_hat["1"] ?? null),
      range(after.pass_hat_1_interval),
      gain.difference === null ? "n/a" : `${gain.difference >= 0 ? "+" : ""}${gain.difference.toFixed(3)}`,
      range(gain.interval),
      share(before.pass_hat["3"] ?? null),
      share(after.pass_hat["3"] ?? null),
    ]),
  ]);
  const manifest = readManifest(join(dir, "grpo"))!;
  const result = (manifest.details.result ?? {}) as { bridge_share?: number };
  const bridge = result.bridge_share === undefined ? "n/a" : `${(100 * result.bridge_share).toFixed(2)} %`;
  const notes =
    "pass^1: share of trials that succeed, mean over tasks. 95 %: bootstrap over tasks; of the gain, paired.";
  const files = writeReport(join(dir, "grpo"), [{ title: "Before and after", text: `${table}\n\n${notes}` }]);
  const results = {
    seed: config.seed,
    bridge_share: result.bridge_share ?? null,
    seconds: Math.round(total_ms / 1000),
    splits: rows.map(({ split, baseline, before, after, gain }) => ({
      split,
      tasks: before.tasks,
      trials: before.trials,
      [policy]: baseline.pass_hat,
      before: short(before),
      after: short(after),
      gain,
      gain_by_task: gainByTask(before, after),
    })),
  };
  writeJson(join(dir, "results.json"), results);
  return {
    text: [
      "",
      table,
      "",
      notes,
      `bridge: ${bridge} of GRPO's time. ${Math.round(total_ms / 1000)} s in all${done.length > 0 ? ` (${done.join(", ")} were already there)` : ""}.`,
      ...files.map((file) => `${file.endsWith(".svg") ? "learning curve" : "report"}: ${shownPath(file)}`),
      "",
      "Next, your own checkpoint (a Hugging Face folder or a hub id):",
      "  npx tsx src/cli.ts sft --model YOUR_MODEL --lora --name my-sft",
      "  npx tsx src/cli.ts grpo --dapo --model runs/my-sft/final",
    ].join("\n"),
    json: [results],
  };
}

interface Labelled {
  label: string;
  judged: Judgement;
}

function short({ pass_hat, pass_at, pass_hat_1_interval, mean_reward, complete, categories }: Judgement) {
  return { pass_hat, pass_at, pass_hat_1_interval, mean_reward, complete, categories };
}
