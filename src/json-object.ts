import { readFileSync } from "node:fs";

/** A file's JSON object; null: it is not there, can't be read, or holds something else. */
export function readObject(path: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
