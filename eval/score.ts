import type { Env } from "../src/core/env.ts";
import { errorText, UserError } from "../src/core/errors.ts";
import { readInput } from "../src/text-file.ts";
import { parseJsonLine, splitLines } from "../src/trajectory-log.ts";

/** What could not be judged of a file. */
export interface LeftOut {
  /** Lines that are no line to score, each with its number and what is wrong with it. */
  malformed: { line: number; why: string }[];
  /** Lines that name what nobody knows any more, as a task. */
  skipped: { line: number; why: string }[];
}

/** What of a line says whose trajectory it is. */
interface Signed {
  env?: unknown;
}

/**
 * Judges stored trajectories again, without a model: one line of the family's format in, one result out, in order.
 * Malformed lines and unknown tasks are left out and told; the others are judged.
 * `file`: a path, or "-" for stdin.
 * @throws UserError for a file of another environment, and where nothing is left to judge
 */
export async function scoreFile(
  env: Env,
  file: string,
  options: Record<string, unknown>,
): Promise<{ results: unknown[] } & LeftOut> {
  if (!env.rescore) throw new UserError(`${env.name} has no format for stored trajectories.`);
  env.parseOptions(options); // else told as a mistake of the first line, or not at all
  const { text, name } = await readInput(file);
  const results: unknown[] = [];
  const malformed: LeftOut["malformed"] = [];
  const skipped: LeftOut["skipped"] = [];
  for (const { line, content, cut } of splitLines(text)) {
    try {
      const value = readLine(content, cut);
      refuseAnothers(env, value, `${name}, line ${line}`);
      const result = await env.rescore(value, options);
      if (result === undefined)
        throw new FileError(
          `${name}, line ${line}: ${env.name}'s rescore gives nothing; expected a result for each line.`,
        );
      const why = (result as { skipped?: unknown } | null)?.skipped;
      if (typeof why === "string") skipped.push({ line, why });
      else results.push(result);
    } catch (error) {
      if (error instanceof FileError || !(error instanceof UserError)) throw error;
      malformed.push({ line, why: error.message });
    }
  }
  if (results.length === 0)
    throw new UserError([`${name}: nothing to score.`, ...leftOutLines({ malformed, skipped })].join("\n"));
  return { results, malformed, skipped };
}

/** What is wrong with all of a file, not with one of its lines: none of it is judged. */
class FileError extends UserError {}

function readLine(content: string, cut: boolean): unknown {
  try {
    return parseJsonLine(content);
  } catch (error) {
    throw new UserError(`${cut ? "the last line is cut off" : "not JSON"} (${errorText(error)}).`);
  }
}

function refuseAnothers(env: Env, value: unknown, where: string): void {
  const signed = typeof value === "object" && value !== null ? (value as Signed).env : undefined;
  if (typeof signed !== "string" || signed.split("@")[0] === env.name) return;
  throw new FileError(`${where}: a trajectory of '${signed}', not of '${env.name}'. Name its environment with --env.`);
}

const MOST_TOLD = 10;

/** For people: what was left out, at most ten lines of a kind. */
export function leftOutLines({ malformed, skipped }: LeftOut): string[] {
  const told = (what: string, items: LeftOut["malformed"]) =>
    items.length === 0
      ? []
      : [
          `${what}: ${items.length}`,
          ...items.slice(0, MOST_TOLD).map(({ line, why }) => `  line ${line}: ${why}`),
          ...(items.length > MOST_TOLD
            ? [
                `  and lines ${items
                  .slice(MOST_TOLD)
                  .map(({ line }) => line)
                  .join(", ")}`,
              ]
            : []),
        ];
  return [...told("malformed lines, not scored", malformed), ...told("lines skipped", skipped)];
}
