import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Message } from "../../../core/message.ts";
import { toPlain } from "../data/python-values.ts";
import { IMPLICIT_THINK } from "../prm/records.ts";
import { contextLength, cutResponse, isContaminated } from "./guards.ts";
import {
  afterCall,
  afterObservations,
  type DialogueLog,
  type Move,
  type ProtocolOptions,
  readTurn,
  startLog,
  toolMessage,
  turnFacts,
} from "./turn.ts";

const tools = new Set(["get_user_details", "list_all_airports", "think"]);
const START: Message[] = [
  { role: "system", content: "Be kind." },
  { role: "user", content: "Hello" },
];
const fresh = startLog(START);
const call = (name: string, given: unknown = {}) =>
  `<tool_call>\n${JSON.stringify({ name, arguments: given })}\n</tool_call>`;
const long = "I have to think about that. ".repeat(5);

function moves(reply: string, options: ProtocolOptions = {}, log: DialogueLog = fresh): unknown[] {
  return readTurn(log, reply, tools, options).moves.map((move) =>
    move.kind === "call" ? { ...move, arguments: toPlain(move.arguments) } : move,
  );
}

describe("what a reply asks for", () => {
  const user = { kind: "call", name: "get_user_details", arguments: { user_id: "a" }, content: "" };
  test.each<[string, string, unknown[]]>([
    ["a call", call("get_user_details", { user_id: "a" }), [user]],
    [
      "a call and text, which the user is not told",
      `I look.\n${call("get_user_details", { user_id: "a" })}`,
      [{ ...user, content: "I look." }],
    ],
    ["text", "Hello!", [{ kind: "respond", text: "Hello!" }]],
    ["TB-18: nothing", "", [{ kind: "respond", text: "" }]],
    ["TB-08: no thinking", "<think>###STOP###</think>Hi", [{ kind: "respond", text: "Hi" }]],
    ["an unknown tool", call("fly"), [{ kind: "answer", name: "fly", text: "Unknown action fly" }]],
    [
      "arguments that are a list",
      call("think", [1]),
      [{ kind: "answer", name: "think", text: "Error: arguments must be an object" }],
    ],
    [
      "arguments that are a text",
      call("think", "so"),
      [{ kind: "answer", name: "think", text: "Error: arguments must be an object" }],
    ],
    ["a call that is cut off", "<tool_call>{", [{ kind: "answer", name: null, text: "Error: malformed tool call" }]],
    ["a call that is cut off, behind text", "I look.<tool_call>{", [{ kind: "respond", text: "I look." }]],
    ["a made-up answer", "<tool_response>4</tool_response>", [{ kind: "end", by: "contaminated" }]],
    ["a made-up answer behind a call", `${call("think", {})}\n<tool_response>`, [{ kind: "end", by: "contaminated" }]],
  ])("%s", (_, reply, expected) => {
    expect(moves(reply)).toEqual(expected);
  });
});

describe("TB-15: several calls in a message", () => {
  const two = `${call("list_all_airports")}\n${call("get_user_details", { user_id: "a" })}`;

  test("the first is run; the other is counted, and has an answer that says so", () => {
    const { log, moves } = readTurn(fresh, two, tools);
    expect(moves.map(({ kind }) => kind)).toEqual(["call", "answer"]);
    expect(moves[1]).toMatchObject({ text: "Error: only one call of a message can be run" });
    expect(log.extra_calls).toBe(1);
  });

  test("or both, where the rule says so", () => {
    const { log, moves } = readTurn(fresh, two, tools, { max_calls_per_message: 2 });
    expect(moves.map(({ kind }) => kind)).toEqual(["call", "call"]);
    expect(log.extra_calls).toBe(0);
  });
});

describe("the loop guard", () => {
  function play(replies: readonly string[]): Move["kind"][] {
    let log = fresh;
    return replies.flatMap((reply) => {
      const read = readTurn(log, reply, tools);
      log = read.log;
      return read.moves.map(({ kind }) => kind);
    });
  }
  const other = (n: number) => call("get_user_details", { user_id: String(n) });

  test("the third same call among the last 20 ends the episode before it is run", () => {
    const between = Array.from({ length: 8 }, (_, n) => other(n));
    const replies = [call("think", { thought: "a" }), ...between, call("think", { thought: "a" }), ...between.slice(1)];
    expect(play([...replies, call("think", { thought: "a" })]).at(-1)).toBe("end");
    expect(play([...replies, call("think", { thought: "b" })]).at(-1)).toBe("call");
  });

  test("the same call three times among more is none", () => {
    const once = call("list_all_airports");
    const replies = [once, ...Array.from({ length: 10 }, (_, n) => other(n))];
    expect(new Set(play([...replies, ...replies.map((r) => r.replace("user_id", "id")), once]))).toEqual(
      new Set(["call"]),
    );
  });

  test("unknown tools go in circles too", () => {
    expect(play([call("fly"), call("fly"), call("fly")])).toEqual(["answer", "answer", "end"]);
  });
});

