import { describe, expect, test } from "vitest";
import { canonicalJson } from "../data/python-json.ts";
import { type DataState, reservationIds, reservationOf, startState, userOf } from "../data/state.ts";
import { sharedSynthDb } from "../data/synth.ts";
import { runAction } from "../tools/index.ts";
import { hear } from "../users/hearing.ts";
import { readScript, SLOTS } from "../users/script.ts";
import { STOP_TOKEN, type UserTask } from "../users/types.ts";
import { answerText, confirmation, GOODBYE, question, refusal, report } from "./phrases.ts";
import { isWrite, planOf, type TeacherTask } from "./plan.ts";
import { playTeacher, type TeacherPlay } from "./play.ts";

type Task = TeacherTask & UserTask;
type Call = { name: string; kwargs: Record<string, unknown> };

const db = sharedSynthDb("teacher", 0.1);
const start = startState(db);
const reservations = reservationIds(start).map((id) => reservationOf(start, id)!);

function cardOf(user_id: string): string {
  const methods = Object.values(userOf(start, user_id)!.payment_methods);
  return (
    (methods.find(({ source }) => source === "credit_card") ?? methods.find(({ source }) => source === "gift_card"))
      ?.id ?? ""
  );
}
/** A reservation of somebody with a credit card, by a wish. */
function find(wish: (reservation: (typeof reservations)[number]) => boolean) {
  return reservations.find((one) => cardOf(one.user_id).startsWith("credit_card") && wish(one))!;
}
const trip = find(({ user_id, flights }) => flights.length <= 2 && userOf(start, user_id)!.reservations.length >= 3);
const other = find(({ user_id, reservation_id }) => user_id === trip.user_id && reservation_id !== trip.reservation_id);
const card = cardOf(trip.user_id);
const cancel = (id = trip.reservation_id): Call => ({ name: "cancel_reservation", kwargs: { reservation_id: id } });
const addBags = (total: number): Call => ({
  name: "update_reservation_baggages",
  kwargs: {
    reservation_id: trip.reservation_id,
    total_baggages: trip.total_baggages + total,
    nonfree_baggages: trip.nonfree_baggages + total,
    payment_id: card,
  },
});
const certificate: Call = { name: "send_certificate", kwargs: { user_id: trip.user_id, amount: 100 } };

function goal(id: string, call: Call | null, changes: Record<string, unknown> = {}) {
  const match = call ? { tool: call.name, kwargs: call.kwargs } : { tool: null, said: ["42"] };
  return { id, kind: "x", say: `wish ${id}, please do it`, match, ...changes };
}

function taskOf(actions: Call[], goals: Record<string, unknown>[], changes: Record<string, unknown> = {}): Task {
  const { outputs = [], ...script } = changes;
  const record = {
    opening: ["g1"],
    facts: { user_id: trip.user_id, reservation_id: trip.reservation_id, reason: "change of plan", payment: card },
    goals,
    ...script,
  };
  return {
    id: "hand-written",
    instruction: "",
    user_id: trip.user_id,
    actions,
    outputs: outputs as string[],
    script: readScript(record, "hand-written"),
  };
}

const changed = ({ users, reservations: own }: DataState): string =>
  canonicalJson(
    new Map([
      ["users", users],
      ["reservations", own],
    ] as const),
  );

/** Outcome by section 4.3: the data are those of the gold actions, and the outputs were said. */
function expectSolved(task: Task, play: TeacherPlay): void {
  let gold = start;
  for (const action of task.actions) gold = runAction(gold, action).state;
  expect(play.ended_by).not.toBe("turns");
  expect(changed(play.state)).toBe(changed(gold));
  const said = play.turns.flatMap(({ reply }) =>
    reply.kind === "say" ? [reply.text.toLowerCase().replaceAll(",", "")] : [],
  );
  for (const output of task.outputs) expect(said.some((text) => text.includes(output.toLowerCase()))).toBe(true);
  for (const { observation } of play.turns) expect(observation.text).not.toMatch(/^(?:Error|Unknown action)/);
  // A yes stands before every write, after the details.
  play.turns.forEach(({ reply }, i) => {
    if (reply.kind !== "call" || !isWrite(reply.call.name)) return;
    const asked = play.turns.slice(0, i).findLast(({ reply: earlier }) => earlier.kind === "say")!;
    expect(asked.reply).toMatchObject({ text: expect.stringContaining("Do you confirm") });
    expect(asked.observation.text).toMatch(/\bYes\b/);
  });
}
const calls = (play: TeacherPlay): string[] =>
  play.turns.flatMap(({ reply }) => (reply.kind === "call" ? [reply.call.name] : []));

