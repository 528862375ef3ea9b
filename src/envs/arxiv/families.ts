// Task families: one parameter object gives a task's sentence, its gold steps and its setup, so the three cannot drift.
// Each family has at least four phrasings with the parameters in different places: they must be read from meaning.
import type { Call, Ref } from "./types.ts";

/** What a family makes of one parameter object. */
export interface Rendered {
  task: string;
  setup: Call[];
  steps: Call[];
}

export interface Family<Params> {
  phrasings: readonly ((params: Params) => string)[];
  setup(params: Params): Call[];
  steps(params: Params): Call[];
}

/** `phrasing` counts from 0 and wraps around. */
export function render<Params>(family: Family<Params>, params: Params, phrasing: number): Rendered {
  const say = family.phrasings[phrasing % family.phrasings.length]!;
  return { task: say(params), setup: family.setup(params), steps: family.steps(params) };
}

// ---- calls ----

export const searchRecent = (aspect: string, days: number, max_results: number): Call => ({
  tool: "get_recently_submitted_cs_papers",
  args: { aspect, days, max_results },
});
export const searchKeyword = (query: string, max_results: number, days: number): Call => ({
  tool: "search_arxiv_papers",
  args: { query, max_results, days },
});
export const download = (ref: Ref, options: Record<string, unknown> = {}): Call => ({
  tool: "download_arxiv_pdf",
  args: { ref, ...options },
});
export const translate = (ref: Ref, options: Record<string, unknown> = {}): Call => ({
  tool: "translate_arxiv_pdf",
  args: { ref, ...options },
});
export const cacheStatus = (ref: Ref): Call => ({ tool: "get_paper_cache_status", args: { ref } });
export const readContent = (ref: Ref, section: string | null): Call => ({
  tool: "get_paper_content",
  args: { ref, section },
});
export const summarize = (ref: Ref, style: string, max_words: number): Call => ({
  tool: "summarize_paper",
  args: { ref, style, max_words },
});
export const extractFigures = (ref: Ref): Call => ({ tool: "extract_paper_figures", args: { ref } });
export const analyzeFigure = (ref: Ref, figure_no: number, question: string): Call => ({
  tool: "analyze_figure",
  args: { ref, figure_no, question },
});

// ---- words ----

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
const days = (count: number): string => plural(count, "day");

/** 1 → "1st", 12 → "12th". */
function nth(n: number): string {
  const rest = n % 100 >= 11 && n % 100 <= 13 ? 0 : n % 10;
  return `${n}${["th", "st", "nd", "rd"][rest] ?? "th"}`;
}

const ordinalWords = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

// ---- a search and what follows it ----

export interface Recent {
  aspect: string;
  days: number;
  max: number;
}

const searchClauses: readonly ((params: Recent) => string)[] = [
  (p) => `Find ${plural(p.max, `cs.${p.aspect} paper`)} of the last ${days(p.days)}`,
  (p) => `Over the past ${days(p.days)}, list up to ${plural(p.max, `${p.aspect} paper`)}`,
  (p) => `Get ${plural(p.max, `recent ${p.aspect} paper`)}, going back ${days(p.days)}`,
  (p) => `Search cs.${p.aspect} with a window of ${days(p.days)} and a limit of ${plural(p.max, "paper")}`,
];

/** A family that opens with a search. Sixteen phrasings: the first four pair clause and tail by position. */
function afterSearch<Params extends Recent>(
  tails: readonly ((params: Params) => string)[],
  steps: (params: Params) => Call[],
): Family<Params> {
  const phrasings = tails.flatMap((_, shift) =>
    searchClauses.map((clause, i) => (p: Params) => clause(p) + tails[(i + shift) % tails.length]!(p)),
  );
  return { phrasings, setup: () => [], steps: (p) => [searchRecent(p.aspect, p.days, p.max), ...steps(p)] };
}

