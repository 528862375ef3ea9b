import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { convertTasks } from "./data-airline-convert.ts";
import { loadAirlineDb } from "./envs/airline/data/load.ts";
import { synthAirlineDb, writeAirlineDb } from "./envs/airline/data/synth.ts";
import { readSplitFile } from "./envs/airline/split-file.ts";
import { readTaskFile } from "./envs/airline/tasks/load.ts";
import { runCommand } from "./fixtures/run-command.ts";

const folder = mkdtempSync(join(tmpdir(), "data-airline-"));
const at = (...names: string[]): string => join(folder, ...names);
const data = (...argv: string[]) => runCommand("data", "airline", ...argv);

describe("db", () => {
  const own = at("db");

  test("writes a folder that loads, and that a check knows again", async () => {
    const made = await data("db", "--scale", "0.1", "--seed", "7", "--output", own);
    expect(made).toMatchObject({ code: 0, stdout: `${own}: 60 flights, 200 reservations, 50 users\n` });
    expect(loadAirlineDb(own).users.size).toBe(50);
    expect(await data("db", "--scale", "0.1", "--seed", "7", "--output", own, "--check")).toMatchObject({
      code: 0,
      stdout: `${own}: good\n`,
    });
    expect(loadAirlineDb(own).hash("python").whole).toBe(synthAirlineDb("7", 0.1).hash("python").whole);
  });

  test("a check names what differs, and writes nothing", async () => {
    const path = join(own, "users.json");
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.replace("regular", "gold"));
    const { code, stdout } = await data("db", "--scale", "0.1", "--seed", "7", "--output", own, "--check");
    expect(code).toBe(1);
    expect(stdout).toMatch(/users\.json: line \d+ is not what the seed gives/);
    expect(readFileSync(path, "utf8")).not.toBe(text);
    const missing = await data("db", "--output", at("nowhere"), "--check", "--json");
    expect(JSON.parse(missing.stdout)).toMatchObject({ ok: false, problems: { length: 3 } });
    expect(existsSync(at("nowhere"))).toBe(false);
  });
});

describe("tasks", () => {
  test("the shipped suite is what the default seed gives", async () => {
    expect(await data("tasks", "--check")).toMatchObject({ code: 0, stdout: "data/airline/tasks.json: good\n" });
  });

  test("another seed's goes to another file", async () => {
    const output = at("tasks-7.json");
    expect(await data("tasks", "--seed", "7")).toMatchObject({ code: 2, stderr: expect.stringMatching(/--output/) });
    expect(await data("tasks", "--seed", "7", "--output", output)).toMatchObject({ code: 0 });
    expect(await data("tasks", "--seed", "7", "--output", output, "--check")).toMatchObject({ code: 0 });
    expect(await data("tasks", "--output", output, "--check")).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/line 2 is not what the seed gives/),
    });
  });
});