describe("hand-written tasks are solved", () => {
  const refused = goal("g1", cancel(other.reservation_id), { insist: 1, on_refused: "g2" });
  const flightChange: Call = {
    name: "update_reservation_flights",
    kwargs: {
      reservation_id: trip.reservation_id,
      cabin: trip.cabin,
      flights: trip.flights.map(({ flight_number, date }) => ({ flight_number, date })),
      payment_id: card,
    },
  };
  const people: Call = {
    name: "update_reservation_passengers",
    kwargs: {
      reservation_id: trip.reservation_id,
      passengers: trip.passengers.map((one) => ({ ...one, last_name: "Newman" })),
    },
  };
  test.each<[string, Task, string[]]>([
    [
      "one write",
      taskOf([cancel()], [goal("g1", cancel())]),
      ["get_user_details", "get_reservation_details", "think", "cancel_reservation"],
    ],
    [
      "two goals",
      taskOf([cancel(), certificate], [goal("g1", cancel()), goal("g2", certificate)]),
      ["get_user_details", "get_reservation_details", "think", "cancel_reservation", "think", "send_certificate"],
    ],
    [
      "two goals of the opening",
      taskOf([addBags(1), cancel()], [goal("g1", addBags(1)), goal("g2", cancel())], { opening: ["g1", "g2"] }),
      [
        "get_user_details",
        "get_reservation_details",
        "think",
        "update_reservation_baggages",
        "think",
        "cancel_reservation",
      ],
    ],
    ["a refusal, then another wish", taskOf([certificate], [refused, goal("g2", certificate)]), []],
    [
      "refusals alone",
      taskOf([], [goal("g1", cancel(), { insist: 2 })]),
      ["get_user_details", "get_reservation_details", "think"],
    ],
    ["a user that leaves when refused", taskOf([], [goal("g1", cancel(), { on_refused: "stop" })]), []],
    [
      "a transfer that the user waits for",
      taskOf(
        [{ name: "transfer_to_human_agents", kwargs: { summary: "x" } }],
        [goal("g1", null, { match: { tool: "transfer_to_human_agents" } })],
      ),
      ["get_user_details", "get_reservation_details", "think", "transfer_to_human_agents"],
    ],
    [
      "a transfer in place of a refusal",
      taskOf([{ name: "transfer_to_human_agents", kwargs: { summary: "x" } }], [goal("g1", cancel())]),
      ["get_user_details", "get_reservation_details", "think", "transfer_to_human_agents"],
    ],
    [
      "a question, with the gold reads before the answer",
      taskOf([{ name: "calculate", kwargs: { expression: "6 * 7" } }], [goal("g1", null)], { outputs: ["42"] }),
      ["get_user_details", "get_reservation_details", "calculate"],
    ],
    [
      "a question, a write, and an output that no goal asks for",
      taskOf([cancel()], [goal("g1", null), goal("g2", cancel())], { outputs: ["42", "1786"] }),
      [],
    ],
    [
      "several writes for one goal",
      taskOf(
        [addBags(1), addBags(2), addBags(3)],
        [goal("g1", null, { match: { tool: "update_reservation_baggages" } })],
      ),
      [],
    ],
    ["a write that no goal names", taskOf([certificate, cancel()], [goal("g1", cancel())]), []],
    ["flights and passengers", taskOf([flightChange, people], [goal("g1", flightChange), goal("g2", people)]), []],
    [
      "a reservation that the user does not remember",
      taskOf([cancel()], [goal("g1", cancel())], { unknown: ["reservation_id"] }),
      [],
    ],
    [
      "a limit that the details seem to break",
      taskOf([addBags(2)], [goal("g1", addBags(2), { accept: { max_extra_cost: 10 }, insist: 3 })]),
      [],
    ],
    [
      "a claim that is false",
      taskOf([cancel()], [goal("g1", cancel())], {
        claims: [{ slot: "reason", claimed: "illness", truth: "none", insist: 1 }],
      }),
      [],
    ],
    [
      "a chatty persona that tells all at once",
      taskOf([cancel()], [goal("g1", cancel())], {
        disclosure: "all_at_once",
        persona: { style: "chatty", language_tag: "de", suffix: "I am in a hurry!" },
      }),
      [],
    ],
  ])("%s", (_, task, expected) => {
    for (const peek of [true, false]) {
      const play = playTeacher(task, db, { peek });
      expectSolved(task, play);
      if (expected.length > 0) expect(calls(play)).toEqual(expected);
      expect(playTeacher(task, db, { peek })).toEqual(play);
    }
  });

  test("a booking: everything the policy wants is asked for, and the flights are searched for", () => {
    const flight = find(
      ({ flight_type, flights }) =>
        flight_type === "one_way" && flights.length === 1 && flights[0]!.date >= "2024-05-16",
    );
    const [leg] = flight.flights;
    const user = userOf(start, flight.user_id)!;
    const found = JSON.parse(
      runAction(start, {
        name: "search_direct_flight",
        kwargs: { origin: flight.origin, destination: flight.destination, date: leg!.date },
      }).observation,
    ) as { flight_number: string; prices: { economy: number }; available_seats: { economy: number } }[];
    const choice = found.find(({ available_seats }) => available_seats.economy > 0);
    const book: Call = {
      name: "book_reservation",
      kwargs: {
        user_id: flight.user_id,
        origin: flight.origin,
        destination: flight.destination,
        flight_type: "one_way",
        cabin: "economy",
        flights: [{ flight_number: choice!.flight_number, date: leg!.date }],
        passengers: [{ first_name: user.name.first_name, last_name: user.name.last_name, dob: user.dob }],
        payment_methods: [{ payment_id: cardOf(flight.user_id), amount: choice!.prices.economy }],
        total_baggages: 0,
        nonfree_baggages: 0,
        insurance: "no",
      },
    };
    const accept = {
      cabin: "economy",
      flights: [choice!.flight_number],
      dates: [leg!.date],
      max_extra_cost: choice!.prices.economy,
    };
    const task = {
      ...taskOf([book], [goal("g1", book, { accept })], { facts: { user_id: flight.user_id } }),
      user_id: flight.user_id,
    };
    const play = playTeacher(task, db);
    expectSolved(task, play);
    expect(calls(play)).toEqual(["get_user_details", "search_direct_flight", "think", "book_reservation"]);
    expect(play.turns.length).toBeLessThan(16);
  });

  test("where turns are few, it keeps to what must be", () => {
    const task = taskOf([cancel()], [goal("g1", cancel())]);
    const play = playTeacher(task, db, { max_turns: 5 });
    expectSolved(task, play);
    expect(play.turns.length).toBeLessThanOrEqual(5);
  });

  test("a write that fails is not told as done", () => {
    const bad = { ...certificate, kwargs: { ...certificate.kwargs, user_id: "nobody_at_all_1" } };
    const play = playTeacher(taskOf([bad], [goal("g1", bad)]), db);
    const said = play.turns.map(({ reply }) => (reply.kind === "say" ? reply.text : ""));
    expect(said).toContain("Unfortunately that did not work.");
    expect(said.join()).not.toContain("completed");
  });

  test("a task without a script is refused", () => {
    expect(() => playTeacher({ ...taskOf([], [goal("g1", null)]), script: null }, db)).toThrow(
      /'hand-written' has no script/,
    );
  });
});

