import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type BadCaseRules, type Condition, conditionSchema, holds } from "./bad-case.ts";

const rules: BadCaseRules = {
  figures: { finished: "boolean", score: "number", ending: ["stopped", "cut"] },
  eligible: {},
  capture: [],
  history: () => [],
};

describe("holds", () => {
  test.each<[string, Condition, boolean]>([
    ["an equal value", { finished: true }, true],
    ["another value", { finished: false }, false],
    ["a text", { ending: "cut" }, true],
    ["the bound itself, ge", { reward: { ge: 0.6 } }, true],
    ["the bound itself, gt", { reward: { gt: 0.6 } }, false],
    ["the bound itself, le", { reward: { le: 0.6 } }, true],
    ["the bound itself, lt", { reward: { lt: 0.6 } }, false],
    ["two bounds", { reward: { gt: 0, lt: 1 } }, true],
    ["two bounds, one of them not met", { reward: { gt: 0, lt: 0.5 } }, false],
    ["two figures, one of them not so", { finished: true, reward: { lt: 0 } }, false],
    ["a figure that is not there", { lost: { lt: 1 } }, false],
    ["a figure that is null", { nothing: { lt: 1 } }, false],
    ["bounds on a text", { ending: { lt: 1 } }, false],
  ])("%s", (_, condition, expected) => {
    expect(holds(condition, { reward: 0.6, finished: true, ending: "cut", nothing: null })).toBe(expected);
  });

  test("for every number, exactly one of lt and ge holds, and no NaN is within any bound", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true }), fc.double({ noNaN: true }), (bound, reward) => {
        expect(holds({ reward: { lt: bound } }, { reward })).toBe(!holds({ reward: { ge: bound } }, { reward }));
      }),
    );
    for (const name of ["lt", "le", "gt", "ge"])
      expect(holds({ reward: { [name]: 0 } }, { reward: Number.NaN })).toBe(false);
  });
});

describe("a condition that could never hold is refused", () => {
  test.each([
    ["empty", {}, /expected at least one of reward, finished, score, ending/],
    ["a figure that is none", { finnished: true }, /finnished/],
    ["no bound", { reward: {} }, /reward: .*expected at least one of lt, le, gt, ge/],
    ["a bound that is none", { reward: { above: 1 } }, /reward/],
    ["bounds on a yes or no", { finished: { lt: 1 } }, /finished/],
    ["a text that it never is", { ending: "stoped" }, /ending/],
    ["null", { score: null }, /score/],
  ])("%s", (_, condition, message) => {
    const parsed = conditionSchema(rules).safeParse(condition);
    expect(parsed.success).toBe(false);
    expect(parsed.error!.issues.map((issue) => `${issue.path.join(".")}: ${JSON.stringify(issue)}`).join()).toMatch(
      message,
    );
  });

  test("one that fits comes back as it was", () => {
    const condition = { reward: { ge: 0, lt: 1 }, finished: true, ending: "stopped" };
    expect(conditionSchema(rules).parse(condition)).toEqual(condition);
  });
});
