import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { basename, dirname } from "node:path";
import { errorText, pathProblem, UserError } from "../../../core/errors.ts";
import { readCorpus } from "./corpus.ts";
import { type Database, openDatabase } from "./sqlite.ts";
import { spaced } from "./words.ts";

// Builds a collection's full-text index: one SQLite file. Source: spec section 4.1.

/** Raise it when an index built before can't be read, or ranks otherwise. */
export const INDEX_FORMAT = "trestle-search-1";

export interface BuiltIndex {
  documents: number;
  corpus_sha256: string;
}

export interface BuildOptions {
  /** For messages. */
  name?: string;
  /** Told now and then: from 0 to 1. */
  progress?(share: number): void;
}

/**
 * Writes the index of a collection, whole or not at all; an index that is there already is replaced.
 * @throws UserError for a collection that can't be read, has no document, or has a docid twice
 */
export function buildIndex(corpus: string, output: string, options: BuildOptions = {}): BuiltIndex {
  if (isSameFile(corpus, output))
    throw new UserError(`${output} is the collection itself, and the index would replace it. Choose another output.`);
  try {
    mkdirSync(dirname(output), { recursive: true });
    removeLeftovers(output);
  } catch (error) {
    throw pathProblem(error, dirname(output)) ?? error;
  }
  const temporary = temporaryOf(output, process.pid);
  try {
    const db = openDatabase(temporary);
    let built: BuiltIndex;
    try {
      db.pragma("journal_mode = OFF"); // nobody reads the file before it is whole
      db.pragma("synchronous = OFF");
      built = fillIndex(db, corpus, options);
    } finally {
      db.close();
    }
    const file = openSync(temporary, "r+");
    fsyncSync(file);
    closeSync(file);
    renameSync(temporary, output);
    return built;
  } catch (error) {
    if (error instanceof Error && error.name === "SqliteError") throw new UserError(`${output}: ${errorText(error)}.`);
    throw pathProblem(error, output) ?? error;
  } finally {
    rmSync(temporary, { force: true });
  }
}

const temporaryOf = (output: string, pid: number | string): string => `${output}.${pid}.tmp`;

/** A build that was killed can't clean up after itself: the next one does. */
function removeLeftovers(output: string): void {
  const stem = `${basename(output)}.`;
  for (const name of readdirSync(dirname(output))) {
    const pid = name.startsWith(stem) ? /^(\d+)\.tmp$/.exec(name.slice(stem.length))?.[1] : undefined;
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(temporaryOf(output, pid), { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return pid !== process.pid; // one build at a time in a process: another's file has outlived it
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"; // another user's
  }
}

function isSameFile(path: string, other: string): boolean {
  try {
    return realpathSync(path) === realpathSync(other);
  } catch {
    return false; // one of them is not there
  }
}

const TOLD_EVERY = 2000;

/** Fills an empty database. Rows are in the order of docid, so that ties by row are ties by docid. */
export function fillIndex(db: Database, path: string, { name = path, progress = () => {} }: BuildOptions): BuiltIndex {
  const total = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  db.function("spaced", { deterministic: true }, (text) => spaced(String(text)));
  db.exec(`
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE documents (id INTEGER PRIMARY KEY, docid TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL);
    CREATE VIRTUAL TABLE fts USING fts5(title, text, content='', tokenize="unicode61 remove_diacritics 2");
    CREATE TEMP TABLE lines (docid TEXT PRIMARY KEY, line INTEGER NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL) WITHOUT ROWID;
  `);
  const insert = db.prepare("INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?)");
  const lineOf = db.prepare("SELECT line FROM lines WHERE docid = ?").pluck();
  const corpus = readCorpus(path, name);
  const fill = db.transaction((): number => {
    let documents = 0;
    for (const { line, document } of corpus) {
      const { docid, title, text } = document;
      if (insert.run(docid, line, title, text).changes === 0)
        throw new UserError(
          `${name}: docid '${docid}' is on line ${lineOf.get(docid)} and on line ${line}. Each document needs its own.`,
        );
      if (++documents % TOLD_EVERY === 0 && total > 0) progress((0.4 * corpus.bytes()) / total);
    }
    if (documents === 0) return 0;
    db.exec(`INSERT INTO documents (docid, title, text) SELECT docid, title, text FROM lines ORDER BY docid;
      CREATE UNIQUE INDEX documents_docid ON documents (docid);`);
    const copy = db.prepare(
      "INSERT INTO fts (rowid, title, text) SELECT id, spaced(title), spaced(text) FROM documents WHERE id > ? AND id <= ?",
    );
    for (let from = 0; from < documents; from += TOLD_EVERY) {
      copy.run(from, from + TOLD_EVERY);
      progress(0.4 + (0.5 * Math.min(documents, from + TOLD_EVERY)) / documents);
    }
    db.exec("INSERT INTO fts(fts) VALUES('optimize')"); // one segment: queries need not merge several
    const put = db.prepare("INSERT INTO meta VALUES (?, ?)");
    put.run("format", INDEX_FORMAT);
    put.run("corpus_sha256", corpus.sha256());
    put.run("documents", String(documents));
    put.run("frequent_words", JSON.stringify(frequentWords(db, documents)));
    return documents;
  });
  const documents = fill();
  if (documents === 0) throw new UserError(`${name} holds no document.`);
  db.exec("DROP TABLE lines; DROP TABLE temp.counted");
  progress(1);
  return { documents, corpus_sha256: corpus.sha256() };
}

/** Words that more than half of the documents hold: BM25 gives them next to nothing, and they cost most. */
function frequentWords(db: Database, documents: number): string[] {
  db.exec("CREATE VIRTUAL TABLE temp.counted USING fts5vocab(main, fts, row)");
  return db
    .prepare<[number], string>("SELECT term FROM temp.counted WHERE doc > ? ORDER BY term")
    .pluck()
    .all(documents / 2);
}
