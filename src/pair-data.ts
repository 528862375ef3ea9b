// Preference pairs from stored trajectories: read, judged, paired, and counted. No model takes part.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { canonicalJson } from "./core/canonical-json.ts";
import type { Env, EnvPairs } from "./core/env.ts";
import { errorText, UserError } from "./core/errors.ts";
import type { Message } from "./core/message.ts";
import { type PairRow, type PairSettings, type PairTurn, pairRowSchema } from "./core/pair.ts";
import { countBy, FEW_PAIRED, type PairStatistics, pairStatistics } from "./core/pair-statistics.ts";
import { type PairSource, pairsOfTask, type TaskPairs } from "./core/pairing.ts";
import type { Trajectory } from "./core/trajectory.ts";
import { type RowData, readRows } from "./expert-rows.ts";
import { readTextFile } from "./text-file.ts";
import { asTrajectory, logSource, logsOf, parseJsonLine, splitLines } from "./trajectory-log.ts";

export interface PairRequest {
  /** Trajectory logs, folders of runs, or stored trajectories in the format of `score`. */
  files: readonly string[];
  /** The environment as the user named it, for messages. */
  family: string;
  /** Left out: the environment's. */
  split?: string;
  env_options: Record<string, unknown>;
  settings: PairSettings;
}

/** Why a line took no part. */
const LEFT_OUT = {
  not_in_split: "of tasks that are not in the split",
  other_prompt: "whose prompt is not the task's",
  invalid: "that failed in the environment, without a reward",
  cut: "cut off by the end of their writer",
} as const;
type LeftOut = keyof typeof LEFT_OUT;

type Tasks = Awaited<ReturnType<EnvPairs["load"]>>;

interface Reading {
  env: Env;
  rules: EnvPairs;
  tasks: Tasks;
  env_options: Record<string, unknown>;
  /** Begins every reply in the continuation style; logs have it before the first alone. */
  opening: string | null;
  promptOf(task_id: string): Promise<Message[]>;
}

/**
 * Pairs of the trajectories in the files, for tasks of a split that is there to be trained on. Equal files and settings
 * give equal rows.
 * @throws UserError for an environment or a split without pairs, naming every malformed line, and where nothing pairs
 */
export async function pairData(
  env: Env,
  { files, family, split: named, env_options, settings }: PairRequest,
): Promise<RowData<PairRow> & { statistics: PairStatistics; notes: string[] }> {
  const rules = env.pairs;
  if (!rules)
    throw new UserError(
      `${env.name} does not say which of its tasks may be trained on, so its trajectories can't become pairs: ` +
        "give its spec 'pairs'.",
    );
  if (files.length === 0)
    throw new UserError(
      `data ${family} dpo: name the trajectories to pair, as runs/my-rollouts or histories.jsonl. ` +
        sampling(family, named ?? rules.split),
    );
  const split = named ?? rules.split;
  const tasks = await rules.load(split, env_options);
  const logs = [...new Set(files.flatMap(logsOf))].map((path) => ({ path, text: readTextFile(path) }));
  const opening = env.continuation(env_options)?.opening ?? null;
  const promptOf = promptsOf(tasks);
  const read = await readAll(logs, { env, rules, tasks, env_options, opening, promptOf });

  const byTask = tasks.ids.flatMap((id): TaskPairs[] => {
    const sources = read.sources.filter(({ task_id }) => task_id === id);
    return sources.length === 0 ? [] : [pairsOfTask(sources, settings, rules.end)];
  });
  const rows = byTask.flatMap((task) => task.rows).map((row) => withHash(row, split));
  const statistics = pairStatistics(byTask, tasks.ids.length, tasks.category);
  const left = Object.entries(read.left_out).filter(([, list]) => list.length > 0) as [LeftOut, Left[]][];
  const notes = left.map(([why, list]) => `left out: ${list.length} trajectories ${LEFT_OUT[why]} ${tasksOf(list)}`);
  if (rows.length === 0)
    throw new UserError(
      [`${files.join(", ")}: nothing to pair. ${whyNot(statistics)} ${sampling(family, split)}`, ...notes].join("\n"),
    );
  return {
    rows,
    statistics,
    notes,
    manifest: {
      version: 1,
      kind: `${env.name}_dpo`,
      env: env.id,
      env_options: env.parseOptions(env_options),
      split,
      data: tasks.sources,
      settings,
      sources: logs.map(({ path }) => ({ file: logSource(path), sha256: sha256(readFileSync(path)) })),
      lines: {
        paired_from: read.sources.length,
        rescored: read.rescored,
        left_out: Object.fromEntries(
          left.map(([why, list]) => [why, { lines: list.length, tasks: countBy(list, ({ task_id }) => task_id) }]),
        ),
      },
      statistics,
      // Every row's task is of the split, and that split has passed the environment's own guards.
      overlaps: { tasks_outside_split: rows.filter(({ task_id }) => !tasks.ids.includes(task_id)).length },
      tasks: byTask.map(({ rows: own, ...task }) => ({
        ...task,
        category: tasks.category(task.task_id),
        pairs: own.length,
      })),
      rows_sha256: sha256(canonicalJson(rows)),
    },
  };
}