describe("convert", () => {
  const module = (name: string, text: string): string => {
    writeFileSync(at(name), text);
    return at(name);
  };
  const good = module(
    "tasks_test.py",
    `from tau_bench.types import Action, Task
TASKS = [
    Task(annotator="0", user_id="kim_lee_1234", instruction="Say 'é'.", outputs=[], actions=[
        Action(name="get_user_details", kwargs={"user_id": "kim_lee_1234"}),
        Action(name="send_certificate", kwargs={"user_id": "kim_lee_1234", "amount": 50}),
    ]),
]
`,
  );

  test("a module becomes a file of tasks, ints and floats kept", async () => {
    const output = at("converted.json");
    const { code, stdout } = await data("convert", "--tasks-py", good, "--output", output);
    expect(code).toBe(0);
    expect(stdout).toBe(
      `${output}: 1 tasks, 2 gold actions, 1 writes; the originals have 50 tasks, 158 gold actions, 56 writes\n`,
    );
    const db = synthAirlineDb("x", 0.1);
    expect(() => readTaskFile(output, db)).toThrow(/task 'tau-00': the database has no user 'kim_lee_1234'/);
    expect(readFileSync(output, "utf8")).toContain('"amount": 50}');
  });

  test.each([
    ["call.py", "TASKS = make()", /call\.py: line 1: TASKS is no list/],
    ["broken.py", "TASKS = [", /broken\.py: line 1: '\[' was never closed/],
    ["none.py", "", /none\.py: expected one assignment to TASKS, found 0/],
  ])("%s is refused, and nothing is written", async (name, text, problem) => {
    const output = at(`${name}.json`);
    const { code, stderr } = await data("convert", "--tasks-py", module(name, text), "--output", output);
    expect([code, stderr]).toEqual([2, expect.stringMatching(problem)]);
    expect(existsSync(output)).toBe(false);
  });

  test("code in a module, and modules beside it, do not run", async () => {
    const trap = at("ran");
    const write = `open(${JSON.stringify(trap)}, "w").close()`;
    for (const name of ["json", "ast", "sitecustomize"]) module(`${name}.py`, write);
    await convertTasks(module("hostile.py", `${write}\n${readFileSync(good, "utf8")}`), at("hostile.json"));
    await expect(
      convertTasks(module("worse.py", `TASKS = [Task(user_id=${write})]`), at("worse.json")),
    ).rejects.toThrow(/line 1: task 0 has no instruction/);
    await expect(
      convertTasks(
        module("worst.py", `TASKS = [Task(user_id=${write}, instruction="", actions=[])]`),
        at("worst.json"),
      ),
    ).rejects.toThrow(/line 1: user_id is no literal/);
    expect(existsSync(trap)).toBe(false);
  });
});

const originals = join(import.meta.dirname, "../../shared/data/tau_airline/tasks.json");

test.skipIf(!existsSync(originals))(
  "a module with the original tasks becomes the file that was made of them",
  async () => {
    interface Original {
      annotator: string;
      user_id: string;
      instruction: string;
      actions: { name: string; kwargs: unknown }[];
      outputs: string[];
    }
    const records = JSON.parse(readFileSync(originals, "utf8")) as Original[];
    const call = (name: string, fields: Record<string, string>): string =>
      `${name}(${Object.entries(fields)
        .map(([key, value]) => `${key}=${value}`)
        .join(", ")})`;
    const python = records.map(({ annotator, user_id, instruction, actions, outputs }) =>
      call("Task", {
        annotator: JSON.stringify(annotator),
        user_id: JSON.stringify(user_id),
        instruction: JSON.stringify(instruction),
        actions: `[${actions
          .map(({ name, kwargs }) => call("Action", { name: JSON.stringify(name), kwargs: JSON.stringify(kwargs) }))
          .join(", ")}]`,
        outputs: JSON.stringify(outputs),
      }),
    );
    const module = at("originals.py");
    writeFileSync(module, `TASKS = [${python.join(",\n")}]\n`);
    const converted = await convertTasks(module, at("originals.json"));
    expect(converted).toMatchObject({ tasks: 50, actions: 158, writes: 56, as_original: true });
    const again = JSON.parse(readFileSync(at("originals.json"), "utf8")) as Original[];
    expect(again.map(({ actions }) => actions)).toEqual(records.map(({ actions }) => actions));
  },
);

describe("split", () => {
  test("of the suite: every fifth is unseen, and all of the others are covered", async () => {
    const output = at("split.json");
    const { code, stdout } = await data("split", "--output", output);
    expect([code, stdout]).toEqual([0, `${output}: 40 seen, of which 40 are covered, 10 unseen\n`]);
    expect(readSplitFile(output).unseen_task_ids).toEqual([0, 5, 10, 15, 20, 25, 30, 35, 40, 45]);
  });

  test("with another number held out", async () => {
    const output = at("split-25.json");
    expect(await data("split", "--holdout", "25", "--output", output)).toMatchObject({ code: 0 });
    expect(readSplitFile(output).unseen_task_ids).toHaveLength(25);
    expect(await data("split", "--holdout", "50", "--output", output)).toMatchObject({ code: 2 });
  });
});

