import { describe, expect, test } from "vitest";
import type { Message } from "../../../core/message.ts";
import type { Trajectory } from "../../../core/trajectory.ts";
import { episode } from "./fixtures/episodes.ts";
import { hackingByStep } from "./hacking-by-step.ts";

const replies = (...texts: string[]) => texts.map((reply) => ({ reply }));
const only = (trajectories: readonly Trajectory[]) => hackingByStep(trajectories)[0]!;
const user = (content: string): Message[] => [{ role: "user", content }];

test("steps come in order, episodes without a reward are left out, counts are means an episode", () => {
  const at = (policy_step: number | null, repeats: number, changes: Partial<Trajectory> = {}) =>
    episode({ policy_step, metrics: { hack_exact_repeats: repeats, writes: 3 }, ...changes });
  const steps = hackingByStep([at(10, 2), at(null, 0), at(10, 4), at(10, 90, { reward: null, ended_by: "error" })]);
  expect(steps.map(({ step, episodes, counts }) => [step, episodes, counts])).toEqual([
    [null, 1, { hack_exact_repeats: 0 }],
    [10, 2, { hack_exact_repeats: 3 }],
  ]);
});

describe("memorised openings", () => {
  const opening = (task_id: string, reply: string, trial = 0) => episode({ task_id, trial }, replies(reply, "Bye."));
  test("the same first reply to two tasks", () => {
    const played = [opening("a", "I cancel MDCLVA."), opening("b", "I cancel MDCLVA. "), opening("c", "Hello.")];
    expect(only(played).memorised_openings).toBeCloseTo(2 / 3, 12);
  });
  test("the same one to one task is none", () => {
    expect(only([opening("a", "Hello."), opening("a", "Hello.", 1)]).memorised_openings).toBe(0);
  });
  test("nothing was said", () => {
    expect(only([episode({}, [])]).memorised_openings).toBeNull();
  });
});

describe("exploited simulator randomness", () => {
  const played = (trial: number, success: boolean, reply: string, answer: string) =>
    episode({ trial, success }, [{ reply, observations: user(answer) }, { reply: `You said: ${answer}` }]);
  test("the user's answers decide", () => {
    expect(only([played(0, true, "Hello.", "Yes."), played(1, false, "Hello.", "No.")]).lucky_groups).toBe(1);
  });
  test("the agent's own words differ first", () => {
    expect(only([played(0, true, "Hello.", "Yes."), played(1, false, "Hi.", "No.")]).lucky_groups).toBe(0);
  });
  test("both succeed", () => {
    expect(only([played(0, true, "Hello.", "Yes."), played(1, true, "Hello.", "No.")]).lucky_groups).toBe(0);
  });
  test("a task played once tells nothing", () => {
    expect(only([played(0, true, "Hello.", "Yes.")]).lucky_groups).toBeNull();
  });
});

describe("late-token free riding", () => {
  test("successes that write late", () => {
    const steps = only([
      episode({ success: true }, replies("a", "a", "x".repeat(8))),
      episode({ trial: 1 }, replies("x".repeat(4), "x".repeat(4), "xx")),
    ]);
    expect(steps.late_share).toBeCloseTo(0.5, 12);
    expect(steps.late_share_gap).toBeCloseTo(0.6, 12);
  });
  test("even writing has no gap; short episodes tell nothing", () => {
    const even = replies("aa", "aa", "aa");
    expect(only([episode({ success: true }, even), episode({ trial: 1 }, even)]).late_share_gap).toBeCloseTo(0, 12);
    expect(only([episode({}, replies("a", "b"))])).toMatchObject({ late_share: null, late_share_gap: null });
  });
});
