import { statSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { errorText, UserError } from "../../../core/errors.ts";
import { describeIssues } from "../../../core/tool.ts";
import { readLines } from "../lines.ts";
import type { CorpusDocument } from "../types.ts";

// A collection of documents: JSON lines {docid, title, text}, or as BEIR writes them, {_id, title, text}.

/** Half of a surrogate pair can't be stored: it becomes U+FFFD. */
const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, "\ufffd");

const id = z.union([z.string().min(1).transform(wellFormed), z.number().transform(String)]);
const documentSchema = z
  .object({
    docid: id.optional(),
    _id: id.optional(),
    title: z.string().transform(wellFormed).nullish(),
    text: z.string().transform(wellFormed),
  })
  .refine(({ docid, _id }) => docid !== undefined || _id !== undefined, "it has neither docid nor _id");

export interface CorpusLine {
  line: number;
  document: CorpusDocument;
}

export interface Corpus extends Iterable<CorpusLine> {
  /** Of the file, once all of it was read. */
  sha256(): string;
  bytes(): number;
}

/** The file of a collection: the path itself, or corpus.jsonl in a folder as BEIR makes them. */
export function corpusFile(path: string): string {
  return isFolder(path) ? join(path, "corpus.jsonl") : path;
}

export function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false; // nothing there, or a link that leads in a circle
  }
}

/** @throws UserError while it is read: no such file, or a line that is no document */
export function readCorpus(path: string, name = path): Corpus {
  const lines = readLines(path, name);
  function* documents(): Generator<CorpusLine> {
    for (const { line, text } of lines) {
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch (error) {
        throw new UserError(`${name}, line ${line}: not JSON (${errorText(error)}).`);
      }
      const parsed = documentSchema.safeParse(value);
      if (!parsed.success)
        throw new UserError(
          `${name}, line ${line}: ${describeIssues(parsed.error)}. Expected {"docid": "…", "title": "…", "text": "…"}.`,
        );
      const { docid, _id, title, text: body } = parsed.data;
      yield { line, document: { docid: (docid ?? _id)!, title: title ?? "", text: body } };
    }
  }
  return { [Symbol.iterator]: documents, sha256: lines.sha256, bytes: lines.bytes };
}
