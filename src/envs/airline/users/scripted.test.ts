import { describe, expect, test } from "vitest";
import { createRandom, type Random } from "../../../core/random.ts";
import { PyFloat, type PyValue } from "../data/python-values.ts";
import { readScript, WRITE_TOOLS } from "./script.ts";
import { openScripted, type ScriptedState, scriptedUser, stepScripted } from "./scripted.ts";
import { STOP_TOKEN, type UserTask, type WriteCall } from "./types.ts";

const BASE = {
  persona: { style: "neutral" },
  opening: ["g1"],
  facts: {
    user_id: "mia_li_1234",
    reservation_id: "ABC123",
    reason: "change of plan",
    payment: ["gift_card_1", "credit_card_2"],
  },
  goals: [
    {
      id: "g1",
      kind: "cancel",
      say: "cancel trip ABC123",
      match: { tool: "cancel_reservation", kwargs: { reservation_id: "ABC123" } },
    },
  ],
};

const cancelled: WriteCall = { name: "cancel_reservation", kwargs: { reservation_id: "ABC123" } };
const bags: WriteCall = {
  name: "update_reservation_baggages",
  kwargs: { reservation_id: "ABC123", total_baggages: 2 },
};

function taskOf(changes: Record<string, unknown> = {}): UserTask {
  return { id: "t1", instruction: "", script: readScript({ ...BASE, ...changes }, "t1") };
}
const goal = (changes: Record<string, unknown>) => ({ ...BASE.goals[0]!, ...changes });
const goals = (...list: Record<string, unknown>[]) => ({
  goals: list.map((one, i) => goal({ id: `g${i + 1}`, ...one })),
});

/** Plays agent texts (with the writes before each) and gives the user's answers, the opening first. */
function play(task: UserTask, turns: (string | [string, ...WriteCall[]])[], peek = true): string[] {
  let { state, text } = openScripted(task);
  const said = [text];
  for (const turn of turns) {
    const [agent, ...writes] = typeof turn === "string" ? [turn] : turn;
    ({ state, text } = stepScripted(task, state, agent, { writes }, { peek }));
    said.push(text);
  }
  return said;
}
const last = (...args: Parameters<typeof play>): string => play(...args).at(-1)!;

describe("the opening", () => {
  test("greets with the opening goals, and keeps the user id for later", () => {
    const [opening] = play(taskOf({ ...goals({}, { say: "add a bag" }), opening: ["g1", "g2"] }), []);
    expect(opening).toMatch(/cancel trip ABC123.*add a bag/);
    expect(opening).not.toContain("mia_li");
  });
  test("tells the user id at once where the user tells all", () => {
    expect(play(taskOf({ disclosure: "all_at_once" }), [])[0]).toContain("mia_li_1234");
  });
  test("a persona: a word of its language, its suffix, its style", () => {
    const persona = { style: "terse", language_tag: "fr", suffix: "Hurry up." };
    const [opening, stop] = play(taskOf({ persona }), [["Done.", cancelled]]);
    expect(opening).toMatch(/^Bonjour !.*cancel trip ABC123\. Hurry up\.$/);
    expect(stop).toBe(STOP_TOKEN);
  });
});

