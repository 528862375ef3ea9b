import { UserError } from "../../core/errors.ts";
import {
  FIGURE_QUESTIONS,
  normalizeQuery,
  type Paper,
  type Snapshot,
  SUMMARY_BUDGETS,
  SUMMARY_STYLES,
  sha256,
  snapshotHash,
} from "./snapshot.ts";

// Tasks are bound to places in the snapshot: the paper that a title word hits, the section that is asked for, the
// figure that is there. A snapshot that lacks one of them fails without a sound, so everything is checked here.

/** Papers that a pool needs for the longest search and the highest position that a task asks for. */
const POOL_SIZES = { AI: 25, CV: 9, CL: 12, LG: 10, RO: 25, CR: 10, "*": 10 } as const;

/** What the first five papers of a pool must hold, as ids and as words of titles. */
const NEEDLES = [
  { pool: "AI", ids: ["2608.14528v1"], titles: ["Learning State", "State Across", "Marionette", "Handover"] },
  { pool: "CV", ids: ["2608.14543v1"], titles: ["Image Restoration", "An Uncertainty-Aware"] },
] as const;

/** Words whose first hit must not be the paper that the longer words hit. */
const TRAPS = [
  { pool: "AI", short: "Learning", long: "Learning State" },
  { pool: "AI", short: "State", long: "State Across" },
  { pool: "CV", short: "Image", long: "Image Restoration" },
  { pool: "CV", short: "An", long: "An Uncertainty-Aware" },
] as const;

const SECTIONS_AT = [
  { pool: "CV", position: 5, section: "method" },
  { pool: "CL", position: 3, section: "result" },
  { pool: "LG", position: 1, section: "conclusion" },
  { pool: "CR", position: 2, section: "abstract" },
  { pool: "AI", position: 2, section: "method" },
] as const;

/** Figures that a paper must have at least. */
const FIGURES_AT = [
  { pool: "CV", position: 1, count: 1 },
  { pool: "CV", position: 2, count: 1 },
  { pool: "CV", position: 3, count: 1 },
  { pool: "CV", position: 4, count: 1 },
  { pool: "RO", position: 2, count: 2 },
  { pool: "RO", position: 3, count: 1 },
  { pool: "AI", position: 1, count: 1 },
  { pool: "AI", position: 4, count: 1 },
] as const;

const QUERIES = [
  "all:agentic reinforcement learning",
  "all:large language model",
  "all:retrieval augmented generation",
];

/** Papers that a keyword pool needs, and the window that its search is recorded for. */
const KEYWORD_SIZE = 12;
const KEYWORD_DAYS = 30;

/** @throws UserError that lists every constraint which the snapshot breaks. */
export function checkSnapshot(snapshot: Snapshot, source: string): void {
  const problems = snapshotProblems(snapshot);
  if (problems.length === 0) return;
  const list = problems.map((problem) => `\n  - ${problem}`).join("");
  throw new UserError(`${source}: the snapshot can't carry the tasks. ${problems.length} problems:${list}`);
}

/** Every constraint that the snapshot breaks, a sentence each. */
export function snapshotProblems(snapshot: Snapshot): string[] {
  return [...structureProblems(snapshot), ...listProblems(snapshot), ...contentProblems(snapshot)];
}

/**
 * What makes it no snapshot at all, whatever it is for: a wrong hash, names of nothing, papers without their texts.
 * @param hasContent Which papers must have texts, summaries and figures; left out: all that a pool names.
 */
export function structureProblems(snapshot: Snapshot, hasContent: (id: string) => boolean = () => true): string[] {
  return [
    ...(snapshotHash(snapshot) === snapshot.sha256 ? [] : ["its sha256 does not fit its content"]),
    ...brokenLinks(snapshot, hasContent),
  ];
}

/** What the tasks miss in the pools: papers enough, and the papers and titles that they name. Needs no texts. */
export function listProblems(snapshot: Pick<Snapshot, "pools" | "papers">): string[] {
  return [...poolProblems(snapshot), ...titleProblems(snapshot)];
}

function poolProblems(snapshot: Pick<Snapshot, "pools">): string[] {
  const sizes = Object.entries(POOL_SIZES).flatMap(([pool, size]) => {
    const has = snapshot.pools.recent[pool]?.length ?? 0;
    return has >= size ? [] : [`pool ${pool} has ${has} papers, needs ${size}`];
  });
  const queries = QUERIES.flatMap((query) => {
    const pool = Object.values(snapshot.pools.keyword).find(
      (candidate) => normalizeQuery(candidate.query) === query && candidate.days === KEYWORD_DAYS,
    );
    if (!pool) return [`the search '${query}' of ${KEYWORD_DAYS} days is not recorded`];
    return pool.ids.length >= KEYWORD_SIZE
      ? []
      : [`the search '${query}' has ${pool.ids.length} papers, needs ${KEYWORD_SIZE}`];
  });
  return [...sizes, ...queries];
}

