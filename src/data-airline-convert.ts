import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { findInterpreter } from "./bridge/interpreter.ts";
import { UserError } from "./core/errors.ts";
import { writeWhole } from "./core/whole-file.ts";
import { parseJson } from "./envs/airline/data/python-json.ts";
import type { PyList } from "./envs/airline/data/python-values.ts";
import { goldCounts } from "./envs/airline/tasks/check-data.ts";
import { readTask } from "./envs/airline/tasks/task.ts";

const SCRIPT = fileURLToPath(new URL("../py/convert_tau_tasks.py", import.meta.url));

/** What the converter finds in τ-bench's own file (airline.md 4.2). */
export const ORIGINAL_COUNTS = { tasks: 50, actions: 158, writes: 56 };

export interface Converted {
  output: string;
  tasks: number;
  actions: number;
  writes: number;
  /** The counts are those of the original tasks. */
  as_original: boolean;
}

/**
 * Makes a file of tasks from a τ-bench module such as tasks_test.py, which is parsed and never run.
 * @param options python: the value of --python
 * @throws UserError for a module that holds anything but literals, with its line
 */
export async function convertTasks(
  tasks_py: string,
  output: string,
  options: { python?: string } = {},
): Promise<Converted> {
  const { path: python } = await findInterpreter(options);
  let text: string;
  try {
    // Isolated: neither the module's folder nor the environment can bring code in.
    const done = await promisify(execFile)(python, ["-I", SCRIPT, resolve(tasks_py)], {
      timeout: 60_000,
      maxBuffer: 256 * 1024 * 1024,
      encoding: "utf8",
      env: { ...process.env, PYTHONIOENCODING: "utf-8" },
    });
    text = done.stdout;
  } catch (error) {
    const { code, stderr = "" } = error as { code?: unknown; stderr?: string };
    if (code === 2 && stderr.trim() !== "") throw new UserError(stderr.trim());
    throw error;
  }
  const tasks = (parseJson(text) as PyList).map((record, i) => readTask(record, `${tasks_py}: task ${i}`));
  const counts = goldCounts(tasks);
  writeWhole(output, text);
  const as_original = JSON.stringify(counts) === JSON.stringify(ORIGINAL_COUNTS);
  return { output, ...counts, as_original };
}
