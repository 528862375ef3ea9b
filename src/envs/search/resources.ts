import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { UserError } from "../../core/errors.ts";
import { labelsChecker } from "./checkers/labels.ts";
import { llmChecker } from "./checkers/llm.ts";
import type { Checker } from "./checkers/types.ts";
import { corpusFile, isFolder } from "./index/corpus.ts";
import { indexInMemory, openIndex, type SearchIndex } from "./index/search.ts";
import { type Judgements, readJudgements } from "./judgements.ts";
import type { SearchOptions } from "./options.ts";
import { projectPath } from "./project-files.ts";

// What the options name, opened once a process: collection, judgements, checker.

export const EMBEDDED = "data/search";

type Paths = Pick<SearchOptions, "corpus" | "index" | "judgements" | "checkpoints" | "gold">;

/** Absolute paths of the data; null: there is none. */
export interface DataPaths {
  corpus: string | null;
  index: string | null;
  judgements: string | null;
  checkpoints: string | null;
  /** Of a BEIR folder. */
  queries: string | null;
  gold: string | null;
}

/** With a corpus or an index of the user's, nothing of the embedded world is taken. */
export function dataPaths({ corpus, index, judgements, checkpoints, gold }: Paths): DataPaths {
  const given = (path: string | null) => (path === null ? null : projectPath(path));
  if (corpus === null && index === null) {
    const embedded = (name: string) => projectPath(`${EMBEDDED}/${name}`);
    return {
      corpus: embedded("corpus.jsonl"),
      index: null,
      judgements: given(judgements) ?? embedded("judgements.jsonl"),
      checkpoints: given(checkpoints) ?? embedded("checkpoints"),
      queries: null,
      gold: given(gold) ?? (checkpoints === null ? embedded("gold.jsonl") : null),
    };
  }
  const path = given(corpus);
  const beir = path !== null && isFolder(path) ? path : null;
  const inFolder = (name: string) => (beir && existsSync(join(beir, name)) ? join(beir, name) : null);
  return {
    corpus: path === null ? null : corpusFile(path),
    index: given(index),
    judgements: given(judgements) ?? (inFolder("qrels") === null ? null : beir),
    checkpoints: given(checkpoints),
    queries: checkpoints === null ? inFolder("queries.jsonl") : null,
    gold: given(gold),
  };
}

const indexes = new Map<string, SearchIndex>();
const judgementsByPath = new Map<string, Judgements>();
const checkers = new Map<string, Checker>();

/** @throws UserError where the collection can't be opened */
export function indexOf(options: SearchOptions): SearchIndex {
  const { corpus, index } = dataPaths(options);
  return kept(indexes, JSON.stringify([corpus, index]), () =>
    index === null ? indexInMemory(corpus!, shown(corpus!)) : openIndex(index, corpus, shown(index)),
  );
}

/** null: there are none. */
export function judgementsOf(options: SearchOptions): Judgements | null {
  const { judgements } = dataPaths(options);
  return judgements === null ? null : kept(judgementsByPath, judgements, () => readJudgements(judgements));
}

/** @throws UserError where its judgements or its endpoint are not set */
export function checkerOf(options: SearchOptions): Checker {
  if (options.checker.backend === "llm")
    return kept(checkers, JSON.stringify(options.checker), () => llmChecker(options.checker));
  const judgements = judgementsOf(options);
  if (!judgements)
    throw new UserError(
      "The checker 'labels' goes by judgements, and there are none for this corpus. Set the option 'judgements', or " +
        "checker.backend: llm.",
    );
  return labelsChecker(judgements);
}

function kept<Value>(known: Map<string, Value>, key: string, make: () => Value): Value {
  const value = known.get(key) ?? make();
  known.set(key, value);
  return value;
}

/** A path for messages. */
function shown(path: string): string {
  const short = relative(process.cwd(), path);
  return short.startsWith("..") ? path : short;
}