describe("check", () => {
  test("the shipped data are good", async () => {
    expect(await data("check")).toMatchObject({
      code: 0,
      stdout: "data/airline/tasks.json: 50 tasks, 60 gold actions, 56 writes: good\n",
    });
  });

  test("a folder: records that point nowhere and gold that fails are problems, broken rules are notes", async () => {
    const own = at("own");
    mkdirSync(own);
    const db = synthAirlineDb("own", 0.1);
    writeAirlineDb(own, db);
    const [user_id, other] = [...db.users.keys()] as [string, string];
    const task = { user_id, instruction: "x", outputs: [] };
    const certificate = { name: "send_certificate", kwargs: { user_id: other, amount: 100 } };
    const cancel = { name: "cancel_reservation", kwargs: { reservation_id: "NOWHERE" } };
    const write = (...actions: unknown[]) =>
      writeFileSync(join(own, "tasks.json"), JSON.stringify([{ ...task, task_index: 0, actions }]));
    write(certificate);
    const noted = await data("check", own, "--json");
    expect(noted.code).toBe(0);
    expect(JSON.parse(noted.stdout)).toMatchObject({
      ok: true,
      problems: [],
      notes: [expect.stringMatching(/^tau-00: send_certificate breaks rule 26/)],
    });
    // Another folder: a database is loaded once a process.
    const broken = at("broken");
    mkdirSync(broken);
    for (const name of ["flights", "reservations", "users"]) {
      const text = readFileSync(join(own, `${name}.json`), "utf8");
      const owner = name === "reservations" ? text.replace(/"user_id": "[a-z_0-9]+"/, '"user_id": "no_body_1"') : text;
      writeFileSync(join(broken, `${name}.json`), owner);
    }
    writeFileSync(join(broken, "tasks.json"), JSON.stringify([{ ...task, task_index: 0, actions: [cancel] }]));
    const bad = await data("check", broken, "--json");
    expect(bad.code).toBe(1);
    const [id] = db.reservations.keys();
    expect(JSON.parse(bad.stdout)).toMatchObject({
      ok: false,
      problems: [
        `reservations: ${id} is of 'no_body_1', who is no user`,
        expect.stringMatching(new RegExp(`^users: \\w+ lists ${id}, which is not theirs$`)),
        "tau-00: cancel_reservation: Error: reservation not found",
      ],
    });
  });
});

describe("mistakes", () => {
  test.each<[string[], RegExp]>([
    [["db"], /data airline db: name where to write, as --output airline-data/],
    [["db", "--output", "x", "--scale", "3"], /--scale is '3'; expected a number above 0, at most 2/],
    [["db", "x", "--output", "y"], /data airline db takes no files; got x/],
    [["db", "--output", "x", "--split", "seen"], /data airline db takes no --split/],
    [["tasks", "--tasks-py", "x"], /data airline tasks takes no --tasks-py/],
    [["tasks", "--scale", "1"], /data airline tasks takes no --scale/],
    [["convert", "--output", "x"], /data airline convert: name the module/],
    [["convert", "--tasks-py", "nowhere.py"], /data airline convert: name where to write/],
    [["convert", "--tasks-py", "nowhere.py", "--output", "x"], /nowhere\.py/],
    [["split"], /data airline split: name where to write/],
    [["split", "--holdout", "0", "--output", "x"], /--holdout is '0'; expected a whole number from 1/],
    [["check", "--seed", "1"], /data airline check takes no --seed/],
    [["check", "a", "b"], /data airline check takes one folder; got a, b/],
    [["check", "nowhere"], /nowhere/],
    [["chekc"], /data airline has no action 'chekc'; expected one of db, tasks, convert, split, check,/],
  ])("%j", async (argv, problem) => {
    const { code, stderr } = await data(...argv);
    expect([code, stderr]).toEqual([2, expect.stringMatching(problem)]);
  });

  test("these flags are of no other family", async () => {
    expect(await runCommand("data", "arxiv", "snapshot", "--check", "--scale", "1")).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/--scale is of data airline/),
    });
  });
});
