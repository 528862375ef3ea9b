import { randomUUID } from "node:crypto";
import { closeSync, fsyncSync, linkSync, mkdirSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { pathProblem, UserError } from "./errors.ts";

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

/**
 * Writes a file that is not there yet, whole or not at all.
 * @throws UserError where it is there, even if it came between a check and this.
 */
export function writeNew(path: string, content: string): void {
  const aside = `${path}.${randomUUID().slice(0, 8)}.new`;
  writeWhole(aside, content);
  try {
    linkSync(aside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") throw new UserError(`${path} is there already.`);
    throw pathProblem(error, path) ?? error;
  } finally {
    rmSync(aside, { force: true });
  }
}