export const search: Family<Recent> = {
  phrasings: [
    (p) => `Show me up to ${plural(p.max, `cs.${p.aspect} paper`)} of the last ${days(p.days)}.`,
    (p) =>
      `What was submitted to cs.${p.aspect} over the past ${days(p.days)}? List at most ${plural(p.max, "paper")}.`,
    (p) => `I need ${plural(p.max, `recent ${p.aspect} paper`)}, going back ${days(p.days)}.`,
    (p) => `With a window of ${days(p.days)}, list new ${p.aspect} submissions, no more than ${p.max}.`,
    (p) => `Limit the list to ${plural(p.max, "paper")}: what is new in cs.${p.aspect} in the past ${days(p.days)}?`,
  ],
  setup: () => [],
  steps: (p) => [searchRecent(p.aspect, p.days, p.max)],
};

export const searchOnly: Family<Recent> = {
  phrasings: [
    (p) =>
      `Only list ${plural(p.max, `cs.${p.aspect} paper`)} of the last ${days(p.days)}; no download, no translation.`,
    (p) => `Over the past ${days(p.days)}, list up to ${plural(p.max, `${p.aspect} paper`)} and do nothing else.`,
    (p) =>
      `No download, no cache check: just get ${plural(p.max, `recent ${p.aspect} paper`)}, going back ${days(p.days)}.`,
    (p) =>
      `I want a list and no other operation: cs.${p.aspect}, last ${days(p.days)}, ${plural(p.max, "paper")} at most.`,
  ],
  setup: () => [],
  steps: (p) => [searchRecent(p.aspect, p.days, p.max)],
};

export interface Keyword {
  query: string;
  max: number;
  days: number;
}

export const keyword: Family<Keyword> = {
  phrasings: [
    (p) => `Search arXiv for "${p.query}": ${plural(p.max, "paper")} of the last ${days(p.days)}.`,
    (p) => `Over the past ${days(p.days)}, which papers match the query "${p.query}"? Give me up to ${p.max}.`,
    (p) => `I need ${plural(p.max, "paper")} for the query "${p.query}", going back ${days(p.days)}.`,
    (p) => `With a window of ${days(p.days)}, run the keyword query "${p.query}" and list no more than ${p.max}.`,
  ],
  setup: () => [],
  steps: (p) => [searchKeyword(p.query, p.max, p.days)],
};

type OneOf = Recent & { ref: number };

export const searchThenCache = afterSearch<OneOf>(
  [
    (p) => `, then check the cache status of paper ${p.ref}.`,
    (p) => `. Then tell me the cache status of number ${p.ref}.`,
    (p) => `, and look up the cache status of the ${nth(p.ref)} one.`,
    (p) => `. After that, check whether paper ${p.ref} is in the cache.`,
  ],
  (p) => [cacheStatus(p.ref)],
);

export const searchThenDownload = afterSearch<OneOf>(
  [
    (p) => `, then download paper ${p.ref}.`,
    (p) => `. Then download number ${p.ref}.`,
    (p) => `, and download the ${nth(p.ref)} one.`,
    (p) => `. After that, download paper ${p.ref}.`,
  ],
  (p) => [download(p.ref)],
);

export const downloadTwoTranslateSecond = afterSearch<Recent & { first: number; second: number }>(
  [
    (p) => `, download papers ${p.first} and ${p.second}, and translate paper ${p.second}.`,
    (p) => `. Then download number ${p.first}, download number ${p.second} and translate number ${p.second}.`,
    (p) => `, download the ${nth(p.first)} and the ${nth(p.second)} one, and translate the ${nth(p.second)}.`,
    (p) => `. After that, download paper ${p.first} and paper ${p.second}, and translate paper ${p.second}.`,
  ],
  (p) => [download(p.first), download(p.second), translate(p.second)],
);

export const cacheDownloadTranslateCache = afterSearch<OneOf>(
  [
    (p) => `, check the cache status of paper ${p.ref}, download it, translate it, and check its cache status again.`,
    (p) => `. Then take number ${p.ref}: cache status, download, translation, and the cache status once more.`,
    (p) => `, and with the ${nth(p.ref)} one: check its cache, download it, translate it, check its cache again.`,
    (p) => `. After that, check the cache of paper ${p.ref}, download it, translate it and check the cache again.`,
  ],
  (p) => [cacheStatus(p.ref), download(p.ref), translate(p.ref), cacheStatus(p.ref)],
);

