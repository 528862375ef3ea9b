import { describe, expect, test } from "vitest";
import { smallDb } from "../data/fixtures/small-db.ts";
import { fromPlain, type PyDict } from "../data/python-values.ts";
import { reservationOf, startState } from "../data/state.ts";
import { type Action, runAction } from "../tools/index.ts";
import { checkActions, checkWrite, type PolicyCase } from "./check.ts";
import { airlineCancelled, bookedWithinADay, cancelProblem, freeBags, hasDelay, isFlown } from "./facts.ts";
import { POLICY_RULES, policyText } from "./policy.ts";

const db = smallDb();
const start = startState(db);
const NOOR = { first_name: "Noor", last_name: "Halvorsen", dob: "1980-02-03" };
const FELIX = { first_name: "Felix", last_name: "Weber", dob: "1970-11-12" };

const asRecord = (plain: object) => fromPlain(plain) as PyDict;

/** Numbers of the rules that a write of Noor's breaks. */
function broken(write: Action, given: Partial<PolicyCase> = {}): number[] {
  const whole = { state: start, user_id: "noor_halvorsen_4821", history: [], ...given };
  return checkWrite(write, whole).map(({ rule }) => rule);
}

const call = (name: string, kwargs: object): Action => ({ name, kwargs });
const book = (changes: object = {}) =>
  call("book_reservation", {
    user_id: "noor_halvorsen_4821",
    origin: "SFO",
    destination: "JFK",
    flight_type: "one_way",
    cabin: "economy",
    flights: [{ flight_number: "TRS001", date: "2024-05-16" }],
    passengers: [NOOR],
    payment_methods: [{ payment_id: "credit_card_1000001", amount: 120 }],
    total_baggages: 3,
    nonfree_baggages: 0,
    insurance: "no",
    ...changes,
  });
const change = (reservation_id: string, cabin: string, flights: [string, string][], payment_id = "gift_card_1000002") =>
  call("update_reservation_flights", {
    reservation_id,
    cabin,
    flights: flights.map(([flight_number, date]) => ({ flight_number, date: `2024-05-${date}` })),
    payment_id,
  });
const bags = (
  reservation_id: string,
  total_baggages: number,
  nonfree_baggages: number,
  payment = "gift_card_1000002",
) => call("update_reservation_baggages", { reservation_id, total_baggages, nonfree_baggages, payment_id: payment });
const cancel = (reservation_id: string) => call("cancel_reservation", { reservation_id });
const certificate = (user_id: string, amount: number) => call("send_certificate", { user_id, amount });

