import { z } from "zod";
import { errorText, GuardError } from "../../../core/errors.ts";
import { paperSchema } from "../snapshot.ts";
import type { Entry } from "./atom.ts";
import type { BuildFolder } from "./folder.ts";
import type { Http } from "./http.ts";
import { keywordQuery, recentQuery, within } from "./query.ts";
import { papersById, type Search, searchPapers } from "./search.ts";
import type { BuildSettings } from "./settings.ts";

// What the searches of a snapshot find: its pools.

/** Papers that tasks refer to by place, first in their pools: a newer list would lose them (arxiv.md 1.6). */
export const PINS: Readonly<Record<string, readonly string[]>> = {
  AI: ["2608.14539v1", "2608.14530v1", "2608.14528v1"],
  CV: ["2608.14546v1", "2608.14543v1", "2608.14539v1"],
};

export interface Pools {
  recent: Record<string, Entry[]>;
  keyword: { query: string; entries: Entry[] }[];
}

export interface PoolBuild {
  http: Http;
  folder: BuildFolder;
  settings: BuildSettings;
  /** Told what `--allow-partial` passes over. */
  problem(text: string): void;
  tell(line: string): void;
}

const entries = z.array(z.strictObject({ paper: paperSchema, abstract: z.string() }));

/**
 * Every pool, its anchors pinned.
 * @throws GuardError at the first that can't be had, unless partial results are allowed
 */
export async function recordPools(build: PoolBuild): Promise<Pools> {
  const { settings } = build;
  const pools: Pools = { recent: {}, keyword: [] };
  for (const aspect of settings.aspects) {
    const found = await search(build, `newest of cs.${aspect}`, {
      query: recentQuery(aspect),
      sort_by: "submittedDate",
    });
    if (found) pools.recent[aspect] = found;
  }
  for (const query of settings.keyword_queries) {
    const found = await search(build, `search '${query}'`, { query: keywordQuery(query)!, sort_by: "relevance" });
    if (found) pools.keyword.push({ query, entries: found });
  }
  if (settings.pin_references) await pin(build, pools);
  return pools;
}

async function search(
  build: PoolBuild,
  name: string,
  { query, sort_by }: Omit<Search, "limit">,
): Promise<Entry[] | null> {
  const { http, folder, settings } = build;
  const whole: Search = {
    query: within(query, settings.days, folder.started_ms),
    sort_by,
    limit: settings.max_results,
  };
  return attempt(build, async () => {
    const found = await folder.keep("pools", { ...whole, base_url: settings.base_url }, entries, () =>
      searchPapers(http, settings.base_url, whole, settings.page_size, name),
    );
    build.tell(`${name}: ${found.length} papers`);
    return found;
  });
}

/** Anchors that a pool lacks are asked for by their ids; the pool keeps its size. */
async function pin(build: PoolBuild, pools: Pools): Promise<void> {
  const { http, folder, settings } = build;
  const known = new Map(
    [...Object.values(pools.recent), ...pools.keyword.map((pool) => pool.entries)]
      .flat()
      .map((entry) => [entry.paper.id, entry] as const),
  );
  const pinned = Object.entries(PINS).filter(([aspect]) => pools.recent[aspect]);
  const missing = [...new Set(pinned.flatMap(([, ids]) => ids))].filter((id) => !known.has(id));
  if (missing.length > 0) {
    const asked = await attempt(build, () =>
      folder.keep("pools", { ids: missing, base_url: settings.base_url }, entries, () =>
        papersById(http, settings.base_url, missing),
      ),
    );
    for (const entry of asked ?? []) known.set(entry.paper.id, entry);
    const lost = missing.filter((id) => !known.has(id));
    if (lost.length > 0)
      await attempt(build, async () => {
        throw new GuardError(
          `arXiv has no paper ${lost.join(", ")}, which the tasks refer to. --no-pin-references builds without.`,
        );
      });
  }
  for (const [aspect, ids] of pinned) {
    const pool = pools.recent[aspect]!;
    const first = ids.flatMap((id) => known.get(id) ?? []);
    const rest = pool.filter((entry) => !first.includes(entry) && !ids.includes(entry.paper.id));
    pools.recent[aspect] = [...first, ...rest].slice(0, Math.max(pool.length, first.length));
  }
}

/** What could not be had: the end of the build, or, where partial results are allowed, a problem that is told. */
async function attempt<Result>(build: PoolBuild, run: () => Promise<Result>): Promise<Result | null> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof GuardError) || !build.settings.allow_partial) throw error;
    build.problem(errorText(error));
    return null;
  }
}
