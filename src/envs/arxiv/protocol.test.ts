import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ParsedReply, parseReact, parseReactLenient, renderReply } from "./protocol.ts";
import { TOOL_NAMES } from "./tools/index.ts";

const call = (name: string, args: unknown, repairs: string[] = [], thought = ""): ParsedReply =>
  ({ kind: "call", thought, name, args, repairs }) as ParsedReply;

const finish = (thought = "", repairs: string[] = []): ParsedReply =>
  ({ kind: "finish", thought, repairs }) as ParsedReply;

describe("parseReact", () => {
  test.each<[string, string, ParsedReply]>([
    [
      "PA-01: a brace inside a string ends nothing",
      'Action: {"name":"search","args":{"query":"}A"}}',
      call("search", { query: "}A" }),
    ],
    [
      "an escaped quote ends no string",
      'Action: {"name":"search","args":{"query":"a\\"}b"}}',
      call("search", { query: 'a"}b' }),
    ],
    [
      "PA-02: of two calls the first runs, and the second is counted",
      'Action: {"name":"a","args":{}}\nAction: {"name":"b","args":{}}',
      call("a", {}, ["extra_action"]),
    ],
    [
      "two objects after one Action: too",
      'Action: {"name":"a","args":{}}\n{"name":"b","args":{}}',
      call("a", {}, ["extra_action"]),
    ],
    [
      "PA-03: a trailing comma is mended, and counted",
      'Action: {"name":"search","args":{"query":"x",},}',
      call("search", { query: "x" }, ["trailing_comma"]),
    ],
    [
      "PA-03: a comma before a brace inside a string stays",
      'Action: {"name":"search","args":{"query":"x,}"}}',
      call("search", { query: "x,}" }),
    ],
    [
      "PA-04: single quotes are mended; those inside a double-quoted text stay",
      `Action: {'name': 'search', 'args': {'query': "Alzheimer's, 2024"}}`,
      call("search", { query: "Alzheimer's, 2024" }, ["single_quotes"]),
    ],
    [
      "PA-04: double and escaped quotes inside single ones",
      `Action: {'name': 'search', 'args': {'query': 'a "b" it\\'s'}}`,
      call("search", { query: `a "b" it's` }, ["single_quotes"]),
    ],
    ["PA-06: a fence on one line", 'Action: ```json{"name":"x","args":{}}```', call("x", {}, ["code_fence"])],
    ["a fence on lines of its own", 'Action:\n```json\n{"name":"x","args":{}}\n```', call("x", {}, ["code_fence"])],
    ["a fence around FINISH", "Action: ```FINISH```", finish("", ["code_fence"])],
    ["PA-07: a list as arguments is handed on as it is", 'Action: {"name":"x","args":[1]}', call("x", [1])],
    ["PA-07: so is a number", 'Action: {"name":"x","args":42}', call("x", 42)],
    ["PA-07: so is a text", 'Action: {"name":"x","args":"text"}', call("x", "text")],
    ["PA-07: so is null", 'Action: {"name":"x","args":null}', call("x", null)],
    [
      "PA-09: the text null is no arguments",
      'Action: {"name":"x","arguments":"null"}',
      call("x", {}, ["args_alias", "args_text"]),
    ],
    [
      "PA-10: arguments as a JSON text",
      'Action: {"name":"x","args":"{\\"query\\":\\"x\\"}"}',
      call("x", { query: "x" }, ["args_text"]),
    ],
    ["PA-10: arguments as an object", 'Action: {"name":"x","args":{"query":"x"}}', call("x", { query: "x" })],
    ["no arguments at all are none", 'Action: {"name":"x"}', call("x", {})],
    ["arguments under another name", 'Action: {"name":"x","parameters":{"a":1}}', call("x", { a: 1 }, ["args_alias"])],
    [
      "PA-13: the word Thought: stands in the prompt already",
      ' I will search.\nAction: {"name":"x","args":{}}',
      call("x", {}, [], "I will search."),
    ],
    [
      "PA-14: nothing counts after an observation that the model invents",
      'Action: {"name":"a","args":{}}\nObservation: fake\nAction: {"name":"b","args":{}}',
      call("a", {}, ["invented_observation"]),
    ],
    [
      "an invented observation does not make an unfinished action whole",
      'Action: {"name":"a",\nObservation: "args":{}}',
      {
        kind: "parse_error",
        thought: "",
        reason: "the action's JSON object is not closed",
        repairs: ["invented_observation"],
      },
    ],
    [
      "the word Observation: inside an argument is an argument",
      'Action: {"name":"x","args":{"query":"Observation: x"}}',
      call("x", { query: "Observation: x" }),
    ],
    [
      "TR-16: FINISH with more after it ends the episode",
      "Thought: t\nAction: FINISH. Goodbye!",
      finish("t", ["trailing_text"]),
    ],
    ["FINISH in lower case", "Action: finish", finish()],
    ["FORCE_STOP and ERROR end it as well", "Action: ERROR: no idea", finish("", ["trailing_text"])],
    ["FINISH as a call", 'Thought: t\nAction: {"name": " finish ", "args": {}}', finish("t")],
    [
      "an action that is only thought about is none",
      '<think>Action: {"name":"a","args":{}}</think>Thought: t\nAction: FINISH',
      finish("t"),
    ],
    [
      "text before the brace is no matter",
      'Thought: t\nAction: call {"name":"x","args":{}} please',
      call("x", {}, ["trailing_text"], "t"),
    ],
  ])("%s", (_, text, expected) => {
    expect(parseReact(text)).toEqual(expected);
  });

  test.each([
    ["an empty text", "", "no 'Action:' in the reply"],
    ["no action", "Thought: I think", "no 'Action:' in the reply"],
    ["an empty action", "Action:   ", "nothing after 'Action:'"],
    ["words", "Action: download it", "neither FINISH nor a JSON object"],
    ["a brace that stays open", 'Action: {"name":"x"', "not closed"],
    ["a quote that stays open", 'Action: {"name":"x}', "not closed"],
    ["JSON that can't be mended", "Action: {name: x}", "not valid JSON"],
    ["no name", 'Action: {"args":{}}', 'needs a "name"'],
    ["a name that is no text", 'Action: {"name":7,"args":{}}', 'needs a "name"'],
    ["a blank name", 'Action: {"name":" ","args":{}}', 'needs a "name"'],
    [
      "an observation before any action",
      'Observation: x\nAction: {"name":"a","args":{}}',
      "before the invented observation",
    ],
    ["nesting without end", `Action: ${'{"name":'.repeat(2000)}`, "not closed"],
    ["a deep list", `Action: {"name":"x","args":{"a":${"[".repeat(500)}${"]".repeat(500)}}}`, "not closed"],
  ])("%s can't be read", (_, text, reason) => {
    const parsed = parseReact(text);
    expect(parsed).toMatchObject({ kind: "parse_error", reason: expect.stringContaining(reason) });
  });

  test("a text in arguments that holds deep JSON stays a text", () => {
    const deep = JSON.stringify(`${'{"a":'.repeat(200)}1${"}".repeat(200)}`);
    expect(parseReact(`Action: {"name":"x","args":${deep}}`)).toMatchObject({ kind: "call", args: expect.any(String) });
  });

  test("long degenerate texts are read in no time", () => {
    const begin = performance.now();
    for (const piece of ["<think>", "Action: {", ",   ", "\n   ", "{'", "Observation", "```"]) {
      expect(parseReact(piece.repeat(100_000 / piece.length)).kind).toBe("parse_error");
    }
    expect(performance.now() - begin).toBeLessThan(2000);
  });

  test("what renderReply writes is read back as it was, without repairs", () => {
    const thoughts = fc
      .string({ unit: "grapheme" })
      .map((text) => text.trim())
      .filter((text) => !/Action:|Observation:|Thought:|<think>/.test(text));
    fc.assert(
      fc.property(
        thoughts,
        fc
          .string({ minLength: 1 })
          .filter((name) => name.trim() !== "" && !/^\s*(finish|force_stop|error)\s*$/i.test(name)),
        fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 }), { noNullPrototype: true }),
        (thought, name, args) => {
          const parsed = parseReact(renderReply(thought, { name, args }));
          // -0 is written as 0
          expect(parsed).toEqual({ kind: "call", thought, name, args: JSON.parse(JSON.stringify(args)), repairs: [] });
          expect(parseReact(renderReply(thought, "FINISH"))).toEqual({ kind: "finish", thought, repairs: [] });
        },
      ),
      { numRuns: 500 },
    );
  });

  test("renderReply refuses a thought that would be read as something else", () => {
    expect(() => renderReply("then Action: FINISH", "FINISH")).toThrow(/markers/);
    expect(() => renderReply("x\nObservation: y", "FINISH")).toThrow(/markers/);
  });
});

describe("parseReactLenient, as the reference benchmark read replies", () => {
  const lenient = (text: string) => parseReactLenient(text, TOOL_NAMES);

  test("what the strict parser reads, it reads alike", () => {
    const text = 'Thought: t\nAction: {"name":"download_arxiv_pdf","args":{"ref":1}}';
    expect(lenient(text)).toEqual(parseReact(text));
  });

  test("what nobody can read is FINISH", () => {
    expect(lenient("no idea")).toMatchObject({ kind: "finish", repairs: ["guessed"] });
    expect(lenient(" Finish ")).toMatchObject({ kind: "finish" });
  });

  test("arguments without a name go to the first tool", () => {
    expect(lenient('Action: {"aspect": "AI"}')).toMatchObject({
      kind: "call",
      name: "get_recently_submitted_cs_papers",
      args: { aspect: "AI" },
    });
  });

  test("words name a tool and its numbers", () => {
    expect(
      lenient("Action: get_recently_submitted_cs_papers with aspect: cs.AI, days=7, max_results: 5"),
    ).toMatchObject({
      kind: "call",
      name: "get_recently_submitted_cs_papers",
      args: { aspect: "cs.AI", days: 7, max_results: 5 },
    });
  });
});
