import { describe, expect, test } from "vitest";
import { requirePaperOrLast, resolvePaper } from "./refs.ts";
import { loadSnapshot } from "./snapshot.ts";
import { initialState, SESSION_TTL_MS, withActive, withPapers } from "./state.ts";
import type { Ref } from "./types.ts";

const snapshot = loadSnapshot("data/arxiv/snapshot.json");
const listed = snapshot.pools.recent.AI!.slice(0, 5);
const empty = initialState(snapshot, "test");
const state = withPapers(
  empty,
  listed.map((id) => snapshot.papers[id]!),
);

describe("resolvePaper", () => {
  test.each<[string, Ref, number | null]>([
    ["the first", 1, 1],
    ["the last", 5, 5],
    ["none at 0", 0, null],
    ["none at -1", -1, null],
    ["none past the end", 6, null],
    ["no paper has half a position", 1.5, null],
    ["a position as a text", "3", 3],
    ["with blanks", " 3 ", 3],
    ["a Chinese ordinal", "第3篇", 3],
    ["with blanks inside", "第 3 篇", 3],
    ["its parts alone", "3篇", 3],
    ["position 0 as a text", "第0篇", null],
    ["a position as a text past the end is no title", "20", null],
    ["an id", "2608.14528v1", 3],
    ["an id without its version does not match", "2608.14528", null],
    ["an id that is not in the list does not match", "2608.14543v1", null],
    ["title words", "Learning State", 3],
    ["in any case", "learning state", 3],
    ["a shortened title hits another paper", "Learning", 1],
    ["State too", "State", 2],
    ["a single word that only one has", "Handover", 5],
    ["unknown words", "Quantum Cooking", null],
    ["an empty text, though every title contains it", "", null],
    ["a name that objects have", "constructor", null],
  ])("%s: %j", (_, ref, position) => {
    expect(resolvePaper(state, ref)?.id ?? null).toBe(position === null ? null : listed[position - 1]);
  });

  test("an empty list resolves nothing, not even null", () => {
    const used = withActive(empty, listed[0]!);
    for (const ref of [null, 1, "1", listed[0]!]) expect(resolvePaper(used, ref)).toBeNull();
  });

  test("null is the paper used last, if it is in the list", () => {
    expect(resolvePaper(state, null)).toBeNull();
    expect(resolvePaper(withActive(state, listed[1]!), null)?.id).toBe(listed[1]);
    expect(resolvePaper(withActive(state, "2608.14543v1"), null)).toBeNull();
  });

  test("where it needs no list, null is the paper used last whatever is listed", () => {
    expect(requirePaperOrLast(withActive(state, "2608.14543v1"), null).id).toBe("2608.14543v1");
    expect(() => requirePaperOrLast(state, null)).toThrow("no paper was used yet");
  });

  test("an hour later the session has forgotten both; a frozen clock never gets there", () => {
    const used = withActive(state, listed[1]!);
    const late = { ...used, now_ms: used.now_ms + SESSION_TTL_MS };
    expect(resolvePaper(late, 1)?.id).toBe(listed[0]);
    expect(resolvePaper({ ...late, now_ms: late.now_ms + 1 }, 1)).toBeNull();
    expect(() => requirePaperOrLast({ ...late, now_ms: late.now_ms + 1 }, null)).toThrow("no paper was used yet");
  });

  test("a list keeps 50 papers", () => {
    const many = Array.from({ length: 60 }, () => snapshot.papers[listed[0]!]!);
    expect(withPapers(state, many).papers.length).toBe(50);
  });
});
