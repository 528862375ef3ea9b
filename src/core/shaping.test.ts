import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Aggregation,
  aggregateLoss,
  discountWeights,
  type Shaping,
  sampleAdvantages,
  shapeAdvantages,
  tokenKl,
  tokenLoss,
} from "./shaping.ts";

interface Tables {
  group: { rewards: number[]; advantages: number[] }[];
  token_loss: [advantage: number, ratio: number, loss: number][];
  kl: { logp: number; ref: number; k3: number; squared: number }[];
  aggregation: Record<Aggregation, number> & { advantages: number[][] };
  discount: { mask: number[]; w: number[]; lata: number[] }[];
  contiguous: { length: number; first_w: number; shares: number[]; ratio: number; first_lata: number }[];
  two_rows: { lengths: number[]; vanilla: number[]; lata: number[] };
}

// Read by py/tests/test_shaping.py too.
const tables = JSON.parse(readFileSync(join(import.meta.dirname, "fixtures/advantages.json"), "utf8")) as Tables;

const plain: Shaping = {
  advantage: "none",
  alpha: 1.05,
  alpha_unit: "token",
  length_norm: null,
  length_base: "tokens",
};
const ones = (length: number) => Array<number>(length).fill(1);
const zeros = (length: number) => Array<number>(length).fill(0);
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

function close(actual: readonly number[], expected: readonly number[], by = 1e-6) {
  expect(actual).toHaveLength(expected.length);
  for (const [index, value] of expected.entries()) expect(Math.abs(actual[index]! - value)).toBeLessThanOrEqual(by);
}

/** One row with advantage 1. */
const shaped = (mask: number[], shaping: Partial<Shaping>, turns = zeros(mask.length)) =>
  shapeAdvantages([1], [mask], [turns], { ...plain, ...shaping })[0]!;

