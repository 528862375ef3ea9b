import { readFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { pathProblem, UserError } from "./core/errors.ts";

// Texts that a user names: UTF-8, a byte order mark being no part of them.

/** @throws UserError where there is no such file, or it holds something else than text */
export function readTextFile(path: string): string {
  try {
    return decode(readFileSync(path), path);
  } catch (error) {
    throw pathProblem(error, path) ?? error;
  }
}

/** As `readTextFile`, or standard input where `file` is "-": its name in messages comes back too. */
export async function readInput(file: string): Promise<{ text: string; name: string }> {
  // Not readFileSync(0): a pipe whose writer is slow fails with EAGAIN.
  if (file === "-") return { text: decode(await buffer(process.stdin), "stdin"), name: "stdin" };
  return { text: readTextFile(file), name: file };
}

function decode(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_ENCODING_INVALID_ENCODED_DATA") throw error;
    throw new UserError(`${name}: not UTF-8 text. Save it as UTF-8, or name another file.`);
  }
}
