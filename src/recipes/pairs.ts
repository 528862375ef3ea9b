// Where a DPO run's pairs come from: a file that `data <env> dpo` wrote, or trajectories that are paired on the spot.
import { statSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { canonicalJson } from "../core/canonical-json.ts";
import type { Env } from "../core/env.ts";
import { UserError } from "../core/errors.ts";
import { type PairRow, pairSettings } from "../core/pair.ts";
import type { ExpertRow } from "../core/task.ts";
import type { RowData } from "../expert-rows.ts";
import { pairData, readPairRows, statisticsText } from "../pair-data.ts";
import { readTextFile } from "../text-file.ts";
import { splitLines } from "../trajectory-log.ts";
import { fileHash } from "./shared.ts";

export interface Pairs extends RowData<PairRow> {
  /** SHA-256 by name of the files they were read from, and of the data of the tasks where they were made here. */
  data: Record<string, string>;
  /** What to tell the person watching. */
  notes: string[];
}

interface Source {
  path: string;
  env: Env;
  /** The environment as the user named it. */
  family: string;
  env_options: Record<string, unknown>;
  /** null: the environment's. */
  split: string | null;
  seed: number;
}

/**
 * @throws UserError for a path that holds neither, for pairs of another environment or style, and where none can teach
 * anything
 */
export async function loadPairs(source: Source): Promise<Pairs> {
  const pairs = isPairFile(source.path) ? readFile(source) : await pairLogs(source);
  refuseAllEqual(source.path, pairs.rows);
  return pairs;
}

/** A file whose first row has two sides; a folder, and whatever else a file holds, is for `pairData` to read. */
function isPairFile(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats) throw new UserError(`pairs is '${path}': there is no such file or folder.`);
  if (stats.isDirectory()) return false;
  const first = splitLines(readTextFile(path))[0];
  if (!first) throw new UserError(`pairs is '${path}', which is empty; expected pairs, or a log of trajectories.`);
  try {
    const row: unknown = JSON.parse(first.content);
    return typeof row === "object" && row !== null && ("chosen" in row || "rejected" in row);
  } catch {
    return false;
  }
}

function readFile({ path, env, env_options, split }: Source): Pairs {
  if (split !== null)
    throw new UserError(`split is '${split}', but the pairs of ${path} are made already. Leave split out.`);
  const { rows, manifest } = readPairRows(path);
  if (typeof manifest.env === "string" && manifest.env.split("@")[0] !== env.name)
    throw new UserError(`${path}: pairs of ${manifest.env}, but env is ${env.id}. Set --env as they were made.`);
  const [made, asked] = [manifest.env_options ?? env_options, env_options].map((options) => env.continuation(options));
  if (!isDeepStrictEqual(made, asked)) {
    const style = (texts: typeof made) => (texts ? "continuation" : "chat");
    throw new UserError(
      `${path}: its replies are of the ${style(made)} style, and env_options ask for the ${style(asked)} style. ` +
        "Set --env-options as the pairs were made with.",
    );
  }
  return { rows, manifest, data: { [path]: fileHash(path) }, notes: [] };
}

async function pairLogs({ path, env, family, env_options, split, seed }: Source): Promise<Pairs> {
  const settings = { ...pairSettings.parse({}), seed };
  const request = { files: [path], family, split: split ?? undefined, env_options, settings };
  const { rows, manifest, statistics, notes } = await pairData(env, request);
  const sources = manifest.sources as { file: string; sha256: string }[];
  return {
    rows,
    manifest,
    data: {
      ...(manifest.data as Record<string, string>),
      ...Object.fromEntries(sources.map(({ file, sha256 }) => [file, sha256])),
    },
    notes: [...statisticsText(statistics), ...notes],
  };
}

/** By their texts; Python leaves out and counts by tokens. */
function refuseAllEqual(path: string, rows: readonly PairRow[]): void {
  const empty = (row: PairRow) => [...row.chosen, ...row.rejected].some(({ reply }) => reply.trim() === "");
  const equal = (row: PairRow) => canonicalJson(row.chosen) === canonicalJson(row.rejected);
  if (rows.every((row) => empty(row) || equal(row)))
    throw new UserError(
      `${path}: none of the ${rows.length} pairs can teach anything: each has two identical sides, or an empty one. ` +
        "Make pairs of trajectories that did different things.",
    );
}

/** The longer side of each pair, as the row of worked solutions that it is in tokens. */
export function longerSides(rows: readonly PairRow[]): ExpertRow[] {
  return rows.map(({ id, task_id, prompt, shared, chosen, rejected }) => {
    const own = JSON.stringify(chosen).length >= JSON.stringify(rejected).length ? chosen : rejected;
    return { id, task_id, prompt, turns: [...shared, ...own], meta: {} };
  });
}