describe("the text", () => {
  test("has 29 rules; numbers 1, 12, 16, 24 and 29 are those of the specification", () => {
    expect(POLICY_RULES.map(({ number }) => number)).toEqual(Array.from({ length: 29 }, (_, i) => i + 1));
    const text = (number: number) => POLICY_RULES[number - 1]!.text;
    expect(text(1)).toContain("15:00:00 EST");
    expect(text(8)).toContain("'available'");
    expect(text(12)).toContain("| gold | 2 | 3 | 3 |");
    expect(text(16)).toContain("basic economy reservation can't be changed");
    expect(text(24)).toContain("transfer to a human agent");
    expect(text(29)).toContain("$50");
    expect(policyText()).toMatch(/^# .*\n\n## General\n\n- It is 2024-05-15/);
    expect(policyText()).toContain("\n  | silver | 1 | 2 | 3 |\n");
    for (const { text } of POLICY_RULES) expect(policyText()).toContain(text.split("\n")[0]!);
  });

  test("the free bags that it names are those that the checker counts with", () => {
    const table = POLICY_RULES[11]!.text;
    for (const membership of ["regular", "silver", "gold"] as const) {
      const row = (["basic_economy", "economy", "business"] as const).map((cabin) => freeBags(membership, cabin));
      expect(table).toContain(`| ${membership} | ${row.join(" | ")} |`);
    }
  });
});

describe("bookings", () => {
  test.each<[string, Action, number[]]>([
    ["a good one", book(), []],
    ["for someone else", book({ user_id: "felix_weber_1111" }), [9]],
    ["a delayed flight", book({ flights: [{ flight_number: "TRS001", date: "2024-05-15" }] }), [8]],
    [
      "too few seats",
      book({ flights: [{ flight_number: "TRS001", date: "2024-05-17" }], passengers: [NOOR, FELIX] }),
      [8],
    ],
    ["another way", book({ destination: "DEN" }), [9]],
    ["no way back", book({ flight_type: "round_trip" }), [9]],
    ["no passengers", book({ passengers: [], total_baggages: 0 }), [10]],
    ["six passengers", book({ passengers: Array.from({ length: 6 }, () => NOOR) }), [10]],
    ["no date of birth", book({ passengers: [{ first_name: "A", last_name: "B" }] }), [10]],
    [
      "two certificates",
      book({
        payment_methods: [
          { payment_id: "certificate_1000003", amount: 60 },
          { payment_id: "certificate_1000004", amount: 60 },
        ],
      }),
      [11],
    ],
    ["a card that isn't in the profile", book({ payment_methods: [{ payment_id: "visa", amount: 120 }] }), [11]],
    ["a bag too many for free", book({ total_baggages: 4 }), [13]],
    ["a free bag that is charged", book({ nonfree_baggages: 1 }), [13]],
  ])("%s", (_, write, rules) => {
    expect(broken(write)).toEqual(rules);
  });
});

describe("changes", () => {
  test.each<[string, Action, number[]]>([
    ["another day", change("AAA111", "economy", [["TRS001", "20"]]), []],
    ["another cabin", change("AAA111", "business", [["TRS001", "16"]]), []],
    [
      "another cabin of basic economy",
      change("BBB222", "economy", [
        ["TRS001", "16"],
        ["TRS002", "20"],
      ]),
      [],
    ],
    [
      "another day of basic economy",
      change("BBB222", "basic_economy", [
        ["TRS001", "17"],
        ["TRS002", "20"],
      ]),
      [16],
    ],
    [
      "another day of basic economy, upgraded in the same call",
      change("BBB222", "economy", [
        ["TRS001", "17"],
        ["TRS002", "20"],
      ]),
      [16],
    ],
    ["another destination", change("AAA111", "economy", [["TRS005", "20"]]), [16]],
    [
      "a way back",
      change("AAA111", "economy", [
        ["TRS001", "16"],
        ["TRS002", "20"],
      ]),
      [16],
    ],
    [
      "flights that don't chain",
      change("AAA111", "economy", [
        ["TRS005", "16"],
        ["TRS001", "16"],
      ]),
      [16],
    ],
    [
      "a second flight before the first has arrived",
      change("AAA111", "economy", [
        ["TRS003", "16"],
        ["TRS006", "16"],
      ]),
      [16],
    ],
    [
      "one stop over night",
      change("AAA111", "economy", [
        ["TRS003", "16"],
        ["TRS006", "17"],
      ]),
      [],
    ],
    ["a delayed flight", change("AAA111", "economy", [["TRS001", "15"]]), [8]],
    ["someone else's", change("CCC333", "economy", [["TRS002", "20"]]), [15]],
    ["no such reservation", change("ZZZZZZ", "economy", []), [15]],
    ["a certificate", change("AAA111", "economy", [["TRS001", "20"]], "certificate_1000003"), [20]],
    [
      "a flight that has departed is exchanged",
      change("123456", "business", [
        ["TRS001", "16"],
        ["TRS002", "16"],
      ]),
      [16, 24],
    ],
    [
      "a flight that has departed is kept",
      change("123456", "business", [
        ["TRS001", "14"],
        ["TRS002", "20"],
      ]),
      [],
    ],
    ["bags of a gold member", bags("AAA111", 6, 0), []],
    ["one bag more than is free", bags("AAA111", 7, 0), [13]],
    ["charged", bags("AAA111", 7, 1), []],
    ["a bag removed", bags("123456", 1, 0), [18]],
    ["a certificate for bags", bags("AAA111", 6, 0, "certificate_1000003"), [20]],
    ["another passenger", call("update_reservation_passengers", { reservation_id: "BBB222", passengers: [FELIX] }), []],
    [
      "one passenger more",
      call("update_reservation_passengers", { reservation_id: "BBB222", passengers: [NOOR, FELIX] }),
      [19],
    ],
  ])("%s", (_, write, rules) => {
    expect(broken(write)).toEqual(rules);
  });

  test("bags go by the cabin flown in, cancelling and changing by the one that was booked", () => {
    const upgrade = change(
      "BBB222",
      "business",
      [
        ["TRS001", "16"],
        ["TRS002", "20"],
      ],
      "credit_card_1000001",
    );
    const given = { state: runAction(start, upgrade).state, history: [upgrade] };
    expect(broken(bags("BBB222", 3, 0), given)).toEqual([]);
    expect(broken(bags("BBB222", 3, 1), given)).toEqual([13]);
    expect(broken(cancel("BBB222"), given)).toEqual([23]);
    const later = change("BBB222", "business", [
      ["TRS001", "20"],
      ["TRS002", "20"],
    ]);
    expect(broken(later, given)).toContain(16);
  });
});

describe("cancelling", () => {
  test.each<[string, string, object, number[]]>([
    ["insured, health", "AAA111", { reason: "health" }, []],
    ["insured, weather", "AAA111", { reason: "weather" }, []],
    ["insured, a change of plan", "AAA111", { reason: "change_of_plan" }, [23]],
    ["insured, nobody asked why", "AAA111", { reason: null }, [21]],
    ["insured, it isn't known why", "AAA111", {}, []],
    ["basic economy, not insured", "BBB222", { reason: "health" }, [23]],
    ["business, but partly flown", "123456", { reason: "health" }, [24]],
    ["someone else's", "CCC333", { reason: "health" }, [21]],
    ["without a yes", "AAA111", { reason: "health", confirmed: false }, [3]],
  ])("%s", (_, reservation_id, talk, rules) => {
    expect(broken(cancel(reservation_id), { talk })).toEqual(rules);
  });

  test("within 24 hours of booking whatever the cabin, and not twice", () => {
    const given = { user_id: "felix_weber_1111" };
    expect(broken(cancel("CCC333"), given)).toEqual([]);
    const { state } = runAction(start, cancel("CCC333"));
    expect(broken(cancel("CCC333"), { ...given, state })).toEqual([24]);
    expect(cancelProblem(db, reservationOf(state, "CCC333")!)!.why).toBe("it is cancelled already");
  });

  test("what the rules turn on", () => {
    const reservation = (id: string) => reservationOf(start, id)!;
    expect([
      isFlown(db, { flight_number: "TRS001", date: "2024-05-14" }),
      isFlown(db, { flight_number: "TRS001", date: "2024-05-13" }),
    ]).toEqual([true, false]);
    expect(
      airlineCancelled(db, {
        ...reservation("CCC333"),
        flights: [{ ...reservation("CCC333").flights[0]!, date: "2024-05-13" }],
      }),
    ).toBe(true);
    expect([hasDelay(db, reservation("CCC333")), hasDelay(db, reservation("AAA111"))]).toEqual([true, false]);
    const booked = (created_at: string) => bookedWithinADay({ ...reservation("AAA111"), created_at });
    expect([booked("2024-05-14T15:00:00"), booked("2024-05-14T14:59:59")]).toEqual([true, false]);
  });
});

describe("compensation", () => {
  const felix = { user_id: "felix_weber_1111" };
  test("a regular member in economy without insurance gets none", () => {
    expect(broken(certificate("felix_weber_1111", 50), felix)).toEqual([27]);
  });

  test("nobody gets any where nothing was cancelled or delayed, nor someone else, nor unasked", () => {
    expect(broken(certificate("noor_halvorsen_4821", 100))).toEqual([26]);
    expect(broken(certificate("felix_weber_1111", 100))).toEqual([26]);
    const talk = { asked_for_compensation: false };
    expect(broken(certificate("noor_halvorsen_4821", 100), { talk })).toEqual([26, 26]);
  });

  test("for a delay $50 a passenger, after a change or cancellation; for a cancelled flight $100 at once", () => {
    const insured = { ...reservationOf(start, "CCC333")!, insurance: "yes" };
    const delayed = { ...start, reservations: new Map([["CCC333", asRecord(insured)]]) };
    const given = { ...felix, state: delayed };
    expect(broken(certificate("felix_weber_1111", 50), given)).toEqual([29]);
    const after = { ...given, history: [cancel("CCC333")] };
    expect(broken(certificate("felix_weber_1111", 50), after)).toEqual([]);
    expect(broken(certificate("felix_weber_1111", 100), after)).toEqual([29]);
  });

  test("a change that exchanges the delayed flight doesn't take the compensation away", () => {
    const insured = { ...reservationOf(start, "CCC333")!, insurance: "yes" };
    const state = { ...start, reservations: new Map([["CCC333", asRecord(insured)]]) };
    const moved = change("CCC333", "economy", [["TRS002", "20"]], "credit_card_2000001");
    const found = checkActions(state, "felix_weber_1111", [moved, certificate("felix_weber_1111", 50)]);
    expect(found).toEqual([]);
  });
});

test("a sequence is judged write by write, each on the data before it", () => {
  const actions = [
    call("get_user_details", { user_id: "noor_halvorsen_4821" }),
    cancel("AAA111"),
    change("AAA111", "economy", [["TRS001", "20"]]),
    cancel("BBB222"),
  ];
  expect(checkActions(start, "noor_halvorsen_4821", actions).map(({ index, rule }) => [index, rule])).toEqual([
    [2, 16],
    [3, 23],
  ]);
});

test("reads and unknown names break nothing, arguments of any kind crash nothing", () => {
  expect(broken(call("get_user_details", {}))).toEqual([]);
  expect(broken(call("fly_me", {}))).toEqual([]);
  for (const name of ["book_reservation", "update_reservation_flights", "send_certificate", "cancel_reservation"])
    for (const kwargs of [null, [], { user_id: "noor_halvorsen_4821" }, { reservation_id: "AAA111", flights: [{}] }])
      expect(checkWrite({ name, kwargs }, { state: start, user_id: "noor_halvorsen_4821", history: [] })).toEqual(
        expect.any(Array),
      );
});
