import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The exact pins of requirements.txt: package name to version. */
export function readPins(root: string): Record<string, string> {
  const lines = readFileSync(join(root, "requirements.txt"), "utf8").split("\n");
  const pins = lines.map((line) => /^([A-Za-z0-9._-]+)==([^\s;#]+)/.exec(line)).filter((match) => match !== null);
  return Object.fromEntries(pins.map(([, name, version]) => [name!, version!]));
}

export function fileHash(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}
