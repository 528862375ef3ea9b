import { existsSync } from "node:fs";
import { relative } from "node:path";
import { z } from "zod";
import { errorText, UserError } from "../../core/errors.ts";
import type { LoadedTasks } from "../../core/task.ts";
import { describeIssues } from "../../core/tool.ts";
import {
  byQuestion,
  type Difficulty,
  difficultyOf,
  evenlySpread,
  type Sample,
  samplesOf,
  splitQuestions,
} from "./checkpoints/samples.ts";
import { type SkippedRun, scanCheckpoints } from "./checkpoints/scan.ts";
import { goldClues, readGold } from "./gold.ts";
import { judgementFiles } from "./judgements.ts";
import { fileSha256, readLines } from "./lines.ts";
import type { SearchOptions } from "./options.ts";
import { dataPaths, indexOf, judgementsOf } from "./resources.ts";
import { EMPTY_TABLES, type SearchTask } from "./types.ts";

export const searchSplits = ["train", "eval", "all"] as const;
type Split = (typeof searchSplits)[number];

/** All samples, and what was found on the way. */
export interface LoadedSamples {
  samples: readonly Sample[];
  questions: readonly Difficulty[];
  runs: number;
  rounds: number;
  skipped: readonly SkippedRun[];
  split: { train: string[]; eval: string[] };
  sources: Record<string, string>;
}

/**
 * Samples of recorded runs, or of a BEIR folder's queries. Questions are split first, and those without a sample have no
 * part in that.
 * @throws UserError
 */
export function loadSamples(options: SearchOptions): LoadedSamples {
  const { corpus, index, checkpoints, queries } = dataPaths(options);
  for (const path of [corpus, index])
    if (path !== null && !existsSync(path)) throw new UserError(`${shown(path)}: there is no such file.`);
  if (checkpoints === null && queries === null)
    throw new UserError(
      "There is nothing to sample from: set the option 'checkpoints', or name a BEIR folder as 'corpus'.",
    );
  const found = checkpoints === null ? ofQueries(queries!, options) : ofCheckpoints(checkpoints, options);
  if (found.samples.length === 0)
    throw new UserError(
      `${checkpoints ?? queries} has no sample: no SEARCH round has ${options.min_clues_per_round} clues. Lower min_clues_per_round.`,
    );
  return { ...found, split: splitQuestions(found.questions, options.train_ratio) };
}

type FoundSamples = Omit<LoadedSamples, "split">;

function ofCheckpoints(path: string, options: SearchOptions): FoundSamples {
  const { min_clues_per_round, max_samples_per_question } = options;
  const { runs, skipped, sha256 } = scanCheckpoints(path);
  const questions = byQuestion(runs).flatMap((question) => {
    const samples = question.runs.flatMap((run) => samplesOf(run, min_clues_per_round));
    return samples.length === 0
      ? []
      : [{ difficulty: difficultyOf(question), samples: evenlySpread(samples, max_samples_per_question) }];
  });
  return {
    samples: questions.flatMap(({ samples }) => samples),
    questions: questions.map(({ difficulty }) => difficulty),
    runs: runs.length,
    rounds: runs.reduce((sum, { rounds }) => sum + rounds.length, 0),
    skipped,
    sources: { [shown(path)]: sha256 },
  };
}

const id = z.union([z.string().min(1), z.number().transform(String)]);
const querySchema = z.object({ _id: id, text: z.string().min(1) });

/**
 * Questions that nobody has played: one sample each, its first round. Where judgements label, questions without one are
 * left out: all that they find would be DISCARD.
 */
