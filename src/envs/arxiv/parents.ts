// The table of train tasks: each as its family renders it, the fixed derivations of 32 of them, and how to draw other
// parameters. All derived tasks keep the parent's calls and their order.
import type { Random } from "../../core/random.ts";
import * as families from "./families.ts";
import { type Family, type Recent, type Rendered, render, SEED } from "./families.ts";
import type { Paper, Snapshot } from "./snapshot.ts";
import { FIGURE_QUESTIONS, SECTIONS, SUMMARY_BUDGETS, SUMMARY_STYLES } from "./snapshot.ts";

/** Derivation sets, each with all of the ones before it. */
export const DERIVATION_SETS = ["v2", "v5", "t5"] as const;
export type DerivationSet = (typeof DERIVATION_SETS)[number];

/** A train task as its family renders it, with the ways to change its parameters. */
export interface Parent {
  id: string;
  rendered: Rendered;
  set: DerivationSet;
  derived: { suffix: string; parameters: Record<string, unknown>; rendered: Rendered }[];
  /** Other parameters within what the snapshot holds; null: this draw found none. */
  vary(random: Random, world: World): { parameters: Record<string, unknown>; rendered: Rendered } | null;
}

/** What the variations may draw from. */
export interface World {
  snapshot: Snapshot;
  /** Aspects with a pool of their own. */
  aspects: readonly string[];
  pool(aspect: string): readonly Paper[];
  /** Recorded keyword searches, without those of held-out tasks. */
  queries: readonly { query: string; days: number; count: number }[];
  /** Whether no held-out task names a paper this way. */
  mayName(name: string): boolean;
}

/** Seals a family's parameter type in, so that all parents fit one list. */
function parent<Params extends object>(
  id: string,
  family: Family<Params>,
  base: Params,
  phrasing: number,
  vary: (random: Random, world: World) => Partial<Params> | null,
  derived: Record<string, Partial<Params>> = {},
  set: DerivationSet = "v2",
): Parent {
  const make = (change: Partial<Params>, way: number) => {
    const parameters = { ...base, ...change };
    return { parameters: parameters as Record<string, unknown>, rendered: render(family, parameters, way) };
  };
  return {
    id,
    set,
    rendered: make({}, phrasing).rendered,
    derived: Object.entries(derived).map(([suffix, change], i) => ({ suffix, ...make(change, phrasing + 1 + i) })),
    vary(random, world) {
      const change = vary(random, world);
      return change && make(change, random.int(family.phrasings.length));
    },
  };
}

// ---- draws ----

const between = (random: Random, low: number, high: number): number => low + random.int(high - low + 1);

/** A search that gives `least` to `most` papers. */
function drawRecent(random: Random, world: World, least = 1, most = 25): Recent {
  const aspect = random.pick(world.aspects.filter((name) => world.pool(name).length >= least));
  return {
    aspect,
    days: between(random, 1, 30),
    max: between(random, least, Math.min(most, world.pool(aspect).length)),
  };
}

function drawOneOf(random: Random, world: World): Recent & { ref: number } {
  const recent = drawRecent(random, world, 2, 12);
  return { ...recent, ref: between(random, 1, recent.max) };
}

function drawListed(random: Random, world: World): { list: Recent; ref: number } {
  const list = drawRecent(random, world, 2, 10);
  return { list, ref: between(random, 1, list.max) };
}

/** A search and one of its papers that passes. */
function drawPaper(random: Random, world: World, passes: (id: string) => boolean) {
  const recent = drawRecent(random, world, 2, 12);
  const papers = world.pool(recent.aspect).slice(0, recent.max);
  const refs = papers.flatMap(({ id }, i) => (passes(id) ? [i + 1] : []));
  if (refs.length === 0) return null;
  const ref = random.pick(refs);
  return { recent: { ...recent, ref }, paper: papers[ref - 1]! };
}

function drawDistinct(random: Random, high: number, count: number): number[] {
  return random.shuffle(Array.from({ length: high }, (_, i) => i + 1)).slice(0, count);
}

const drawSummary = (random: Random) => ({ style: random.pick(SUMMARY_STYLES), words: random.pick(SUMMARY_BUDGETS) });

