/** The user's mistake, in a config, a path or data. The CLI prints the message alone and exits with 2. */
export class UserError extends Error {
  override name = "UserError";
}

/** The model's mistake. Its text becomes the observation and the episode goes on. */
export class ToolError extends Error {
  override name = "ToolError";
}

/** A guard stopped the run: what it measures would not be worth training on. The CLI exits with 1. */
export class GuardError extends Error {
  override name = "GuardError";
}

/** The text of anything that was thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

const SYSTEM_ERRORS: Record<string, string> = {
  ENOENT: "there is no such file",
  EISDIR: "it is a folder; expected a file",
  ENOTDIR: "a part of its path is a file, not a folder",
  EACCES: "no permission",
  EPERM: "no permission",
  EROFS: "its file system is read-only",
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  ENAMETOOLONG: "its name is too long",
  ELOOP: "its links go round in a circle",
  EEXIST: "it is there already, and no folder",
};

/** What the system holds against a path that a user named, as a UserError; null: the error is of another kind. */
export function pathProblem(error: unknown, path?: string): UserError | null {
  const { code = "", path: own } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  const where = path ?? own;
  return Object.hasOwn(SYSTEM_ERRORS, code) && where !== undefined
    ? new UserError(`${where}: ${SYSTEM_ERRORS[code]}.`)
    : null;
}

/**
 * The name that was probably meant, by edit distance: at most a third of the letters may differ. null: none is near.
 */
export function nearest(name: string, names: Iterable<string>): string | null {
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const candidate of names) {
    const distance = editDistance(name, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Insertions, deletions, substitutions and swaps of neighbours that turn one text into the other. */
export function editDistance(from: string, to: string): number {
  const rows: number[][] = [Array.from({ length: to.length + 1 }, (_, column) => column)];
  for (let i = 1; i <= from.length; i++) {
    const row = [i];
    for (let j = 1; j <= to.length; j++) {
      const changed = from[i - 1] === to[j - 1] ? 0 : 1;
      let least = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + changed);
      if (i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1])
        least = Math.min(least, rows[i - 2]![j - 2]! + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows[from.length]![to.length]!;
}