describe("tables of airline.md 9", () => {
  test.each(tables.group)("9.1 $rewards", ({ rewards, advantages }) => {
    close(sampleAdvantages(rewards), advantages);
  });

  test("9.1 a group of one keeps its reward", () => {
    close(sampleAdvantages([0.7]), [0.7], 1e-6);
  });

  test.each(tables.token_loss)("9.2 advantage %d, ratio %d: loss %d", (advantage, ratio, loss) => {
    close([tokenLoss(advantage, ratio)], [loss]);
  });

  test.each(tables.kl)("9.2, search.md 7: logp $logp, ref $ref", ({ logp, ref, k3, squared }) => {
    close([tokenKl("k3", logp, ref), tokenKl("squared", logp, ref)], [k3, squared]);
  });

  test.each(["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"] as const)(
    "9.2 %s",
    (mode) => {
      const losses = tables.aggregation.advantages.map((row) => row.map((advantage) => tokenLoss(advantage, 1)));
      close(
        [
          aggregateLoss(
            losses,
            losses.map(({ length }) => ones(length)),
            mode,
          ),
        ],
        [tables.aggregation[mode]],
      );
    },
  );

  test("9.2 a matrix in which no token counts is a loss of 0, however it is aggregated (LS-01)", () => {
    for (const mode of ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"] as const)
      expect(aggregateLoss([[1, 2], [3]], [[0, 0], [0]], mode)).toBe(0);
  });

  test.each(tables.discount)("9.3 $mask", ({ mask, w, lata }) => {
    close(shaped(mask, { advantage: "turn_discount" }), w);
    close(shaped(mask, { advantage: "lata" }), lata);
  });

  test.each(tables.contiguous)("9.3 $length tokens without a gap", (row) => {
    const weights = discountWeights(ones(row.length), zeros(row.length), plain);
    const share = (tokens: number) => sum(weights.slice(0, tokens)) / row.length;
    expect(weights[0]! / row.first_w).toBeCloseTo(1, 3);
    close([20, 60, 100].map(share), row.shares, 6e-4); // the table has 0.947 where 1 − 1.05⁻⁶⁰ is 0.9465
    expect(weights[0]! / weights.at(-1)! / row.ratio).toBeCloseTo(1, 1);
    expect(shaped(ones(row.length), { advantage: "lata" })[0]! / row.first_lata).toBeCloseTo(1, 2);
  });

  test("9.3 shares of two rows in a token mean", () => {
    const { lengths, vanilla, lata } = tables.two_rows;
    const share = (shaping: Partial<Shaping>) => lengths.map((length) => sum(shaped(ones(length), shaping)) / 5000);
    close(share({}), vanilla);
    close(share({ advantage: "lata" }), lata, 5e-6);
  });
});

describe("what must stay a number", () => {
  test.each(["none", "turn_discount", "lata"] as const)(
    "%s: 12,288 tokens, gaps, no token, no advantage",
    (advantage) => {
      const length = 12_288; // alpha^(L − 1) is beyond float64's range
      const gap = ones(length).fill(0, 5_000, 9_000);
      const rows = [ones(length), gap, zeros(length)];
      const turns = rows.map(() => zeros(length));
      const shaping = { ...plain, advantage };
      const [whole, gapped, empty] = shapeAdvantages([1, 1, 1], rows, turns, shaping);
      for (const row of [whole!, gapped!, empty!]) expect(row.every(Number.isFinite)).toBe(true);
      expect(empty).toEqual(zeros(length));
      expect(sum(whole!) / (advantage === "lata" ? Math.sqrt(length) : length)).toBeCloseTo(1, 5);
      for (const row of shapeAdvantages([0, 0, 0], rows, turns, shaping))
        expect(row.every((each) => each === 0)).toBe(true);
    },
  );

  test("rewards all equal, of any size of group", () => {
    for (const size of [1, 2, 8])
      for (const reward of [0, 1, -0.5])
        close(sampleAdvantages(Array<number>(size).fill(reward)), Array<number>(size).fill(size === 1 ? reward : 0));
  });
});

describe("variants of 9.4", () => {
  const mask = [1, 1, 0, 1, 0, 1, 1];
  const turns = [0, 0, 0, 1, 1, 2, 2];

  test("alpha by turn: equal within a turn, alpha apart between turns, mean 1", () => {
    const row = shaped(mask, { advantage: "turn_discount", alpha: 2, alpha_unit: "turn" }, turns);
    // 4, 4, 2, 1, 1 times 5 / 12
    close(
      row,
      [4, 4, 0, 2, 0, 1, 1].map((weight) => (weight * 5) / 12),
    );
  });

  test("the length's root, of tokens or of turns, goes with every shaper", () => {
    close(
      shaped(mask, { length_norm: "sqrt" }, turns),
      mask.map((bit) => bit / Math.sqrt(5)),
    );
    const base = { length_norm: "sqrt", length_base: "turns" } as const;
    close(
      shaped(mask, base, turns),
      mask.map((bit) => bit / Math.sqrt(3)),
    );
    const discount = shaped(mask, { advantage: "turn_discount" }, turns);
    const lata = shaped(mask, { advantage: "lata", length_base: "turns" }, turns);
    close(
      lata,
      discount.map((value) => value / Math.sqrt(3)),
    );
  });

  test("turn scores are added to their turn's tokens; a row without any keeps its advantage", () => {
    const rows = [mask, mask];
    const scores = { ...plain, advantage: "turn_scores" } as const;
    const both = shapeAdvantages([0.5, 0.5], rows, [turns, turns], scores, [[1, -2, 0.25], null]);
    close(both[0]!, [1.5, 1.5, 0, -1.5, 0, 0.75, 0.75]);
    close(
      both[1]!,
      mask.map((bit) => bit / 2),
    );
    expect(() => shapeAdvantages([1], [mask], [turns], scores, [[1, 2]])).toThrow(
      "row 0 has 3 turns, but 2 turn scores; expected one a turn.",
    );
  });
});

describe("properties", () => {
  const turnsOf = (mask: readonly number[]) => {
    let turn = 0;
    return mask.map((bit, t) => {
      if (bit === 1 && t > 0 && mask[t - 1] === 0) turn++;
      return turn;
    });
  };
  const anyMask = fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 60 });
  const anyShaping = fc.record({
    advantage: fc.constantFrom("none", "turn_discount", "lata", "turn_scores") as fc.Arbitrary<Shaping["advantage"]>,
    alpha: fc.double({ min: 0.5, max: 2, noNaN: true }),
    alpha_unit: fc.constantFrom("token", "turn") as fc.Arbitrary<Shaping["alpha_unit"]>,
    length_norm: fc.constantFrom("none", "sqrt", null) as fc.Arbitrary<Shaping["length_norm"]>,
    length_base: fc.constantFrom("tokens", "turns") as fc.Arbitrary<Shaping["length_base"]>,
  });

  test("weights have a mean of 1 over masked positions; alpha 1 is no discount; the offset of a row does not matter", () => {
    fc.assert(
      fc.property(anyMask, anyShaping, fc.nat(20), (mask, shaping, offset) => {
        fc.pre(mask.includes(1));
        const weights = discountWeights(mask, turnsOf(mask), shaping);
        expect(sum(weights) / sum(mask)).toBeCloseTo(1, 9);
        close(discountWeights(mask, turnsOf(mask), { ...shaping, alpha: 1 }), mask, 1e-12);
        const later = [...zeros(offset), ...mask];
        close(discountWeights(later, turnsOf(later), shaping).slice(offset), weights, 1e-6 * Math.max(...weights));
      }),
    );
  });

  test("zeros outside the mask, nothing but numbers, and proportional to the advantage", () => {
    fc.assert(
      fc.property(anyMask, anyShaping, fc.double({ min: -3, max: 3, noNaN: true }), (mask, shaping, advantage) => {
        const turns = turnsOf(mask);
        const [one, scaled] = shapeAdvantages([1, advantage], [mask, mask], [turns, turns], shaping);
        for (const [t, bit] of mask.entries()) {
          if (bit === 0) expect([one![t], scaled![t]]).toEqual([0, 0]);
          expect(Number.isFinite(one![t]!)).toBe(true);
          expect(scaled![t]!).toBeCloseTo(advantage * one![t]!, 4);
        }
      }),
    );
  });
});
