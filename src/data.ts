import { existsSync, readFileSync } from "node:fs";
import { kebab } from "./config.ts";
import { UserError } from "./core/errors.ts";
import { pairSettings } from "./core/pair.ts";
import { describeIssues } from "./core/tool.ts";
import { type AirlineDataFlags, airlineAction, airlineDataActions } from "./data-airline.ts";
import { runAlarms } from "./data-airline-alarms.ts";
import { runHacking } from "./data-airline-hacking.ts";
import { type PrmAction, prmActions, runPrm } from "./data-airline-prm.ts";
import type { RatesOptions } from "./data-rates.ts";
import { publishedPage } from "./envs/airline/evaluation/published-page.ts";
import { DEFAULT_SNAPSHOT } from "./envs/arxiv/options.ts";
import { loadSnapshot, resolveDataFile, snapshotText } from "./envs/arxiv/snapshot.ts";
import { generateSnapshot, writeSnapshot } from "./envs/arxiv/snapshot-generator.ts";
import { snapshotProblems } from "./envs/arxiv/snapshot-validator.ts";
import { loadEnv } from "./envs/index.ts";
import { manifestPath, writeExpertRows, writeRows } from "./expert-rows.ts";
import { pairData, statisticsText } from "./pair-data.ts";
import type { RunResult } from "./recipes/recipe.ts";

// Builds and checks the data of the environments: `trestle data <family> <action>`.

export interface DataOptions {
  split?: string;
  output?: string;
  seed?: number;
  check?: boolean;
  /** What the action reads. */
  files?: readonly string[];
  /** Settings of a build that the user gave, by key. */
  build?: Record<string, unknown>;
  /** Settings of pairs that the user gave, by key. */
  pairs?: Record<string, unknown>;
  /** Settings of `rates` that the user gave. */
  rates?: RatesOptions;
  /** Settings of the airline's own actions that the user gave. */
  airline?: AirlineDataFlags;
  env_options: Record<string, unknown>;
}

/** Actions by family; `sft` and `dpo` are there for every environment. */
export const dataActions: Record<string, readonly string[]> = {
  arxiv: ["snapshot", "snapshot-build", "snapshot-import", "snapshot-diff", "rates", "sft", "dpo"],
  airline: [...airlineDataActions, ...prmActions, "hacking", "alarms", "published", "collect", "sft", "dpo"],
  search: ["index", "world", "collect", "sft", "dpo"],
};

/** @throws UserError for an action or an option that the family does not have */
export async function runData(family: string, action: string, options: DataOptions): Promise<RunResult> {
  const isAirline = family === "airline" && airlineDataActions.includes(action);
  const airlineFlag = Object.entries(options.airline ?? {}).find(([, value]) => value !== undefined)?.[0];
  if (airlineFlag !== undefined && !isAirline)
    throw new UserError(`--${kebab(airlineFlag)} is of data airline; data ${family} ${action} does not take it.`);
  if (action === "dpo") return writePairs(family, options);
  const [pairFlag] = Object.keys(options.pairs ?? {});
  if (pairFlag) throw new UserError(`--${kebab(pairFlag)} is of data ${family} dpo; ${action} does not take it.`);
  const ratesFlag = Object.entries(options.rates ?? {}).find(([, value]) => value !== undefined)?.[0];
  if (ratesFlag !== undefined && !(family === "arxiv" && action === "rates"))
    throw new UserError(`--${kebab(ratesFlag)} is of data arxiv rates; data ${family} ${action} does not take it.`);
  if (isAirline) {
    const { split, output, seed, check, files = [], airline: flags = {} } = options;
    if (split !== undefined) throw new UserError(`data airline ${action} takes no --split.`);
    refuseBuildFlags(`data airline ${action}`, options, []);
    return airlineAction(action, { files, output, seed, check, flags });
  }
  if (family === "arxiv" && action === "rates") return makeRates(options);
  if (family === "arxiv" && action.startsWith("snapshot-")) return runSnapshot(action, options);
  if (family === "airline" && prmActions.includes(action as PrmAction)) return makePrm(action as PrmAction, options);
  if (family === "airline" && action === "hacking") return countHacking(options);
  if (family === "airline" && action === "alarms") return findAlarms(options);
  if (family === "search" && (action === "index" || action === "world")) return runSearchData(action, options);
  if (options.files?.length) throw new UserError(`data ${family} ${action} takes no files; got ${options.files[0]}.`);
  refuseBuildFlags(`data ${family} ${action}`, options, []);
  if (action === "sft") return writeExpert(family, options);
  if (family === "arxiv" && action === "snapshot") return makeSnapshot(options);
  if (family === "airline" && action === "published") return printPublished(options);
  throw unknownAction(family, action);
}

