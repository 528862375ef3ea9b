import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { z } from "zod";
import { errorText, UserError } from "./core/errors.ts";
import { type ExpertRow, expertRowSchema } from "./core/task.ts";
import { describeIssues } from "./core/tool.ts";
import { writeJson, writeWhole } from "./run-folder.ts";
import { readTextFile } from "./text-file.ts";
import { parseJsonLines } from "./trajectory-log.ts";

// Training rows on disk: JSON lines, and beside them a manifest that says what they are made of.

export interface RowData<Row> {
  rows: Row[];
  manifest: Record<string, unknown>;
}

export type ExpertData = RowData<ExpertRow>;

/** `rows.jsonl` has its manifest in `rows.manifest.json`. */
export function manifestPath(path: string): string {
  return `${path.replace(/\.jsonl$/, "")}.manifest.json`;
}

/** Writes the rows and, beside them, the manifest with the hash of the file. Both are whole files or not there at all. */
export function writeRows<Row>(path: string, { rows, manifest }: RowData<Row>): void {
  writeRowText(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(""), rows.length, manifest);
}

/** As `writeRows`, of rows that are text already and stay as they are. */
export function writeRowText(path: string, text: string, rows: number, manifest: Record<string, unknown>): void {
  writeWhole(path, text);
  writeJson(manifestPath(path), { ...manifest, file: { name: basename(path), rows, sha256: hash(text) } });
}

/**
 * Reads rows back, exactly as they were: no key is added to their arguments, and a byte order mark is no part of them.
 * @throws UserError naming file and line of a row that does not fit; or when the file is not the one its manifest describes.
 */
export function readRows<Row>(path: string, schema: z.ZodType<Row>): RowData<Row> {
  const text = readTextFile(path);
  const manifest = readManifest(path, createHash("sha256").update(readFileSync(path)).digest("hex"));
  const rows = parseJsonLines(text, path).map(({ line, value }) => {
    const parsed = schema.safeParse(value);
    if (!parsed.success) throw new UserError(`${path}, line ${line}: ${describeIssues(parsed.error)}.`);
    return parsed.data;
  });
  if (rows.length === 0) throw new UserError(`${path}: no rows.`);
  return { rows, manifest: manifest ?? { kind: "file", path, rows: rows.length } };
}

export const writeExpertRows = (path: string, data: ExpertData): void => writeRows(path, data);

export const readExpertRows = (path: string): ExpertData => readRows(path, expertRowSchema);

const fileSchema = z.looseObject({ file: z.looseObject({ sha256: z.string() }) });

/** null: the rows have no manifest. */
function readManifest(path: string, sha256: string): Record<string, unknown> | null {
  const beside = manifestPath(path);
  if (!existsSync(beside)) return null;
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(beside, "utf8"));
  } catch (error) {
    throw new UserError(`${beside}: ${errorText(error)}`);
  }
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success) throw new UserError(`${beside}: ${describeIssues(parsed.error)}.`);
  if (parsed.data.file.sha256 !== sha256) {
    throw new UserError(
      `${path}: not the rows that ${beside} describes (${sha256}). Make them again, or remove the manifest.`,
    );
  }
  return parsed.data;
}

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
