import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** What a benchmark's numbers depend on besides the policy: two reports with different ones are not compared. */
export interface Versions {
  trestle: string;
  /** Id with version, as "arxiv@1": it is raised when a change can move a score, so it is the scorer's version too. */
  env: string;
  /** Resolved: the scorer's profile and weights, the parser, the prompt, the snapshot's path. */
  env_options: Record<string, unknown>;
  /** SHA-256 by path of every data file: snapshot, tasks, splits. */
  data: Record<string, string>;
}

/** The versions behind a log, or behind a run's folder. null: it has no summary of a benchmark beside it. */
export function versionsOf(path: string): Versions | null {
  const dir = statSync(path).isDirectory() ? path : dirname(dirname(path));
  const summary = join(dir, "summary.json");
  if (!existsSync(summary) || (dir !== path && basename(dirname(path)) !== "trajectories")) return null;
  try {
    const { versions } = JSON.parse(readFileSync(summary, "utf8")) as { versions?: Versions };
    return versions ?? null;
  } catch {
    return null;
  }
}

/** What differs, a phrase each; [] where the two may be compared. Trestle's own version decides nothing. */
export function versionDifferences(first: Versions, second: Versions): string[] {
  const changes: string[] = [];
  if (first.env !== second.env) changes.push(`environment ${first.env} and ${second.env}`);
  for (const key of keysOf(first.env_options, second.env_options)) {
    const [one, other] = [first, second].map(({ env_options }) => JSON.stringify(env_options[key]) ?? "none");
    if (one !== other) changes.push(`${key} ${one} and ${other}`);
  }
  for (const file of keysOf(first.data, second.data)) {
    const [one, other] = [first, second].map(({ data }) => data[file]?.slice(0, 12) ?? "none");
    if (first.data[file] !== second.data[file]) changes.push(`${file} ${one} and ${other}`);
  }
  return changes;
}

const keysOf = (...records: object[]): string[] =>
  [...new Set(records.flatMap((record) => Object.keys(record)))].sort();

/** As lines for people. */
export function versionLines({ trestle, env, env_options, data }: Versions): string[] {
  return [
    `- environment and scorer: ${env}, Trestle ${trestle}`,
    `- env_options: \`${JSON.stringify(env_options)}\``,
    ...Object.entries(data).map(([path, sha256]) => `- ${path}: sha256 ${sha256}`),
  ];
}
