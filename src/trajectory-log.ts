import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import { wellFormed } from "./bridge/codec.ts";
import { errorText, UserError } from "./core/errors.ts";
import { messageSchema } from "./core/message.ts";
import { describeIssues } from "./core/tool.ts";
import type { Trajectory } from "./core/trajectory.ts";
import { readTextFile } from "./text-file.ts";

const value = z.union([z.number(), z.boolean(), z.string(), z.null()]);
const count = z.int().nonnegative();

export const trajectorySchema: z.ZodType<Trajectory> = z.object({
  env: z.string(),
  task_id: z.string(),
  seed: z.int(),
  trial: count,
  policy: z.string(),
  policy_step: count.nullable(),
  messages: z.array(messageSchema),
  turns: z.array(
    z.object({
      reply: z.string(),
      thought: z.string(),
      action: z.object({ name: z.string(), args: z.record(z.string(), z.unknown()) }).nullable(),
      outcome: z.object({
        kind: z.enum(["ok", "tool_error", "parse_error", "fallback", "terminal"]),
        payload: z.unknown().optional(),
        text: z.string(),
      }),
    }),
  ),
  ended_by: z.enum(["terminated", "truncated", "error", "timeout"]),
  ended_why: z.string().nullable(),
  reward: z.number().nullable(),
  parts: z.record(z.string(), z.number().nullable()),
  metrics: z.record(z.string(), value),
  success: z.boolean(),
  turn_scores: z.array(z.number()).optional(),
  tokens: z.object({ prompt: count, policy: count, observation: count }),
  env_ms: z.number().nonnegative().nullable(),
});

export interface JsonLines<Line> {
  readonly path: string;
  /** Texts in which a lone surrogate was replaced by U+FFFD: other languages' readers would choke on it. */
  readonly cleaned: number;
  /** Appends one line, whole or not at all. NaN and infinity are carried as {"$float": "NaN"}, as on the bridge. */
  write(line: Line): void;
  /** Brings everything written to the disk. Returns the file's size, bytes. */
  sync(): number;
  close(): void;
}

/** Opens a JSON lines file to be appended to. */
export function openJsonLines<Line>(path: string): JsonLines<Line> {
  mkdirSync(dirname(path), { recursive: true });
  const file = openSync(path, "a");
  let cleaned = 0;
  let open = true;
  return {
    path,
    get cleaned() {
      return cleaned;
    },
    write(line) {
      const text = JSON.stringify(line, (_, item: unknown) => {
        if (typeof item === "number" && !Number.isFinite(item)) return { $float: String(item) };
        if (typeof item !== "string") return item;
        const whole = wellFormed(item);
        if (whole !== item) cleaned++;
        return whole;
      });
      writeSync(file, `${text}\n`);
    },
    sync() {
      fsyncSync(file);
      return fstatSync(file).size;
    },
    close() {
      if (!open) return;
      open = false;
      fsyncSync(file);
      closeSync(file);
    },
  };
}

/** The log of a run: a trajectory a line. */
export const openTrajectoryLog = (path: string): JsonLines<Trajectory> => openJsonLines<Trajectory>(path);

/**
 * The logs that a path means: the file itself, or all of a run's folder, by name.
 * @throws UserError where there are none
 */
export function logsOf(path: string): string[] {
  if (!existsSync(path)) throw new UserError(`${path}: there is no such log or run folder.`);
  if (!statSync(path).isDirectory()) return [path];
  const folder = join(path, "trajectories");
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".jsonl")) : [];
  if (names.length === 0) throw new UserError(`${path}: this folder has no trajectories/*.jsonl.`);
  return names.sort().map((name) => join(folder, name));
}

/** A log as records name it: the run's name, not where it lies. */
export function logSource(file: string): string {
  const folder = dirname(file);
  const run = basename(folder) === "trajectories" ? `${basename(dirname(folder))}/trajectories/` : "";
  return `${run}${basename(file)}`;
}

export interface ReadOptions {
  /**
   * A run that was killed leaves a last line without an end. true: it is left out. false: it is an error, since
   * numbers made from half a log would look whole.
   */
  allow_cut_last_line?: boolean;
}

/** Every line of a JSON lines file, parsed, with its number in the file. @throws UserError naming file and line. */
export function readJsonLines(path: string, options: ReadOptions = {}): { line: number; value: unknown }[] {
  return parseJsonLines(readTextFile(path), path, options);
}

/** As `readJsonLines`, for text that is already at hand; `name` stands for the file in messages. */
export function parseJsonLines(
  text: string,
  name: string,
  options: ReadOptions = {},
): { line: number; value: unknown }[] {
  return splitLines(text).flatMap(({ line, content, cut }) => {
    try {
      return [{ line, value: parseJsonLine(content) }];
    } catch (error) {
      if (cut && options.allow_cut_last_line) return [];
      throw new UserError(
        `${name}, line ${line}: ${cut ? "the last line is cut off" : "not JSON"} (${errorText(error)}).`,
      );
    }
  });
}

/** The lines that hold something, with their numbers. `cut`: it is the last one and has no end. */
export function splitLines(text: string): { line: number; content: string; cut: boolean }[] {
  const lines = text.split("\n");
  return lines
    .map((content, index) => ({ line: index + 1, content, cut: index === lines.length - 1 }))
    .filter(({ content }) => content.trim() !== "");
}

/** @throws SyntaxError */
export function parseJsonLine(content: string): unknown {
  return JSON.parse(content, reviveFloat) as unknown;
}

/** Lenient, unlike the bridge's: a model may have written {"$float": …} itself, and its log must stay readable. */
function reviveFloat(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Object.keys(value).length !== 1) return value;
  const text = (value as { $float?: unknown }).$float;
  return text === "NaN" || text === "Infinity" || text === "-Infinity" ? Number(text) : value;
}

/** @throws UserError naming the file, the line and what is wrong with it. */
export function readTrajectories(path: string, options: ReadOptions = {}): Trajectory[] {
  return readJsonLines(path, options).map(({ line, value }) => asTrajectory(value, `${path}, line ${line}`));
}

/** @throws UserError naming the place and what is wrong there */
export function asTrajectory(value: unknown, where: string): Trajectory {
  const parsed = trajectorySchema.safeParse(value);
  if (!parsed.success) throw new UserError(`${where}: ${describeIssues(parsed.error)}`);
  return parsed.data;
}

/**
 * The lines of a file whose writer may have been killed, each with its text as it stands there: what is behind the last
 * line's end is left out where it is no JSON. A file that is not there has none.
 * @throws UserError naming file and line
 */
export function readWholeLines(path: string): { text: string; line: number; value: unknown }[] {
  if (!existsSync(path)) return [];
  const bytes = readFileSync(path);
  const end = bytes.lastIndexOf("\n") + 1;
  const texts = bytes.subarray(0, end).toString("utf8").split("\n");
  const tail = bytes.subarray(end).toString("utf8"); // cut anywhere, within a letter too
  if (isJson(tail)) texts.push(tail);
  return parseJsonLines(texts.join("\n"), path).map((row) => ({ ...row, text: texts[row.line - 1]! }));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