describe("rule 1: goals that are met", () => {
  test("the last goal's write ends the dialogue by the stop token alone", () => {
    expect(last(taskOf(), [["Your trip is cancelled.", cancelled]])).toBe(STOP_TOKEN);
  });
  test("a write with other arguments, or of another tool, is not it", () => {
    expect(last(taskOf(), [["Done.", { name: "cancel_reservation", kwargs: { reservation_id: "XYZ999" } }]])).not.toBe(
      STOP_TOKEN,
    );
    expect(last(taskOf(), [["Done.", bags]])).not.toBe(STOP_TOKEN);
  });
  test("arguments that the pattern leaves out are free, numbers count by value, dicts and plain objects alike", () => {
    const task = taskOf(goals({ match: { tool: "send_certificate", kwargs: { amount: 50 } } }));
    const kwargs = new Map<string, PyValue>([
      ["user_id", "x"],
      ["amount", new PyFloat(50)],
    ]);
    expect(last(task, [["Sent.", { name: "send_certificate", kwargs }]])).toBe(STOP_TOKEN);
    expect(last(task, [["Sent.", { name: "send_certificate", kwargs: { amount: "50" } }]])).not.toBe(STOP_TOKEN);
  });
  test("the next goal in list order is said next", () => {
    const task = taskOf(goals({}, { say: "add a bag", match: { tool: bags.name } }));
    expect(
      play(task, [
        ["Cancelled.", cancelled],
        ["Added.", bags],
      ]).slice(1),
    ).toEqual([expect.stringContaining("add a bag"), STOP_TOKEN]);
  });
  test("on_done goes over goals between", () => {
    const task = taskOf(
      goals({ on_done: "g3", on_refused: "g2" }, { say: "second" }, { say: "third", match: { tool: bags.name } }),
    );
    expect(
      play(task, [
        ["Cancelled.", cancelled],
        ["Added.", bags],
      ]).slice(1),
    ).toEqual([expect.stringContaining("third"), STOP_TOKEN]);
  });
  test("two goals met in one turn, in either order of the writes", () => {
    const task = taskOf(goals({}, { say: "add a bag", match: { tool: bags.name } }));
    for (const writes of [
      [cancelled, bags],
      [bags, cancelled],
    ])
      expect(last(task, [["Both are done.", ...writes]])).toBe(STOP_TOKEN);
  });
  test("a write that came before its goal's turn still counts, once", () => {
    const task = taskOf(
      goals({}, { say: "add a bag", match: { tool: bags.name } }, { say: "another bag", match: { tool: bags.name } }),
    );
    expect(
      play(task, [
        ["The bag is in.", bags],
        ["Cancelled.", cancelled],
        ["Again.", bags],
      ]).slice(2),
    ).toEqual([expect.stringContaining("another bag"), STOP_TOKEN]);
  });
  test("a text that still needs a yes is answered first, and the stop token comes next, whatever is said", () => {
    const answers = play(taskOf(), [
      ["It is cancelled. Shall I send a mail?", cancelled],
      "What is your user id?",
      "Hello?",
    ]);
    expect(answers.slice(1)).toEqual([expect.stringMatching(/^Yes/), STOP_TOKEN, STOP_TOKEN]);
  });
  test("a goal without a write is met by what the agent says, commas or not, in one text or two", () => {
    const task = taskOf(goals({ match: { tool: null, said: ["1786", "Gold"] } }));
    expect(last(task, ["It is $1,786, and you are a GOLD member."])).toBe(STOP_TOKEN);
    expect(play(task, ["It is 1,786.", "You are gold."])[2]).toBe(STOP_TOKEN);
    expect(last(task, ["It is 1,785, gold."])).not.toBe(STOP_TOKEN);
  });
  test("without peeking the agent's words count, for one write at most", () => {
    const task = taskOf(goals({}, { say: "add a bag", match: { tool: bags.name } }));
    const told = ["Your trip has been cancelled.", "I have added the bag."];
    expect(play(task, told, false).slice(1)).toEqual([expect.stringContaining("add a bag"), STOP_TOKEN]);
    expect(last(task, [["Hm.", cancelled, bags]], false)).not.toBe(STOP_TOKEN);
    expect(last(task, ["Your reservation has been found."], false)).not.toBe(STOP_TOKEN);
  });
});

