import { createHash } from "node:crypto";
import { closeSync, openSync, readSync } from "node:fs";
import { pathProblem, UserError } from "../../core/errors.ts";

const CHUNK_BYTES = 1 << 20;

/** A file line by line, however long it is. */
export interface LineReader extends Iterable<{ line: number; text: string }> {
  /** Of the whole file, once all lines were read. */
  sha256(): string;
  bytes(): number;
}

/**
 * The lines of a UTF-8 file, counted from 1, without those that are blank; a byte order mark is no part of it.
 * @throws UserError while it is read, where there is no such file or it holds something else than text
 */
export function readLines(path: string, name = path): LineReader {
  const hash = createHash("sha256");
  let bytes = 0;

  function* chunks(): Generator<Buffer> {
    let file: number;
    try {
      file = openSync(path, "r");
    } catch (error) {
      throw pathProblem(error, name) ?? error;
    }
    try {
      const buffer = Buffer.alloc(CHUNK_BYTES);
      for (let read = 1; read > 0; ) {
        read = readSync(file, buffer, 0, CHUNK_BYTES, null);
        bytes += read;
        hash.update(buffer.subarray(0, read));
        if (read > 0) yield buffer.subarray(0, read);
      }
    } catch (error) {
      throw pathProblem(error, name) ?? error;
    } finally {
      closeSync(file);
    }
  }

  function* lines(): Generator<{ line: number; text: string }> {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const decode = (chunk?: Buffer): string => {
      try {
        return chunk ? decoder.decode(chunk, { stream: true }) : decoder.decode();
      } catch {
        throw new UserError(`${name}: not UTF-8 text near line ${line + 1}. Save it as UTF-8, or name another file.`);
      }
    };
    let line = 0;
    let rest = "";
    for (const chunk of chunks()) {
      const parts = (rest + decode(chunk)).split("\n");
      rest = parts.pop()!;
      for (const text of parts) {
        line++;
        if (text.trim() !== "") yield { line, text };
      }
    }
    rest += decode();
    if (rest.trim() !== "") yield { line: line + 1, text: rest };
  }

  let digest: string | undefined;
  return {
    [Symbol.iterator]: lines,
    sha256() {
      digest ??= hash.digest("hex");
      return digest;
    },
    bytes: () => bytes,
  };
}

/** The SHA-256 of a file. @throws UserError where it can't be read */
export function fileSha256(path: string, name = path): string {
  const hash = createHash("sha256");
  try {
    const file = openSync(path, "r");
    try {
      const buffer = Buffer.alloc(CHUNK_BYTES);
      for (let read = 1; read > 0; ) {
        read = readSync(file, buffer, 0, CHUNK_BYTES, null);
        hash.update(buffer.subarray(0, read));
      }
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw pathProblem(error, name) ?? error;
  }
  return hash.digest("hex");
}
