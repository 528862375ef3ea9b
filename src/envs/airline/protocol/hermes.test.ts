import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromPlain, PyFloat, toPlain } from "../data/python-values.ts";
import { parseHermes, readHermes, renderCall, renderReply } from "./hermes.ts";

const tag = (body: string) => `<tool_call>\n${body}\n</tool_call>`;
const A = `{"name": "a", "arguments": {"x": 1}}`;
const B = `{"name": "b", "arguments": {}}`;

interface Row {
  what: string;
  reply: string;
  kind: string;
  calls?: [name: string, given: unknown][];
  text?: string;
  spoken?: string;
  malformed?: number;
  repaired?: number;
}

const rows: Row[] = [
  { what: "one call", reply: tag(A), kind: "calls", calls: [["a", { x: 1 }]] },
  {
    what: "two calls (PA-02)",
    reply: `${tag(A)}\n${tag(B)}`,
    kind: "calls",
    calls: [
      ["a", { x: 1 }],
      ["b", {}],
    ],
  },
  { what: "text and call", reply: `I look.\n${tag(A)}`, kind: "calls", calls: [["a", { x: 1 }]], text: "I look." },
  { what: "text around", reply: `One ${tag(A)} two`, kind: "calls", calls: [["a", { x: 1 }]], text: "One  two" },
  { what: "no call", reply: " Hello there. ", kind: "text", text: "Hello there." },
  { what: "nothing", reply: "", kind: "text", text: "" },
  { what: "on one line", reply: `<tool_call>${A}</tool_call>`, kind: "calls", calls: [["a", { x: 1 }]] },
  {
    what: "nested braces, and braces in texts (PA-01)",
    reply: tag(`{"name": "a", "arguments": {"q": "}A{\\"", "r": {"s": [{"t": {}}]}}}`),
    kind: "calls",
    calls: [["a", { q: '}A{"', r: { s: [{ t: {} }] } }]],
  },
  {
    what: "text around the JSON is cut",
    reply: tag(`call: ${A}} now!`),
    kind: "calls",
    calls: [["a", { x: 1 }]],
    repaired: 1,
  },
  {
    what: "a fence around it (PA-06)",
    reply: tag(`\`\`\`json${A}\`\`\``),
    kind: "calls",
    calls: [["a", { x: 1 }]],
    repaired: 1,
  },
  {
    what: "missing closers are added",
    reply: tag(`{"name": "a", "arguments": {"x": [{"y": 1`),
    kind: "calls",
    calls: [["a", { x: [{ y: 1 }] }]],
    repaired: 1,
  },
  {
    what: "one missing closer",
    reply: tag(`{"name": "a", "arguments": {"x": 1}`),
    kind: "calls",
    calls: [["a", { x: 1 }]],
    repaired: 1,
  },
  {
    what: "a text that never ends",
    reply: tag(`{"name": "a", "arguments": {"x": "y`),
    kind: "malformed",
    malformed: 1,
  },
  { what: "brackets that cross", reply: tag(`{"name": "a", "arguments": [1}}`), kind: "malformed", malformed: 1 },
  { what: "a comma too many", reply: tag(`{"name": "a", "arguments": {"x": 1,}}`), kind: "malformed", malformed: 1 },
  { what: "single quotes", reply: tag(`{'name': 'a', 'arguments': {}}`), kind: "malformed", malformed: 1 },
  { what: "no JSON at all", reply: tag("a(x=1)"), kind: "malformed", malformed: 1 },
  { what: "empty tags", reply: "<tool_call></tool_call>", kind: "malformed", malformed: 1 },
  { what: "no name", reply: tag(`{"arguments": {}}`), kind: "malformed", malformed: 1 },
  { what: "a name that is no text", reply: tag(`{"name": 1, "arguments": {}}`), kind: "malformed", malformed: 1 },
  { what: "a list of calls", reply: tag(`[${A}]`), kind: "malformed", malformed: 1 },
  { what: "not closed", reply: `<tool_call>\n${A}`, kind: "malformed", malformed: 1 },
  {
    what: "not closed, behind text",
    reply: `I look.\n<tool_call>\n${A}`,
    kind: "text",
    text: `I look.\n<tool_call>\n${A}`,
    spoken: "I look.",
    malformed: 1,
  },
  {
    what: "malformed, beside text",
    reply: `I look.\n${tag("{")}`,
    kind: "text",
    text: `I look.\n${tag("{")}`,
    spoken: "I look.",
    malformed: 1,
  },
  {
    what: "a good one behind a broken one",
    reply: tag("{") + tag(B),
    kind: "calls",
    calls: [["b", {}]],
    malformed: 1,
  },
  {
    what: "a good one before one that is not closed",
    reply: `${tag(A)}<tool_call>{"na`,
    kind: "calls",
    calls: [["a", { x: 1 }]],
    malformed: 1,
  },
  { what: "a closing tag alone", reply: `${A}</tool_call>`, kind: "text", text: `${A}</tool_call>` },
  {
    what: "arguments as a text (PA-10)",
    reply: tag(`{"name": "a", "arguments": "{\\"x\\": 1}"}`),
    kind: "calls",
    calls: [["a", { x: 1 }]],
  },
  {
    what: "arguments as the text null (PA-09)",
    reply: tag(`{"name": "a", "arguments": "null"}`),
    kind: "calls",
    calls: [["a", {}]],
  },
  { what: "no arguments", reply: tag(`{"name": "a"}`), kind: "calls", calls: [["a", {}]] },
  ...[[1], 42, "text", null].map((given) => ({
    what: `arguments ${JSON.stringify(given)} (PA-07)`,
    reply: tag(JSON.stringify({ name: "a", arguments: given })),
    kind: "calls",
    calls: [["a", given]] as [string, unknown][],
  })),
  { what: "an unknown tool", reply: tag(`{"name": "fly", "arguments": {}}`), kind: "calls", calls: [["fly", {}]] },
  { what: "TB-08: thinking is nobody's", reply: "<think>maybe ###STOP###</think>Hello", kind: "text", text: "Hello" },
  { what: "a call in thinking", reply: `<think>${tag(A)}</think>${tag(B)}`, kind: "calls", calls: [["b", {}]] },
  { what: "thinking that the prompt opened", reply: "so be it</think>\n\nHello", kind: "text", text: "Hello" },
  { what: "thinking by its other name", reply: `<Thinking>${tag(A)}</thinking>Hello`, kind: "text", text: "Hello" },
  { what: "thinking that never ends", reply: "Hello <think>and then", kind: "text", text: "Hello" },
];