describe("rule 2: slots that are asked for", () => {
  const asked = (text: string, changes = {}) => last(taskOf(changes), [text]);
  test("facts, in order of appearance", () => {
    expect(asked("What is the reason, and could you share your user id?")).toMatch(/change of plan.*mia_li_1234/s);
    expect(asked("Please provide your payment method.")).toMatch(/gift_card_1 and credit_card_2/);
  });
  test.each([
    ["a mere mention", "I have your reservation id here."],
    ["in another sentence", "Your user id is fine. May we go on?"],
  ])("%s is no question", (_, text) => {
    expect(asked(text)).not.toMatch(/reservation id|mia_li/i);
  });
  test("at most three a message, but all where the user tells all", () => {
    const text = "May I have your user id, reservation id, the reason and your payment method?";
    expect(asked(text)).not.toContain("gift_card_1");
    expect(asked(text, { disclosure: "all_at_once" })).toContain("gift_card_1");
  });
  test("unknown before in_profile before facts; a missing fact is no preference", () => {
    const script = { unknown: ["reservation_id"], in_profile: ["reservation_id", "dob"] };
    expect(asked("What is your reservation number?", script)).toContain("I don't remember");
    expect(asked("What is your date of birth?", script)).toContain("it is in my profile");
    expect(asked("Which cabin do you want?")).toContain("I have no preference");
  });
  test("a claim is held on to, then conceded (claim concession)", () => {
    const task = taskOf({ claims: [{ slot: "passenger_count", claimed: 3, truth: 1, insist: 2 }] });
    const said = play(task, [
      "How many passengers are there?",
      "How many passengers really?",
      "I see one. How many passengers?",
    ]);
    expect(said.slice(1)).toEqual([
      expect.stringMatching(/number of passengers is 3|Number of passengers: 3/i),
      expect.stringMatching(/3\.$/),
      expect.stringMatching(/admit|honest/),
    ]);
    expect(said[3]).toContain("1");
  });
});

describe("rule 3: what needs a yes", () => {
  const accept = { max_extra_cost: 100, cabin: "economy", flights: ["SYN001"], dates: ["2024-05-20"] };
  const answer = (text: string) => last(taskOf(goals({ accept })), [text]);
  test.each([
    "Shall I go ahead?",
    "It costs $100. Do you confirm (yes/no)?",
    "SYN001 on 2024-05-20 in economy for $99.50. Would you like me to book it?",
    "I move you from business to economy, from SYN009 to SYN001 and from 2024-05-21 to May 20. Is that okay?",
    "You pay $60 and you are refunded $1,200. Please confirm.",
  ])("yes: %s", (text) => {
    expect(answer(text)).toMatch(/^Yes/);
  });
  test.each([
    ["It costs $1,100. Shall I proceed?", "$100"],
    ["It costs 101 dollars. Shall I proceed?", "$100"],
    ["I would book SYN002. Is that ok?", "SYN001"],
    ["It leaves on 2024-05-21. Do you want me to book it?", "2024-05-20"],
    ["It leaves on May 21st. Do you want me to book it?", "2024-05-20"],
    ["Basic economy it is. Please confirm.", "economy"],
    ["SYN002 in business for $500: shall I?", "$100"],
  ])("no, with the first wish that it breaks: %s", (text, wish) => {
    const said = answer(text);
    expect(said).toMatch(/^No/);
    expect(said).toContain(wish);
  });
  test("slot answers come first, the yes second", () => {
    expect(last(taskOf(), ["Could you tell me the reason? Then I would proceed."])).toMatch(/change of plan.*Yes/s);
  });
  test("after so many noes the goal moves to on_refused (limit rejection)", () => {
    const two = (insist: number) => taskOf(goals({ accept, insist, on_refused: "g2" }, { say: "add a bag" }));
    expect(last(two(1), ["$500, shall I proceed?"])).toMatch(/^No.*add a bag/s);
    const said = play(two(2), ["$500, shall I proceed?", "$400, shall I proceed?"]);
    expect(said[1]).not.toContain("add a bag");
    expect(said[2]).toContain("add a bag");
  });
  test("without on_refused the user stays with the wish", () => {
    const said = play(taskOf(goals({ accept })), [
      "$500, shall I proceed?",
      "$50, shall I proceed?",
      ["Done.", cancelled],
    ]);
    expect(said.slice(2)).toEqual([expect.stringMatching(/^Yes/), STOP_TOKEN]);
  });
  test("a reservation's id is no flight", () => {
    expect(last(taskOf(goals({ accept })), ["I change ABC123 to SYN001, shall I proceed?"])).toMatch(/^Yes/);
  });
  test("a confirmation number is an id, and no question for a yes", () => {
    expect(last(taskOf(), ["Could you give me the confirmation number?"])).not.toContain("Yes");
  });
});

