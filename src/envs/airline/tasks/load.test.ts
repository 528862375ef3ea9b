import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { sharedSynthDb, synthAirlineDb, writeAirlineDb } from "../data/synth.ts";
import { loadTasks, readTaskFile, SHIPPED_TASKS } from "./load.ts";
import { synthTasks } from "./synth.ts";
import { taskFileText } from "./task-file.ts";

const folder = mkdtempSync(join(tmpdir(), "airline-tasks-"));
const db = sharedSynthDb();
const write = (name: string, value: unknown): string => {
  const path = join(folder, name);
  writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value));
  return path;
};
const user_id = synthTasks()[0]!.user_id;
const record = { task_index: 0, user_id, instruction: "x", actions: [], outputs: [] };

describe("files of tasks", () => {
  test.each<[string, unknown, RegExp]>([
    ["no JSON", "[{]", /no JSON at line 1, column 3/],
    ["no list", { tasks: [] }, /expected a list of tasks, with at least one/],
    ["no tasks", [], /expected a list of tasks, with at least one/],
    ["no record", [7], /task 0: .*expected object/],
    ["a missing field", [{ ...record, user_id: undefined }], /task 0: user_id/],
    [
      "a user that is not there",
      [{ ...record, user_id: "no_body_1" }],
      /task 'tau-00': the database has no user 'no_body_1'/,
    ],
    ["an id twice", [record, { ...record, id: "tau-00", task_index: 1 }], /task 'tau-00': the id stands twice/],
    ["a number twice", [record, { ...record, id: "b" }], /task 'b': task_index 0 stands twice/],
    [
      "a tool that is not there",
      [{ ...record, actions: [{ name: "fly", kwargs: {} }] }],
      /task 'tau-00': no tool 'fly'; expected one of book_reservation, calculate/,
    ],
    ["an action without arguments", [{ ...record, actions: [{ name: "think" }] }], /task 0: actions\.0\.kwargs/],
    ["a broken script", [{ ...record, script: { opening: ["g"], goals: [] } }], /task 0: script: /],
    ["a broken proof", [{ ...record, proof: { tempting: [] } }], /task 0: proof\.tempting/],
  ])("%s", (name, value, problem) => {
    const path = write(`${name}.json`, value);
    expect(() => readTaskFile(path, db)).toThrow(problem);
    expect(() => readTaskFile(path, db)).toThrow(path);
  });

  test("ints and floats stay what they are", () => {
    const call = '{"name": "send_certificate", "kwargs": {"amount": 50.0, "user_id": "x"}}';
    const path = write("floats.json", JSON.stringify([record]).replace('"actions":[]', `"actions":[${call}]`));
    const [task] = readTaskFile(path, db);
    expect(taskFileText([task!])).toContain('"amount": 50.0');
  });

  test("a byte order mark is no part of the text", () => {
    expect(readTaskFile(write("bom.json", `\ufeff${JSON.stringify([record])}`), db)).toHaveLength(1);
  });
});

describe("the tasks that options name", () => {
  test("left out: the suite as it is shipped", () => {
    const { tasks, path } = loadTasks({ data_dir: null, tasks: null });
    expect(path).toBe(SHIPPED_TASKS);
    expect(tasks).toEqual(synthTasks());
    expect(loadTasks({ data_dir: null, tasks: null }).tasks).toBe(tasks);
  });

  test("a folder's own tasks.json, or what to do where there is none", () => {
    const data_dir = join(folder, "own");
    writeAirlineDb(data_dir, synthAirlineDb("own", 0.1));
    expect(() => loadTasks({ data_dir, tasks: null })).toThrow(/tasks\.json: there is no such file\. Convert/);
    const own = [...synthAirlineDb("own", 0.1).users.keys()][0]!;
    writeFileSync(join(data_dir, "tasks.json"), JSON.stringify([{ ...record, user_id: own }]));
    expect(loadTasks({ data_dir, tasks: null })).toMatchObject({
      path: join(data_dir, "tasks.json"),
      tasks: [{ id: "tau-00", user_id: own, source: "tau", script: null }],
    });
  });

  test("a file beside the synthetic database", () => {
    expect(loadTasks({ data_dir: null, tasks: write("one.json", [record]) }).tasks).toHaveLength(1);
    expect(() => loadTasks({ data_dir: null, tasks: join(folder, "nowhere.json") })).toThrow(
      /nowhere\.json: there is no such file/,
    );
  });
});
