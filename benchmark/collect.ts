import { join } from "node:path";
import { z } from "zod";
import { mergeValues } from "../src/config.ts";
import type { CollectionRules } from "../src/core/collection.ts";
import type { Env } from "../src/core/env.ts";
import { UserError } from "../src/core/errors.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { writeWhole } from "../src/core/whole-file.ts";
import { loadEnv } from "../src/envs/index.ts";
import { defineRecipe, type Recipe, type RunContext, type RunResult } from "../src/recipes/recipe.ts";
import { freeName, writeJson } from "../src/run-folder.ts";
import { readTrajectories } from "../src/trajectory-log.ts";
import { isApi } from "./api.ts";
import { rolloutConfig } from "./config.ts";
import { playPart } from "./part.ts";
import { modelOf } from "./play.ts";

// A teacher plays each task several times at several temperatures; its clean successes become SFT rows. Each temperature
// is a benchmark of its own under attempts/, and so goes on where it was broken off.

const { split: _split, repeat, temperature: _temperature, ...playKeys } = rolloutConfig.shape;

const collectConfig = z.object({
  ...playKeys,
  temperatures: z
    .array(z.number().nonnegative())
    .min(1)
    .default([0, 0.5, 0.8, 1])
    .describe("A model plays each task at each of these; 0: greedy."),
  repeat: repeat.unwrap().default(4).describe("Attempts at each temperature; of a policy without a model 1 in all."),
  task_range: z
    .string()
    .nullable()
    .default(null)
    .describe("Only these tasks by their place, from 0: 0:10 (10 not included), or 5,8,11."),
  tiny: z.boolean().default(false).describe("Two tasks, one attempt each at temperatures 0 and 0.8: does it work?"),
  top_p: playKeys.top_p.unwrap().default(0.9),
  max_turn_tokens: playKeys.max_turn_tokens.unwrap().default(768).describe("Tokens of one reply."),
  max_episode_tokens: playKeys.max_episode_tokens.unwrap().default(16_384).describe("Tokens of all replies."),
});
type CollectConfig = z.output<typeof collectConfig>;

const TINY = { temperatures: [0, 0.8], repeat: 1, task_range: "0:2" };

export const collect: Recipe = defineRecipe({
  name: "collect",
  summary: "Collect a teacher's successful episodes as SFT rows: best of several attempts a task",
  examples: [
    "collect --env airline --policy gold --name teacher",
    "collect --env airline --policy api:my-72b --repeat 4 --temperatures 0,0.5,0.8,1",
    "data airline collect --policy api:my-72b --tiny",
  ],
  config: collectConfig,
  presets: (values) => (values.tiny === true ? [{ switch: "tiny", values: TINY }] : []),
  async run(given, context) {
    const env = await loadEnv(given.env);
    const rules: CollectionRules = env.collection ?? { split: env.splits[0]!, train: env.splits[0]!, holdout: null };
    const env_options = mergeValues(rules.env_options ?? {}, given.env_options);
    const config = { ...given, env_options };
    const sampled = modelOf(config.policy) !== null || isApi(config.policy);
    if (!sampled && context.given.has("temperatures"))
      throw new UserError(`temperatures is set, but the policy '${config.policy}' is not a model. Leave it out.`);
    const dir = join(config.runs_dir, config.name ?? freeName(config.runs_dir, `collect-${env.name}`));
    const tasks = await env.load(rules.split, env_options);
    const chosen = config.task_range === null ? tasks.ids : pickRange(tasks.ids, config.task_range);
    const task_ids = config.task_ids.length > 0 ? config.task_ids : chosen;
    const train = new Set((await env.load(rules.train, env_options)).ids);
    const holdout = rules.holdout === null ? null : new Set((await env.load(rules.holdout, env_options)).ids);
    const temperatures = sampled ? config.temperatures : [null];
    const attempts = !sampled && !context.given.has("repeat") ? 1 : config.repeat;

    const logs: { temperature: number | null; log: string }[] = [];
    for (const temperature of temperatures) {
      const played = await playAt(temperature, { config, task_ids, attempts, dir, split: rules.split }, context);
      if ("text" in played) return played; // it was only to be checked
      logs.push({ temperature, log: played.logPath });
    }
    const made = sampleOf(logs, attempts, task_ids);
    return writeCollection(dir, made, { env, rules, config, all: tasks.ids, train, holdout });
  },
});

interface Attempts {
  config: CollectConfig;
  task_ids: readonly string[];
  attempts: number;
  dir: string;
  split: string;
}

/** All attempts at one temperature: a benchmark, gone on with where there is one. */
function playAt(
  temperature: number | null,
  { config, task_ids, attempts, dir, split }: Attempts,
  context: RunContext,
): ReturnType<typeof playPart> {
  const { temperatures: _, task_range: __, tiny: ___, ...play } = config;
  const part = {
    ...play,
    split: [split],
    task_ids: [...task_ids],
    repeat: attempts,
    temperature: temperature ?? 1,
    name: temperature === null ? "attempts" : `t${temperature}`,
    runs_dir: join(dir, "attempts"),
  };
  return playPart(part, ["repeat", "task_ids"], context);
}

/** @throws UserError for a range that names no task, or one that is not there */
export function pickRange(ids: readonly string[], range: string): string[] {
  const span = /^(\d*):(\d*)$/.exec(range.trim());
  const wrong = (what: string) =>
    new UserError(
      `task_range is '${range}', ${what}; expected 0:10 or 5,8,11, with places from 0 to ${ids.length - 1}.`,
    );
  if (span) {
    const [from, to] = [Number(span[1] || 0), Number(span[2] || ids.length)];
    if (from >= to || from >= ids.length) throw wrong("which names no task");
    return ids.slice(from, to);
  }
  const places = range.split(",").map((part) => (/^\s*\d+\s*$/.test(part) ? Number(part) : -1));
  if (places.some((place) => place < 0)) throw wrong("which can't be read");
  const outside = places.find((place) => place >= ids.length);
  if (outside !== undefined) throw wrong(`and there is no task ${outside}`);
  return [...new Set(places)].map((place) => ids[place]!);
}

