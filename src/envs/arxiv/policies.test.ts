import { describe, expect, test } from "vitest";
import { createRandom } from "../../core/random.ts";
import { arxivPlans, arxivPolicies } from "./policies.ts";
import { parseReact } from "./protocol.ts";
import { terminalSemantics } from "./semantics.ts";
import { arxivTasks, smokeTasks } from "./tasks.ts";
import { TOOL_NAMES } from "./tools/index.ts";
import { THOUGHT_VARIANTS, terminalThought } from "./wordings.ts";

const TASKS = [...arxivTasks(), ...smokeTasks()];

test.each(TASKS)("gold replies of $id read back as its steps and a FINISH", (task) => {
  const read = arxivPolicies.gold(task, createRandom(1)).map(parseReact);
  const calls = read.flatMap((reply) => (reply.kind === "call" ? [{ tool: reply.name, args: reply.args }] : []));
  expect(calls).toEqual(task.steps);
  expect(read.at(-1)!.kind).toBe("finish");
  expect(read.every(({ repairs, thought }) => repairs.length === 0 && thought !== "")).toBe(true);
});

test.each(TASKS)("no policy's words name the id of $id", (task) => {
  for (const play of Object.values(arxivPolicies)) {
    expect(play(task, createRandom(1)).join("\n")).not.toContain(task.id);
  }
});

describe("the closing thoughts of blocked tasks explain", () => {
  const blocked = TASKS.filter((task) => task.terminal_reason !== null);
  test.each(blocked)("$id", (task) => {
    for (let variant = 0; variant < THOUGHT_VARIANTS; variant++) {
      for (const profile of ["project", "reference"] as const) {
        const thought = terminalThought(task, variant);
        expect([thought, terminalSemantics(thought, task.terminal_reason!, profile)]).toEqual([
          thought,
          "explained_block",
        ]);
      }
    }
  });
});

test("random_tool is one call drawn from four by the given stream, then FINISH", () => {
  const drawn = Array.from({ length: 50 }, (_, i) => arxivPolicies.random_tool(TASKS[0]!, createRandom(i)));
  expect(new Set(drawn.map(([first]) => first)).size).toBe(4);
  expect(drawn.every((replies) => replies.length === 2)).toBe(true);
  expect(arxivPolicies.random_tool(TASKS[0]!, createRandom(7))).toEqual(drawn[7]);
});

test("wrong_args keeps the tools and spoils the arguments", () => {
  for (const task of TASKS) {
    const read = arxivPolicies.wrong_args(task, createRandom(1)).map(parseReact);
    const calls = read.flatMap((reply) => (reply.kind === "call" ? [reply] : []));
    expect(calls.map(({ name }) => name)).toEqual(task.steps.map(({ tool }) => tool));
    for (const [i, { args }] of calls.entries()) expect(args).not.toEqual(task.steps[i]!.args);
  }
});

test("the policies that do too much, refuse, or only look well-formed", () => {
  for (const task of TASKS) {
    const { repeat_last_call, download_everything, finish_with_refusal, format_only } = arxivPlans;
    const last = task.steps.at(-1);
    expect(repeat_last_call(task).calls).toEqual(last ? [...task.steps, last] : []);
    expect(download_everything().calls.map(({ args }) => args.ref)).toEqual([1, 2, 3, 4, 5]);
    expect(finish_with_refusal().calls).toEqual([]);
    expect(TOOL_NAMES).not.toContain(format_only().calls[0]!.tool);
  }
  const right = arxivTasks().filter(
    ({ terminal_reason }) =>
      terminal_reason !== null &&
      terminalSemantics(arxivPlans.finish_with_refusal().closing, terminal_reason, "project") === "explained_block",
  );
  expect(right.map(({ terminal_reason }) => terminal_reason)).toEqual(["unsupported_capability"]);
});
