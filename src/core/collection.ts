// How a teacher's episodes become SFT data: `trestle collect`. A family declares what is its own about it.
import type { Message } from "./message.ts";
import type { Trajectory } from "./trajectory.ts";

export interface CollectionRules {
  /** Whose tasks are played where no split is named. */
  split: string;
  /** Rows of these tasks are for training, and rows of those are held out. null: all others. */
  train: string;
  holdout: string | null;
  /** Options that a collection has unless the user says otherwise. */
  env_options?: Record<string, unknown>;
  /** Why an episode's messages may never be trained on, though it may have succeeded; null: nothing is wrong with them. */
  contaminated?(trajectory: Trajectory): string | null;
  /** An episode as chat templates take it; left out: the messages as they are. */
  conversation?(messages: readonly Message[]): unknown[];
  /** Counts of an episode for its record, beside the reward. */
  counts?(trajectory: Trajectory): Record<string, number>;
  /** Files about all tasks, by name, given those that have a clean success; left out: none. */
  files?(covered: readonly string[], options: unknown): Record<string, unknown> | Promise<Record<string, unknown>>;
}
