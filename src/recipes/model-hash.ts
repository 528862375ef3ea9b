import { createHash } from "node:crypto";
import { closeSync, existsSync, openSync, readdirSync, readSync } from "node:fs";
import { join } from "node:path";

const CHUNK_BYTES = 2 ** 22;

/** SHA-256 of a model's weights, by the names of their files; null for a model that is no folder here (on a hub). */
export function modelHash(model: string): string | null {
  if (!existsSync(model)) return null;
  const weights = readdirSync(model).filter((name) => /\.(safetensors|bin)$/.test(name));
  if (weights.length === 0) return null;
  const all = createHash("sha256");
  for (const name of weights.sort()) all.update(`${name} ${hashOf(join(model, name))}\n`);
  return all.digest("hex");
}

/** In parts: weights may be larger than a buffer can be. */
function hashOf(path: string): string {
  const hash = createHash("sha256");
  const file = openSync(path, "r");
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let read = readSync(file, chunk); read > 0; read = readSync(file, chunk)) hash.update(chunk.subarray(0, read));
    return hash.digest("hex");
  } finally {
    closeSync(file);
  }
}