describe("rule 4: refusals", () => {
  const refused = "Unfortunately our policy does not allow it.";
  test("the user insists so many times, then goes to another goal", () => {
    const task = taskOf(goals({ insist: 2, on_refused: "g2" }, { say: "add a bag" }));
    const said = play(task, [refused, "I can't do that.", "It is not possible."]);
    expect(said[1]).toContain("cancel trip ABC123");
    expect(said[2]).toContain("cancel trip ABC123");
    expect(said[3]).toContain("add a bag");
  });
  test("accept: gives in, and leaves with the next turn", () => {
    expect(play(taskOf(goals({ on_refused: "accept" })), [refused, "Have a nice day."]).slice(1)).toEqual([
      expect.stringMatching(/leave/),
      STOP_TOKEN,
    ]);
  });
  test("stop: leaves at once", () => {
    expect(last(taskOf(goals({ on_refused: "stop" })), [refused])).toBe(STOP_TOKEN);
  });
  test("not where a question is asked too", () => {
    expect(last(taskOf(), ["I can't find it. What is your user id?"])).toContain("mia_li_1234");
  });
});

describe("rule 5: transfers", () => {
  const announced = "I will transfer you to a human agent.";
  test("one that the goal expects is welcome", () => {
    const task = taskOf(goals({ match: { tool: "transfer_to_human_agents" } }));
    const said = play(task, ["Unfortunately I can't do it, so I'm transferring you to a human agent.", "One moment."]);
    expect(said[1]).toMatch(/^Yes/);
    expect(said[2]).toBe(STOP_TOKEN);
  });
  test.each([
    announced,
    "Would you like me to transfer you to a human agent?",
    "Let me connect you with a specialist.",
  ])("one that it does not expect is declined once: %s", (text) => {
    const said = play(taskOf(), [text, text, "Goodbye."]);
    expect(said[1]).toContain("transfer");
    expect(said[1]).toContain("cancel trip ABC123");
    expect(said[1]).not.toMatch(/\bYes\b/);
    expect(said[2]).not.toContain("cancel trip");
    expect(said[3]).toBe(STOP_TOKEN);
  });
});

describe("rule 6 and the end", () => {
  test.each(["", "   ", "Hello!", "<think>What is your user id?</think>"])("the goal is said again to %j", (text) => {
    expect(last(taskOf(), [text])).toContain("cancel trip ABC123");
  });
  test("the fourth turn in a row that brings nothing ends it (stall stop)", () => {
    expect(play(taskOf(), ["a", "b", "c", "d"]).map((text) => text === STOP_TOKEN)).toEqual([
      false,
      false,
      false,
      false,
      true,
    ]);
  });
  test("a new slot, a new question for a yes and a new goal each begin the count anew; the same ones do not", () => {
    const ask = "What is your user id?";
    const yes = "Shall I proceed?";
    expect(play(taskOf(), ["a", "b", "c", ask, ask, ask, ask]).at(-1)).not.toBe(STOP_TOKEN);
    expect(last(taskOf(), ["a", "b", "c", ask, ask, ask, ask, ask])).toBe(STOP_TOKEN);
    expect(last(taskOf(), ["a", "b", "c", yes, yes, yes, yes])).not.toBe(STOP_TOKEN);
    expect(last(taskOf(), ["a", "b", "c", yes, yes, yes, yes, yes])).toBe(STOP_TOKEN);
  });
  test("thinking neither asks nor ends: <think>maybe ###STOP###</think>Hello", () => {
    const said = last(taskOf(), ["<think>maybe ###STOP###, what is your user id?</think>Hello"]);
    expect(said).not.toBe(STOP_TOKEN);
    expect(said).not.toContain("mia_li");
  });
  test("after the end the stop token comes for good", () => {
    expect(play(taskOf(), [["x", cancelled], "What is your user id?", ["y", bags]]).slice(1)).toEqual([
      STOP_TOKEN,
      STOP_TOKEN,
      STOP_TOKEN,
    ]);
  });
  test("a stop token among a script's own words does not end anything", () => {
    expect(play(taskOf(goals({ say: `cancel it ${STOP_TOKEN}` })), [])[0]).not.toContain(STOP_TOKEN);
  });
});

