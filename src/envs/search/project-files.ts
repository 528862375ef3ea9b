import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const PROJECT_ROOT = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");

/** An absolute path: relative to the working directory where it exists there, else to the project. */
export function projectPath(path: string): string {
  const here = resolve(path);
  return existsSync(here) ? here : resolve(PROJECT_ROOT, path);
}
