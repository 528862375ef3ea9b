import { existsSync, statSync } from "node:fs";
import { errorText, UserError } from "../../../core/errors.ts";
import { fileSha256 } from "../lines.ts";
import type { CorpusDocument } from "../types.ts";
import { fillIndex, INDEX_FORMAT } from "./build.ts";
import { type Database, openDatabase } from "./sqlite.ts";
import { folded, matchAny, termsOf } from "./words.ts";

/** How much a word in a title counts, where one in the text counts 1. */
const TITLE_WEIGHT = 2;

/** BM25's share of a word with an IDF of 1e-6 is below (k1 + 1) times that. */
const MOST_OF_A_FREQUENT_WORD = 2.2e-6;

export interface Hit extends CorpusDocument {
  /** BM25 (k1 1.2, b 0.75), above 0. */
  score: number;
}

/** A collection that can be searched. */
export interface SearchIndex {
  documents: number;
  corpus_sha256: string;
  /**
   * The documents that hold a word of the clue, best first, ties by docid. Any text is a clue: without a word it finds
   * nothing.
   * @param top_k at least 1
   */
  search(clue: string, top_k: number): Hit[];
  /** null: there is no such document. */
  document(docid: string): CorpusDocument | null;
  /** How many documents hold a word. */
  document_frequency(word: string): number;
  /** The words that most documents hold, most of all first. */
  frequent_words(count: number): string[];
  close(): void;
}

/**
 * Opens an index.
 * @param corpus the collection it must be of; null: whatever it is of
 * @throws UserError where it can't be opened, or is of another collection
 */
export function openIndex(path: string, corpus: string | null, name = path): SearchIndex {
  if (!existsSync(path))
    throw new UserError(`${name}: there is no such index. Make it: trestle data search index CORPUS --output ${name}`);
  let db: Database;
  let meta: Map<string, string>;
  try {
    db = openDatabase(path, { readonly: true, fileMustExist: true });
    meta = readMeta(db);
    const bytes = Number(db.pragma("page_count", { simple: true })) * Number(db.pragma("page_size", { simple: true }));
    if (bytes !== statSync(path).size) throw new Error(`it has ${statSync(path).size} bytes of ${bytes}`);
  } catch (error) {
    throw new UserError(`${name} is no index of a collection (${errorText(error)}). Build it again.`);
  }
  if (meta.get("format") !== INDEX_FORMAT) {
    db.close();
    throw new UserError(`${name} was built by another version (${meta.get("format") ?? "unknown"}). Build it again.`);
  }
  const sha256 = meta.get("corpus_sha256")!;
  if (corpus !== null && fileSha256(corpus) !== sha256) {
    db.close();
    throw new UserError(
      `${name} is the index of another collection than ${corpus}: it was built from one with SHA-256 ${sha256}. ` +
        "Build it again, or name its own corpus.",
    );
  }
  return searchIndex(db, meta, name);
}

/** Indexes in memory are built anew by each process. */
const LARGEST_IN_MEMORY_BYTES = 50 * 2 ** 20;

/** An index that lives as long as the process. @throws UserError for a collection that is too large, or broken */
export function indexInMemory(corpus: string, name = corpus): SearchIndex {
  const bytes = statSync(corpus, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes > LARGEST_IN_MEMORY_BYTES)
    throw new UserError(
      `${name} has ${Math.round(bytes / 2 ** 20)} MB: too much to index it in each run. Index it once, ` +
        `trestle data search index ${name} --output FILE, and set the option 'index' to FILE.`,
    );
  const db = openDatabase(":memory:");
  fillIndex(db, corpus, { name });
  return searchIndex(db, readMeta(db), name);
}

function readMeta(db: Database): Map<string, string> {
  return new Map(db.prepare<[], [string, string]>("SELECT key, value FROM meta").raw().all());
}

function searchIndex(db: Database, meta: Map<string, string>, name: string): SearchIndex {
  db.exec("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, fts, row)");
  const ranked = db
    .prepare<[string, number], [number, number]>(
      `SELECT rowid, bm25(fts, ${TITLE_WEIGHT}.0, 1.0) AS rank FROM fts WHERE fts MATCH ? ORDER BY rank, rowid LIMIT ?`,
    )
    .raw();
  const byRow = db.prepare<[number], CorpusDocument>("SELECT docid, title, text FROM documents WHERE id = ?");
  const byDocid = db.prepare<[string], CorpusDocument>("SELECT docid, title, text FROM documents WHERE docid = ?");
  const frequency = db.prepare<[string], number>("SELECT doc FROM temp.vocabulary WHERE term = ?").pluck();
  const frequent = db
    .prepare<[number], string>("SELECT term FROM temp.vocabulary ORDER BY doc DESC, term LIMIT ?")
    .pluck();
  const frequent_words = new Set(JSON.parse(meta.get("frequent_words")!) as string[]);

  /**
   * Words of more than half the documents have an IDF of 1e-6: they decide between documents that are equal else, and
   * visiting all of those documents takes most of the time. So they are left out where nothing is equal else.
   */
  function rank(terms: readonly string[], top_k: number): [row: number, rank: number][] {
    const telling = terms.filter((term) => !frequent_words.has(folded(term)));
    if (telling.length > 0 && telling.length < terms.length) {
      const found = ranked.all(matchAny(telling), top_k + 1);
      const noise = (terms.length - telling.length) * MOST_OF_A_FREQUENT_WORD;
      const clear = found.every(([, rank], place) => place === 0 || rank - found[place - 1]![1] > noise);
      if (found.length > top_k && clear) return found.slice(0, top_k);
    }
    return terms.length === 0 ? [] : ranked.all(matchAny(terms), top_k);
  }

  function read<Value>(query: () => Value): Value {
    try {
      return query();
    } catch (error) {
      if (!(error instanceof Error && error.name === "SqliteError")) throw error;
      throw new UserError(`${name} can't be read (${errorText(error)}). Build the index again.`);
    }
  }

  return {
    documents: Number(meta.get("documents")),
    corpus_sha256: meta.get("corpus_sha256")!,
    search(clue, top_k) {
      if (!Number.isInteger(top_k) || top_k < 1)
        throw new UserError(`top_k is ${top_k}; expected a whole number of 1 or more.`);
      const terms = termsOf(clue);
      return read(() => rank(terms, top_k).map(([row, rank]) => ({ ...byRow.get(row)!, score: -rank })));
    },
    document: (docid) => read(() => byDocid.get(docid) ?? null),
    document_frequency: (word) => read(() => frequency.get(folded(word)) ?? 0),
    frequent_words: (count) => read(() => frequent.all(count)),
    close: () => db.close(),
  };
}
