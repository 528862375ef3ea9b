import { expect, test } from "vitest";
import type { Snapshot } from "./snapshot.ts";
import { diffSnapshots, diffText } from "./snapshot-diff.ts";
import { generateSnapshot } from "./snapshot-generator.ts";

const before = generateSnapshot();
const [first, second, third] = before.pools.recent.AI! as [string, string, string];
const change = (changes: Partial<Snapshot>): Snapshot => ({ ...before, ...changes });
const recent = (pools: Record<string, string[]>): Snapshot =>
  change({ pools: { ...before.pools, recent: { ...before.pools.recent, ...pools } } });

test("a snapshot and itself, made at another time, hold the same", () => {
  const diff = diffSnapshots(before, change({ created_at: "2030-01-01 00:00:00", recorder: "x", sha256: "y" }));
  expect(diff.equal).toBe(true);
  expect(diffText(diff)).toBe("The snapshots hold the same.");
});

test("places where another paper stands now", () => {
  const after = recent({ AI: [second, first, third, ...before.pools.recent.AI!.slice(3, -1)] });
  const diff = diffSnapshots(before, after);
  const length = before.pools.recent.AI!.length;
  expect(diff.equal).toBe(false);
  expect(diff.pools).toEqual({
    AI: [
      { position: 1, before: first, after: second },
      { position: 2, before: second, after: first },
      { position: length, before: before.pools.recent.AI!.at(-1), after: null },
    ],
  });
  expect(diffText(diff)).toBe(`pool AI: 3 places differ, first at 1: ${first} → ${second}`);
});

test("a search with another window of days is another one", () => {
  const keyword = Object.fromEntries(
    Object.entries(before.pools.keyword).map(([key, pool], index) => [key, index === 0 ? { ...pool, days: 7 } : pool]),
  );
  const diff = diffSnapshots(before, change({ pools: { ...before.pools, keyword } }));
  expect(Object.keys(diff.pools)).toEqual([
    "'all:agentic reinforcement learning' (30 days)",
    "'all:agentic reinforcement learning' (7 days)",
  ]);
});

test("papers that came, went, and say something else", () => {
  const { [first]: gone, ...content } = before.content;
  content[second] = { ...content[second]!, method: "other" };
  content["9999.00001v1"] = gone!;
  const diff = diffSnapshots(before, change({ content, translated: { [first]: ["page"] } }));
  expect(diff.content).toEqual({ added: ["9999.00001v1"], removed: [first], changed: [second] });
  expect(diff.translated.added).toEqual([first]);
  expect(diff.papers).toEqual({ added: [], removed: [], changed: [] });
  expect(diffText(diff)).toContain(`content: 1 added, 1 removed, 1 changed, as ${second}, 9999.00001v1, ${first}`);
});

test("an empty pool is not one that is not there", () => {
  const diff = diffSnapshots(before, recent({ SE: [] }));
  expect(diff.equal).toBe(false);
  expect(diffText(diff)).toBe("One has an empty pool that the other lacks.");
});
