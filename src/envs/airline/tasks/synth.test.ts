import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { startState } from "../data/state.ts";
import { sameData } from "../data/state-hash.ts";
import { sharedSynthDb } from "../data/synth.ts";
import { goldState } from "../scoring.ts";
import { playTeacher } from "../teacher/index.ts";
import { airlineToolNamed, runAction } from "../tools/index.ts";
import { TRANSFER_TOOL } from "../users/script.ts";
import { placeOf, readTaskFile, SHIPPED_TASKS } from "./load.ts";
import { proveTask } from "./proof.ts";
import { isSolved } from "./solved.ts";
import { EXTRA_TASKS, extraTasks, synthTasks } from "./synth.ts";
import type { AirlineTask } from "./task.ts";
import { taskFileText } from "./task-file.ts";
import { templates } from "./templates/index.ts";

const db = sharedSynthDb();
const suite = synthTasks();
const extra = extraTasks();
const all = [...suite, ...extra];

const LETTERS: Record<string, string> = {
  book_reservation: "B",
  cancel_reservation: "C",
  update_reservation_flights: "F",
  update_reservation_baggages: "G",
  update_reservation_passengers: "P",
  send_certificate: "S",
};

/** A task's gold as the table of airline.md 4.6 writes it. */
function lettersOf({ actions, outputs }: AirlineTask): string {
  const writes = actions.map(({ name }) => LETTERS[name] ?? "").join("");
  const parts = [writes || "-", ...(outputs.length > 0 ? [`#${outputs.length}`] : [])];
  return [...parts, ...(actions.some(({ name }) => name === TRANSFER_TOOL) ? ["T"] : [])].join(" ");
}

// airline.md 4.6, row by row.
const TABLE = [
  ...["B", "C", "FFFFF #1", "FG", "FPG", "FPG", "F", "F", "CB #3", "CBBB #3"],
  ...["CB", "B", "-", "- T", "G", "-", "S", "-", "-", "FG"],
  ...["F", "-", "FF", "FG", "-", "B", "CF", "C", "CCC", "-"],
  ...["CC", "C", "B", "CFFF", "FCC", "- T", "- T", "-", "- T", "-"],
  ...["-", "-", "-", "P", "- #1", "S", "S", "-", "-", "-"],
];

describe("the synthetic suite", () => {
  test("has the originals' mix: each row's writes, outputs and transfer", () => {
    expect(templates.map(({ row }) => row)).toEqual(TABLE.map((_, row) => row));
    expect(templates.map(({ gold }) => gold)).toEqual(TABLE);
    expect(suite.map(lettersOf)).toEqual(TABLE);
    expect(extra.map(lettersOf)).toEqual(extra.map((_, i) => TABLE[i % TABLE.length]));
  });

  test("ids and numbers run through, and in the suite nobody comes twice", () => {
    expect(suite.map(({ id }) => id)).toEqual(suite.map((_, i) => `synth-${String(i).padStart(2, "0")}`));
    expect(extra.map(({ id }) => id)).toEqual(extra.map((_, i) => `extra-${String(i).padStart(3, "0")}`));
    expect(extra).toHaveLength(EXTRA_TASKS);
    expect(all.map(({ task_index }) => task_index)).toEqual([...suite.keys(), ...extra.keys()]);
    expect(new Set(suite.map(({ user_id }) => user_id)).size).toBe(50);
    expect(new Set(all.map(({ instruction }) => instruction)).size).toBe(250);
    expect(new Set(all.map(({ user_id }) => user_id)).size).toBeGreaterThan(200);
  });

  test("every task is proven", () => {
    expect(all.flatMap((task) => proveTask(task, db).map((why) => `${task.id}: ${why}`))).toEqual([]);
  });

  test("the scripted teacher solves every task against the scripted user, who may or may not see the writes", () => {
    for (const peek of [true, false]) {
      const plays = all.map((task) => ({ task, play: playTeacher(task, db, { peek }) }));
      expect(plays.filter(({ task, play }) => !isSolved(task, play)).map(({ task }) => task.id)).toEqual([]);
      expect(Math.max(...plays.map(({ play }) => play.turns.length))).toBeLessThanOrEqual(30);
      const transfers = plays
        .filter(({ play }) => play.ended_by === "transfer")
        .map(({ task }) => task.task_index % 50);
      expect([...new Set(transfers)].sort()).toEqual([13, 35, 36, 38]);
    }
  });

  test("what tempts leads elsewhere than the gold", () => {
    const same = all.filter((task) =>
      task.proof!.tempting.some(({ name, kwargs, after }) => {
        const before = task.actions.slice(0, after).reduce((now, one) => runAction(now, one).state, startState(db));
        const { state, failed } = runAction(before, { name, kwargs });
        return !failed && sameData(state, goldState(task, db));
      }),
    );
    expect(same.map(({ id }) => id)).toEqual([]);
  });

  test("the file in data/airline is what the generator gives, and reads back as that", () => {
    expect(readFileSync(placeOf(SHIPPED_TASKS), "utf8")).toBe(taskFileText(suite));
    expect(readTaskFile(placeOf(SHIPPED_TASKS), db)).toEqual(suite);
  });

  test("another seed gives other tasks, as good", () => {
    const other = synthTasks("another seed");
    expect(other.filter((task, i) => task.instruction === suite[i]!.instruction)).toEqual([]);
    expect(other.flatMap((task) => proveTask(task, db))).toEqual([]);
    expect(synthTasks("another seed")).toBe(other);
  });

  test("20 tasks write nothing, 19 of them ask for no output either, as of the originals", () => {
    const idle = suite.filter((task) => !task.actions.some(({ name }) => airlineToolNamed(name)?.writes));
    expect(idle).toHaveLength(20);
    expect(idle.filter(({ outputs }) => outputs.length === 0)).toHaveLength(19);
  });
});
