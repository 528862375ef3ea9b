import { existsSync } from "node:fs";
import { errorText, GuardError, UserError } from "../../../core/errors.ts";
import { writeWhole } from "../../../core/whole-file.ts";
import { normalizeQuery, type Snapshot, sha256, snapshotHash, snapshotSchema, snapshotText } from "../snapshot.ts";
import { contentProblems, listProblems, structureProblems } from "../snapshot-validator.ts";
import { type Clock, timeText } from "./clock.ts";
import { type PaperContent, prefetchPdfs, recordContent } from "./content.ts";
import { openBuildFolder } from "./folder.ts";
import { BuildStopped, createHttp } from "./http.ts";
import type { PdfReader } from "./pdf-threads.ts";
import { type Pools, recordPools } from "./pools.ts";
import type { BuildSettings } from "./settings.ts";

// Builds a snapshot from arXiv: the only part of the family that opens a connection. What is done is kept in a folder
// beside the snapshot, which itself is written last and whole.

export interface BuildTools {
  clock: Clock;
  reader: PdfReader;
  /** A line of progress. */
  tell(line: string): void;
  /** Progress that the next one may overwrite. */
  status(text: string): void;
}

export interface BuildReport {
  output: string;
  manifest: string;
  sha256: string;
  papers: number;
  figures: number;
  /** Papers whose texts come from their abstract alone, and why. */
  without_pdf: { id: string; reason: string }[];
  /** What was passed over, since partial results were allowed. */
  problems: string[];
}

/**
 * Records a snapshot into `output`. Broken off anywhere, it goes on from there when it is called again.
 * @throws UserError where `output` is there already; BuildStopped where it can't go on now; GuardError where the
 *   snapshot would not carry the tasks; nothing is written to `output` then
 */
export async function buildSnapshot(settings: BuildSettings, output: string, tools: BuildTools): Promise<BuildReport> {
  if (existsSync(output))
    throw new UserError(`${output} is there already. Snapshots are not overwritten: name another --output.`);
  const folder = openBuildFolder(output, tools.clock);
  if (folder.resumed) tools.tell(`goes on with the build of ${timeText(folder.started_ms)} in ${folder.path}`);
  try {
    return await build(settings, output, tools, folder);
  } catch (error) {
    if (!(error instanceof BuildStopped)) throw error;
    throw new BuildStopped(
      `${errorText(error)}\nNothing was written to ${output}. What came so far is kept in ${folder.path}: ` +
        "the same command goes on from there; remove that folder to begin anew.",
    );
  }
}

async function build(
  settings: BuildSettings,
  output: string,
  { clock, reader, tell, status }: BuildTools,
  folder: ReturnType<typeof openBuildFolder>,
): Promise<BuildReport> {
  const problems: string[] = [];
  /** Holds what was found against the tasks. @throws GuardError, unless partial results are allowed */
  function check(found: readonly string[]): void {
    if (!settings.pin_references) return;
    problems.push(...found);
    if (found.length === 0 || settings.allow_partial) return;
    throw new GuardError(
      `The snapshot can't carry the tasks, which are bound to what it holds:${found.map((line) => `\n- ${line}`).join("")}\n` +
        `Nothing was written to ${output}. Remove ${folder.path} to record anew; --no-pin-references builds for tasks of ` +
        "your own; --allow-partial writes it all the same.",
    );
  }
  const http = createHttp({
    clock,
    interval_ms: settings.interval_s * 1000,
    timeout_ms: settings.timeout_s * 1000,
    retries: settings.retries,
    tell,
  });

  const pools = await recordPools({ http, folder, settings, tell, problem: (text) => problems.push(text) });
  const snapshot = withPools(pools, settings, folder.started_ms);
  if (Object.keys(snapshot.papers).length === 0)
    throw new BuildStopped(`No paper was found.${problems.map((problem) => `\n- ${problem}`).join("")}`);
  check(listProblems(snapshot)); // before the PDFs, which take long

  const ids = contentIds(snapshot, settings.content_max_ref);
  const content = { http, folder, settings, output, reader, clock };
  if (!settings.skip_prefetch) {
    tell(`${ids.length} papers; their PDFs`);
    await prefetchPdfs(content, ids);
  }
  const entries = new Map(allEntries(pools).map((entry) => [entry.paper.id, entry]));
  const recorded = new Map<string, PaperContent>();
  for (const [index, id] of ids.entries()) {
    status(`paper ${index + 1} of ${ids.length}: ${id}`);
    recorded.set(id, await recordContent(content, entries.get(id)!));
  }
  const whole = withContent(snapshot, recorded);
  const needed = new Set(ids);
  const broken = structureProblems(whole, (id) => needed.has(id));
  if (broken.length > 0) throw new Error(`the snapshot is broken: ${broken.join("; ")}`);
  check(contentProblems(whole));

  const report = reportOf(whole, output, recorded, problems);
  const pdfs = Object.fromEntries([...recorded].flatMap(([id, { pdf }]) => (pdf ? [[id, pdf]] : [])));
  writeWhole(
    report.manifest,
    `${JSON.stringify({ ...report, created_at: whole.created_at, settings, pdfs }, null, 2)}\n`,
  );
  writeWhole(output, snapshotText(whole));
  return report;
}

