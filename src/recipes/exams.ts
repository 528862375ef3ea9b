import type { Served } from "../bridge/episodes.ts";
import type { TaskSet } from "../core/env.ts";
import type { Trajectory } from "../core/trajectory.ts";
import { type JsonLines, openTrajectoryLog } from "../trajectory-log.ts";

// Episodes that test the policy and teach it nothing, a canary's or a verification's: tasks and a log of their own, so
// that no reader of training's rollouts takes them for data.

export interface Exam extends Served {
  log: { write(trajectory: Trajectory): void };
  close(): void;
}

/** @param path Its log; the file is made with the first episode. */
export function openExam(tasks: TaskSet, path: string): Exam {
  let lines: JsonLines<Trajectory> | null = null;
  return {
    tasks,
    log: {
      write(trajectory) {
        lines ??= openTrajectoryLog(path);
        lines.write(trajectory);
      },
    },
    close: () => lines?.close(),
  };
}
