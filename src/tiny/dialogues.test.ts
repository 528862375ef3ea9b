import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { createRandom } from "../core/random.ts";
import { type DialogueRow, makeDialogue, type RenderReply, type Stage } from "./dialogues.ts";

const renderReply: RenderReply = (thought, action) =>
  `Thought: ${thought}\nAction: ${action === "FINISH" ? action : JSON.stringify(action)}`;

const stages: Stage[] = ["copy", "short", "full"];

function rows(stage: Stage, count: number, seed = "test"): DialogueRow[] {
  return Array.from({ length: count }, (_, i) =>
    makeDialogue({ random: createRandom(`${seed}/${stage}/${i}`), renderReply, stage }),
  );
}

const everything = stages.flatMap((stage) => rows(stage, 1500));
const text = (row: DialogueRow) => JSON.stringify(row);
const task = (row: DialogueRow) => row.prompt[0]!.content.split("Task:")[1]!;

function action(reply: string): { name: string; args: Record<string, unknown> } | "FINISH" {
  const after = reply.slice(reply.lastIndexOf("\nAction: ") + "\nAction: ".length);
  return after === "FINISH" ? after : JSON.parse(after);
}

test("one seed gives the same dialogues, another seed others", () => {
  for (const stage of stages) {
    expect(rows(stage, 50)).toEqual(rows(stage, 50));
    expect(rows(stage, 50, "other")).not.toEqual(rows(stage, 50));
  }
});

describe("every dialogue", () => {
  test("is one user message and replies whose actions can be read", () => {
    for (const row of everything) {
      expect(row.prompt).toHaveLength(1);
      expect(row.prompt[0]!.role).toBe("user");
      expect(row.turns.length).toBeGreaterThan(0);
      for (const { reply, observations } of row.turns) {
        expect(reply).toMatch(/^Thought: \S.*\nAction: /);
        expect(action(reply)).toSatisfy((read: unknown) => read === "FINISH" || typeof read === "object");
        for (const { role, content } of observations) {
          expect(role).toBe("user");
          expect(content).toMatch(/^Observation: \S/);
        }
      }
      expect(row.turns.at(-1)!.observations).toEqual([]);
    }
  });

  test("has no gap left by its templates", () => {
    for (const row of everything) expect(text(row)).not.toMatch(/undefined|NaN|\[object| {2}/);
  });

  test("short and full: acts up to five times, sees what came of it, and finishes", () => {
    for (const stage of ["short", "full"] as const)
      for (const { turns } of rows(stage, 1500)) {
        const actions = turns.map(({ reply }) => action(reply));
        expect(actions.at(-1)).toBe("FINISH");
        expect(actions.slice(0, -1)).not.toContain("FINISH");
        expect(actions.length - 1).toBeLessThanOrEqual(stage === "short" ? 2 : 5);
        for (const { observations } of turns.slice(0, -1)) expect(observations).toHaveLength(1);
      }
  });

  test("takes texts and amounts of its calls from what it was told", () => {
    for (const row of everything)
      for (const { reply } of row.turns) {
        const call = action(reply);
        if (call === "FINISH") continue;
        for (const value of Object.values(call.args))
          if (typeof value === "string" && value !== "*") expect(task(row)).toContain(value);
      }
  });
});

test("what a base has to learn is all there", () => {
  const full = rows("full", 1500);
  const calls = full.map(({ turns }) => turns.length - 1);
  for (const count of [0, 1, 2, 3, 4, 5]) expect(calls.filter((n) => n === count).length).toBeGreaterThan(40);
  const values = full.flatMap(({ turns }) =>
    turns.map(({ reply }) => action(reply)).flatMap((call) => (call === "FINISH" ? [] : Object.values(call.args))),
  );
  const share = (holds: (value: unknown) => boolean) => values.filter(holds).length / values.length;
  expect(share((value) => value === null)).toBeGreaterThan(0.02);
  expect(share((value) => typeof value === "boolean")).toBeGreaterThan(0.02);
  expect(share((value) => typeof value === "string" && /^\d{4}\.\d{5}v\d$/.test(value))).toBeGreaterThan(0.005);
  expect(share((value) => typeof value === "string" && /^[A-Z]{2}$/.test(value))).toBeGreaterThan(0.02);
  const asked = full.map(task).join("\n");
  for (const words of ["third", "3rd", "the last", "at most", "Do not"]) expect(asked).toContain(words);
});

test("no dialogue names a tool of the benchmark or holds one of its sentences", () => {
  const tasks = JSON.parse(readFileSync("data/arxiv/tasks.json", "utf8")) as {
    task: string;
    steps: { tool: string }[];
  }[];
  const names = [...new Set(tasks.flatMap(({ steps }) => steps.map(({ tool }) => tool)))];
  expect(names).toHaveLength(9);
  const all = everything.map(text).join("\n");
  for (const name of names) expect(all).not.toContain(name);
  for (const { task } of tasks) expect(all.toLowerCase()).not.toContain(task.toLowerCase());
});