/** One attempt at a task. */
interface Attempt {
  sample_idx: number;
  temperature: number | null;
  trajectory: Trajectory;
}

/** All attempts by task; samples count on over the temperatures. */
function sampleOf(
  logs: readonly { temperature: number | null; log: string }[],
  attempts: number,
  task_ids: readonly string[],
): Map<string, Attempt[]> {
  const byTask = new Map<string, Attempt[]>(task_ids.map((task_id) => [task_id, []]));
  for (const [place, { temperature, log }] of logs.entries())
    for (const trajectory of readTrajectories(log))
      byTask
        .get(trajectory.task_id)
        ?.push({ sample_idx: place * attempts + trajectory.trial, temperature, trajectory });
  for (const own of byTask.values()) own.sort((a, b) => a.sample_idx - b.sample_idx);
  return byTask;
}

interface Written {
  env: Env;
  rules: CollectionRules;
  config: CollectConfig;
  /** Every task of the collection's split: places are counted in it. */
  all: readonly string[];
  train: ReadonlySet<string>;
  /** null: all others. */
  holdout: ReadonlySet<string> | null;
}

/** Writes the rows of each task, its summary last, and then what is about all of them. */
async function writeCollection(
  dir: string,
  byTask: ReadonlyMap<string, readonly Attempt[]>,
  { env, rules, config, all, train, holdout }: Written,
): Promise<RunResult> {
  const rowOf = (task_id: string, { sample_idx, temperature, trajectory }: Attempt) => ({
    id: `${task_id}/${sample_idx}`,
    task_id,
    sample_idx,
    temperature,
    success: trajectory.success,
    reward: trajectory.reward,
    ...(rules.counts?.(trajectory) ?? { num_turns: trajectory.turns.length }),
    messages: rules.conversation?.(trajectory.messages) ?? trajectory.messages,
  });
  const wrongWith = (attempt: Attempt) => rules.contaminated?.(attempt.trajectory) ?? null;
  const rows: { task_id: string; row: object }[] = [];
  const totals = { attempts: 0, successes: 0, contaminated: 0, failed: 0 };
  for (const [task_id, attempts] of byTask) {
    const stem = join(dir, `task_${String(all.indexOf(task_id)).padStart(4, "0")}`);
    const valid = attempts.filter(({ trajectory }) => trajectory.reward !== null);
    const dirty = valid.filter((attempt) => wrongWith(attempt) !== null);
    const clean = valid.filter((attempt) => attempt.trajectory.success && wrongWith(attempt) === null);
    writeLines(
      `${stem}.jsonl`,
      clean.map((attempt) => rowOf(task_id, attempt)),
    );
    if (dirty.length > 0)
      writeLines(
        `${stem}_contaminated.jsonl`,
        dirty.map((attempt) => ({ ...rowOf(task_id, attempt), contaminated: wrongWith(attempt) })),
      );
    writeJson(`${stem}.meta.json`, {
      task_id,
      attempts: attempts.map((attempt) => {
        const { messages: _, ...summary } = rowOf(task_id, attempt);
        return { ...summary, contaminated: wrongWith(attempt), error: attempt.trajectory.ended_why };
      }),
    });
    rows.push(...clean.map((attempt) => ({ task_id, row: rowOf(task_id, attempt) })));
    totals.attempts += attempts.length;
    totals.successes += clean.length;
    totals.contaminated += dirty.length;
    totals.failed += attempts.length - valid.length;
  }
  const covered = [...new Set(rows.map(({ task_id }) => task_id))];
  const trained = rows.filter(({ task_id }) => train.has(task_id)).map(({ row }) => row);
  const heldOut = rows
    .filter(({ task_id }) => !train.has(task_id) && (holdout?.has(task_id) ?? true))
    .map(({ row }) => row);
  writeLines(join(dir, "train.jsonl"), trained);
  writeLines(join(dir, "holdout_train.jsonl"), heldOut);
  for (const [name, content] of Object.entries((await rules.files?.(covered, config.env_options)) ?? {}))
    writeJson(join(dir, name), content);
  const summary = {
    policy: config.policy,
    env: env.id,
    tasks: byTask.size,
    covered: covered.length,
    ...totals,
    train_rows: trained.length,
    holdout_rows: heldOut.length,
  };
  writeJson(join(dir, "config.json"), config);
  writeJson(join(dir, "summary.json"), summary);
  return {
    text: [
      `${config.policy}: ${totals.successes} clean successes of ${totals.attempts} attempts; ${covered.length} of ${byTask.size} tasks are covered`,
      ...(totals.contaminated > 0
        ? [`contaminated, so kept apart in task_…_contaminated.jsonl: ${totals.contaminated}`]
        : []),
      ...(totals.failed > 0
        ? [`${totals.failed} attempts failed outside the policy; the same command plays them again`]
        : []),
      `${join(dir, "train.jsonl")}: ${trained.length} rows; holdout_train.jsonl: ${heldOut.length}`,
    ].join("\n"),
    json: [{ dir, rows: join(dir, "train.jsonl"), ...summary }],
    exit_code: totals.successes > 0 ? 0 : 1,
  };
}

function writeLines(path: string, rows: readonly object[]): void {
  writeWhole(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
}
