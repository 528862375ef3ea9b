import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { canonicalJson } from "../../../core/canonical-json.ts";
import { pathProblem } from "../../../core/errors.ts";
import { writeWhole } from "../../../core/whole-file.ts";
import { LABELS } from "../types.ts";
import type { Verdict } from "./types.ts";

// Verdicts of a model, one file each, so that a second run is free. Files are written whole: two writers at once do no
// harm, and the later one stands.

/** All that a verdict depends on. */
export interface CacheKey {
  model: string;
  prompt_version: number;
  question: string;
  sub_goal: string;
  docid: string;
}

export interface VerdictCache {
  /** null: it is not there, or is no whole record of this question. */
  read(key: CacheKey): Verdict | null;
  keep(key: CacheKey, verdict: Verdict): void;
}

const fileSchema = z.object({
  key: z.unknown(),
  verdict: z.strictObject({ label: z.enum(LABELS), reason: z.string().optional() }),
});

/** @param folder holds `ab/<SHA-256 of the key's canonical JSON>.json`, `ab` being its first two digits */
export function createCache(folder: string): VerdictCache {
  function place(key: CacheKey): { text: string; path: string } {
    const text = canonicalJson(key);
    const hash = createHash("sha256").update(text).digest("hex");
    return { text, path: join(folder, hash.slice(0, 2), `${hash}.json`) };
  }
  return {
    read(key) {
      const { text, path } = place(key);
      let content: string;
      try {
        content = readFileSync(path, "utf8");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
        throw pathProblem(error, path) ?? error;
      }
      try {
        const { key: stored, verdict } = fileSchema.parse(JSON.parse(content));
        return canonicalJson(stored) === text ? verdict : null;
      } catch {
        return null; // cut by a full disk, or somebody else's: it is asked for again
      }
    },
    keep: (key, verdict) => writeWhole(place(key).path, `${JSON.stringify({ key, verdict })}\n`),
  };
}
