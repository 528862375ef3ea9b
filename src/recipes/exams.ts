import type { Served } from "../bridge/episodes.ts";
import type { TaskSet } from "../core/env.ts";
import type { Trajectory } from "../core/trajectory.ts";
import type { JsonLines } from "../trajectory-log.ts";

// Episodes that test the policy and teach it nothing, as a canary's or a validation's: tasks and a log of their own, so
// that no reader of training's rollouts takes them for data.

/** @param open Opens its log; called with the first episode. */
export function openExam(tasks: TaskSet, open: () => JsonLines<Trajectory>): Served {
  let lines: JsonLines<Trajectory> | null = null;
  return {
    tasks,
    log: {
      write(trajectory) {
        lines ??= open();
        lines.write(trajectory);
      },
    },
  };
}
