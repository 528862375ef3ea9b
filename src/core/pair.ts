// Preference pairs: two trajectories of one task, told apart at the first turn where they did something else.
// Direct Preference Optimization (arXiv:2305.18290) learns from them; which ones are taken: arxiv.md 10.3.
import { z } from "zod";
import { type Message, messageSchema } from "./message.ts";
import type { ExpertRow, LoadedTasks, TaskBase } from "./task.ts";
import type { Turn } from "./trajectory.ts";

/**
 * A pair on disk. What the trainer sees is `prompt`, the turns that both have in common, and then either side's own:
 * as tokens, `{prompt, turns: [...shared, ...chosen]}` is a row of worked solutions in which the shared replies carry no
 * loss.
 */
export interface PairRow {
  id: string;
  task_id: string;
  /** What the policy sees first. */
  prompt: Message[];
  /** Turns before the two differ, as the chosen trajectory has them; same actions and observations on either side. */
  shared: ExpertRow["turns"];
  /** From the first turn on that differs; the last turn has no observations. */
  chosen: ExpertRow["turns"];
  rejected: ExpertRow["turns"];
  /** Rewards of the two whole trajectories. */
  chosen_reward: number;
  rejected_reward: number;
  meta: Record<string, unknown>;
}

const turns = z.array(z.strictObject({ reply: z.string(), observations: z.array(messageSchema) }));

export const pairRowSchema: z.ZodType<PairRow> = z.strictObject(
  {
    id: z.string(),
    task_id: z.string(),
    prompt: z.array(messageSchema).min(1),
    shared: turns,
    chosen: turns.min(1),
    rejected: turns.min(1),
    chosen_reward: z.number(),
    rejected_reward: z.number(),
    meta: z.record(z.string(), z.unknown()).default({}),
  },
  { error: (issue) => (issue.code === "invalid_type" ? "row must be an object" : undefined) },
);

/** A turn of a stored trajectory, as pairs are made of it. */
export interface PairTurn {
  /** null: the record does not say what the policy wrote. */
  reply: string | null;
  /** Equal for turns that did the same: the call with sorted keys, not the thought before it. */
  action: string;
  observations: Message[];
  /** The environment could not read the reply. */
  unreadable: boolean;
}

/** What counts as done in the turn after a trajectory's last one, and the reply that does it; null: there is none. */
export interface PairEnd {
  action: string;
  reply: string | null;
}

/** What a family puts in so that its stored trajectories can become pairs. */
export interface PairRules<Task extends TaskBase, Options> {
  /** Where tasks come from unless the user names a split. */
  split: string;
  /** The tasks of a split that is there to be trained on. @throws UserError for any other, and for a leak */
  load(split: string, options: Options): LoadedTasks<Task> | Promise<LoadedTasks<Task>>;
  /** Whether a stored prompt is this task's: its id may have been another's once. Left out: it is. */
  fits?(task: Task, prompt: readonly Message[]): boolean;
  /** What a turn did; left out: its call, or the whole reply where it made none. */
  action?(turn: Turn): string;
  /** What counts as done where a trajectory is over; left out: something that no turn does, and that no reply says. */
  end?: PairEnd;
  /**
   * A line of the family's score format as turns; left out: only trajectory logs can be read. null: it is of no task that
   * has an id. `rescore` has taken the line already.
   */
  history?(line: unknown): { task_id: string; turns: PairTurn[] } | null;
}

/** How pairs are chosen. Defaults: arxiv.md 10.3. */
export const pairSettings = z.strictObject({
  min_reward_gap: z.number().min(0).default(0.05).describe("The rewards of a pair differ by more than this."),
  max_pairs: z.int().positive().default(1).describe("Pairs of one task at most, those with the largest gaps."),
  span: z
    .enum(["step", "rest"])
    .default("step")
    .describe("What of each side is compared: the first turn that differs, or all turns from there on."),
});

export type PairSettings = z.output<typeof pairSettings> & {
  /** Decides between trajectories of equal rewards. */
  seed: number;
};
