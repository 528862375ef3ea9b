import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { main } from "../cli.ts";
import { copyProblems, replaceModel, shapeProblems } from "./pretrain.ts";

const folder = mkdtempSync(join(tmpdir(), "pretrain-"));

function made(name: string, files: Record<string, string>): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  for (const [file, text] of Object.entries(files)) writeFileSync(join(path, file), text);
  return path;
}

test("only a model's folder, an empty one or a new one is replaced", () => {
  expect(copyProblems(join(folder, "new"))).toEqual([]);
  expect(copyProblems(made("empty", {}))).toEqual([]);
  expect(copyProblems(made("model", { "config.json": "{}", "model.safetensors": "", "tokenizer.json": "{}" }))).toEqual(
    [],
  );
  const project = made("project", { "config.json": "{}", "package.json": "{}" });
  mkdirSync(join(project, "src"));
  for (const taken of [project, made("notes", { "notes.txt": "x" }), ".", "..", join(project, "config.json")])
    expect(copyProblems(taken)).toEqual([expect.stringContaining(`copy_to is ${taken}`)]);
});

test("a model is replaced whole", () => {
  const old = made("old", { "config.json": "old", "left-over.json": "{}" });
  replaceModel(made("fresh", { "config.json": "new" }), old);
  expect(readdirSync(old)).toEqual(["config.json"]);
  expect(readFileSync(join(old, "config.json"), "utf8")).toBe("new");
  expect(existsSync(`${old}.tmp`)).toBe(false);
});

test("a shape that no network has is refused before anything starts", async () => {
  const shape = { hidden_size: 128, heads: 4, copy_steps: 1, short_steps: 0, full_steps: 0 };
  expect(shapeProblems(shape)).toEqual([]);
  expect(shapeProblems({ ...shape, heads: 3 })).toEqual([expect.stringContaining("--hidden-size 126")]);
  expect(shapeProblems({ ...shape, hidden_size: 4 })).toEqual([expect.stringContaining("--hidden-size 8")]);
  expect(shapeProblems({ ...shape, copy_steps: 0 })).toEqual([expect.stringContaining("all 0")]);
  expect(await main(["pretrain", "--dry-run", "--copy-to", "src"])).toBe(2);
});
