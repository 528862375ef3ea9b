import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { ExpertRow } from "./core/task.ts";
import { manifestPath, readExpertRows, writeExpertRows } from "./expert-rows.ts";

const row = (id: string, args: Record<string, unknown>): ExpertRow => ({
  id,
  task_id: id,
  prompt: [{ role: "user", content: "Do it." }],
  turns: [{ reply: `Action: ${JSON.stringify({ name: "t", args })}`, observations: [] }],
  meta: { args },
});
const rows = [row("a", { query: "x" }), row("b", { ref: null, deep: { ref: 2 } })];

function fileOf(text: string): string {
  const path = join(mkdtempSync(join(tmpdir(), "rows-")), "rows.jsonl");
  writeFileSync(path, text);
  return path;
}

test("rows come back exactly, arguments and all (DT-03), with their manifest", () => {
  const path = fileOf("");
  writeExpertRows(path, { rows, manifest: { kind: "test" } });
  const read = readExpertRows(path);
  expect(read.rows).toEqual(rows);
  expect(read.manifest).toMatchObject({ kind: "test", file: { name: "rows.jsonl", rows: 2 } });
  expect(readdirSync(join(path, "..")).sort()).toEqual(["rows.jsonl", "rows.manifest.json"]);
});

test("a byte order mark and Windows line ends change nothing (DT-01)", () => {
  const lines = rows.map((one) => JSON.stringify(one));
  const plain = readExpertRows(fileOf(`${lines.join("\n")}\n`));
  const windows = readExpertRows(fileOf(`\uFEFF${lines.join("\r\n")}\r\n`));
  expect(windows.rows).toEqual(plain.rows);
});

test.each([
  [
    "a broken row is named by its line in the file (DT-02)",
    `\n${JSON.stringify(rows[0])}\n\n{"prompt":\n`,
    /rows\.jsonl, line 4: /,
  ],
  ["a list is no row (DT-02)", `${JSON.stringify(rows[0])}\n[]\n`, /rows\.jsonl, line 2: row must be an object/],
  ["a key that no row has", `${JSON.stringify({ ...rows[0], promt: 1 })}\n`, /line 1: .*promt/],
  ["a row without replies", `${JSON.stringify({ ...rows[0], turns: [] })}\n`, /line 1: turns/],
  ["nothing at all", "\n\n", /no rows/],
])("%s", (_, text, message) => {
  expect(() => readExpertRows(fileOf(text))).toThrow(message);
});

test("rows that are not those of their manifest are refused", () => {
  const path = fileOf("");
  writeExpertRows(path, { rows, manifest: {} });
  writeFileSync(path, `${readFileSync(path, "utf8")}${JSON.stringify(row("c", {}))}\n`);
  expect(() => readExpertRows(path)).toThrow(/not the rows that .*manifest/);
  writeFileSync(manifestPath(path), "{}");
  expect(() => readExpertRows(path)).toThrow(/manifest\.json: file/);
});

test("a file that is not there", () => {
  expect(() => readExpertRows("/nowhere/rows.jsonl")).toThrow(/rows.jsonl: there is no such file/);
});
