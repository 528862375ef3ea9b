import { expect, test } from "vitest";
import { toConversation } from "./conversation.ts";

const call = (name: string, args: string) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;
const read = (content: string) => toConversation([{ role: "assistant", content }])[0];

test("calls become calls, with what was said before them", () => {
  expect(read(`I look.\n${call("think", '{"thought": "é"}')}`)).toEqual({
    role: "assistant",
    content: "I look.",
    tool_calls: [{ type: "function", function: { name: "think", arguments: { thought: "é" } } }],
  });
});

test("thinking stays before the call", () => {
  const thinking = "<think>A <tool_call> would help.</think>";
  expect(read(`${thinking}\n${call("think", "{}")}`)).toMatchObject({
    content: thinking,
    tool_calls: [{ function: { name: "think", arguments: {} } }],
  });
});

test.each([
  ["text", "Good morning."],
  ["a call that is cut off", '<tool_call>{"name": "think"'],
  ["a call that had to be mended", '<tool_call>{"name": "think", "arguments": {}</tool_call>'],
  ["a list as arguments", call("think", "[1]")],
])("%s stays as it is", (_, content) => {
  expect(read(content)).toEqual({ role: "assistant", content });
});

test("what others say is kept, and nothing beside role and text", () => {
  expect(toConversation([{ role: "tool", content: "Error: x", is_error: true }])).toEqual([
    { role: "tool", content: "Error: x" },
  ]);
});