export const downloadThree = afterSearch<Recent & { refs: readonly [number, number, number] }>(
  [
    ({ refs: [a, b, c] }) => `, then download papers ${a}, ${b} and ${c}.`,
    ({ refs: [a, b, c] }) => `. Then download numbers ${a}, ${b} and ${c}.`,
    ({ refs: [a, b, c] }) => `, and download the ${nth(a)}, the ${nth(b)} and the ${nth(c)} one.`,
    ({ refs: [a, b, c] }) => `. After that, download paper ${a}, paper ${b} and paper ${c}.`,
  ],
  (p) => p.refs.map((ref) => download(ref)),
);

export const downloadTranslateLast = afterSearch<Recent>(
  [
    () => ", download the last one and translate it, keeping the dual version.",
    () => ". Then download the last paper of the list and translate it; keep the dual version too.",
    () => ", download the last paper, and translate it with the dual version kept.",
    () => ". After that, download the last of them, then translate it and keep the dual version.",
  ],
  (p) => [download(p.max), translate(p.max, { keep_dual: true })],
);

function readWords(section: string | null, phrasing: number): string {
  if (section === null)
    return ["read its default view", "open its default view", "read the default view"][phrasing % 3]!;
  return [`read its ${section} section`, `open its ${section} section`, `read the ${section} section`][phrasing % 3]!;
}

const summaryWords: readonly ((style: string, words: number) => string)[] = [
  (style, words) => `write a ${style} summary of at most ${words} words`,
  (style, words) => `summarize it in ${words} words, style ${style}`,
  (style, words) => `give me a ${style} summary within ${words} words`,
];

/** search, download, and one thing with the downloaded paper. */
function thenWithPaper<Params extends OneOf>(
  what: (params: Params, phrasing: number) => string,
  steps: (params: Params) => Call[],
): Family<Params> {
  return afterSearch<Params>(
    [
      (p) => `, download paper ${p.ref} and ${what(p, 0)}.`,
      (p) => `. Then download number ${p.ref} and ${what(p, 1)}.`,
      (p) => `, download the ${nth(p.ref)} one and ${what(p, 2)}.`,
      (p) => `. After that, download paper ${p.ref} and ${what(p, 0)}.`,
    ],
    (p) => [download(p.ref), ...steps(p)],
  );
}

export const read = thenWithPaper<OneOf & { section: string | null }>(
  (p, i) => readWords(p.section, i),
  (p) => [readContent(p.ref, p.section)],
);

export const summary = thenWithPaper<OneOf & { style: string; words: number }>(
  (p, i) => summaryWords[i]!(p.style, p.words),
  (p) => [summarize(p.ref, p.style, p.words)],
);

export const readThenSummary = thenWithPaper<OneOf & { section: string; style: string; words: number }>(
  (p, i) => `${readWords(p.section, i)}, then ${summaryWords[i]!(p.style, p.words)}`,
  (p) => [readContent(p.ref, p.section), summarize(p.ref, p.style, p.words)],
);

export const figures = thenWithPaper<OneOf>(
  (_, i) => ["extract its figures", "extract all of its figures", "extract the figures"][i]!,
  (p) => [extractFigures(p.ref)],
);

const questionWords: Record<string, (figure: number) => string> = {
  describe: (figure) => `describe figure ${figure}`,
  axes: (figure) => `explain the axes of figure ${figure}`,
  trend: (figure) => `explain the trend in figure ${figure}`,
};

export const figureQuestion = thenWithPaper<OneOf & { figure: number; question: string }>(
  (p, i) =>
    `${["extract its figures", "extract all of its figures", "extract the figures"][i]!}, then ${questionWords[p.question]!(p.figure)}`,
  (p) => [extractFigures(p.ref), analyzeFigure(p.ref, p.figure, p.question)],
);

// ---- tasks on a list that a setup search left behind ----

/** What the setup search asked for. */
export const SEED: Recent = { aspect: "AI", days: 7, max: 5 };