test.each(rows)("$what", ({ reply, kind, calls = [], text = "", malformed = 0, repaired = 0, ...row }) => {
  const read = parseHermes(reply);
  expect(read.calls.map((call) => [call.name, toPlain(call.arguments)])).toEqual(calls);
  const { spoken = text } = row;
  expect({ ...read, calls: 0 }).toEqual({ kind, calls: 0, text, spoken, malformed, repaired });
  expect(readHermes(reply)).toEqual({
    kind,
    calls: calls.map(([name, given]) => ({ name, arguments: given })),
    text,
  });
});

test("numbers are kept as they were written", () => {
  const { calls } = parseHermes(tag(`{"name": "a", "arguments": {"x": 100.0, "y": 100, "z": 12345678901234567890}}`));
  expect(calls[0]!.arguments).toEqual(
    new Map<string, unknown>([
      ["x", new PyFloat(100)],
      ["y", 100],
      ["z", 12345678901234567890n],
    ]),
  );
  expect(renderCall(calls[0]!)).toBe(
    tag(`{"name": "a", "arguments": {"x": 100.0, "y": 100, "z": 12345678901234567890}}`),
  );
  expect(JSON.stringify(readHermes(renderCall(calls[0]!)))).toContain(`"x":100,"y":100,"z":12345678901234567000`);
});

test("deep nesting is malformed, not an exhausted stack; long rubbish is read in no time", () => {
  const begin = process.cpuUsage();
  expect(parseHermes(tag(`{"name": "a", "arguments": {"x": ${"[".repeat(100_000)}`)).kind).toBe("malformed");
  expect(parseHermes("<think>".repeat(50_000)).kind).toBe("text");
  expect(parseHermes("<tool_call>".repeat(50_000)).kind).toBe("malformed");
  expect(parseHermes("</think>".repeat(50_000)).text).toBe("");
  expect(parseHermes("<tool_call></tool_call>".repeat(50_000)).malformed).toBe(50_000);
  expect(process.cpuUsage(begin).user / 1000).toBeLessThan(2000); // 40 ms; quadratic it would be minutes
});

describe("properties", () => {
  const pieces = fc.constantFrom(
    ...["<tool_call>", "</tool_call>", "<think>", "</think>", "{", "}", "[", "]", '"', "\\", ",", ":", "\n", " "],
    ...['"name"', '"arguments"', '"a"', "1", "1.0", "null", "é", "\ud83d", A, B],
  );
  const anything = fc.oneof(
    fc.string({ unit: "binary", maxLength: 60 }),
    fc.array(pieces, { maxLength: 20 }).map((parts) => parts.join("")),
  );

  test("any text can be read, and what is read can be written as JSON", () => {
    fc.assert(
      fc.property(anything, (text) => {
        const { kind, calls, malformed, spoken } = parseHermes(text);
        if (kind === "calls") expect(calls.length).toBeGreaterThan(0);
        else expect(calls).toEqual([]);
        if (kind === "malformed") expect(malformed).toBeGreaterThan(0);
        expect(spoken).not.toContain("<tool_call>");
        expect(spoken).not.toContain("<think>");
        JSON.stringify(readHermes(text));
      }),
      { numRuns: 2000 },
    );
  });

  test("what is written is read back", () => {
    const call = fc
      .record({
        name: fc.stringMatching(/^[a-z_]+$/),
        given: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
      })
      .filter(({ given }) => !JSON.stringify(given).includes("tool_call>") && !JSON.stringify(given).includes("think>"))
      .map(({ name, given }) => ({ name, arguments: fromPlain(given) }));
    fc.assert(
      fc.property(fc.constantFrom("", "I look that up."), fc.array(call, { maxLength: 3 }), (text, calls) => {
        const read = parseHermes(renderReply(text, calls));
        expect(read.calls).toEqual(calls);
        expect(read).toMatchObject({ text, malformed: 0, repaired: 0 });
      }),
    );
  });
});
