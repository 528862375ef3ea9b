// A library of bad cases: JSON lines, a case a line, in a file or in a folder of them. Lines that open with // are
// comments. It only grows, and a case's status is changed by hand alone.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { z } from "zod";
import { projectRoot } from "../../src/bridge/interpreter.ts";
import { type BadCaseRules, type Condition, conditionSchema, type Verdict } from "../../src/core/bad-case.ts";
import type { Env } from "../../src/core/env.ts";
import { errorText, UserError } from "../../src/core/errors.ts";
import { describeIssues } from "../../src/core/tool.ts";
import { shownPath, writeWhole } from "../../src/run-folder.ts";
import { readTextFile } from "../../src/text-file.ts";

export interface BadCase {
  case_id: string;
  task_id: string;
  /** open: the scorer still gets it wrong. fixed: it must never again. */
  status: "open" | "fixed";
  /** By what the case is known when it is judged again. */
  reproduces_when: Condition;
  /** Frozen, in the family's score format. */
  history: Record<string, unknown>[];
  source: string;
  /** What the case is there to catch. */
  note: string;
  /** The judgement when it was captured, for comparison alone. */
  captured: Verdict;
  /** Under which it is judged, whatever the command says: for what only one profile has, say. */
  env_options?: Record<string, unknown>;
}

export interface LibraryCase extends BadCase {
  /** Where it stands. */
  file: string;
  line: number;
}

function caseSchema(rules: BadCaseRules) {
  return z.strictObject({
    case_id: z.string().min(1),
    task_id: z.string().min(1),
    status: z.enum(["open", "fixed"]),
    reproduces_when: conditionSchema(rules),
    history: z.array(z.record(z.string(), z.unknown())).min(1),
    source: z.string().default(""),
    note: z.string().default(""),
    captured: z.record(z.string(), z.union([z.number(), z.boolean(), z.string(), z.null()])).default({}),
    env_options: z.record(z.string(), z.unknown()).optional(),
  });
}

/** @throws UserError for a family that keeps no bad cases */
export function rulesOf(env: Env): { rules: BadCaseRules; rescore: NonNullable<Env["rescore"]> } {
  if (!env.bad_cases || !env.rescore)
    throw new UserError(
      `${env.name} keeps no bad cases: it declares no 'bad_cases', or no 'rescore' to judge them by.`,
    );
  return { rules: env.bad_cases, rescore: env.rescore };
}

/** The library that comes with the family. @throws UserError where there is none */
export function defaultLibrary(env: Env): string {
  const path = join(projectRoot, "eval", "badcases", env.name);
  if (!existsSync(path))
    throw new UserError(`There is no library of bad cases of ${env.name}. Name one: --library my-cases.jsonl.`);
  return path;
}

/**
 * Every case of a file, or of the .jsonl files in a folder.
 * @throws UserError naming file and line: no JSON, a field that does not fit, an id that stands twice
 */
export function readLibrary(path: string, rules: BadCaseRules): LibraryCase[] {
  if (!existsSync(path)) throw new UserError(`${path}: there is no such library of bad cases.`);
  const schema = caseSchema(rules);
  const places = new Map<string, string>();
  const cases: LibraryCase[] = [];
  for (const file of libraryFiles(path)) {
    for (const [index, text] of readFileSync(file, "utf8")
      .replace(/^\uFEFF/, "")
      .split("\n")
      .entries()) {
      if (text.trim() === "" || text.trimStart().startsWith("//")) continue;
      const place = `${nameOf(file)}, line ${index + 1}`;
      const parsed = schema.safeParse(parseLine(text, place));
      if (!parsed.success) throw new UserError(`${place}: ${describeIssues(parsed.error)}.`);
      const { case_id } = parsed.data;
      const other = places.get(case_id);
      if (other)
        throw new UserError(`${place}: the case_id '${case_id}' stands at ${other} already; ids must be unique.`);
      places.set(case_id, place);
      cases.push({ ...parsed.data, file: nameOf(file), line: index + 1 });
    }
  }
  return cases;
}

function libraryFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path).filter((name) => name.endsWith(".jsonl"));
  return names.sort().map((name) => join(path, name));
}

/** A path as messages and results show it: from the project or the working directory where it is inside. */
export function nameOf(file: string): string {
  const own = relative(projectRoot, file);
  return own.startsWith("..") || isAbsolute(own) ? shownPath(file) : own;
}

function parseLine(text: string, place: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UserError(`${place}: not JSON (${errorText(error)}).`);
  }
}

/** Writes cases behind those that are there; the file is the old one or the new one, never half of it. */
export function appendCases(file: string, cases: readonly BadCase[]): void {
  const before = existsSync(file) ? readTextFile(file) : "";
  const gap = before === "" || before.endsWith("\n") ? "" : "\n";
  writeWhole(file, `${before}${gap}${cases.map((one) => `${JSON.stringify(one)}\n`).join("")}`);
}
