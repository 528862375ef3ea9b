// How fast the search family's index is, beside another BM25 library (wink-bm25-text-search, in memory) on the same
// documents and clues: time to build, time of a query, memory, and how far the two rankings agree. Prints JSON lines.
//
//   npx tsx scripts/bench-search.ts [--documents 200000] [--clues 500] [--seed 1]
//
// Documents are of 30 to 60 words, drawn by Zipf's law from 60,000, with a title of two or three rarer words. A clue is a
// title and one or two words that any text may hold. Each library runs in a process of its own; MB are its peak of
// resident memory.
import { createWriteStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { execaNode } from "execa";
import { createRandom, type Random } from "../src/core/random.ts";
import { buildIndex } from "../src/envs/search/index/build.ts";
import { readCorpus } from "../src/envs/search/index/corpus.ts";
import { openIndex } from "../src/envs/search/index/search.ts";
import { folded, termsOf } from "../src/envs/search/index/words.ts";

const TOP_K = 5;
const VOCABULARY = 60_000;
/** Words of titles are those beyond the most frequent ones. */
const COMMON = 2000;
const SYLLABLES =
  "ba be bo da de di fo ga go ka ke ko la le lo ma me mo na ne no pa po ra re ro sa se so ta te to va ve vo za zo mi ni".split(
    " ",
  );

/** The word of a rank: short ones are frequent. */
function wordOf(rank: number): string {
  let word = "";
  for (let rest = rank + SYLLABLES.length; rest > 0; rest = Math.floor(rest / SYLLABLES.length))
    word += SYLLABLES[rest % SYLLABLES.length];
  return word;
}

/** A rank by Zipf's law from `from` to the end of the vocabulary. */
const zipf = (random: Random, from = 0): number =>
  Math.floor(Math.exp(random.next() * Math.log((VOCABULARY + 1) / (from + 1))) * (from + 1)) - 1;

async function writeCorpus(path: string, documents: number, random: Random): Promise<string[]> {
  const file = createWriteStream(path);
  const titles: string[] = [];
  for (let number = 0; number < documents; number++) {
    const title = Array.from({ length: 2 + random.int(2) }, () => wordOf(zipf(random, COMMON))).join(" ");
    const words = Array.from({ length: 30 + random.int(31) }, () => wordOf(zipf(random)));
    const document = { docid: `d${String(number).padStart(7, "0")}`, title, text: `${title} ${words.join(" ")}` };
    if (!file.write(`${JSON.stringify(document)}\n`))
      await new Promise<void>((resolve) => file.once("drain", () => resolve()));
    titles.push(title);
  }
  await finished(file.end());
  return titles;
}

interface Timed {
  library: string;
  index_s: number;
  query_ms: { p50: number; p95: number; max: number };
  peak_mb: number;
  /** The docids of each clue. */
  found: string[][];
}

function timeQueries(clues: readonly string[], search: (clue: string) => string[]): Pick<Timed, "query_ms" | "found"> {
  for (const clue of clues.slice(0, 20)) search(clue); // pages and code are warm then
  const times: number[] = [];
  const found = clues.map((clue) => {
    const begin = performance.now();
    const docids = search(clue);
    times.push(performance.now() - begin);
    return docids;
  });
  times.sort((a, b) => a - b);
  const quantile = (share: number) => rounded(times[Math.min(times.length - 1, Math.floor(share * times.length))]!);
  return { query_ms: { p50: quantile(0.5), p95: quantile(0.95), max: quantile(1) }, found };
}

const rounded = (value: number) => Number(value.toPrecision(4));
const peak_mb = () => Math.round(process.resourceUsage().maxRSS / 1024);
const seconds = (began: number) => rounded((performance.now() - began) / 1000);

function ours(corpus: string, clues: readonly string[]): Timed {
  const began = performance.now();
  buildIndex(corpus, `${corpus}.sqlite`);
  const index_s = seconds(began);
  const index = openIndex(`${corpus}.sqlite`, corpus);
  const timed = timeQueries(clues, (clue) => index.search(clue, TOP_K).map(({ docid }) => docid));
  return { library: "trestle (SQLite FTS5)", index_s, ...timed, peak_mb: peak_mb() };
}

interface Wink {
  defineConfig(config: object): void;
  definePrepTasks(tasks: ((text: string) => string[])[]): void;
  addDoc(document: object, id: string): void;
  consolidate(precision: number): void;
  search(text: string, limit: number): [docid: string, score: number][];
}

function wink(corpus: string, clues: readonly string[]): Timed {
  const engine = (createRequire(import.meta.url)("wink-bm25-text-search") as () => Wink)();
  const began = performance.now();
  // k 0 gives the IDF that FTS5 has.
  engine.defineConfig({ fldWeights: { title: 2, text: 1 }, bm25Params: { k1: 1.2, b: 0.75, k: 0 } });
  engine.definePrepTasks([(text) => termsOf(text).map(folded)]);
  for (const { document } of readCorpus(corpus))
    engine.addDoc({ title: document.title, text: document.text }, document.docid);
  engine.consolidate(9);
  const index_s = seconds(began);
  const timed = timeQueries(clues, (clue) => engine.search(clue, TOP_K).map(([docid]) => docid));
  return { library: "wink-bm25-text-search", index_s, ...timed, peak_mb: peak_mb() };
}

/** Mean share of our first five that the other has among its five. */
function agreement(one: readonly string[][], other: readonly string[][]): number {
  const shares = one.map(
    (docids, place) => docids.filter((docid) => other[place]!.includes(docid)).length / Math.max(1, docids.length),
  );
  return rounded(shares.reduce((sum, share) => sum + share, 0) / shares.length);
}

const { values } = parseArgs({
  options: {
    documents: { type: "string", default: "200000" },
    clues: { type: "string", default: "500" },
    seed: { type: "string", default: "1" },
    /** Set where this is a child: which library to run, in which folder. */
    run: { type: "string" },
    folder: { type: "string" },
  },
});

if (values.run) {
  const corpus = join(values.folder!, "corpus.jsonl");
  const clues = JSON.parse(readFileSync(join(values.folder!, "clues.json"), "utf8")) as string[];
  writeFileSync(
    join(values.folder!, `${values.run}.json`),
    JSON.stringify((values.run === "ours" ? ours : wink)(corpus, clues)),
  );
} else {
  const folder = mkdtempSync(join(tmpdir(), "bench-search-"));
  try {
    const random = createRandom(`bench-search/${values.seed}`);
    const titles = await writeCorpus(join(folder, "corpus.jsonl"), Number(values.documents), random.fork("corpus"));
    const draw = random.fork("clues");
    const clues = Array.from({ length: Number(values.clues) }, () =>
      [draw.pick(titles), ...Array.from({ length: 1 + draw.int(2) }, () => wordOf(zipf(draw, 50)))].join(" "),
    );
    writeFileSync(join(folder, "clues.json"), JSON.stringify(clues));
    const runs: Timed[] = [];
    for (const run of ["ours", "wink"]) {
      await execaNode({ nodeOptions: ["--import", "tsx", "--max-old-space-size=8192"], stdio: "inherit" })(
        fileURLToPath(import.meta.url),
        ["--run", run, "--folder", folder],
      );
      runs.push(JSON.parse(readFileSync(join(folder, `${run}.json`), "utf8")) as Timed);
    }
    const [mine, theirs] = runs as [Timed, Timed];
    for (const { found: _, ...line } of runs)
      console.log(JSON.stringify({ documents: titles.length, clues: clues.length, ...line }));
    console.log(JSON.stringify({ agreement_at_5: agreement(mine.found, theirs.found) }));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