function unknownAction(family: string, action: string): UserError {
  const actions = dataActions[family] ?? ["collect", "sft", "dpo"];
  return new UserError(`data ${family} has no action '${action}'; expected one of ${actions.join(", ")}.`);
}

async function makeRates(options: DataOptions): Promise<RunResult> {
  const { split, seed, check, output, files = [], rates = {} } = options;
  if (split !== undefined || seed !== undefined || check)
    throw new UserError("data arxiv rates takes neither --split nor --seed nor --check: the benchmark says them.");
  refuseBuildFlags("data arxiv rates", options, []);
  const { ratesAction } = await import("./data-rates.ts");
  return ratesAction(files, output, rates);
}

function makePrm(action: PrmAction, options: DataOptions): RunResult {
  const name = `data airline ${action}`;
  const { split, seed, check, output, files = [], env_options } = options;
  if (split !== undefined || seed !== undefined || check)
    throw new UserError(`${name} takes neither --split nor --seed nor --check: all is in the trajectories.`);
  refuseBuildFlags(name, options, []);
  return runPrm(action, { files, output, env_options });
}

function countHacking(options: DataOptions): RunResult {
  const { split, seed, check, output, files = [] } = options;
  if (split !== undefined || seed !== undefined || check)
    throw new UserError("data airline hacking takes neither --split nor --seed nor --check: all is in the logs.");
  refuseBuildFlags("data airline hacking", options, []);
  return runHacking(files, output);
}

function findAlarms({ split, seed, check, output, files = [], ...options }: DataOptions): RunResult {
  if (split !== undefined || seed !== undefined || check || output !== undefined)
    throw new UserError("data airline alarms takes neither --split nor --seed nor --check nor --output: name folders.");
  refuseBuildFlags("data airline alarms", options, []);
  return runAlarms(files);
}

/** The page docs/airline-published.md, to be redirected to it. */
function printPublished({ split, seed, check, output }: DataOptions): RunResult {
  if (split !== undefined || seed !== undefined || check || output !== undefined)
    throw new UserError("data airline published prints a page and takes no options; redirect it with >.");
  const page = publishedPage();
  return { text: page.trimEnd(), json: [{ page }] };
}

async function runSearchData(action: "index" | "world", options: DataOptions): Promise<RunResult> {
  const { indexAction, worldAction } = await import("./data-search.ts"); // with SQLite
  const { split, seed, check = false, output, files = [] } = options;
  const name = `data search ${action}`;
  refuseBuildFlags(name, options, []);
  if (split !== undefined) throw new UserError(`${name} takes no --split.`);
  if (action === "world") {
    if (files.length > 0) throw new UserError(`${name} takes no files; got ${files[0]}.`);
    return worldAction(output, seed, check);
  }
  if (seed !== undefined || check) throw new UserError(`${name} takes neither --seed nor --check.`);
  return indexAction(files, output);
}

