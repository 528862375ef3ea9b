import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { processScore } from "./process-score.ts";
import { type ActionRecord, actionRecord, extractEntities, IMPLICIT_THINK, implicitThink } from "./records.ts";
import { episodeReward } from "./rewards.ts";

const UO = `{"reservations": ["MDCLVA", "EHGLP3"], "payment_methods": {"credit_card_5832574": {}}}`;
const RO = `{"reservation_id": "MDCLVA", "user_id": "emma_kim_9957", "flights": [{"flight_number": "HAT043", "date": "2024-05-15"}]}`;
const ERROR = "Error: user not found";

function call(tool: string, parameters: Record<string, unknown>, observation = "", content = ""): ActionRecord {
  return actionRecord({ tool, parameters, observation, content });
}

const U = call("get_user_details", { user_id: "emma_kim_9957" }, UO);
const R = call("get_reservation_details", { reservation_id: "MDCLVA" }, RO);
const S = (date: string, observation = "[]") =>
  call("search_direct_flight", { origin: "EWR", destination: "DTW", date }, observation);
const X = (summary: string) => call("transfer_to_human_agents", { summary }, "Transfer successful");
const T = (thought: string) => call("think", { thought });
const I = implicitThink(
  "The user wants to change a flight, so first I have to see the reservation. ".repeat(2),
  undefined,
)!;
const L = call("list_all_airports", {});
const reading = (reservation_id: string, observation: string) =>
  call("get_reservation_details", { reservation_id }, observation);
const cancelling = (reservation_id: string, observation = RO) =>
  call("cancel_reservation", { reservation_id }, observation);
const days = ["16", "17", "18", "19", "20", "21", "22", "23", "24"];
const U4 = call(
  "get_user_details",
  { user_id: "emma_kim_9957" },
  UO.replace(`"EHGLP3"`, `"EHGLP3", "66EEUA", "H1QGCY"`),
);
const update = call(
  "update_reservation_flights",
  {
    reservation_id: "MDCLVA",
    cabin: "economy",
    flights: [{ flight_number: "HAT043", date: "2024-05-20" }],
    payment_id: "credit_card_5832574",
  },
  RO,
);

type Golden = [
  id: string,
  history: ActionRecord[],
  perStep: number[],
  mean: number,
  adjustments: number,
  score: number,
];

const golden: Golden[] = [
  ["G01 empty", [], [], 0, 0, 0],
  ["G02 placeholder read", [reading("previous_reservation", "")], [-0.02], -0.02, 0, -0.02],
  ["G03 a write to no id", [cancelling("my_trip")], [-0.05], -0.05, 0, -0.05],
  ["G04 repeat", [U, U], [0.01, -0.03], -0.01, 0, -0.01],
  ["G05 repeat at the window's edge", [U, L, S("2024-05-20"), U], [0.01, 0.01, 0.01, -0.03], 0, -0.04, -0.04],
  ["G06 repeat behind the window", [U, L, S("2024-05-20"), R, U], [0.01, 0.01, 0.01, 0.05, 0.04], 0.024, -0.04, -0.016],
  ["G07 retry", [reading("ABC123", ERROR), reading("ABC123", ERROR)], [0.01, -0.07], -0.03, 0, -0.03],
  ["G08 recovery", [reading("ABC123", ERROR), U], [0.01, 0.06], 0.035, 0, 0.035],
  [
    "G09 think between error and retry",
    [reading("ABC123", ERROR), T("retry"), reading("ABC123", ERROR)],
    [0.01, 0, -0.03],
    -0.02 / 3,
    0,
    -0.02 / 3,
  ],
  ["G10 transfer at once", [X("User wants a human.")], [-0.1], -0.1, 0, -0.1],
  ["G11 transfer after a read", [U, X("User wants a human.")], [0.01, -0.05], -0.02, 0, -0.02],
  ["G12 'any' in company", [U, X("The company cannot help.")], [0.01, -0.08], -0.035, 0, -0.035],
  ["G13 short success without think", [U, R, cancelling("MDCLVA")], [0.01, 0.05, 0.08], 0.14 / 3, -0.05, -0.01 / 3],
  [
    "G14 and with one",
    [T("check the account"), U, R, cancelling("MDCLVA")],
    [0.01, 0.01, 0.05, 0.08],
    0.0375,
    0,
    0.0375,
  ],
  ["G15 two thinks", [T("a"), T("b"), U], [0.01, 0, 0.01], 0.02 / 3, 0, 0.02 / 3],
  ["G16 think at the end", [U, T("done")], [0.01, 0], 0.005, 0, 0.005],
  [
    "G17 think before a placeholder",
    [T("book it"), call("book_reservation", { user_id: "unknown" }, ERROR)],
    [0, -0.05],
    -0.025,
    0,
    -0.025,
  ],
  ["G18 implicit think", [I, U, R], [0.01, 0.01, 0.05], 0.07 / 3, 0, 0.07 / 3],
  ["G19 'any' in a user id", [call("get_user_details", { user_id: "anya_garcia_5901" }, UO)], [-0.02], -0.02, 0, -0.02],
  ["G20 three kinds of reads", [U, R, S("2024-05-20")], [0.01, 0.05, 0.01], 0.07 / 3, -0.04, 0.07 / 3 - 0.04],
  [
    "G21 ten records",
    [U, ...days.map((day) => S(`2024-05-${day}`))],
    [0.01, 0.01, ...Array<number>(8).fill(0)],
    0.002,
    -0.07,
    -0.068,
  ],
  ["G22 clipped", Array<ActionRecord>(60).fill(X("x")), [-0.1, ...Array<number>(59).fill(-0.13)], -0.1295, -0.57, -0.5],
  [
    "G23 a change",
    [
      U,
      R,
      S("2024-05-20", `[{"flight_number": "HAT043"}]`),
      call("calculate", { expression: "120 - 78" }, "42.0"),
      I,
      update,
    ],
    [0.01, 0.05, 0.01, 0.01, 0.01, 0.08],
    0.17 / 6,
    0.01,
    0.17 / 6 + 0.01,
  ],
  [
    "G24 a long failure",
    [
      R,
      cancelling("MDCLVA"),
      reading("previous_reservation", ERROR),
      U4,
      U,
      reading("previous_reservation", ERROR),
      ...["EHGLP3", "66EEUA", "H1QGCY"].map((id) => reading(id, RO)),
    ],
    [0.01, 0.08, -0.03, 0.1, 0.01, -0.06, 0.09, 0.04, 0.04],
    0.28 / 9,
    -0.06,
    0.28 / 9 - 0.06,
  ],
  ["G26 near miss", [U, reading("MDCLVB", ERROR)], [0.01, 0.01], 0.01, 0, 0.01],
];

