import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { UserError } from "../../../core/errors.ts";
import { writeWhole } from "../../../core/whole-file.ts";
import { canonicalJson } from "../snapshot.ts";
import type { Clock } from "./clock.ts";
import { fileName } from "./paper-id.ts";

// The folder beside the snapshot in which a build keeps what it has. Each file is whole or not there, so a build that
// was broken off anywhere goes on from what it finds.

export interface BuildFolder {
  path: string;
  /** When the build began, milliseconds since 1970: the end of its windows of days, however often it goes on. */
  started_ms: number;
  /** Whether there was one to go on with. */
  resumed: boolean;
  /**
   * What is kept under this key, or what `make` gives, which is kept then. A file that does not fit its schema any more
   * is made again.
   */
  keep<Schema extends z.ZodType>(
    kind: string,
    key: unknown,
    schema: Schema,
    make: () => Promise<z.output<Schema>>,
  ): Promise<z.output<Schema>>;
  pdfPath(paper_id: string): string;
}

const stateSchema = z.object({ version: z.literal(1), started_ms: z.int() });

export const buildFolderOf = (output: string): string => `${output}.build`;

/** @throws UserError for a folder that is none of a build of this version */
export function openBuildFolder(output: string, clock: Clock): BuildFolder {
  const path = buildFolderOf(output);
  const stateFile = join(path, "build.json");
  const resumed = existsSync(stateFile);
  if (resumed) sweep(output, path);
  if (!resumed) writeWhole(stateFile, `${JSON.stringify({ version: 1, started_ms: clock.now_ms() })}\n`);
  const state = stateSchema.safeParse(readJson(stateFile));
  if (!state.success)
    throw new UserError(`${stateFile} is not of a build by this version. Remove ${path} to begin anew.`);
  return {
    path,
    started_ms: state.data.started_ms,
    resumed,
    pdfPath: (paper_id) => join(path, "pdf", `${fileName(paper_id)}.pdf`),
    async keep(kind, key, schema, make) {
      const name = createHash("sha256").update(canonicalJson(key)).digest("hex").slice(0, 24);
      const file = join(path, kind, `${name}.json`);
      const kept = existsSync(file) ? schema.safeParse(readJson(file)) : null;
      if (kept?.success) return kept.data;
      const made = await make();
      writeWhole(file, `${JSON.stringify(made)}\n`);
      return made;
    },
  };
}

/** Removes what a killed build was writing when it died. The lock's own files are not its to touch. */
function sweep(output: string, path: string): void {
  const left = (folder: string, prefix: string) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.startsWith(prefix) && entry.name.endsWith(".tmp"))
      .map((entry) => join(folder, entry.name));
  const kinds = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const stem = basename(output, ".json");
  const files = [
    ...kinds.flatMap((kind) => left(join(path, kind.name), "")),
    ...left(path, "build.json"),
    ...left(dirname(output), `${stem}.json.`),
    ...left(dirname(output), `${stem}.manifest.json.`),
  ];
  for (const file of files) rmSync(file, { force: true });
}

/** Where the pictures of a paper's figures lie, and the path that the snapshot names, from the snapshot's folder. */
export function figurePath(output: string, paper_id: string, figure_no: number): { file: string; path: string } {
  const path = `figures/${fileName(paper_id)}/figure-${figure_no}.png`;
  return { file: join(dirname(output), path), path };
}

function readJson(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}
