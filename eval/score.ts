import type { Env } from "../src/core/env.ts";
import { UserError } from "../src/core/errors.ts";
import { readInput } from "../src/text-file.ts";
import { parseJsonLines } from "../src/trajectory-log.ts";

/**
 * Judges stored trajectories again, without a model: one line of the family's format in, one result out, in order.
 * `file`: a path, or "-" for stdin.
 * @throws UserError naming file and line
 */
export async function scoreFile(env: Env, file: string, options: Record<string, unknown>): Promise<unknown[]> {
  if (!env.rescore) throw new UserError(`${env.name} has no format for stored trajectories.`);
  env.parseOptions(options); // else told as a mistake of the first line, or not at all
  const { text, name } = await readInput(file);
  const results: unknown[] = [];
  for (const { line, value } of parseJsonLines(text, name)) {
    try {
      const result = await env.rescore(value, options);
      if (result === undefined)
        throw new UserError(`${env.name}'s rescore gives nothing; expected a result for each line.`);
      results.push(result);
    } catch (error) {
      if (error instanceof UserError) throw new UserError(`${name}, line ${line}: ${error.message}`);
      throw error;
    }
  }
  return results;
}