async function runSnapshot(action: string, options: DataOptions): Promise<RunResult> {
  const { buildAction, DEFAULT_BUILD, diffAction, importAction } = await import("./data-snapshot.ts"); // with its PDF library
  const { split, seed, check, output, files = [], build = {} } = options;
  const name = `data arxiv ${action}`;
  if (split !== undefined || seed !== undefined || check)
    throw new UserError(`${name} takes neither --split nor --seed nor --check.`);
  if (action === "snapshot-build") {
    if (files.length > 0) throw new UserError(`${name} takes no files; got ${files[0]}.`);
    return buildAction(output ?? DEFAULT_BUILD, build);
  }
  if (action === "snapshot-import") {
    refuseBuildFlags(name, options, ["allow_partial"]);
    return importAction(files, output, build.allow_partial === true);
  }
  if (action === "snapshot-diff") {
    refuseBuildFlags(name, options, []);
    if (output !== undefined) throw new UserError(`${name} writes nothing, so it takes no --output.`);
    return diffAction(files);
  }
  throw unknownAction("arxiv", action);
}

/** @throws UserError for a setting that only a build reads */
function refuseBuildFlags(name: string, { build = {} }: DataOptions, but: readonly string[]): void {
  const other = Object.keys(build).find((key) => !but.includes(key));
  if (other) throw new UserError(`--${kebab(other)} is of data arxiv snapshot-build; ${name} does not take it.`);
}

/** Expert rows as JSON lines, and beside them a manifest of where they come from. */
async function writeExpert(
  family: string,
  { split, output, env_options, seed, check }: DataOptions,
): Promise<RunResult> {
  if (seed !== undefined || check) throw new UserError(`data ${family} sft takes neither --seed nor --check.`);
  const env = await loadEnv(family);
  if (!output) throw new UserError(`data ${family} sft: name the file to write, as --output rows.jsonl.`);
  const { rows, manifest } = await env.expert(split ?? env.pairs?.split ?? env.splits[0]!, env_options);
  writeExpertRows(output, { rows, manifest });
  return {
    text: `${output}: ${rows.length} rows; ${manifestPath(output)}`,
    json: [{ output, rows: rows.length, manifest: manifestPath(output) }],
  };
}

/** Of choices between equals, where the user names no other (arxiv.md 10.3). */
const PAIR_SEED = 42;

/** Preference pairs of stored trajectories as JSON lines, and beside them a manifest of what they are made of. */
async function writePairs(family: string, options: DataOptions): Promise<RunResult> {
  const { files = [], split, output, env_options, seed = PAIR_SEED, check } = options;
  const name = `data ${family} dpo`;
  if (check) throw new UserError(`${name} takes no --check.`);
  refuseBuildFlags(name, options, []);
  const env = await loadEnv(family);
  if (!output) throw new UserError(`${name}: name the file to write, as --output pairs.jsonl.`);
  const parsed = pairSettings.safeParse(options.pairs ?? {});
  if (!parsed.success) throw new UserError(`${name}: ${describeIssues(parsed.error)}.`);
  const settings = { ...parsed.data, seed };
  const { rows, manifest, statistics, notes } = await pairData(env, { files, family, split, env_options, settings });
  writeRows(output, { rows, manifest });
  return {
    text: [...statisticsText(statistics), ...notes, `${output}: ${rows.length} pairs; ${manifestPath(output)}`].join(
      "\n",
    ),
    json: [{ output, rows: rows.length, manifest: manifestPath(output), statistics, notes }],
  };
}

function makeSnapshot({ output, seed, check, split }: DataOptions): RunResult {
  if (split !== undefined) throw new UserError("data arxiv snapshot takes no --split.");
  const path = output ?? DEFAULT_SNAPSHOT;
  if (!check) {
    const snapshot = writeSnapshot(path, seed);
    return {
      text: `${path}: ${Object.keys(snapshot.papers).length} papers`,
      json: [{ output: path, sha256: snapshot.sha256 }],
    };
  }
  const file = resolveDataFile(path);
  if (!existsSync(file)) throw new UserError(`${path}: there is no such file.`);
  const problems = snapshotProblems(loadSnapshot(path));
  if (seed !== undefined && readFileSync(file, "utf8") !== snapshotText(generateSnapshot(seed)))
    problems.push(`it is not what seed ${seed} gives`);
  return {
    text: problems.length === 0 ? `${path}: good` : problems.map((problem) => `${path}: ${problem}`).join("\n"),
    json: [{ path, ok: problems.length === 0, problems }],
    exit_code: problems.length === 0 ? 0 : 1,
  };
}
