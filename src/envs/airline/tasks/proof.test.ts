import { describe, expect, test } from "vitest";
import { fromPlain, type PyDict, toPlain } from "../data/python-values.ts";
import { sharedSynthDb } from "../data/synth.ts";
import { proveTask } from "./proof.ts";
import { synthTasks } from "./synth.ts";
import type { AirlineTask, GoldAction } from "./task.ts";
import { solveTrip, type TripWish, tripOptions } from "./trips.ts";

const db = sharedSynthDb();
const suite = synthTasks();
const row = (index: number): AirlineTask => suite[index]!;

function edited(action: GoldAction, change: (kwargs: Record<string, unknown>) => Record<string, unknown>): GoldAction {
  const kwargs = toPlain(action.kwargs) as Record<string, unknown>;
  return { ...action, kwargs: fromPlain({ ...kwargs, ...change(kwargs) }) as PyDict };
}

describe("a proof fails where the task is not what it says", () => {
  test.each<[string, AirlineTask, RegExp]>([
    ["no proof", { ...row(0), proof: undefined }, /has no proof/],
    ["no script", { ...row(0), script: null }, /has no script/],
    ["nobody", { ...row(0), user_id: "nobody_here_1" }, /no user 'nobody_here_1'/],
    [
      "a gold that errs",
      { ...row(43), actions: [{ ...row(43).actions[0]!, name: "cancel_everything" }] },
      /Unknown action/,
    ],
    ["a gold without its write", { ...row(1), actions: [] }, /asks for nothing/],
    ["a trip that can't be cancelled", { ...row(1), proof: { ...row(1).proof!, reason: "other" } }, /breaks rule 23/],
    ["no reason", { ...row(1), proof: { ...row(1).proof!, reason: null } }, /cancels without a reason/],
    [
      "too few bags charged",
      {
        ...row(14),
        actions: row(14).actions.map((one) => edited(one, () => ({ nonfree_baggages: 0 }))),
      },
      /breaks rule 13/,
    ],
    [
      "a flight that is not the cheapest",
      {
        ...row(6),
        proof: {
          ...row(6).proof!,
          trips: row(6).proof!.trips.map((trip) => ({ ...trip, query: { ...trip.query, best: "second_cheapest" } })),
        },
      },
      /does not take the second_cheapest|no flight alone/,
    ],
    [
      "a flight within the budget after all",
      {
        ...row(17),
        proof: {
          ...row(17).proof!,
          trips: row(17).proof!.trips.map((trip) => ({ ...trip, query: { ...trip.query, max_price: null } })),
        },
      },
      /a flight fits/,
    ],
    [
      "a temptation that is legal",
      { ...row(12), proof: { ...row(12).proof!, tempting: [{ ...row(12).proof!.tempting[0]!, rule: 19 }] } },
      /does not break rule 19/,
    ],
    [
      "an upgrade that the customer would pay",
      {
        ...row(14),
        proof: {
          ...row(14).proof!,
          tempting: row(14).proof!.tempting.map((one) => (one.over === null ? one : { ...one, over: 100_000 })),
        },
      },
      /which the customer pays/,
    ],
    ["an output that any text holds", { ...row(44), outputs: ["4"] }, /'4' is no number of three digits/],
    [
      "an output that the user says",
      { ...row(44), instruction: `${row(44).instruction} ${row(44).outputs[0]}` },
      /gives away/,
    ],
    [
      "a payment that nobody tells",
      { ...row(6), script: { ...row(6).script!, facts: { ...row(6).script!.facts, payment: undefined } } },
      /nobody tells the payment/,
    ],
    [
      "two wishes in the same words",
      {
        ...row(1),
        script: { ...row(1).script!, goals: row(1).script!.goals.map((goal) => ({ ...goal, say: "help me" })) },
      },
      /read alike/,
    ],
    [
      "a placeholder among the arguments",
      { ...row(13), actions: row(13).actions.map((one) => edited(one, () => ({ summary: "any wish" }))) },
      /placeholder/,
    ],
  ])("%s", (_, task, problem) => {
    expect(proveTask(task, db).join("\n")).toMatch(problem);
  });
});

describe("trips", () => {
  const wish: TripWish = { ...row(0).proof!.trips[0]!.query, from_time: null, max_price: null };
  const options = tripOptions(db, wish);

  test("what fits is what the searches show, connections of one day alone", () => {
    expect(options.length).toBeGreaterThan(1);
    for (const { legs } of options) expect(legs.every(({ date }) => date === wish.date)).toBe(true);
    expect(tripOptions(db, { ...wish, most_stops: 0 })).toEqual([]);
    expect(tripOptions(db, { ...wish, max_price: 0 })).toEqual([]);
    expect(tripOptions(db, { ...wish, passengers: 21 })).toEqual([]);
    expect(tripOptions(db, { ...wish, date: "2024-05-10" })).toEqual([]);
  });

  test("the best is the only one of its value", () => {
    const prices = options.map(({ price }) => price).sort((a, b) => a - b);
    expect(solveTrip(db, wish)!.price).toBe(prices[0]);
    expect(prices[1]).toBeGreaterThan(prices[0]!);
    expect(solveTrip(db, { ...wish, best: "only" })).toBeNull();
    const fastest = solveTrip(db, { ...wish, best: "fastest" });
    const least = Math.min(...options.map(({ minutes }) => minutes));
    if (fastest) expect(fastest.minutes).toBe(least);
    else expect(options.filter(({ minutes }) => minutes === least).length).toBeGreaterThan(1);
  });

  test("the price is for all passengers", () => {
    const two = tripOptions(db, { ...wish, passengers: 2 });
    for (const one of two)
      expect(one.price).toBe(2 * options.find(({ legs }) => JSON.stringify(legs) === JSON.stringify(one.legs))!.price);
  });
});