const none = { user_turns: 0, tool_calls: 0, transferred: false, records: 0, losing_records: 0 };

test.each(golden)("%s", (_, history, perStep, mean, adjustments, score) => {
  const result = processScore(history);
  expect(result.perStep).toHaveLength(perStep.length);
  for (const [index, value] of perStep.entries()) expect(result.perStep[index]).toBeCloseTo(value, 10);
  expect(result.mean).toBeCloseTo(mean, 10);
  expect(result.adjustments).toBeCloseTo(adjustments, 10);
  expect(result.score).toBeCloseTo(score, 10);
  const total = result.fired.reduce(
    (sum, { step, score }) => sum + (step === null ? score : score / history.length),
    0,
  );
  expect(Math.min(0.5, Math.max(-0.5, total))).toBeCloseTo(score, 10);
  for (const outcome of [0, 1])
    expect(episodeReward("prm_lite", outcome, result.score, none).reward).toBeCloseTo(outcome + 0.3 * score, 10);
});

test("G25 cheap reasoning, where it is on", () => {
  const history = [
    { ...U, content: "Done." },
    { ...R, content: "x".repeat(30) },
  ];
  const result = processScore(history, { cheap_reasoning: "on" });
  expect(result.perStep[0]).toBeCloseTo(-0.01, 10);
  expect(result.perStep[1]).toBeCloseTo(0.05, 10);
  expect(result.score).toBeCloseTo(0.02, 10);
  expect(processScore(history).score).toBeCloseTo(0.03, 10);
});

test("whole words alone, where keywords are tokens", () => {
  const score = (record: ActionRecord) => processScore([U, record], { keyword_mode: "token" }).perStep[1];
  expect(score(X("The company has the latest facts for someone."))).toBeCloseTo(-0.05, 10);
  expect(score(X("the first of any"))).toBeCloseTo(-0.05, 10); // free text
  expect(score(call("get_user_details", { user_id: "anya_garcia_5901" }))).toBeCloseTo(0, 10);
  expect(score(reading("previous_reservation", ""))).toBeCloseTo(-0.02, 10);
  expect(score(call("send_certificate", { user_id: "n/a" }))).toBeCloseTo(-0.05, 10);
  expect(score(call("book_reservation", { cabin: "the first class" }))).toBeCloseTo(-0.05, 10);
});