function allEntries(pools: Pools) {
  return [...Object.values(pools.recent), ...pools.keyword.map(({ entries }) => entries)].flat();
}

/** The snapshot as far as searches go. Where two of them found a paper, it is the same version and the same record. */
function withPools(pools: Pools, settings: BuildSettings, started_ms: number): Snapshot {
  const ids = (list: Pools["recent"][string]) => list.map(({ paper }) => paper.id);
  return {
    version: 1,
    created_at: timeText(started_ms),
    recorder: `arXiv API at ${settings.base_url}`,
    papers: Object.fromEntries(allEntries(pools).map(({ paper }) => [paper.id, paper])),
    pools: {
      recent: Object.fromEntries(Object.entries(pools.recent).map(([aspect, list]) => [aspect, ids(list)])),
      keyword: Object.fromEntries(
        pools.keyword.map(({ query, entries }) => [
          sha256(normalizeQuery(query)),
          { query, days: settings.days, ids: ids(entries) },
        ]),
      ),
    },
    content: {},
    summary: {},
    figures: {},
    figure_qa: {},
    sha256: "",
  };
}

/** The papers that get texts and figures: the first of each pool, or all. */
function contentIds({ pools }: Snapshot, content_max_ref: number): string[] {
  const lists = [...Object.values(pools.recent), ...Object.values(pools.keyword).map(({ ids }) => ids)];
  return [...new Set(lists.flatMap((list) => (content_max_ref === 0 ? list : list.slice(0, content_max_ref))))];
}

function withContent(snapshot: Snapshot, recorded: ReadonlyMap<string, PaperContent>): Snapshot {
  const part = <Key extends "content" | "summary" | "figures" | "figure_qa">(key: Key) =>
    Object.fromEntries([...recorded].map(([id, content]) => [id, content[key]]));
  const whole = {
    ...snapshot,
    content: part("content"),
    summary: part("summary"),
    figures: part("figures"),
    figure_qa: part("figure_qa"),
  };
  return snapshotSchema.parse({ ...whole, sha256: snapshotHash(whole) });
}

function reportOf(
  snapshot: Snapshot,
  output: string,
  recorded: ReadonlyMap<string, PaperContent>,
  problems: string[],
): BuildReport {
  return {
    output,
    manifest: output.replace(/(\.json)?$/, ".manifest.json"),
    sha256: snapshot.sha256,
    papers: Object.keys(snapshot.papers).length,
    figures: Object.values(snapshot.figures).reduce((sum, { count }) => sum + count, 0),
    without_pdf: [...recorded].flatMap(([id, { without_pdf }]) => (without_pdf ? [{ id, reason: without_pdf }] : [])),
    problems,
  };
}
