import { join } from "node:path";
import { writeReports } from "../eval/report.ts";
import { judgementLine, judgementTable, judgeSplits, type Labelled, measureTable, number } from "../eval/tables.ts";
import type { Versions } from "../eval/versions.ts";
import { defineRecipe, type RunResult } from "../src/recipes/recipe.ts";
import { samplingKeys } from "../src/recipes/shared.ts";
import { textTable } from "../src/report.ts";
import { readTrajectories } from "../src/trajectory-log.ts";
import { isApi } from "./api.ts";
import { benchConfig, type PlayConfig, rolloutConfig } from "./config.ts";
import { type Played, playIntoFolder, resumeCommand } from "./folder.ts";
import { modelOf } from "./play.ts";
import { writeFamilyReports } from "./reports.ts";
import { readTimes, type Sitting, TIMES_FILE, type Timing, writeTiming } from "./timing.ts";

// Plays: a suite (splits of an environment) × a policy × repeats → a trajectory log. What it is worth, eval/ says.

export const bench = defineRecipe({
  name: "bench",
  summary: "Play splits with a policy, several times each, and tell pass^k, pass@k, reward and their intervals",
  examples: [
    "bench --policy gold --split iid_test",
    "bench --policy model:runs/quickstart-grpo/final --split dev,iid_test,ood_test --json",
    "bench --policy api:my-model --split iid_test --temperature 0.1 --no-thinking",
    "bench --resume --name bench-api-my-model",
  ],
  config: benchConfig,
  async run(given, context): Promise<RunResult> {
    const played = await playIntoFolder("bench", given, context);
    if ("text" in played) return played;
    const { run, logPath, sets, config, env, extra } = played;
    const trajectories = readTrajectories(logPath);
    const rows = judgeSplits(sets, trajectories, config.repeat, env.benchmark);
    const versions: Versions = {
      trestle: run.manifest.versions.trestle ?? "unknown",
      env: env.id,
      env_options: env.parseOptions(config.env_options),
      data: run.manifest.data,
    };
    const [report] = writeReports(run.dir, {
      policy: config.policy,
      versions,
      settings: settingsOf(config),
      rows,
      trajectories,
      category: played.tasks.category,
      rules: env.benchmark,
    });
    const own = await writeFamilyReports(played, trajectories);
    const timing = writeTiming(
      join(run.dir, "timing.json"),
      [...readTimes(join(run.dir, TIMES_FILE)).values()],
      (run.manifest.details.sittings ?? []) as Sitting[],
      trajectories.filter(({ success }) => success).length,
    );
    return {
      text: textOf(played, rows, timing, [report!, ...own]),
      json: rows.map(({ label, judged }) => ({
        ...judgementLine(label, judged),
        seed: config.seed,
        versions,
        log: logPath,
        ...extra,
      })),
      exit_code: rows.some(({ judged }) => !judged.complete) ? 1 : 0,
    };
  },
});

/** What can move a number; of a policy without a model only what it reads. */
function settingsOf(config: PlayConfig): Record<string, unknown> {
  const sampled = modelOf(config.policy) !== null || isApi(config.policy);
  const keys = ["seed", "repeat", "task_ids", "categories", "max_turns", "episode_timeout_ms"];
  const more = sampled ? [...Object.keys(samplingKeys), "chat_template_kwargs"] : [];
  const api = isApi(config.policy) ? ["stop", "extra_body"] : [];
  const local = modelOf(config.policy) === null ? [] : ["batch_size"];
  return Object.fromEntries([...keys, ...more, ...api, ...local].map((key) => [key, config[key as keyof PlayConfig]]));
}

function textOf(
  { config, env, run, logPath, lines }: Played,
  rows: readonly Labelled[],
  timing: Timing,
  reports: readonly string[],
) {
  const sampled = modelOf(config.policy) !== null || isApi(config.policy);
  const incomplete = rows.filter(({ judged }) => !judged.complete);
  const measures = measureTable(rows, env.benchmark);
  const took = timing.avg_total_ms === null ? "" : `, ${number(timing.avg_total_ms, 1)} ms an episode`;
  return [
    `${config.policy} on ${env.id}, temperature ${sampled ? config.temperature : "n/a"}, seed ${config.seed}${took}`,
    "",
    judgementTable(rows),
    "",
    ...(measures === "" ? [] : [measures, ""]),
    ...incomplete.map(
      ({ label, judged }) =>
        `INCOMPLETE: ${label} lacks ${judged.missing.length} of ${judged.tasks * judged.trials} episodes (${judged.invalid} failed).`,
    ),
    ...(incomplete.length > 0 ? [`to play them: ${resumeCommand(run.dir, config)}`] : []),
    ...lines,
    `log: ${logPath}`,
    `report: ${reports.join(", ")}`,
  ].join("\n");
}

export const rollout = defineRecipe({
  name: "rollout",
  summary: "Play tasks with a policy and write their trajectories",
  examples: [
    "rollout --policy gold --split dev",
    "rollout --policy model:models/tiny --split iid_test --task-ids multi_ai3_tr1 --repeat 4",
    "rollout --policy api:my-model --split train --parallel 16",
  ],
  config: rolloutConfig,
  async run(given, context): Promise<RunResult> {
    const played = await playIntoFolder("rollout", given, context);
    if ("text" in played) return played;
    const trajectories = readTrajectories(played.logPath);
    const rows = trajectories.map(({ task_id, trial, reward, success, turns, ended_by, ended_why }) => ({
      task_id,
      trial,
      reward,
      success,
      turns: turns.length,
      ended_by,
      ended_why,
    }));
    return {
      text: [
        textTable([
          ["task", "trial", "reward", "success", "turns", "ended by"],
          ...rows.map((row) => [
            row.task_id,
            String(row.trial),
            number(row.reward),
            row.success ? "yes" : "no",
            String(row.turns),
            row.ended_why ? `${row.ended_by}: ${row.ended_why}` : row.ended_by,
          ]),
        ]),
        "",
        ...played.lines,
        `log: ${played.logPath}`,
      ].join("\n"),
      json: [...rows, { log: played.logPath, episodes: rows.length, ...played.extra }],
      // Single failures are in the table; where nothing was played at all, a script must notice.
      exit_code: rows.length > 0 && rows.every(({ reward }) => reward === null) ? 1 : 0,
    };
  },
});
