import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { isConversationFile, readConversationRows } from "./conversation-rows.ts";
import { manifestPath, readExpertRows, writeRowText } from "./expert-rows.ts";

const user = { role: "user", content: "Find it." };
const assistant = {
  role: "assistant",
  content: null,
  tool_calls: [{ id: "c1", type: "function", function: { name: "find", arguments: '{"price": 100.0}' } }],
};
const row = { id: "a", messages: [user, assistant, { role: "tool", tool_call_id: "c1", content: "3" }] };
const line = JSON.stringify(row);

function fileOf(text: string): string {
  const path = join(mkdtempSync(join(tmpdir(), "conversations-")), "rows.jsonl");
  writeFileSync(path, text);
  return path;
}

test("rows come back as they are, and are written as they were: 100.0 is not 100", () => {
  const bare =
    '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"n": 100.0}}]}], "tools": null}';
  const path = fileOf(`\uFEFF${line}\r\n\n${bare}\n`);
  expect(isConversationFile(path)).toBe(true);
  const { rows, manifest, text } = readConversationRows(path);
  expect(rows).toMatchObject([row, { tools: null }]);
  const copy = fileOf("");
  writeRowText(copy, text, rows.length, manifest);
  expect(readFileSync(copy, "utf8")).toContain('{"n": 100.0}');
  expect(readConversationRows(copy).rows).toEqual(rows);
  expect(JSON.parse(readFileSync(manifestPath(copy), "utf8"))).toMatchObject({ kind: "file", file: { rows: 2 } });
});

describe("what is no conversation is told by file and line", () => {
  test.each([
    ["broken JSON", `${line}\n{"messages": [`, /rows\.jsonl, line 2: /],
    ["no messages", `${line}\n\n{"prompt": []}`, /rows\.jsonl, line 3: messages: .*expected array/],
    ["an empty dialogue", '{"messages": []}', /line 1: messages: /],
    ["another role", '{"messages": [{"role": "robot", "content": "x"}]}', /line 1: messages\.0\.role: /],
    ["content in parts", '{"messages": [{"role": "user", "content": [{"text": "x"}]}]}', /messages\.0\.content: /],
    [
      "a call without a name",
      '{"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}',
      /messages\.0\.tool_calls\.0: expected \{function: \{name, arguments\}\}/,
    ],
    ["tools that are no functions", JSON.stringify({ ...row, tools: [{ name: "f" }] }), /line 1: tools\.0\.type: /],
    ["nobody to learn from", JSON.stringify({ messages: [user] }), /none of the 1 conversations has a message of/],
  ])("%s", (_, text, message) => {
    expect(() => readConversationRows(fileOf(text))).toThrow(message);
    expect(() => readConversationRows(fileOf(text))).toThrow(expect.objectContaining({ name: "UserError" }));
  });
});

test("other files are left to who reads them", () => {
  for (const text of ["", "[]", "no", '{"prompt": [], "turns": []}']) {
    expect(isConversationFile(fileOf(text))).toBe(false);
    expect(() => readExpertRows(fileOf(text))).toThrow(expect.objectContaining({ name: "UserError" }));
  }
  expect(() => isConversationFile("/nowhere/rows.jsonl")).toThrow(/there is no such file/);
});
