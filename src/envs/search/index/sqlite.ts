import { createRequire } from "node:module";
import type DatabaseClass from "better-sqlite3";
import { errorText, UserError } from "../../../core/errors.ts";

export type Database = DatabaseClass.Database;

let opened: typeof DatabaseClass | null = null;

/**
 * Opens an SQLite file. The package is loaded with the first one: it is native code, which a machine may lack, and only
 * this family needs it.
 * @throws UserError where the package is missing or does not load; else SQLite's own error
 */
export function openDatabase(path: string, options: DatabaseClass.Options = {}): Database {
  opened ??= loadPackage();
  return new opened(path, options);
}

function loadPackage(): typeof DatabaseClass {
  const require = createRequire(import.meta.url);
  try {
    const Loaded = require("better-sqlite3") as typeof DatabaseClass;
    new Loaded(":memory:").close(); // its native part is loaded with the first database
    return Loaded;
  } catch (error) {
    const missing = errorText(error).startsWith("Cannot find module 'better-sqlite3'");
    throw new UserError(
      `The search environment needs better-sqlite3, which ${missing ? "is not installed" : `does not load here: ${errorText(error).split("\n")[0]}`}. ` +
        `Run: npm ${missing ? "install --include=optional" : "rebuild better-sqlite3"} (where no ready-made build fits, that takes a C++ compiler and make).`,
    );
  }
}