/** An id, or one to three words of a title that name this paper and none before it in the list. */
function drawName(random: Random, world: World): { list: Recent; name: string } | null {
  const list = drawRecent(random, world, 2, 10);
  const papers = world.pool(list.aspect).slice(0, list.max);
  const paper = random.pick(papers);
  const name = random.int(2) === 0 ? paper.id : drawFragment(random, paper.title, papers);
  return name !== null && world.mayName(name) ? { list, name } : null;
}

const SMALL_WORDS = new Set(["a", "an", "and", "by", "for", "from", "in", "of", "on", "the", "to", "with", "without"]);

function drawFragment(random: Random, title: string, papers: readonly Paper[]): string | null {
  const words = title.split(/\s+/).map((word) => word.replace(/[:,.;?!]+$/, ""));
  const length = between(random, 1, Math.min(3, words.length));
  const start = random.int(words.length - length + 1);
  const chosen = words.slice(start, start + length);
  const name = chosen.join(" ");
  const found = papers.find((paper) => paper.title.toLowerCase().includes(name.toLowerCase()));
  const whole = !SMALL_WORDS.has(chosen[0]!.toLowerCase()) && !SMALL_WORDS.has(chosen.at(-1)!.toLowerCase());
  return found?.title === title && whole && /^[\w -]+$/.test(name) ? name : null;
}

/** An id that no paper can have: its month or its century does not exist yet. */
function drawUnknownId(random: Random): string {
  const yearMonth = random.int(2) === 0 ? between(random, 2713, 2999) : between(random, 3000, 9999);
  const month = yearMonth % 100;
  const impossible = yearMonth < 3000 && month <= 12 ? yearMonth + 50 : yearMonth;
  return `${impossible}.${String(between(random, 1, 99_999)).padStart(5, "0")}v${between(random, 1, 3)}`;
}

const NOTHING_BEFORE_OBJECTS = [
  "that paper",
  "this paper",
  "it",
  "that one",
  "the current paper",
  "the same paper",
  "the previous paper",
  "the paper that was just downloaded",
  "the paper I just downloaded",
  "the paper from the last step",
  "the paper we talked about",
];
const OPERATIONS = ["download", "translate", "cache"] as const;

// ---- the table ----

const recent = (aspect: string, days: number, max: number): Recent => ({ aspect, days, max });
const CV5: Recent = recent("CV", 7, 5);
const drawSearch = (random: Random, world: World) => drawRecent(random, world);

const searchParent = (base: Recent, phrasing: number, derived: Record<string, Partial<Recent>> = {}): Parent =>
  parent(`search_${base.aspect}_${base.days}d_${base.max}`, families.search, base, phrasing, drawSearch, derived);

const titleParent = (
  id: string,
  list: Recent,
  name: string,
  operation: "download" | "cache",
  phrasing: number,
): Parent => parent(id, families.namedPaper, { list, name, operation }, phrasing, drawName);

const figureParent = (id: string, aspect: string, ref: number, phrasing: number, derived = {}): Parent =>
  parent(
    id,
    families.figures,
    { ...recent(aspect, 7, 5), ref },
    phrasing,
    (random, world) =>
      drawPaper(random, world, (paper) => (world.snapshot.figures[paper]?.count ?? 0) > 0)?.recent ?? null,
    derived,
    "v5",
  );

function questionParent(
  id: string,
  aspect: string,
  ref: number,
  figure: number,
  question: string,
  phrasing: number,
): Parent {
  const others = FIGURE_QUESTIONS.filter((other) => other !== question);
  return parent(
    id,
    families.figureQuestion,
    { ...recent(aspect, 7, 5), ref, figure, question },
    phrasing,
    (random, world) => {
      const drawn = drawPaper(random, world, (paper) => (world.snapshot.figures[paper]?.count ?? 0) > 0);
      if (!drawn) return null;
      const figures = world.snapshot.figures[drawn.paper.id]!.count;
      return { ...drawn.recent, figure: between(random, 1, figures), question: random.pick(FIGURE_QUESTIONS) };
    },
    Object.fromEntries(others.map((other) => [other, { question: other }])),
    "t5",
  );
}

const summaryParent = (
  id: string,
  base: Recent & { ref: number; style: string; words: number },
  phrasing: number,
  derived = {},
): Parent =>
  parent(
    id,
    families.summary,
    base,
    phrasing,
    (random, world) => ({ ...drawOneOf(random, world), ...drawSummary(random) }),
    derived,
    "v5",
  );

