import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { writeWhole } from "../../../core/whole-file.ts";
import { isFolder } from "../index/corpus.ts";
import type { WorldFiles } from "./generate.ts";

const MADE = /^(?:(?:corpus|questions|judgements|gold)\.jsonl|checkpoints\/.*)$/;

/** Writes the world's files into a folder, and takes away those of an earlier one. */
export function writeWorld(folder: string, files: WorldFiles): void {
  for (const path of madeFiles(folder)) if (!files.has(path)) rmSync(join(folder, path));
  for (const [path, text] of files) writeWhole(join(folder, path), text);
}

/** What differs between a folder and the world it should hold. */
export function worldProblems(folder: string, files: WorldFiles): string[] {
  const there = madeFiles(folder);
  const missing = [...files.keys()].filter((path) => !there.has(path)).map((path) => `${path} is missing`);
  const surplus = [...there].filter((path) => !files.has(path)).map((path) => `${path} is not of this world`);
  const changed = [...files].filter(
    ([path, text]) => there.has(path) && readFileSync(join(folder, path), "utf8") !== text,
  );
  return [...missing, ...surplus, ...changed.map(([path]) => `${path} is not what the seed gives`)];
}

function madeFiles(folder: string): Set<string> {
  if (!isFolder(folder)) return new Set();
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join("/"));
  return new Set(paths.filter((path) => MADE.test(path)));
}
