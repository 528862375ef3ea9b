import { describe, expect, test } from "vitest";
import { parseJson } from "./data/python-json.ts";
import type { PyDict } from "./data/python-values.ts";
import { type DataState, startState } from "./data/state.ts";
import { canonicalState } from "./data/state-hash.ts";
import { type Call, cancel, card, db, lookUp, passengers, taskOf, transfer, trip } from "./fixtures/hand-written.ts";
import { hasOriginals, originals } from "./fixtures/originals.ts";
import { doNothing, type EpisodeEnd, goldState, outcomeOf, type ScoringOptions } from "./scoring.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { runAction } from "./tools/index.ts";

const options: ScoringOptions = { number_mode: "python", strict_refusal: false };
const start = startState(db);

function after(calls: readonly { name: string; kwargs: unknown }[], from: DataState = start): DataState {
  return calls.reduce((state, call) => runAction(state, call).state, from);
}

function outcome(task: AirlineTask, end: Partial<EpisodeEnd>, changes: Partial<ScoringOptions> = {}): 0 | 1 {
  const whole: EpisodeEnd = { data: start, said: [], calls: [], terminated_by: "stop", ...end };
  return outcomeOf(task, whole, { ...options, ...changes });
}

const executed = (calls: readonly Call[], is_error = false) =>
  calls.map(({ name, kwargs }) => ({ tool: name, parameters: kwargs, is_error }));

describe("the end state", () => {
  test("the gold's own writes pay; nothing, more, or an undone write do not", () => {
    const task = taskOf([lookUp, cancel]);
    expect(outcome(task, { data: after([cancel]) })).toBe(1);
    expect(outcome(task, { data: start })).toBe(0);
    expect(outcome(task, { data: after([cancel, cancel]) })).toBe(0);
  });

  test("reads, thinking and sums do not matter, nor does the way to the same data", () => {
    const think: Call = { name: "think", kwargs: { thought: "well" } };
    const sum: Call = { name: "calculate", kwargs: { expression: "1 + 1" } };
    expect(outcome(taskOf([cancel]), { data: after([think, lookUp, sum, cancel]) })).toBe(1);
  });

  test("passengers in another order are other data", () => {
    const task = taskOf([passengers()]);
    expect(outcome(task, { data: after([passengers()]) })).toBe(1);
    expect(outcome(task, { data: after([passengers(trip.passengers.toReversed())]) })).toBe(0);
  });

  test("50 and 50.0 differ, unless numbers count by their value", () => {
    const bags = (total: string) => ({
      name: "update_reservation_baggages",
      kwargs: parseJson(
        `{"reservation_id": "${trip.reservation_id}", "total_baggages": ${total}, "nonfree_baggages": 0, "payment_id": "${card}"}`,
      ) as PyDict,
    });
    const task = taskOf([], { actions: [bags("3")] });
    const data = after([bags("3.0")]);
    expect(outcome(task, { data })).toBe(0);
    expect(outcome(task, { data }, { number_mode: "normalized" })).toBe(1);
  });

  test("errors of gold actions are passed over, and its transfer is not played", () => {
    const wrong: Call = { name: "cancel_reservation", kwargs: { reservation_id: "NOSUCH" } };
    expect(outcome(taskOf([wrong, cancel, transfer]), { data: after([cancel]) })).toBe(1);
  });

  test("the replay leaves the agent's state as it was, and is done once a task", () => {
    const task = taskOf([cancel]);
    const data = after([passengers(trip.passengers.toReversed())]);
    const before = canonicalState(data);
    expect(outcome(task, { data })).toBe(0);
    expect(canonicalState(data)).toBe(before);
    expect(goldState(task, db)).toBe(goldState(task, db));
    expect(goldState(taskOf([cancel]), db)).not.toBe(goldState(task, db));
  });
});

