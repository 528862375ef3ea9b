import { UserError } from "../../../core/errors.ts";

/**
 * A file's bytes as text, without a byte order mark.
 * @throws UserError for bytes that are no UTF-8: read all the same, names would change without a word
 */
export function utf8(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new UserError(`${path}: it is not UTF-8 text. Save it as UTF-8.`);
  }
}