/** Rows that `data <family> dpo` wrote. @throws UserError as for rows of worked solutions */
export const readPairRows = (path: string): RowData<PairRow> => readRows(path, pairRowSchema);

/** For people: how many tasks can teach something, and by how much. */
export function statisticsText({
  tasks,
  shares,
  trajectories,
  pairs,
  reward_gap,
  histograms,
}: PairStatistics): string[] {
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`;
  const gap =
    reward_gap && (["min", "median", "mean", "max"] as const).map((name) => `${name} ${reward_gap[name].toFixed(3)}`);
  const list = (counts: Record<string, number>) =>
    Object.entries(counts)
      .map(([name, count]) => `${name}: ${count}`)
      .join(", ");
  return [
    `${trajectories} trajectories of ${tasks.played} tasks (${tasks.split} in the split)`,
    `tasks with different rewards: ${tasks.with_spread} of ${tasks.played} (${percent(shares.with_spread)})`,
    `tasks with a pair: ${tasks.paired} of ${tasks.played} (${percent(shares.paired)}); ${pairs} pairs`,
    ...(gap ? [`reward gap: ${gap.join(", ")}; ${list(histograms.reward_gap)}`] : []),
    ...(Object.keys(histograms.unpaired).length > 0 ? [`tasks without a pair: ${list(histograms.unpaired)}`] : []),
    ...(shares.paired < FEW_PAIRED
      ? [
          `WARNING: fewer than ${percent(FEW_PAIRED)} of the tasks have a pair: a few tasks decide what is learnt. ` +
            "Sample more trajectories of each, or at a higher temperature.",
        ]
      : []),
  ];
}

// ------------------------------------------------------------------------------------------------------ reading

interface Left {
  place: string;
  task_id: string;
}

async function readAll(logs: readonly { path: string; text: string }[], reading: Reading) {
  const sources: PairSource[] = [];
  const malformed: string[] = [];
  const left_out: Record<LeftOut, Left[]> = { not_in_split: [], other_prompt: [], invalid: [], cut: [] };
  let rescored = 0;
  for (const { path, text } of logs) {
    for (const { line, content, cut } of splitLines(text)) {
      const place = `${logSource(path)}, line ${line}`;
      try {
        let value: unknown;
        try {
          value = parseJsonLine(content);
        } catch (error) {
          if (!cut) throw new UserError(`not JSON (${errorText(error)}).`);
          left_out.cut.push({ place, task_id: "unknown" });
          continue;
        }
        const found = await readLine(value, reading);
        if (found.left) left_out[found.left].push({ place, task_id: found.task_id });
        else sources.push({ ...found.source, place });
        if (!found.left && found.rescored) rescored++;
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        malformed.push(`${path}, line ${line}: ${error.message}`);
      }
    }
  }
  if (malformed.length > 0)
    throw new UserError(
      [
        ...malformed.slice(0, MOST_TOLD),
        ...(malformed.length > MOST_TOLD ? [`and ${malformed.length - MOST_TOLD} more lines`] : []),
        "Nothing was written. Mend or remove these lines.",
      ].join("\n"),
    );
  return { sources, left_out, rescored };
}

const MOST_TOLD = 10;

type Found =
  | { left: LeftOut; task_id: string }
  | { left?: never; source: Omit<PairSource, "place">; rescored: boolean };

async function readLine(value: unknown, reading: Reading): Promise<Found> {
  const { env, rules, tasks } = reading;
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new UserError(`a trajectory must be an object; got ${JSON.stringify(value).slice(0, 80)}.`);
  if (!("turns" in value) && rules.history) return readHistory(value, reading, rules.history);

  const trajectory = asTrajectory(value, "not a line of a trajectory log");
  const { task_id, policy } = trajectory;
  if (trajectory.env !== env.id)
    throw new UserError(`a trajectory of ${trajectory.env}, not of ${env.id}: their rewards do not compare.`);
  if (!tasks.ids.includes(task_id)) return { left: "not_in_split", task_id };
  if (trajectory.reward === null) return { left: "invalid", task_id };
  const { prompt, turns } = turnsOf(trajectory, reading);
  if (!tasks.fits(task_id, prompt)) return { left: "other_prompt", task_id };
  const judged = await judge(value, reading);
  const reward = judged ?? trajectory.reward;
  return {
    source: { task_id, policy, prompt, turns, reward },
    rescored: Math.abs(reward - trajectory.reward) > 1e-9,
  };
}

async function readHistory(value: object, reading: Reading, history: NonNullable<EnvPairs["history"]>): Promise<Found> {
  const { env, tasks } = reading;
  const { env: signed } = value as { env?: unknown };
  if (typeof signed === "string" && signed.split("@")[0] !== env.name)
    throw new UserError(`a trajectory of ${signed}, not of ${env.name}: their rewards do not compare.`);
  const reward = await judge(value, reading); // which refuses what does not fit the format
  const found = history(value);
  const task_id = found?.task_id ?? "unknown";
  if (!found || !tasks.ids.includes(task_id)) return { left: "not_in_split", task_id };
  if (reward === null) return { left: "invalid", task_id };
  const { agent_type } = value as { agent_type?: unknown };
  const policy = typeof agent_type === "string" ? agent_type : null;
  return {
    source: { task_id, policy, prompt: await reading.promptOf(task_id), turns: found.turns, reward },
    rescored: false,
  };
}

const judgement = z.looseObject({ reward: z.number().nullable(), skipped: z.string().optional() });

/** One scorer for all of a task's trajectories, whatever options they were played under. null: it knows nothing of it. */
async function judge(value: object, { env, env_options }: Reading): Promise<number | null> {
  if (!env.rescore) return null;
  const parsed = judgement.safeParse(await env.rescore(value, env_options));
  if (!parsed.success) throw new Error(`${env.id}: rescore gives something else than {reward}.`);
  return parsed.data.skipped === undefined ? parsed.data.reward : null;
}

/** The prompt of a logged trajectory, and its turns with what the environment answered. */
function turnsOf({ messages, turns }: Trajectory, { rules, opening }: Reading): Pick<PairSource, "prompt" | "turns"> {
  const replies = messages.flatMap(({ role }, index) => (role === "assistant" ? [index] : []));
  const starts = turns.length === 0 ? [] : replies.slice(-turns.length); // a prompt may hold replies too, as examples
  const apart =
    starts.length !== turns.length || starts.some((at, turn) => messages[at]!.content !== turns[turn]!.reply);
  if (apart) throw new UserError("its messages are not those of its turns.");
  return {
    prompt: messages.slice(0, starts[0] ?? messages.length),
    turns: turns.map((turn, index): PairTurn => {
      const bare = opening !== null && index > 0 && !turn.reply.startsWith(opening);
      return {
        reply: bare ? `${opening}${turn.reply}` : turn.reply,
        action: rules.action(turn),
        observations: messages.slice(starts[index]! + 1, starts[index + 1] ?? messages.length),
        unreadable: turn.outcome.kind === "parse_error",
      };
    }),
  };
}

/** A history has no prompt: it is the one that an episode of the task begins with under these options. */
function promptsOf(tasks: Tasks): Reading["promptOf"] {
  const known = new Map<string, Promise<Message[]>>();
  async function start(task_id: string): Promise<Message[]> {
    const episode = await tasks.start(task_id, { seed: 0 });
    const { messages, ended_by, ended_why } = await episode.finish();
    if (ended_by === "error" || ended_by === "timeout")
      throw new UserError(`task '${task_id}' can't be started: ${ended_why}`);
    return messages;
  }
  return (task_id) => {
    const prompt = known.get(task_id) ?? start(task_id);
    known.set(task_id, prompt);
    return prompt;
  };
}

