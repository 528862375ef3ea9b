import { existsSync, readFileSync } from "node:fs";
import type { z } from "zod";
import { errorText, UserError } from "../src/core/errors.ts";
import { describeIssues } from "../src/core/tool.ts";

/**
 * A report file of the airline family.
 * @throws UserError where it is not there, or no report of this version
 */
export function readReport<Schema extends z.ZodType>(path: string, schema: Schema): z.output<Schema> {
  if (!existsSync(path))
    throw new UserError(`${path}: there is no such file. It is what trestle bench --env airline leaves in its folder.`);
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw new UserError(`${path}: not JSON (${errorText(error)}).`);
  }
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new UserError(`${path}: no report of this version: ${describeIssues(parsed.error)}`);
  return parsed.data;
}
