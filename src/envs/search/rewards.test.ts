import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { countedDocuments, factsOf, taskOf } from "./fixtures/rounds.ts";
import { searchOptions } from "./options.ts";
import {
  groupAdvantages,
  OUTCOMES,
  outcomeOf,
  rewardTable,
  roundReward,
  scoreEpisode,
  searchComponents,
} from "./rewards.ts";
import { LABELS, type Label } from "./types.ts";

const table = rewardTable.parse({});
const options = searchOptions.parse({});

describe("worked cases of the spec", () => {
  test.each<[string, [Label, "new" | "seen"][], number]>([
    [
      "1: one of each, new",
      [
        ["IMPORTANT", "new"],
        ["LOCAL", "new"],
        ["DISCARD", "new"],
      ],
      2.8,
    ],
    [
      "2: one seen, one new",
      [
        ["IMPORTANT", "seen"],
        ["IMPORTANT", "new"],
      ],
      2.8,
    ],
    [
      "3: waste",
      [
        ["DISCARD", "seen"],
        ["DISCARD", "seen"],
        ["DISCARD", "seen"],
      ],
      -0.3,
    ],
    [
      "4: of the sub-goal alone",
      [
        ["LOCAL", "seen"],
        ["LOCAL", "new"],
        ["DISCARD", "new"],
      ],
      0.4,
    ],
    ["5: found by three clues, counted once", [["IMPORTANT", "new"]], 2.5],
    ["7: no document", [], 0],
  ])("%s", (_, documents, reward) => {
    expect(roundReward(factsOf(countedDocuments(documents)), table)).toBeCloseTo(reward, 10);
  });

  test("6: no clue earns what the config says", () => {
    expect(roundReward(factsOf([], []), table)).toBe(0);
    expect(roundReward(factsOf([], []), rewardTable.parse({ no_clues: -1 }))).toBe(-1);
  });
});

const anyDocuments = fc.array(fc.tuple(fc.constantFrom(...LABELS), fc.constantFrom("new" as const, "seen" as const)), {
  maxLength: 40,
});

test("a reward is the table's sum, whatever the order", () => {
  const anyTable = fc.record(
    Object.fromEntries(OUTCOMES.map((name) => [name, fc.double({ min: -5, max: 5, noNaN: true })])),
  );
  fc.assert(
    fc.property(anyDocuments, anyTable, (documents, values) => {
      const own = rewardTable.parse(values);
      const judged = countedDocuments(documents);
      const sum = judged.reduce((total, document) => total + own[outcomeOf(document)], 0);
      expect(roundReward(factsOf(judged), own)).toBeCloseTo(sum, 9);
      expect(roundReward(factsOf([...judged].reverse()), own)).toBe(roundReward(factsOf(judged), own));
    }),
  );
});

test("parts are within their ranges, and count every document once", () => {
  fc.assert(
    fc.property(fc.array(anyDocuments, { maxLength: 3 }), (rounds) => {
      const turns = rounds.map((documents) => ({
        reply: "",
        thought: "",
        action: null,
        outcome: { kind: "ok" as const, text: "", payload: factsOf(countedDocuments(documents)) },
      }));
      const { parts, reward } = scoreEpisode({ turns }, taskOf({ solvable: true }), options);
      expect(Object.keys(parts).sort()).toEqual(searchComponents.map(({ name }) => name).sort());
      for (const { name, range } of searchComponents) {
        expect(parts[name]).toBeGreaterThanOrEqual(range[0]);
        expect(parts[name]).toBeLessThanOrEqual(range[1]);
      }
      expect(OUTCOMES.reduce((sum, name) => sum + parts[name]!, 0)).toBe(parts.documents);
      expect(reward).toBeCloseTo(
        OUTCOMES.reduce((sum, name) => sum + parts[name]! * options.reward[name], 0),
        9,
      );
    }),
  );
});

test("success: a discovery where one is known to be there, else clues that could be read", () => {
  const turn = (documents: Parameters<typeof countedDocuments>[0], clues?: string[]) => [
    {
      reply: "",
      thought: "",
      action: null,
      outcome: { kind: "ok" as const, text: "", payload: factsOf(countedDocuments(documents), clues) },
    },
  ];
  const judge = (turns: ReturnType<typeof turn>, solvable: boolean) =>
    scoreEpisode({ turns }, taskOf({ solvable }), options);
  expect(judge(turn([["IMPORTANT", "new"]]), true)).toMatchObject({ success: true, parts: { discovery: 1 } });
  expect(judge(turn([["IMPORTANT", "seen"]]), true)).toMatchObject({ success: false, parts: { discovery: 0 } });
  expect(judge(turn([["DISCARD", "new"]]), false)).toMatchObject({ success: true, parts: { discovery: null } });
  expect(judge(turn([], []), false)).toMatchObject({ success: false, metrics: { parse_failure_share: 1 } });
});

describe("group advantages", () => {
  test("the worked group", () => {
    const expected = [1.715393, -0.352478, -0.63446, -0.728455];
    const advantages = groupAdvantages([2.5, 0.3, 0, -0.1]);
    for (const [index, value] of expected.entries()) expect(advantages[index]).toBeCloseTo(value, 6);
  });

  test.each([[[0.3, 0.1 + 0.2, 0.3, 0.3]], [[1, 1]], [[5]], [[]]])("equal rewards give none: %j (LS-03)", (rewards) => {
    expect(groupAdvantages(rewards)).toEqual(rewards.map(() => 0));
  });

  test("mean 0, std 1, and the order of the rewards", () => {
    const group = fc.array(
      fc.integer({ min: -50, max: 50 }).map((tenths) => tenths / 10),
      { minLength: 2, maxLength: 16 },
    );
    fc.assert(
      fc.property(group, (rewards) => {
        const advantages = groupAdvantages(rewards);
        if (new Set(rewards).size === 1) {
          expect(advantages.every((value) => value === 0)).toBe(true);
          return;
        }
        expect(advantages.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 6);
        expect(advantages.reduce((sum, value) => sum + value ** 2, 0) / rewards.length).toBeCloseTo(1, 5);
        for (const [index, reward] of rewards.entries())
          for (const [other, value] of rewards.entries())
            if (reward > value) expect(advantages[index]!).toBeGreaterThan(advantages[other]!);
      }),
    );
  });
});
