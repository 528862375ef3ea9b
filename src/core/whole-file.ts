import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { pathProblem } from "./errors.ts";

/** Writes a file so that a reader sees the old one or the new one, never half of it. Makes its folder. */
export function writeWhole(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true });
  const temporary = `${path}.${randomUUID().slice(0, 8)}.tmp`;
  try {
    const file = openSync(temporary, "w");
    try {
      writeFileSync(file, content); // goes on until all is written, where writeSync may stop in the middle of a full disk
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw pathProblem(error, path) ?? error;
  }
}