const setupSearch = (p: { list: Recent }): Call[] => [searchRecent(p.list.aspect, p.list.days, p.list.max)];
/** A search and a download, which makes `ref` the current paper. */
const setupDownload = (p: { list: Recent; ref: Ref }): Call[] => [...setupSearch(p), download(p.ref)];

type Listed = { list: Recent };
type ListedOne = Listed & { ref: number };

const optionWords: Record<string, readonly [(value: unknown) => string, (value: unknown) => string]> = {
  threads: [(value) => ` with ${value} threads`, (value) => `; set the threads to ${value}`],
  service: [(value) => ` with the ${value} service`, (value) => `; the service should be ${value}`],
  keep_dual: [() => " and keep the dual version", () => "; keep the dual version too"],
  force: [() => " and force it, even if one exists", () => "; force a new run"],
};

export const translateOption: Family<
  ListedOne & { option: "threads" | "service" | "keep_dual" | "force"; value: unknown }
> = {
  phrasings: [
    (p) => `Translate paper ${p.ref}${optionWords[p.option]![0](p.value)}.`,
    (p) => `Start a translation of paper number ${p.ref}${optionWords[p.option]![1](p.value)}.`,
    (p) => `I want the ${nth(p.ref)} paper translated${optionWords[p.option]![1](p.value)}.`,
    (p) => `From the list, translate number ${p.ref}${optionWords[p.option]![0](p.value)}.`,
  ],
  setup: setupDownload,
  steps: (p) => [translate(p.ref, { [p.option]: p.value })],
};

/** A paper named by a piece of its title or by its arXiv id, which must both reach the tool as they are. */
export const namedPaper: Family<Listed & { name: string; operation: "download" | "cache" }> = {
  phrasings: [
    (p) => `${p.operation === "download" ? "Download" : "Check the cache status of"} ${byName(p.name)}.`,
    (p) => `From the list, ${operationOn(p.operation, byName(p.name))}.`,
    (p) => `I need ${byName(p.name)}: ${operationOn(p.operation, "it")}.`,
    (p) => `Take ${byName(p.name)} and ${operationOn(p.operation, "it")}.`,
  ],
  setup: setupSearch,
  steps: (p) => [p.operation === "download" ? download(p.name) : cacheStatus(p.name)],
};

const byName = (name: string): string =>
  /^\d{4}\.\d{4,5}v\d+$/.test(name) ? `paper ${name}` : `the paper whose title contains "${name}"`;
const operationOn = (operation: "download" | "cache", what: string): string =>
  operation === "download" ? `download ${what}` : `check the cache status of ${what}`;

/** The paper just operated on, named by nothing: `ref` is null. */
export const translateActive: Family<ListedOne> = {
  phrasings: [
    () => "Translate that paper.", // also the text of infeasible_no_session: only the visible context tells them apart
    () => "Translate the paper that was just downloaded.",
    () => "Translate the current paper.",
    () => "Translate the paper I just downloaded.",
    () => "Please translate this paper.",
    () => "Now translate the downloaded paper.",
    () => "The paper from the last step needs a translation.",
    () => "Start a translation of the current one.",
  ],
  setup: setupDownload,
  steps: () => [translate(null)],
};

export const downloadOrdinal: Family<ListedOne> = {
  phrasings: [
    (p) => `Download the ${ordinalWords[p.ref - 1]!} paper of the list.`,
    (p) => `I want the ${ordinalWords[p.ref - 1]!} paper; download it.`,
    (p) => `From the list, download the ${ordinalWords[p.ref - 1]!} one.`,
    (p) => `Please download the ${ordinalWords[p.ref - 1]!} of these papers.`,
  ],
  setup: setupSearch,
  steps: (p) => [download(p.ref)],
};

export const downloadLast: Family<Listed> = {
  phrasings: [
    (p) => `Download the last of the ${p.list.max} papers.`,
    (p) => `There are ${p.list.max} papers in the list; download the last one.`,
    (p) => `Of these ${p.list.max} papers, download the last.`,
    (p) => `The list has ${p.list.max} papers: I want the last one downloaded.`,
  ],
  setup: setupSearch,
  steps: (p) => [download(p.list.max)],
};

