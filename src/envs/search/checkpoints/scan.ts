import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { z } from "zod";
import { errorText, pathProblem, UserError } from "../../../core/errors.ts";
import { describeIssues } from "../../../core/tool.ts";
import { isFolder } from "../index/corpus.ts";
import { metaSchema, type RoundCheckpoint, type RunMeta, roundSchema } from "./schemas.ts";

export interface RecordedRun {
  /** Folder names, as "q017" and "run_002". */
  folder: string;
  run: string;
  meta: RunMeta;
  /** In the order of `meta.rounds`. */
  rounds: readonly RoundCheckpoint[];
}

/** A run that can't be used. */
export interface SkippedRun {
  path: string;
  reason: string;
}

export interface Recordings {
  runs: readonly RecordedRun[];
  skipped: readonly SkippedRun[];
  /** Of everything that was read, in order. */
  sha256: string;
}

/** @throws a text: why a run can't be used */
type Read = (path: string) => string;

/**
 * Every run of every question. A run with a file that is missing, cut or misshapen is left out and named.
 * @throws UserError where there is no such folder, or nothing in it can be used
 */
export function scanCheckpoints(folder: string, name = folder): Recordings {
  if (!isFolder(folder)) throw new UserError(`${name}: there is no such folder of checkpoints.`);
  const hash = createHash("sha256");
  const read: Read = (path) => {
    try {
      const text = readFileSync(path, "utf8");
      hash.update(`${path.slice(folder.length)}\0${text}\0`);
      return text;
    } catch (error) {
      throw pathProblem(error, path) ?? error;
    }
  };
  const runs: RecordedRun[] = [];
  const skipped: SkippedRun[] = [];
  const texts = new Map<string, string>();
  const leaveOut = (path: string, error: unknown): void => {
    const problem = error instanceof UserError ? error : pathProblem(error, join(folder, path));
    if (!problem) throw error;
    skipped.push({ path, reason: problem.message.replaceAll(`${join(folder, path)}/`, "") });
  };
  for (const question of foldersOf(folder)) {
    let names: string[] = [];
    try {
      names = runsOf(join(folder, question));
    } catch (error) {
      leaveOut(question, error);
    }
    for (const run of names) {
      try {
        const recorded = readRun(join(folder, question, run), question, run, read);
        const { question_id, question: text } = recorded.meta;
        const known = texts.get(question_id) ?? text;
        if (known !== text)
          throw new UserError(`meta.json: question '${question_id}' is '${text}'; in a run before it is '${known}'.`);
        texts.set(question_id, text);
        runs.push(recorded);
      } catch (error) {
        leaveOut(join(question, run), error);
      }
    }
  }
  if (runs.length === 0) {
    const reasons = skipped.slice(0, 5).map(({ path, reason }) => `\n  - ${path}: ${reason}`);
    throw new UserError(
      `${name} holds no run that can be used${skipped.length > 0 ? `; ${skipped.length} were skipped:${reasons.join("")}` : "; expected <question>/run_<number>/meta.json in it."}`,
    );
  }
  return { runs, skipped, sha256: hash.digest("hex") };
}

const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function foldersOf(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => isFolder(join(folder, name)))
    .sort(byText);
}

/** In the order of their numbers: run_900 before run_1000 (CK-02). */
function runsOf(folder: string): string[] {
  const number = (name: string): bigint => BigInt(name.slice("run_".length));
  return foldersOf(folder)
    .filter((name) => /^run_\d+$/.test(name))
    .sort((a, b) => (number(a) < number(b) ? -1 : number(a) > number(b) ? 1 : byText(a, b)));
}

function readRun(path: string, folder: string, run: string, read: Read): RecordedRun {
  const meta = parseFile(join(path, "meta.json"), metaSchema, read);
  const wrong = meta.rounds.find(({ round }, index) => round !== index + 1);
  if (wrong) throw new UserError(`meta.json: round ${wrong.round} is out of order; expected 1, 2, … without a gap.`);
  const rounds = meta.rounds.map(({ round, strategy, file }) => {
    const checkpoint = parseFile(join(path, file), roundSchema, read);
    if (checkpoint.round !== round || checkpoint.strategy !== strategy)
      throw new UserError(
        `${file} is round ${checkpoint.round} (${checkpoint.strategy}); meta.json says round ${round} (${strategy}).`,
      );
    return checkpoint;
  });
  return { folder, run, meta, rounds };
}

function parseFile<Value>(path: string, schema: z.ZodType<Value>, read: Read): Value {
  let value: unknown;
  try {
    value = JSON.parse(read(path).replace(/^\ufeff/, ""));
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new UserError(`${path}: not JSON (${errorText(error)}).`);
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new UserError(`${path}: ${describeIssues(parsed.error)}.`);
  return parsed.data;
}