describe("what the teacher says is heard as it is meant", () => {
  test("a question asks for its slots, in their order, and for nothing else", () => {
    for (const slot of SLOTS)
      expect(hear(question([slot]))).toMatchObject({
        slots: [slot],
        confirmation: false,
        refusal: false,
        transfer: false,
      });
    expect(hear(question(["user_id", "reservation_id", "reason"])).slots).toEqual([
      "user_id",
      "reservation_id",
      "reason",
    ]);
    expect(hear(question(["passengers", "dob", "bags"])).slots).toEqual(["passengers", "dob", "bags"]);
    expect(hear(question(["date", "return_date", "cabin"])).slots).toEqual(["date", "return_date", "cabin"]);
  });
  test("details want a yes, and ask for nothing", () => {
    for (const write of [cancel(), addBags(1), certificate])
      for (const in_full of [true, false])
        expect(hear(confirmation([{ write, cost: 50 }], in_full))).toMatchObject({
          slots: [],
          confirmation: true,
          refusal: false,
          transfer: false,
        });
  });
  test("reports, answers and goodbyes are neither questions nor refusals; refusals are refusals alone", () => {
    const plain = { slots: [], confirmation: false, refusal: false, transfer: false };
    for (const text of [report([cancel(), certificate], ["42"]), answerText(["42"]), GOODBYE])
      expect(hear(text)).toMatchObject(plain);
    for (const [times, limited] of [
      [0, false],
      [1, false],
      [0, true],
    ] as const)
      expect(hear(refusal(times, limited, ["42"]))).toMatchObject({ ...plain, refusal: true });
  });
  test("a goodbye is not the stop token", () => {
    expect(GOODBYE).not.toContain(STOP_TOKEN);
  });
});

test("the plan: writes by goal, those without one where they can still be done", () => {
  const task = taskOf([addBags(1), certificate, addBags(2), cancel()], [goal("g1", addBags(1)), goal("g2", cancel())]);
  expect(planOf(task).blocks.map(({ goal: of, writes }) => [of, writes.map(({ name }) => name)])).toEqual([
    ["g1", ["update_reservation_baggages"]],
    ["g2", ["send_certificate", "update_reservation_baggages", "cancel_reservation"]],
  ]);
});