export const cacheThenDownload: Family<ListedOne> = {
  phrasings: [
    (p) => `Check the cache status of paper ${p.ref}; if it is missing, download it.`,
    (p) => `Is the ${nth(p.ref)} paper in the cache? Check first, and download it if it is not.`,
    (p) => `First check the cache status of number ${p.ref}, then download it if needed.`,
    (p) => `I want paper ${p.ref}: check its cache status, and download it if it is missing.`,
  ],
  setup: setupSearch,
  steps: (p) => [cacheStatus(p.ref), download(p.ref)],
};

export const cacheOnly: Family<ListedOne> = {
  phrasings: [
    (p) => `Only check the cache status of paper ${p.ref}; no download, no translation.`,
    (p) => `Tell me the cache status of number ${p.ref} and do nothing else.`,
    (p) => `No download, no translation: just check the cache status of the ${nth(p.ref)} paper.`,
    (p) => `I want the cache status of paper ${p.ref} and no other operation.`,
  ],
  setup: setupSearch,
  steps: (p) => [cacheStatus(p.ref)],
};

export const downloadOnly: Family<ListedOne> = {
  phrasings: [
    (p) => `Only download paper ${p.ref}; no translation, no cache check.`,
    (p) => `Download number ${p.ref} and do nothing else.`,
    (p) => `No translation, no cache check: just download the ${nth(p.ref)} paper.`,
    (p) => `I want paper ${p.ref} downloaded and no other operation.`,
  ],
  setup: setupSearch,
  steps: (p) => [download(p.ref)],
};

export const downloadTwoOnly: Family<Listed & { first: number; second: number }> = {
  phrasings: [
    (p) => `Only download papers ${p.first} and ${p.second}; no translation, no cache check.`,
    (p) => `Download number ${p.first} and number ${p.second} and do nothing else.`,
    (p) => `No translation, no cache check: just download the ${nth(p.first)} and the ${nth(p.second)} paper.`,
    (p) => `I want paper ${p.first} and paper ${p.second} downloaded and no other operation.`,
  ],
  setup: setupSearch,
  steps: (p) => [download(p.first), download(p.second)],
};

// ---- tasks that cannot be done: no call at all is right, and the last thought says why ----

type Operation = "download" | "translate" | "cache";
const verbs: Record<Operation, (what: string) => string> = {
  download: (what) => `download ${what}`,
  translate: (what) => `translate ${what}`,
  cache: (what) => `check the cache status of ${what}`,
};
const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

export const badIndex: Family<Listed & { index: number; operation: Operation }> = {
  phrasings: [
    (p) => `${capital(verbs[p.operation](`paper ${p.index}`))}.`,
    (p) => `From the list, ${verbs[p.operation](`number ${p.index}`)}.`,
    (p) => `I need paper number ${p.index}: ${verbs[p.operation]("it")}.`,
    (p) => `Please ${verbs[p.operation](`paper ${p.index} of the list`)}.`,
  ],
  setup: setupSearch,
  steps: () => [],
};

export const unknownId: Family<Listed & { id: string; operation: Operation }> = {
  phrasings: [
    (p) => `${capital(verbs[p.operation](`paper ${p.id}`))}.`,
    (p) => `From the list, ${verbs[p.operation](`paper ${p.id}`)}.`,
    (p) => `I need paper ${p.id}: ${verbs[p.operation]("it")}.`,
    (p) => `Take paper ${p.id} and ${verbs[p.operation]("it")}.`,
  ],
  setup: setupSearch,
  steps: () => [],
};

export const nothingBefore: Family<{ operation: Operation; object: string }> = {
  phrasings: [
    (p) => `${capital(verbs[p.operation](p.object))}.`,
    (p) => `Please ${verbs[p.operation](p.object)}.`,
    (p) => `Now ${verbs[p.operation](p.object)}.`,
    (p) => `I want you to ${verbs[p.operation](p.object)}.`,
  ],
  setup: () => [],
  steps: () => [],
};
