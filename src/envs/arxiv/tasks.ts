import { readFileSync } from "node:fs";
import { z } from "zod";
import { UserError } from "../../core/errors.ts";
import { describeIssues } from "../../core/tool.ts";
import { resolveDataFile, sha256 } from "./snapshot.ts";
import { arxivTools } from "./tools/index.ts";
import type { ArxivTask, Call } from "./types.ts";

export const TASKS_FILE = "data/arxiv/tasks.json";
export const SMOKE_TASKS_FILE = "data/arxiv/smoke-tasks.json";

export const BLOCKED_REASONS = [
  "missing_context",
  "invalid_reference",
  "paper_not_found",
  "unsupported_capability",
] as const;

// A step without `args` is refused: "no argument is checked" must never come about by forgetting them.
const callSchema = z.strictObject({ tool: z.string().min(1), args: z.record(z.string(), z.unknown()) });

/** A task as it stands in a data file. There is one list of steps: expected tools and arguments both come from it. */
export const arxivTaskSchema = z
  .strictObject({
    id: z.string().min(1),
    task: z.string().min(1),
    steps: z.array(callSchema).default([]).describe("Gold calls; empty: the right thing is to call nothing."),
    category: z.string().min(1).default("misc"),
    difficulty: z.enum(["easy", "medium", "hard"]).default("medium"),
    setup: z.array(callSchema).default([]),
    template: z.string().min(1).optional(),
    requires_offline: z.boolean().default(false),
    note: z.string().default(""),
    termination: z.literal("FINISH").default("FINISH"),
    terminal_mode: z.enum(["completed", "blocked"]).default("completed"),
    terminal_reason: z.enum(BLOCKED_REASONS).nullable().default(null),
    max_iterations: z.int().positive().nullable().default(null),
    depends_on: z.string().min(1).nullable().default(null),
  })
  .superRefine((task, context) => {
    if (task.terminal_mode === "blocked" && task.terminal_reason === null) {
      const message = `a blocked task needs one of ${BLOCKED_REASONS.join(", ")}`;
      context.addIssue({ code: "custom", path: ["terminal_reason"], message });
    }
    if (task.terminal_mode === "completed" && task.terminal_reason !== null) {
      const message = "only a blocked task has a reason; set terminal_mode to blocked or leave it out";
      context.addIssue({ code: "custom", path: ["terminal_reason"], message });
    }
  });

export type ArxivTaskRecord = z.input<typeof arxivTaskSchema>;

const argumentSchemas = new Map(
  arxivTools.map((tool) => [tool.name, z.fromJSONSchema(tool.parameters as z.core.JSONSchema.JSONSchema)]),
);

/** What is wrong with a gold or setup call; "" when the tool would take it. */
function callFault({ tool, args }: Call): string {
  const schema = argumentSchemas.get(tool);
  if (!schema) return `unknown tool '${tool}'; expected one of ${[...argumentSchemas.keys()].join(", ")}`;
  const parsed = schema.safeParse(args);
  return parsed.success ? "" : `${tool}: ${describeIssues(parsed.error)}`;
}

/**
 * Task records in, tasks with defaults and the calls of their `depends_on` chain out.
 * @throws UserError naming `source`, the task and the fault: a field that does not fit, an id that stands twice, an
 * unknown tool, arguments that its schema refuses, a prerequisite that is missing or comes back to the task itself.
 */
export function parseArxivTasks(value: unknown, source: string): ArxivTask[] {
  if (!Array.isArray(value)) throw new UserError(`${source}: expected a list of tasks.`);
  const tasks = new Map<string, ArxivTask>();
  value.forEach((record: unknown, index) => {
    const id = typeof record === "object" && record !== null && "id" in record ? String(record.id) : `#${index + 1}`;
    const parsed = arxivTaskSchema.safeParse(record);
    if (!parsed.success) throw new UserError(`${source}: task '${id}': ${describeIssues(parsed.error)}.`);
    if (tasks.has(id)) throw new UserError(`${source}: the id '${id}' stands twice; ids must be unique.`);
    for (const part of ["setup", "steps"] as const) {
      parsed.data[part].forEach((call, i) => {
        const fault = callFault(call);
        if (fault) throw new UserError(`${source}: task '${id}': ${part}[${i}]: ${fault}.`);
      });
    }
    tasks.set(id, { ...parsed.data, expected_paper_ids: null });
  });
  return [...tasks.values()].map((task) =>
    task.depends_on ? { ...task, prior: priorCalls(task, tasks, source) } : task,
  );
}

/** The setup and gold calls of the tasks that come first in the same session, earliest first. */
function priorCalls(task: ArxivTask, tasks: ReadonlyMap<string, ArxivTask>, source: string): Call[] {
  const chain: ArxivTask[] = [];
  for (let current = task; current.depends_on; ) {
    const before = tasks.get(current.depends_on);
    if (!before) throw new UserError(`${source}: task '${current.id}': depends_on '${current.depends_on}' is no task.`);
    if (before === task || chain.includes(before)) {
      throw new UserError(`${source}: task '${task.id}': its depends_on chain comes back to '${before.id}'.`);
    }
    chain.unshift(before);
    current = before;
  }
  return chain.flatMap((before) => [...before.setup, ...before.steps]);
}

/** SHA-256 of a file's bytes. @throws UserError for a file that cannot be read. */
export function fileHash(path: string): string {
  return sha256(readText(path));
}

function readText(path: string): string {
  try {
    return readFileSync(resolveDataFile(path), "utf8");
  } catch (error) {
    throw new UserError(`${path}: cannot read it: ${(error as Error).message}`);
  }
}

/**
 * A data file's JSON and the SHA-256 of its bytes. A byte order mark is no part of the JSON.
 * @throws UserError for a file that is missing or no JSON.
 */
export function readJsonFile(path: string): { value: unknown; sha256: string } {
  const text = readText(path);
  try {
    return { value: JSON.parse(text.replace(/^\uFEFF/, "")), sha256: sha256(text) };
  } catch (error) {
    throw new UserError(`${path}: not JSON: ${(error as Error).message}`);
  }
}

export interface TaskFile {
  tasks: readonly ArxivTask[];
  sha256: string;
}

const files = new Map<string, TaskFile>();

/** A task file, read and checked once a process. */
export function readTaskFile(path: string): TaskFile {
  const known = files.get(path);
  if (known) return known;
  const { value, sha256 } = readJsonFile(path);
  const file = { tasks: parseArxivTasks(value, path), sha256 };
  files.set(path, file);
  return file;
}

/** The 81 tasks of the expanded set. */
export const arxivTasks = (): readonly ArxivTask[] => readTaskFile(TASKS_FILE).tasks;

/** The 8 smoke tasks, three of which depend on another. */
export const smokeTasks = (): readonly ArxivTask[] => readTaskFile(SMOKE_TASKS_FILE).tasks;

/** A task of either set, without oracle ids. null: there is none of this id. */
export function findArxivTask(id: string): ArxivTask | null {
  return [...arxivTasks(), ...smokeTasks()].find((task) => task.id === id) ?? null;
}