describe("what a text names", () => {
  test.each([
    [
      RO,
      {
        reservation_id: ["MDCLVA", "HAT043"],
        user_id: ["emma_kim_9957"],
        payment_id: [],
        flight_number: ["HAT043"],
        date: ["2024-05-15"],
      },
    ],
    [
      UO,
      {
        reservation_id: ["MDCLVA", "EHGLP3"],
        user_id: ["credit_card_5832574"],
        payment_id: ["credit_card_5832574"],
        flight_number: [],
        date: [],
      },
    ],
    [`"created_at": "2024-05-02T03:10:19"`, { date: [] }],
    ["éABC123 ABC1234 (ABC123)", { reservation_id: ["ABC123"], flight_number: ["ABC123"] }],
  ])("%s", (text, entities) => {
    expect(extractEntities(text)).toMatchObject(entities);
  });

  test("an error names nothing", () => {
    expect(call("get_user_details", {}, "Error: MDCLVA").extracted_entities.reservation_id).toEqual([]);
    expect(call("nothing", {}, "Unknown action MDCLVA")).toMatchObject({ is_error: false });
  });
});

test("a call's text has sorted keys, small letters and numbers as they came", () => {
  expect(call("x", { b: "Ä", a: [1, { d: null, c: true }] }).param_str).toBe(
    `{"a": [1, {"c": true, "d": null}], "b": "ä"}`,
  );
});

test("a long reply without a call is an implicit think, once", () => {
  expect(implicitThink("🙂".repeat(100), undefined)).toBeNull();
  const first = implicitThink("🙂".repeat(301), undefined);
  expect(first).toMatchObject({ tool: IMPLICIT_THINK, content: "🙂".repeat(300), param_str: "", is_error: false });
  expect(implicitThink("🙂".repeat(302), first!)).toBeNull();
  expect(implicitThink("🙂".repeat(302), U)).not.toBeNull();
});

// ------------------------------------------------------------------------------------------------- properties

const texts = fc.oneof(
  fc.constantFrom("MDCLVA", "EHGLP3", "emma_kim_9957", "unknown", "2024-05-15", "EWR", "credit_card_5832574", ""),
  fc.string({ maxLength: 8 }),
);
const values = fc.oneof(texts, fc.integer(), fc.boolean(), fc.constant(null), fc.array(texts, { maxLength: 2 }));
const names = fc.constantFrom("user_id", "reservation_id", "date", "origin", "summary", "thought", "constructor");
const tools = fc.constantFrom(
  ...["get_user_details", "get_reservation_details", "search_direct_flight", "list_all_airports", "calculate"],
  ...["cancel_reservation", "book_reservation", "transfer_to_human_agents", "think", "implicit_think", "no_such_tool"],
);
const record = fc
  .record({
    tool: tools,
    parameters: fc.dictionary(names, values, { maxKeys: 3 }),
    observation: fc.constantFrom(UO, RO, ERROR, "", "[]"),
    content: fc.oneof(fc.constant(""), fc.string({ maxLength: 120 })),
  })
  .map(actionRecord);
const history = fc.array(record, { maxLength: 70 });

test("a score lies within its bounds and is a number", () => {
  fc.assert(
    fc.property(history, fc.constantFrom("on", "off"), (actions, cheap_reasoning) => {
      const { score, perStep } = processScore(actions, { cheap_reasoning });
      expect(score).toBeGreaterThanOrEqual(-0.5);
      expect(score).toBeLessThanOrEqual(0.5);
      expect(perStep.every(Number.isFinite)).toBe(true);
    }),
  );
});

test("the order of a call's arguments makes no difference", () => {
  fc.assert(
    fc.property(history, (actions) => {
      const turned = actions.map(({ tool, parameters, observation, content }) =>
        actionRecord({
          tool,
          parameters: Object.fromEntries(Object.entries(parameters).reverse()),
          observation,
          content,
        }),
      );
      expect(processScore(turned)).toEqual(processScore(actions));
    }),
  );
});

test("scoring changes nothing", () => {
  fc.assert(
    fc.property(history, (actions) => {
      const before = structuredClone(actions);
      processScore(actions);
      expect(actions).toEqual(before);
    }),
  );
});

test("a call repeated at once earns less than it did, and lowers the mean unless that is worse still", () => {
  // Only where it takes nothing from an observation: a repeated write that does earns the chain bonus again.
  const unchained = history.map((actions) => actions.map((action) => actionRecord({ ...action, observation: "[]" })));
  fc.assert(
    fc.property(unchained, (actions) => {
      const last = actions.at(-1);
      if (!last || last.tool === "think" || last.tool === "implicit_think") return;
      const before = processScore(actions);
      const after = processScore([...actions, last]);
      expect(after.perStep.at(-1)!).toBeLessThanOrEqual(before.perStep.at(-1)! + 1e-12);
      if (before.mean >= after.perStep.at(-1)!) expect(after.mean).toBeLessThanOrEqual(before.mean + 1e-12);
      expect(after.perStep.at(-1)!).toBeLessThan(0);
    }),
  );
});
