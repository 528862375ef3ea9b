import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { errorText, UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";
import { isFolder } from "./index/corpus.ts";
import { readLines } from "./lines.ts";
import { LABELS, type Label } from "./types.ts";

// Which documents are of use to which question: JSON lines {question_id, docid, label}, or BEIR's qrels/*.tsv.

/** Documents of a question by docid. What is not listed is DISCARD. */
export type Judgements = ReadonlyMap<string, ReadonlyMap<string, Label>>;

const id = z.union([z.string().min(1), z.number().transform(String)]);
const lineSchema = z.object({ question_id: id, docid: id, label: z.enum(LABELS) });

/** The files of judgements: the path itself, or all tables in a folder's `qrels`. */
export function judgementFiles(path: string): string[] {
  if (!isFolder(path)) return [path];
  const folder = isFolder(join(path, "qrels")) ? join(path, "qrels") : path;
  const files = readdirSync(folder).filter((file) => file.endsWith(".tsv"));
  if (files.length === 0) throw new UserError(`${path}: no judgements there; expected ${join(path, "qrels")}/*.tsv.`);
  return files.sort().map((file) => join(folder, file));
}

/** @throws UserError naming file and line */
export function readJudgements(path: string): Judgements {
  const judgements = new Map<string, Map<string, Label>>();
  for (const file of judgementFiles(path)) {
    if (!existsSync(file)) throw new UserError(`${file}: there is no such file.`);
    for (const { line, text } of readLines(file)) {
      const row = file.endsWith(".tsv") ? readTableRow(text, line, file) : readJsonRow(text, line, file);
      if (!row) continue;
      const documents = judgements.get(row.question_id) ?? new Map<string, Label>();
      const known = documents.get(row.docid);
      if (known && known !== row.label)
        throw new UserError(
          `${file}, line ${line}: document '${row.docid}' of question '${row.question_id}' is ${row.label}, and ${known} on a line before.`,
        );
      judgements.set(row.question_id, documents.set(row.docid, row.label));
    }
  }
  if (judgements.size === 0) throw new UserError(`${path} holds no judgement.`);
  return judgements;
}

function readJsonRow(text: string, line: number, file: string): z.output<typeof lineSchema> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new UserError(`${file}, line ${line}: not JSON (${errorText(error)}).`);
  }
  const parsed = lineSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new UserError(
    `${file}, line ${line}: ${describeIssues(parsed.error)}. Expected {"question_id": "…", "docid": "…", "label": "${LABELS.join("|")}"}.`,
  );
}

/** query-id, corpus-id, score: 2 and more is IMPORTANT, 1 LOCAL. The first line may be a heading: its score is a word. */
function readTableRow(text: string, line: number, file: string): z.output<typeof lineSchema> | null {
  const [question_id = "", docid = "", score = "", ...more] = text.trim().split("\t");
  if (line === 1 && /^\p{L}/u.test(score) && more.length === 0) return null;
  if (question_id === "" || docid === "" || more.length > 0 || !/^-?\d+$/.test(score))
    throw new UserError(`${file}, line ${line}: expected query-id, corpus-id and a whole score, with tabs between.`);
  const label: Label = Number(score) >= 2 ? "IMPORTANT" : Number(score) === 1 ? "LOCAL" : "DISCARD";
  return { question_id, docid, label };
}