test.each([
  ["stop", 1],
  ["transfer", 1],
  ["max_turns", 0],
  ["max_tokens", 0],
  ["contaminated", 0],
  ["loop", 0],
  ["context", 0],
  ["error", 0],
  [null, 0],
] as const)("an episode that ends by %s pays %s, though its data are right", (terminated_by, paid) => {
  expect(outcome(taskOf([cancel]), { data: after([cancel]), terminated_by })).toBe(paid);
});

describe("outputs", () => {
  const says = (outputs: string[], ...said: string[]) => outcome(taskOf([], { outputs }), { said });
  test.each([
    ["said", ["327"], ["It is $327."], 1],
    ["with commas", ["1786"], ["You get $1,786 back."], 1],
    ["in another case", ["Gold"], ["you are GOLD"], 1],
    ["one a text", ["327", "44"], ["327", "and 44"], 1],
    ["a digit within another number", ["4"], ["14 bags"], 1],
    ["missing", ["327", "44"], ["327"], 0],
    ["with a comma of its own, which no text has any more", ["1,786"], ["$1,786"], 0],
    ["cut in two by texts", ["327"], ["32", "7"], 0],
    ["not said at all", ["327"], [], 0],
  ])("%s", (_, outputs, said, paid) => {
    expect(says(outputs, ...said)).toBe(paid);
  });
  test("do not excuse wrong data", () => {
    expect(outcome(taskOf([cancel], { outputs: ["1"] }), { said: ["1"] })).toBe(0);
  });
});

describe("strict refusal", () => {
  const strict = { strict_refusal: true };
  test("asks for a look at the customer's own data", () => {
    const task = taskOf([]);
    const other: Call = { name: "get_user_details", kwargs: { user_id: "someone_else_0000" } };
    expect(outcome(task, {}, strict)).toBe(0);
    expect(outcome(task, { calls: executed([lookUp]) }, strict)).toBe(1);
    expect(outcome(task, { calls: executed([lookUp], true) }, strict)).toBe(0);
    expect(outcome(task, { calls: executed([other]) }, strict)).toBe(0);
    const user: Call = { name: "get_user_details", kwargs: { user_id: trip.user_id } };
    expect(outcome(task, { calls: executed([user]) }, strict)).toBe(1);
  });
  test("asks for a transfer exactly where the gold has one", () => {
    const end = (...calls: Call[]) => ({ calls: executed([lookUp, ...calls]) });
    expect(outcome(taskOf([]), end(transfer), strict)).toBe(0);
    expect(outcome(taskOf([transfer]), end(transfer), strict)).toBe(1);
    expect(outcome(taskOf([transfer]), end(), strict)).toBe(0);
  });
  test("asks nothing where there is something to write", () => {
    expect(outcome(taskOf([cancel]), { data: after([cancel]) }, strict)).toBe(1);
  });
});

test("doing nothing pays where nothing is to be done and nothing to be said", () => {
  expect(doNothing(taskOf([]), db)).toBe(1);
  expect(doNothing(taskOf([lookUp, transfer]), db)).toBe(1);
  expect(doNothing(taskOf([], { outputs: ["4"] }), db)).toBe(0);
  expect(doNothing(taskOf([cancel]), db)).toBe(0);
});

describe.skipIf(!hasOriginals)("the original tasks", () => {
  const { db: own, tasks } = hasOriginals ? originals() : { db: null!, tasks: [] };

  test("the gold actions, with the outputs said, pay on all 50", () => {
    const paid = tasks.map((task) =>
      outcome(task, { data: after(task.actions, startState(own)), said: [...task.outputs] }),
    );
    expect(paid).toEqual(Array(50).fill(1));
  });

  test("doing nothing pays on the 19 that have neither write nor output", () => {
    const paid = tasks.filter((task) => doNothing(task, own) === 1).map(({ task_index }) => task_index);
    // airline.md 4.4
    expect(paid).toEqual([12, 13, 15, 17, 18, 21, 24, 29, 35, 36, 37, 38, 39, 40, 41, 42, 47, 48, 49]);
    expect(tasks.filter((task) => outcome(task, { data: startState(own) }) === 1).length).toBe(19);
  });
});