function readParent(
  id: string,
  base: Recent & { ref: number; section: string | null },
  phrasing: number,
  derived = {},
): Parent {
  function vary(random: Random, world: World) {
    if (base.section === null) return { ...drawOneOf(random, world), section: null };
    const section = random.pick(SECTIONS);
    const drawn = drawPaper(random, world, (paper) => world.snapshot.content[paper]?.[section] !== undefined);
    return drawn && { ...drawn.recent, section };
  }
  return parent(id, families.read, base, phrasing, vary, derived, "v5");
}

/** Every train task of v3_81. The 32 that the fixed table names have `derived` rows. */
export const parents: readonly Parent[] = [
  searchParent(recent("AI", 30, 25), 1, { "2d_4": { days: 2, max: 4 }, "10d_8": { days: 10, max: 8 } }),
  searchParent(recent("LG", 3, 10), 2, { "5d_4": { days: 5, max: 4 }, "21d_7": { days: 21, max: 7 } }),
  searchParent(recent("LG", 14, 1), 3),
  searchParent(recent("CL", 7, 5), 4, { "3d_4": { days: 3, max: 4 }, "14d_8": { days: 14, max: 8 } }),
  searchParent(recent("CL", 30, 10), 0),
  searchParent(recent("CV", 14, 3), 2, { "3d_6": { days: 3, max: 6 }, "21d_9": { days: 21, max: 9 } }),
  searchParent(recent("RO", 3, 8), 3, { "5d_4": { days: 5, max: 4 }, "14d_7": { days: 14, max: 7 } }),
  searchParent(recent("CR", 7, 5), 0, { "3d_6": { days: 3, max: 6 }, "21d_9": { days: 21, max: 9 } }),
  parent(
    "search_kw_llm",
    families.keyword,
    { query: "all:large language model", max: 5, days: 30 },
    1,
    (random, world) => {
      const { query, days, count } = random.pick(world.queries);
      return { query, days, max: between(random, 1, Math.min(25, count)) };
    },
    { max2: { max: 2 }, max8: { max: 8 }, max12: { max: 12 } },
  ),
  parent(
    "opt_threads",
    families.translateOption,
    { list: SEED, ref: 1, option: "threads", value: 8 },
    1,
    (random, world) => {
      const listed = drawListed(random, world);
      if (random.int(2) === 0) return { ...listed, value: between(random, 1, 32) };
      return { ...listed, option: "service" as const, value: random.pick(["bing", "deepl", "azure", "baidu"]) };
    },
    { threads2: { value: 2 }, threads4: { value: 4 }, threads12: { value: 12 } },
  ),
  parent(
    "opt_keep_dual",
    families.translateOption,
    { list: SEED, ref: 1, option: "keep_dual", value: true },
    0,
    drawListed,
    { ref2: { ref: 2 }, ref4: { ref: 4 } },
  ),
  parent(
    "opt_force_tr",
    families.translateOption,
    { list: SEED, ref: 1, option: "force", value: true },
    2,
    drawListed,
    { ref2: { ref: 2 }, ref3: { ref: 3 } },
  ),
  titleParent("ref_stress_state_across", SEED, "State Across", "cache", 0),
  titleParent("ref_stress_image_restoration", CV5, "Image Restoration", "download", 2),
  titleParent("ref_stress_uncertainty_aware", CV5, "An Uncertainty-Aware", "download", 3),
  titleParent("ref_ctrl_word_marionette", SEED, "Marionette", "download", 0),
  titleParent("ref_ctrl_word_handover", SEED, "Handover", "download", 1),
  parent("ref_ctrl_null_translate", families.translateActive, { list: SEED, ref: 2 }, 0, drawListed),
  parent("state_ref_last_active", families.translateActive, { list: SEED, ref: 2 }, 1, drawListed),
  parent("state_translate_active", families.translateActive, { list: SEED, ref: 1 }, 2, drawListed),
  parent("state_ref_ordinal_cn", families.downloadOrdinal, { list: SEED, ref: 3 }, 0, drawListed, {
    ref1: { ref: 1 },
    ref2: { ref: 2 },
    ref4: { ref: 4 },
    ref5: { ref: 5 },
  }),
  parent(
    "state_ref_last_of_10",
    families.downloadLast,
    { list: recent("CL", 7, 10) },
    0,
    (random, world) => ({ list: drawRecent(random, world, 2) }),
    {
      count6: { list: recent("CL", 7, 6) },
      count8: { list: recent("CL", 7, 8) },
      count12: { list: recent("CL", 7, 12) },
    },
  ),
  parent("state_cache_before_dl", families.cacheThenDownload, { list: SEED, ref: 2 }, 0, drawListed, {
    ref1: { ref: 1 },
    ref3: { ref: 3 },
    ref4: { ref: 4 },
  }),
  parent("constraint_cache_only", families.cacheOnly, { list: SEED, ref: 2 }, 0, drawListed, {
    ref1: { ref: 1 },
    ref3: { ref: 3 },
    ref4: { ref: 4 },
  }),
  parent("constraint_download_only", families.downloadOnly, { list: SEED, ref: 1 }, 2, drawListed, {
    ref2: { ref: 2 },
    ref3: { ref: 3 },
    ref5: { ref: 5 },
  }),
  parent(
    "constraint_two_downloads_only",
    families.downloadTwoOnly,
    { list: SEED, first: 1, second: 3 },
    0,
    (random, world) => {
      const list = drawRecent(random, world, 2, 10);
      const [first, second] = drawDistinct(random, list.max, 2) as [number, number];
      return { list, first, second };
    },
    {
      refs_1_2: { first: 1, second: 2 },
      refs_2_4: { first: 2, second: 4 },
      refs_4_5: { first: 4, second: 5 },
    },
  ),
  parent("constraint_search_only", families.searchOnly, recent("RO", 3, 3), 0, drawSearch, {
    AI_4d_4: recent("AI", 4, 4),
    LG_9d_6: recent("LG", 9, 6),
    CR_18d_8: recent("CR", 18, 8),
  }),
  parent(
    "infeasible_zero_index",
    families.badIndex,
    { list: SEED, index: 0, operation: "download" },
    3,
    (random, world) => {
      const list = drawRecent(random, world, 2, 10);
      const index = random.int(4) === 0 ? between(random, -9, 0) : list.max + between(random, 1, 60);
      return { list, index, operation: random.pick(OPERATIONS) };
    },
    { ref_minus1: { index: -1 }, ref6: { index: 6 }, ref50: { index: 50 } },
  ),
  parent(
    "infeasible_unknown_id",
    families.unknownId,
    { list: SEED, id: "2999.99999v1", operation: "download" },
    0,
    (random, world) => ({
      list: drawRecent(random, world, 2, 10),
      id: drawUnknownId(random),
      operation: random.pick(OPERATIONS),
    }),
    { "2998.12345v1": { id: "2998.12345v1" }, "3999.00001v2": { id: "3999.00001v2" } },
  ),
  parent(
    "infeasible_no_session",
    families.nothingBefore,
    { operation: "translate", object: "that paper" },
    0,
    (random) => ({ operation: random.pick(OPERATIONS), object: random.pick(NOTHING_BEFORE_OBJECTS) }),
    {
      translate: { object: "the paper we looked at" },
      cache: { operation: "cache", object: "the paper from before" },
    },
  ),
  parent("multi_cr5_cache1", families.searchThenCache, { ...recent("CR", 7, 5), ref: 1 }, 1, drawOneOf, {
    AI4_ref2: { ...recent("AI", 7, 4), ref: 2 },
    RO6_ref3: { ...recent("RO", 7, 6), ref: 3 },
    CV7_ref4: { ...recent("CV", 7, 7), ref: 4 },
  }),
  parent("multi_lg10_dl3", families.searchThenDownload, { ...recent("LG", 14, 10), ref: 3 }, 2, drawOneOf, {
    CL6_ref4: { ...recent("CL", 10, 6), ref: 4 },
    AI7_ref5: { ...recent("AI", 10, 7), ref: 5 },
    CR8_ref6: { ...recent("CR", 10, 8), ref: 6 },
  }),
  parent(
    "chain_ai5_dl2_tr2",
    families.downloadTwoTranslateSecond,
    { ...recent("AI", 7, 5), first: 1, second: 2 },
    0,
    (random, world) => {
      const drawn = drawRecent(random, world, 2, 12);
      const [first, second] = drawDistinct(random, drawn.max, 2) as [number, number];
      return { ...drawn, first, second };
    },
    {
      CL6_refs_2_4: { ...recent("CL", 7, 6), first: 2, second: 4 },
      CR7_refs_1_5: { ...recent("CR", 7, 7), first: 1, second: 5 },
    },
  ),
  parent(
    "chain_cv5_cache_dl_tr_cache",
    families.cacheDownloadTranslateCache,
    { ...recent("CV", 7, 5), ref: 1 },
    1,
    drawOneOf,
    { AI4_ref2: { ...recent("AI", 7, 4), ref: 2 }, LG6_ref4: { ...recent("LG", 7, 6), ref: 4 } },
  ),
  parent(
    "chain_ro5_dl_three",
    families.downloadThree,
    { ...recent("RO", 7, 5), refs: [1, 2, 3] },
    3,
    (random, world) => {
      const drawn = drawRecent(random, world, 3, 12);
      return { ...drawn, refs: drawDistinct(random, drawn.max, 3) as [number, number, number] };
    },
    {
      CV6_refs_1_3_5: { ...recent("CV", 7, 6), refs: [1, 3, 5] },
      CR7_refs_2_4_6: { ...recent("CR", 7, 7), refs: [2, 4, 6] },
    },
  ),
  parent(
    "chain_lg10_dl_tr_last",
    families.downloadTranslateLast,
    recent("LG", 14, 10),
    0,
    (random, world) => drawRecent(random, world, 2, 12),
    { AI6: recent("AI", 14, 6), RO8: recent("RO", 14, 8) },
  ),
  parent(
    "chain_ai5_read_then_summary",
    families.readThenSummary,
    { ...recent("AI", 7, 5), ref: 2, section: "method", style: "tldr", words: 60 },
    1,
    (random, world) => {
      const section = random.pick(SECTIONS);
      const drawn = drawPaper(random, world, (paper) => world.snapshot.content[paper]?.[section] !== undefined);
      return drawn && { ...drawn.recent, section, ...drawSummary(random) };
    },
  ),
  readParent("read_ai5_default", { ...recent("AI", 7, 5), ref: 2, section: null }, 0, {
    AI_ref1: { ref: 1 },
    AI_ref3: { ref: 3 },
    AI_ref4: { ref: 4 },
    CV_ref2: { aspect: "CV", ref: 2 },
    CL_ref4: { aspect: "CL", ref: 4 },
  }),
  readParent("read_cv5_method", { ...recent("CV", 7, 5), ref: 5, section: "method" }, 1),
  readParent("read_cl5_result", { ...recent("CL", 7, 5), ref: 3, section: "result" }, 2),
  readParent("read_lg5_conclusion", { ...recent("LG", 14, 5), ref: 1, section: "conclusion" }, 3),
  summaryParent("summary_ai5_tldr60", { ...recent("AI", 7, 5), ref: 1, style: "tldr", words: 60 }, 0, {
    AI_ref2_structured60: { ref: 2, style: "structured" },
    AI_ref2_bullet120: { ref: 2, style: "bullet", words: 120 },
    AI_ref2_tldr250: { ref: 2, words: 250 },
    CV_ref3_tldr60: { aspect: "CV", ref: 3 },
    CL_ref2_structured120: { aspect: "CL", ref: 2, style: "structured", words: 120 },
    RO_ref4_bullet250: { aspect: "RO", ref: 4, style: "bullet", words: 250 },
  }),
  summaryParent("summary_cv5_structured120", { ...recent("CV", 7, 5), ref: 2, style: "structured", words: 120 }, 1),
  summaryParent("summary_cl5_bullet250", { ...recent("CL", 7, 5), ref: 3, style: "bullet", words: 250 }, 2),
  summaryParent("summary_ro5_structured250", { ...recent("RO", 7, 5), ref: 1, style: "structured", words: 250 }, 4),
  figureParent("figure_cv5_ref1", "CV", 1, 0, {
    CV_ref2: { ref: 2 },
    CV_ref4: { ref: 4 },
    RO_ref3: { aspect: "RO", ref: 3 },
    AI_ref1: { aspect: "AI", ref: 1 },
  }),
  figureParent("figure_cv5_ref3", "CV", 3, 1),
  figureParent("figure_ro5_ref2", "RO", 2, 2),
  questionParent("analyze_cv5_ref1_desc", "CV", 1, 1, "describe", 1),
  questionParent("analyze_cv5_ref3_trend", "CV", 3, 1, "trend", 2),
  questionParent("analyze_ro5_ref2_axes", "RO", 2, 2, "axes", 3),
];