test("a task without a script is refused", async () => {
  const user = scriptedUser({ peek: true });
  const context = { draw: 0, signal: new AbortController().signal };
  await expect(user.reset({ id: "t9", instruction: "x" }, context)).rejects.toThrow(
    /task 't9' has no script.*Choose user.strategy llm, .* or silent/,
  );
});

describe("script records", () => {
  test.each<[string, Record<string, unknown>, RegExp]>([
    ["an unknown slot", { facts: { shoe_size: "42" } }, /^t1: script: facts/],
    ["an opening that points nowhere", { opening: ["g7"] }, /opening\.0: there is no goal 'g7'; the goals are g1/],
    [
      "on_refused that points nowhere",
      goals({ on_refused: "later" }),
      /goals\.0\.on_refused: there is no goal 'later'; expected "accept"/,
    ],
    ["on_done that points nowhere", goals({ on_done: "g4" }), /goals\.0\.on_done: there is no goal 'g4'/],
    ["a goal twice", { goals: [goal({}), goal({})] }, /goals\.1\.id: 'g1' is the id of an earlier goal/],
    ["a goal that follows itself", goals({ on_refused: "g1" }), /goal 'g1' follows itself/],
    ["a goal that is never reached", { ...goals({ on_done: "g3" }, {}, {}) }, /goals\.1: goal 'g2' is never reached/],
    [
      "a word of on_refused as id",
      { opening: ["stop"], goals: [goal({ id: "stop" })] },
      /'stop' is a word of on_refused/,
    ],
    [
      "a tool that reads",
      goals({ match: { tool: "calculate" } }),
      /goals\.0\.match: expected \{"tool": book_reservation/,
    ],
    ["a key that nobody reads", goals({ insistt: 1 }), /goals\.0: Unrecognized key: "insistt"/],
    ["a cabin that is none", goals({ accept: { cabin: "first" } }), /goals\.0\.accept\.cabin/],
    [
      "two claims of one slot",
      { claims: [1, 2].map((insist) => ({ slot: "dob", claimed: "a", truth: "b", insist })) },
      /claims\.1\.slot: 'dob' is claimed twice/,
    ],
    ["no goals", { goals: [] }, /goals/],
  ])("%s", (_, changes, message) => {
    expect(() => taskOf(changes)).toThrow(message);
  });
  test("the record of the documentation is taken as it stands", () => {
    const record = {
      persona: { style: "terse", language_tag: null, suffix: null },
      opening: ["g1"],
      disclosure: "on_request",
      facts: { user_id: "x", reservation_id: "ABC123", payment: ["certificate_1", "credit_card_2"] },
      unknown: ["reservation_id"],
      in_profile: ["dob"],
      claims: [{ slot: "passenger_count", claimed: "3", truth: "1", insist: 2 }],
      goals: [
        {
          ...BASE.goals[0],
          accept: { max_extra_cost: 100, cabin: "economy" },
          insist: 1,
          on_refused: "g2",
          on_done: "g3",
        },
        { id: "g2", kind: "bags", say: "b", match: { tool: null, said: ["1786"] } },
        { id: "g3", kind: "transfer", say: "c", match: { tool: "transfer_to_human_agents" } },
      ],
    };
    expect(readScript(record, "x").goals[0]!.accept).toEqual({ max_extra_cost: 100, cabin: ["economy"] });
  });
});

describe("whatever an agent says and does", () => {
  const task = taskOf({
    ...goals(
      { insist: 1, on_refused: "g2", on_done: "g3", accept: { max_extra_cost: 50, cabin: "economy" } },
      { say: "add a bag", match: { tool: bags.name }, on_refused: "g4" },
      { say: "tell me the sum", match: { tool: null, said: ["42"] }, on_refused: "stop" },
      { say: "get a human", match: { tool: "transfer_to_human_agents" } },
    ),
    claims: [{ slot: "passenger_count", claimed: 3, truth: 1, insist: 2 }],
    unknown: ["reservation_id"],
  });
  const words = [
    "what is your user id?",
    "please provide: \n1. cabin\n2. dob\n- bags",
    "could you share your reason",
    "how many passengers?",
    "$500, shall i proceed?",
    "confirm (yes/no)",
    "unfortunately",
    "i cannot",
    "transfer you to a human",
    "42",
    "<think>",
    "</think>",
    STOP_TOKEN,
    "has been cancelled",
    "\u0000\ud800",
    "1,2,3",
    "may 99",
  ];
  const names = [...WRITE_TOOLS, "think", "__proto__", ""];

  /** Known words and any characters at all. */
  function agentText(random: Random): string {
    const parts = Array.from({ length: random.int(4) }, () =>
      random.int(4) > 0
        ? random.pick(words)
        : String.fromCharCode(...Array.from({ length: random.int(30) }, () => random.int(random.pick([128, 0x10000])))),
    );
    return parts.join(random.pick([" ", "\n", ". ", "? "]));
  }
  function anyWrite(random: Random): WriteCall {
    if (random.int(2) === 0) return random.pick([cancelled, bags]);
    const values = [null, 1.5, "ABC123", [], { a: [1] }, new Map([["b", 2]]), new PyFloat(2)];
    return {
      name: random.pick(names),
      kwargs: { reservation_id: random.pick(values), total_baggages: random.pick(values) },
    };
  }

  test("it never throws, always ends, the stop token stands alone and is the last word, and no state is changed in place: 2,000 episodes", () => {
    const ends = { stop: 0, turns: 0 };
    for (let seed = 0; seed < 2000; seed++) {
      const random = createRandom(seed);
      const peek = random.int(2) === 0;
      let { state, text } = openScripted(task);
      let turn = 0;
      for (; turn < 30 && text !== STOP_TOKEN; turn++) {
        const before = JSON.stringify(state);
        const writes = Array.from({ length: random.int(3) }, () => anyWrite(random));
        const next = stepScripted(task, state, agentText(random), { writes }, { peek });
        if (JSON.stringify(state) !== before) expect.fail(`seed ${seed} changes a state in place`);
        if (next.text === "" || (next.text.includes(STOP_TOKEN) && next.text !== STOP_TOKEN))
          expect.fail(`seed ${seed}: ${next.text}`);
        ({ state, text } = next);
      }
      ends[text === STOP_TOKEN ? "stop" : "turns"]++;
      if (text === STOP_TOKEN)
        expect(stepScripted(task, state, agentText(random), { writes: [] }, { peek }).text).toBe(STOP_TOKEN);
    }
    expect(ends.stop).toBeGreaterThan(1500);
  }, 60_000);

  test("an agent that goes on for ever is left in the end", () => {
    let { state, text }: { state: ScriptedState; text: string } = openScripted(task);
    let turn = 0;
    while (text !== STOP_TOKEN && turn < 1000)
      ({ state, text } = stepScripted(task, state, `Shall I take no. ${turn++}?`, { writes: [] }, { peek: true }));
    expect(turn).toBeLessThan(300);
  });

  test("the same transcript twice, and the state may be kept as JSON in between", () => {
    const texts = [
      "What is your user id?",
      "Unfortunately not.",
      "$500, shall I proceed?",
      "It is 42.",
      "transferring you to a human",
    ];
    expect(play(task, texts)).toEqual(play(task, texts));
    let { state } = openScripted(task);
    const said = texts.map((text) => {
      const next = stepScripted(
        task,
        JSON.parse(JSON.stringify(state)) as ScriptedState,
        text,
        { writes: [] },
        { peek: true },
      );
      state = next.state;
      return next.text;
    });
    expect(said).toEqual(play(task, texts).slice(1));
  });
});