describe("the account of a dialogue", () => {
  test("a record a call that reached its tool, and one a long reply without a call", () => {
    const first = readTurn(fresh, `I look.\n${call("get_user_details", { user_id: "a", amount: 1 })}`, tools);
    const done = afterCall(first.log, first.moves[0] as Extract<Move, { kind: "call" }>, "Error: user not found");
    expect(done.records).toMatchObject([
      { tool: "get_user_details", param_str: `{"amount": 1, "user_id": "a"}`, is_error: true, content: "I look." },
    ]);
    const said = readTurn(done, long, tools);
    expect(said.log.records.map(({ tool }) => tool)).toEqual(["get_user_details", IMPLICIT_THINK]);
    expect(readTurn(said.log, long, tools).log.records).toHaveLength(2); // the same again
    for (const reply of [call("fly"), call("think", []), "<tool_call>", `${long}${call("think", [])}`])
      expect(readTurn(done, reply, tools).log.records).toHaveLength(1);
    expect(turnFacts(done, said.log, said.moves)).toMatchObject({
      records: [{ tool: IMPLICIT_THINK }],
      ended_by: null,
    });
  });

  test("a long made-up answer is an implicit think before it ends the episode", () => {
    const { log, moves } = readTurn(fresh, `${long}<tool_response>`, tools);
    expect(log.records).toHaveLength(1);
    expect(turnFacts(fresh, log, moves).ended_by).toBe("contaminated");
  });

  test("calls that can't be read, or could be once mended, are counted", () => {
    const { log, moves } = readTurn(fresh, `<tool_call>x</tool_call><tool_call>{"name": "think"</tool_call>`, tools);
    expect(log).toMatchObject({ malformed: 1, repaired: 1 });
    expect(turnFacts(fresh, log, moves)).toMatchObject({ malformed: 1, repaired: 1, extra_calls: 0 });
  });

  test("a dialogue beyond its characters ends, where it has a limit", () => {
    const full = afterObservations(fresh, [{ role: "tool", content: "x".repeat(100) }]);
    expect(moves("Hello", { max_context_chars: 100 }, full)).toEqual([{ kind: "end", by: "context" }]);
    expect(moves("Hello", {}, full)).toEqual([{ kind: "respond", text: "Hello" }]);
  });

  test("whatever the replies, the log stays as it was and what comes fits", () => {
    const pieces = fc.constantFrom(
      call("think", { thought: "a" }),
      call("fly"),
      "<tool_call>",
      "</tool_call>",
      "{",
      "x",
    );
    fc.assert(
      fc.property(fc.array(fc.array(pieces, { maxLength: 4 }), { maxLength: 30 }), (replies) => {
        let log = fresh;
        for (const reply of replies) {
          const before = structuredClone(log);
          const read = readTurn(log, reply.join(""), tools);
          expect(log).toEqual(before);
          expect(read.moves.length).toBeGreaterThan(0);
          log = read.log;
          for (const move of read.moves) if (move.kind === "call") log = afterCall(log, move, "");
          JSON.stringify(log);
        }
      }),
      { numRuns: 50 },
    );
  });
});

test("a tool's text is cut in the middle, where it has a limit", () => {
  expect(cutResponse("x".repeat(300), null)).toHaveLength(300);
  expect(cutResponse("x".repeat(256), 256)).toHaveLength(256);
  expect(cutResponse(`${"a".repeat(200)}${"🙂".repeat(200)}`, 256)).toBe(
    `${"a".repeat(128)}...(truncated)...${"🙂".repeat(128)}`,
  );
  expect(toolMessage("Error: x")).toEqual({ role: "tool", content: "Error: x", is_error: true });
  expect(toolMessage("Unknown action x")).toMatchObject({ is_error: true });
  expect(toolMessage("{}")).toEqual({ role: "tool", content: "{}" });
  expect(toolMessage("x".repeat(300), { tool_response_max_chars: 10 }).content).toBe("xxxxx...(truncated)...xxxxx");
});

test("a context's length counts texts, names and arguments", () => {
  const dialogue: Message[] = [
    { role: "system", content: "s".repeat(100) },
    { role: "user", content: "u".repeat(300) },
    { role: "assistant", content: "", tool_calls: [{ name: "think", arguments: { thought: "é" } }] },
    { role: "tool", content: "t".repeat(2000) },
  ];
  expect(contextLength(dialogue)).toBe(100 + 300 + 5 + `{"thought": "é"}`.length + 2000);
});

test("tags of a tool's answer are the environment's", () => {
  expect(isContaminated("</tool_response>")).toBe(true);
  expect(isContaminated("tool_response")).toBe(false);
});
