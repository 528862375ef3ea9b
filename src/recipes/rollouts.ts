import { type EpisodeServer, serveEpisodes } from "../bridge/episodes.ts";
import type { TaskSet } from "../core/env.ts";
import { errorText } from "../core/errors.ts";
import { writeRewardSummary } from "../reward-summary.ts";
import { openExam } from "./exams.ts";
import type { RunContext } from "./recipe.ts";
import type { TrainingRun } from "./training-run.ts";
import { gapAlarm } from "./validation.ts";

// What the recipes that learn from rollouts (grpo, opd) do around their episodes.

interface Rollouts {
  tasks: TaskSet;
  /** null: no canary is played. */
  canary: TaskSet | null;
  /** Left out or null: no validation is played. */
  validation?: { tasks: TaskSet; max_turns: number | null } | null;
  config: { max_turns: number | null; episode_timeout_ms: number; max_invalid_share: number };
  /** A point of the curves in a line. */
  status(step: number, values: Record<string, number>): string;
}

/** Serves training's episodes and those of its exams, each into a log of its own. */
export function serveRollouts(
  training: TrainingRun,
  { tasks, canary, validation, config, status }: Rollouts,
  { progress }: RunContext,
): EpisodeServer {
  return serveEpisodes({
    tasks,
    exams: {
      ...(canary && { canary: openExam(canary, () => training.log("canary")) }),
      ...(validation && {
        validation: {
          ...openExam(validation.tasks, () => training.log("validation")),
          max_turns: validation.max_turns,
        },
      }),
      verification: openExam(tasks, () => training.log("verification")),
    },
    log: training.log("trajectories"),
    counters: training.counters,
    onCheckpoint: training.onCheckpoint,
    max_turns: config.max_turns ?? undefined,
    timeout_ms: config.episode_timeout_ms,
    max_invalid_share: config.max_invalid_share,
    onLog(step, values) {
      training.metrics.write(step, values);
      const alarm = gapAlarm(step, values);
      if (alarm) progress.line(alarm);
      progress.status(status(step, values));
    },
    onNote: progress.line,
  });
}

/** Closes what is open and sums up the rewards: however the run ended, and never in place of the error that ended it. */
export async function endRollouts(served: EpisodeServer, dir: string, { progress, world }: RunContext): Promise<void> {
  await served.closeAll();
  if (world.rank > 0) return;
  await writeRewardSummary(dir).catch((error: unknown) => progress.line(`no reward summary: ${errorText(error)}`));
}
