import { expect, test } from "vitest";
import { derivedTasks } from "./derivations.ts";
import { parseReact } from "./protocol.ts";
import { terminalSemantics } from "./semantics.ts";
import { arxivTasks } from "./tasks.ts";
import { goldReplies, stepThought, THOUGHT_VARIANTS, taskWrappers, terminalThought } from "./wordings.ts";

const tasks = [...arxivTasks(), ...derivedTasks(arxivTasks(), "t5").map(({ task }) => task)];
const variants = [...Array(THOUGHT_VARIANTS).keys()];

test("every blocked task's closing thought explains its reason, in both profiles", () => {
  for (const task of tasks.filter(({ terminal_reason }) => terminal_reason !== null)) {
    for (const variant of variants) {
      const thought = terminalThought(task, variant);
      for (const profile of ["project", "reference"] as const) {
        expect([thought, terminalSemantics(thought, task.terminal_reason!, profile)]).toEqual([
          thought,
          "explained_block",
        ]);
      }
    }
  }
});

test("the thoughts name what the sentence named", () => {
  const thought = (id: string) => terminalThought(tasks.find((task) => task.id === id)!);
  expect(thought("infeasible_index_out_of_range")).toBe(
    "The index 20 is out of range: the list has 5 papers, so this cannot be done.",
  );
  expect(thought("infeasible_zero_index")).toContain("index 0 ");
  expect(thought("augp1_infeasible_zero_index_ref_minus1")).toContain("index -1 ");
  expect(thought("infeasible_unknown_id")).toContain("2999.99999v1");
});

test("thoughts are short, hold no task id, and replies are read back as they were meant", () => {
  for (const task of tasks) {
    for (const variant of variants) {
      const thoughts = [...task.steps.map((step) => stepThought(step, variant)), terminalThought(task, variant)];
      for (const [i, reply] of goldReplies(task, variant).entries()) {
        const step = task.steps[i];
        expect(parseReact(reply)).toEqual(
          step
            ? { kind: "call", thought: thoughts[i], name: step.tool, args: step.args, repairs: [] }
            : { kind: "finish", thought: thoughts[i], repairs: [] },
        );
      }
      for (const thought of thoughts) {
        expect(thought).not.toContain(task.id);
        if (thought !== thoughts.at(-1)) expect(thought.split(" ").length).toBeLessThanOrEqual(15);
      }
    }
  }
});

test("frames keep the sentence whole, and all differ", () => {
  const framed = taskWrappers.map((wrap) => wrap("Download paper 1."));
  expect(framed[0]).toBe("Download paper 1.");
  for (const text of framed) expect(text).toContain("Download paper 1.");
  expect(new Set(framed).size).toBe(6);
});