// ------------------------------------------------------------------------------------------------------ telling

function withHash(row: PairRow, source_split: string): PairRow {
  const { prompt, shared, chosen, rejected } = row;
  const sample_sha256 = sha256(canonicalJson({ prompt, shared, chosen, rejected }));
  return { ...row, meta: { source_split, ...row.meta, sample_sha256 } };
}

function whyNot({ tasks, histograms, trajectories }: PairStatistics): string {
  if (trajectories === 0) return "No trajectory of the split has a reward.";
  const reasons = Object.entries(histograms.unpaired).map(([why, count]) => `${why} ${count}`);
  return `${trajectories} trajectories of ${tasks.played} tasks, and why each task has no pair: ${reasons.join(", ")}.`;
}

function sampling(family: string, split: string): string {
  return (
    `Sample several trajectories of each task: trestle rollout --env ${family} --policy model:MODEL --split ${split} ` +
    "--repeat 8 --temperature 0.8 --seed 42"
  );
}

function tasksOf(list: readonly Left[]): string {
  const ids = [...new Set(list.map(({ task_id }) => task_id))].sort();
  return `(${ids.slice(0, 5).join(", ")}${ids.length > 5 ? ` and ${ids.length - 5} more` : ""})`;
}

const sha256 = (text: string | Uint8Array): string => createHash("sha256").update(text).digest("hex");
