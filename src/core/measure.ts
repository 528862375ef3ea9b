// What a benchmark tells of an environment beside reward, success and parts. A family declares it; eval/ adds it up.
import type { Trajectory } from "./trajectory.ts";

/** A mean over episodes, with its own denominator. */
export interface Measure {
  name: string;
  /** The denominator in words, for reports: "episodes", "episodes that finished". */
  over: string;
  /** One episode's value, a yes as 1; null: it has nothing to measure and leaves the denominator. */
  of(episode: Trajectory): number | boolean | null;
}

/** What a family's own report files may tell besides the trajectories. */
export interface ReportContext {
  /** Id with version, as "arxiv@1". */
  env: string;
  policy: string;
  /** Of a policy that one of our runs trained: its experiment, and the optimizer steps that it had taken; null: not known. */
  variant: string | null;
  step: number | null;
  /** Trials of each task that were planned. */
  trials: number;
  seed: number;
  /** Resolved. */
  env_options: Record<string, unknown>;
  /** Tokens that one reply may have; null: the policy is no model. */
  max_turn_tokens: number | null;
  /** Tokens of each text, by the policy's own tokenizer; a text says why they can't be counted. */
  count_tokens: ((texts: readonly string[]) => Promise<number[]>) | string;
}

export interface BenchmarkRules {
  /**
   * Metrics of the scorer that are true or false, by each of which pass^k is told. The first one is what `success` is,
   * so that judging an episode again tells its success too.
   */
  criteria: readonly string[];
  measures: readonly Measure[];
  /** In what way an episode without success failed; left out: `failureOf`. */
  failure?(episode: Trajectory): string;
  /** What tasks belong together, as the rounds of one question: comparisons show a row each. Left out: each task alone. */
  unit?(task_id: string): string;
  /** The family's own report files, by name: what becomes JSON in a benchmark's folder. Left out: it has none. */
  reports?(episodes: readonly Trajectory[], context: ReportContext): Promise<Record<string, unknown>>;
}

/** How an episode without success failed, told by how it ended alone. */
export function failureOf({ ended_by }: Pick<Trajectory, "ended_by">): string {
  if (ended_by === "terminated") return "failed_claiming_done";
  return ended_by === "truncated" ? "failed_at_limit" : "failed_with_error";
}
