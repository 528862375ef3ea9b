import { existsSync, readFileSync } from "node:fs";
import { loadConfig } from "./config.ts";
import { errorText, UserError } from "./core/errors.ts";
import { writeWhole } from "./core/whole-file.ts";
import { buildSnapshot } from "./envs/arxiv/builder/build.ts";
import { systemClock } from "./envs/arxiv/builder/clock.ts";
import { buildFolderOf } from "./envs/arxiv/builder/folder.ts";
import { createThreadReader } from "./envs/arxiv/builder/pdf-threads.ts";
import { type BuildSettings, buildSettings } from "./envs/arxiv/builder/settings.ts";
import { loadSnapshot, snapshotText } from "./envs/arxiv/snapshot.ts";
import { diffSnapshots, diffText } from "./envs/arxiv/snapshot-diff.ts";
import { importReferenceSnapshot } from "./envs/arxiv/snapshot-import.ts";
import { snapshotProblems } from "./envs/arxiv/snapshot-validator.ts";
import { createProgress } from "./metrics.ts";
import type { RunResult } from "./recipes/recipe.ts";
import { lockFolder } from "./run-folder.ts";

// Snapshots that are not made up: `data arxiv snapshot-build`, `snapshot-import`, `snapshot-diff`.

export const DEFAULT_BUILD = "runs/arxiv-snapshot/snapshot.json";

const PDF_LIMITS = { timeout_ms: 120_000, memory_mb: 2048 };

/**
 * Records a snapshot from arXiv.
 * @param flags Values by the keys of `buildSettings`, as the user gave them.
 */
export async function buildAction(output: string, flags: Record<string, unknown>): Promise<RunResult> {
  const settings = loadConfig<BuildSettings>({
    recipe: "data arxiv snapshot-build",
    schema: buildSettings,
    file: null,
    flags: { ...timeoutFromEnv(), ...flags },
  }).config;
  if (existsSync(output)) throw new UserError(`${output} is there already. Name another --output.`);
  const unlock = lockFolder(buildFolderOf(output));
  const progress = createProgress();
  const reader = createThreadReader(PDF_LIMITS);
  try {
    const report = await buildSnapshot(settings, output, {
      clock: systemClock,
      reader,
      tell: progress.line,
      status: progress.status,
    });
    progress.end();
    const { papers, figures, without_pdf, problems } = report;
    const text = [
      `${output}: ${papers} papers, ${figures} figures; ${report.manifest} tells where it comes from`,
      ...without_pdf.map(({ id, reason }) => `${id}: abstract only, ${reason}`),
      ...problems.map((problem) => `problem: ${problem}`),
      `${buildFolderOf(output)} holds the PDFs and can be removed.`,
    ];
    return { text: text.join("\n"), json: [report] };
  } finally {
    progress.end();
    await reader.close();
    unlock();
  }
}

function timeoutFromEnv(): Record<string, unknown> {
  const text = process.env.ARXIV_TIMEOUT_S;
  if (!text) return {};
  const seconds = Number(text);
  if (!(seconds > 0)) throw new UserError(`ARXIV_TIMEOUT_S is '${text}'; expected a number of seconds.`);
  return { timeout_s: seconds };
}

/** Writes a snapshot of the reference implementation in our layout. */
export function importAction(files: readonly string[], output: string | undefined, allow_partial: boolean): RunResult {
  const [source, ...rest] = files;
  if (!source || rest.length > 0 || !output)
    throw new UserError("data arxiv snapshot-import takes one file: snapshot-import reference.json --output ours.json");
  if (existsSync(output)) throw new UserError(`${output} is there already. Name another --output.`);
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(source, "utf8"));
  } catch (error) {
    throw new UserError(`${source}: cannot read it: ${errorText(error)}`);
  }
  const snapshot = importReferenceSnapshot(value, source, null);
  const problems = snapshotProblems(snapshot);
  const list = problems.map((problem) => `\n  - ${problem}`).join("");
  if (problems.length > 0 && !allow_partial)
    throw new UserError(
      `${source} can't carry the tasks. ${problems.length} problems:${list}\n` +
        "Nothing was written; --allow-partial writes it all the same.",
    );
  writeWhole(output, snapshotText(snapshot));
  const papers = Object.keys(snapshot.papers).length;
  return {
    text: `${output}: ${papers} papers${problems.length > 0 ? `; ${problems.length} problems:${list}` : ""}`,
    json: [{ output, sha256: snapshot.sha256, papers, problems }],
  };
}

/** What differs between two snapshots; that they do is no failure. */
export function diffAction(files: readonly string[]): RunResult {
  const [before, after, ...rest] = files;
  if (!before || !after || rest.length > 0)
    throw new UserError("data arxiv snapshot-diff takes two files: snapshot-diff before.json after.json");
  const diff = diffSnapshots(loadSnapshot(before), loadSnapshot(after));
  return { text: diffText(diff), json: [{ before, after, ...diff }] };
}