function ofQueries(path: string, options: SearchOptions): FoundSamples {
  const judgements = options.checker.backend === "labels" ? judgementsOf(options) : null;
  const lines = readLines(path);
  const known = new Map<string, number>();
  const all = [...lines].map(({ line, text }): Sample => {
    const { _id, text: question } = readQuery(text, `${path}, line ${line}`);
    const before = known.get(_id);
    if (before !== undefined) throw new UserError(`${path}: query '${_id}' is on line ${before} and on line ${line}.`);
    known.set(_id, line);
    const context = { ...EMPTY_TABLES, question_id: _id, question, sub_goal: question, seen_docids: [] };
    return { id: `${_id}/round_001`, round: 1, context, clues: [], previous_clues: [] };
  });
  const samples = judgements ? all.filter(({ context }) => judgements.has(context.question_id)) : all;
  const left_out = all.length - samples.length;
  if (samples.length === 0)
    throw new UserError(
      all.length === 0
        ? `${path} holds no query.`
        : `${path}: none of its ${all.length} queries has a judgement. Do the qrels name other ids?`,
    );
  const questions = samples.map(({ context: { question_id, question } }) => ({
    question_id,
    question,
    solved: true,
    mean_rounds: 1,
  }));
  return {
    samples,
    questions,
    runs: 0,
    rounds: samples.length,
    skipped: left_out === 0 ? [] : [{ path: shown(path), reason: `${left_out} queries have no judgement.` }],
    sources: { [shown(path)]: lines.sha256() },
  };
}

function readQuery(text: string, place: string): z.output<typeof querySchema> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UserError(`${place}: not JSON (${errorText(error)}).`);
  }
  const parsed = querySchema.safeParse(value);
  if (!parsed.success) throw new UserError(`${place}: ${describeIssues(parsed.error)}.`);
  return parsed.data;
}

interface Loaded extends LoadedTasks<SearchTask> {
  split: { train: string[]; eval: string[] };
}

/** Options that decide which tasks there are. */
const keyOf = ({ checker, reward: _, prompt: __, table_rows: ___, ...options }: SearchOptions): string =>
  JSON.stringify([checker.backend, options]);
const loaded = new Map<string, Loaded>();

/**
 * The tasks of a split; their files are read once a process.
 * @throws UserError for a split that there is not, or data that can't be read
 */
export function loadTasks(split: string, options: SearchOptions): LoadedTasks<SearchTask> {
  if (!(searchSplits as readonly string[]).includes(split))
    throw new UserError(`split is '${split}'; expected one of ${searchSplits.join(", ")}.`);
  const key = keyOf(options);
  const all = loaded.get(key) ?? loadAll(options);
  loaded.set(key, all);
  const { tasks, split: sides, sources } = all;
  const chosen = split === "all" ? null : new Set(sides[split as Exclude<Split, "all">]);
  return { tasks: tasks.filter(({ question_id }) => chosen === null || chosen.has(question_id)), sources };
}

function loadAll(options: SearchOptions): Loaded {
  const { samples, split, sources } = loadSamples(options);
  const index = indexOf(options);
  const judgements = judgementsOf(options);
  const paths = dataPaths(options);
  const worked = paths.gold === null ? null : readGold(paths.gold);
  const labels = options.checker.backend === "labels" ? judgements : null; // a model's labels may be others
  const tasks = samples.map(({ id, round, context, clues, previous_clues }): SearchTask => {
    const gold = goldClues(context, worked?.get(id)?.clues ?? [], clues, { index, judgements: labels }, options);
    const judged = judgements?.get(context.question_id) ?? new Map();
    return {
      ...context,
      id,
      round,
      recorded_clues: clues,
      previous_clues,
      gold_clues: gold.clues,
      solvable: gold.solvable,
      important_docids: [...judged].filter(([, label]) => label === "IMPORTANT").map(([docid]) => docid),
      max_rounds: options.max_rounds,
    };
  });
  const files = [paths.gold, ...(paths.judgements === null ? [] : judgementFiles(paths.judgements))];
  const hashes = files.flatMap((file) => (file !== null && existsSync(file) ? [[shown(file), fileSha256(file)]] : []));
  const corpus = { [shown(paths.corpus ?? paths.index!)]: index.corpus_sha256 };
  return { tasks, split, sources: { ...sources, ...Object.fromEntries(hashes), ...corpus } };
}

/** A path as a manifest names it. */
function shown(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}
