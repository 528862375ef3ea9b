import { isDeepStrictEqual } from "node:util";
import type { Snapshot } from "./snapshot.ts";

// What two snapshots differ in: whether a task may mean another paper, and a tool say something else.

export interface Changes {
  added: string[];
  removed: string[];
  changed: string[];
}

export interface SnapshotDiff {
  /** Same content; `created_at`, `recorder` and the hash are not compared. */
  equal: boolean;
  /** By aspect, and for a search by its text and days: places where another paper stands now, from 1. */
  pools: Record<string, { position: number; before: string | null; after: string | null }[]>;
  papers: Changes;
  content: Changes;
  summary: Changes;
  figures: Changes;
  figure_qa: Changes;
  translated: Changes;
}

const BY_PAPER = ["papers", "content", "summary", "figures", "figure_qa", "translated"] as const;

/** What became of `before` in `after`; by paper: ids that came, went, or have another record. */
export function diffSnapshots(before: Snapshot, after: Snapshot): SnapshotDiff {
  const lists = { before: poolLists(before), after: poolLists(after) };
  const names = [...new Set([...Object.keys(lists.before), ...Object.keys(lists.after)])];
  const pools = Object.fromEntries(
    names
      .map((name) => [name, places(lists.before[name] ?? [], lists.after[name] ?? [])] as const)
      .filter(([, moved]) => moved.length > 0),
  );
  const changes = Object.fromEntries(
    BY_PAPER.map((part) => [part, changesOf(before[part] ?? {}, after[part] ?? {})]),
  ) as Record<(typeof BY_PAPER)[number], Changes>;
  // A pool that is empty differs from one that is not there.
  const equal =
    isDeepStrictEqual(Object.keys(lists.before).sort(), Object.keys(lists.after).sort()) &&
    Object.keys(pools).length === 0 &&
    BY_PAPER.every((part) => Object.values(changes[part]).every((ids) => ids.length === 0));
  return { equal, pools, ...changes };
}

/** For people: a line for each part that differs. */
export function diffText(diff: SnapshotDiff): string {
  if (diff.equal) return "The snapshots hold the same.";
  const pools = Object.entries(diff.pools).map(([name, moved]) => {
    const first = moved[0]!;
    const shown = `first at ${first.position}: ${first.before ?? "none"} → ${first.after ?? "none"}`;
    return `pool ${name}: ${moved.length} ${moved.length === 1 ? "place" : "places"} differ, ${shown}`;
  });
  const parts = BY_PAPER.flatMap((part) => {
    const { added, removed, changed } = diff[part];
    if (added.length + removed.length + changed.length === 0) return [];
    const some = [...changed, ...added, ...removed].slice(0, 3).join(", ");
    return [`${part}: ${added.length} added, ${removed.length} removed, ${changed.length} changed, as ${some}`];
  });
  const lines = [...pools, ...parts];
  return lines.length > 0 ? lines.join("\n") : "One has an empty pool that the other lacks.";
}

function poolLists({ pools }: Snapshot): Record<string, string[]> {
  return Object.fromEntries([
    ...Object.entries(pools.recent),
    ...Object.values(pools.keyword).map(({ query, days, ids }) => [`'${query}' (${days ?? "any"} days)`, ids] as const),
  ]);
}

function places(before: readonly string[], after: readonly string[]) {
  const length = Math.max(before.length, after.length);
  return Array.from({ length }, (_, index) => ({
    position: index + 1,
    before: before[index] ?? null,
    after: after[index] ?? null,
  })).filter((place) => place.before !== place.after);
}

function changesOf(before: Readonly<Record<string, unknown>>, after: Readonly<Record<string, unknown>>): Changes {
  const ids = (record: object) => Object.keys(record).sort();
  return {
    added: ids(after).filter((id) => !Object.hasOwn(before, id)),
    removed: ids(before).filter((id) => !Object.hasOwn(after, id)),
    changed: ids(before).filter((id) => Object.hasOwn(after, id) && !isDeepStrictEqual(before[id], after[id])),
  };
}