function titleProblems(snapshot: Pick<Snapshot, "pools" | "papers">): string[] {
  const needles = NEEDLES.flatMap(({ pool, ids, titles }) => {
    const head = firstFive(snapshot, pool);
    return [
      ...ids
        .filter((id) => !head.some((paper) => paper.id === id))
        .map((id) => `the first five of ${pool} lack the paper ${id}`),
      ...titles
        .filter((words) => !head.some((paper) => paper.title.includes(words)))
        .map((words) => `no title among the first five of ${pool} has '${words}'`),
    ];
  });
  const traps = TRAPS.flatMap(({ pool, short, long }) => {
    const head = firstFive(snapshot, pool);
    const shortHit = firstHit(head, short);
    const longHit = firstHit(head, long);
    if (!shortHit || !longHit) return []; // named above
    return shortHit === longHit ? [`in ${pool}, '${short}' hits the same paper as '${long}': ${longHit.id}`] : [];
  });
  return [...needles, ...traps];
}

/** What the tasks miss in the texts: sections and figures that they ask for. */
export function contentProblems(snapshot: Snapshot): string[] {
  const at = (pool: string, position: number) => snapshot.pools.recent[pool]?.[position - 1] ?? "";
  const sections = SECTIONS_AT.filter(({ pool, position, section }) => {
    return !snapshot.content[at(pool, position)]?.[section];
  }).map(({ pool, position, section }) => `${pool}#${position} has no section ${section}`);
  const figures = FIGURES_AT.flatMap(({ pool, position, count }) => {
    const has = snapshot.figures[at(pool, position)]?.count ?? 0;
    return has >= count ? [] : [`${pool}#${position} has ${has} figures, needs ${count}`];
  });
  return [...sections, ...figures];
}

/** What refers to nothing, and what a paper of a pool lacks. */
function brokenLinks(snapshot: Snapshot, hasContent: (id: string) => boolean): string[] {
  const { papers, pools } = snapshot;
  const lists = [
    ...Object.entries(pools.recent).map(([aspect, ids]) => ({ name: `pool ${aspect}`, ids })),
    ...Object.values(pools.keyword).map(({ query, ids }) => ({ name: `search '${query}'`, ids })),
  ];
  const listed = [...new Set(lists.flatMap(({ ids }) => ids))];
  return [
    ...lists.flatMap(({ name, ids }) => [
      ...ids.filter((id) => !papers[id]).map((id) => `${name} names ${id}, which has no record`),
      ...(new Set(ids).size === ids.length ? [] : [`${name} names a paper twice`]),
    ]),
    ...Object.entries(papers)
      .filter(([id, paper]) => id !== paper.id)
      .map(([id, paper]) => `the record of ${id} says that it is ${paper.id}`),
    ...Object.entries(pools.keyword)
      .filter(([key, { query }]) => !key.startsWith(sha256(normalizeQuery(query))))
      .map(([, { query }]) => `the key of the search '${query}' is not its hash`),
    ...listed.filter((id) => papers[id] && hasContent(id)).flatMap((id) => paperProblems(snapshot, id)),
  ];
}

function paperProblems(snapshot: Snapshot, id: string): string[] {
  const problems: string[] = [];
  if (!snapshot.content[id]?.default) problems.push(`${id} has no content`);
  for (const style of SUMMARY_STYLES) {
    for (const budget of SUMMARY_BUDGETS) {
      if (!snapshot.summary[id]?.[style]?.[`${budget}`])
        problems.push(`${id} has no ${style} summary of ${budget} words`);
    }
  }
  const record = snapshot.figures[id];
  if (!record) return [...problems, `${id} has no record of its figures (none at all is a record too)`];
  if (record.count !== record.figures.length) {
    problems.push(`${id} counts ${record.count} figures and lists ${record.figures.length}`);
  }
  for (const [index, figure] of record.figures.entries()) {
    if (figure.figure_no !== index + 1)
      problems.push(`figure ${index + 1} of ${id} has the number ${figure.figure_no}`);
    for (const question of FIGURE_QUESTIONS) {
      if (!snapshot.figure_qa[id]?.[`${figure.figure_no}`]?.[question]?.answer.trim()) {
        problems.push(`figure ${figure.figure_no} of ${id} has no answer to '${question}'`);
      }
    }
  }
  return problems;
}

function firstFive(snapshot: Pick<Snapshot, "pools" | "papers">, pool: string): Paper[] {
  return (snapshot.pools.recent[pool] ?? []).slice(0, 5).flatMap((id) => snapshot.papers[id] ?? []);
}

/** As references resolve: the first in the list, in any case. */
function firstHit(papers: readonly Paper[], words: string): Paper | undefined {
  return papers.find((paper) => paper.title.toLowerCase().includes(words.toLowerCase()));
}
