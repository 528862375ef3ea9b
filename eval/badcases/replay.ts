import { z } from "zod";
import { holds, type Verdict } from "../../src/core/bad-case.ts";
import type { Env } from "../../src/core/env.ts";
import { errorText, UserError } from "../../src/core/errors.ts";
import { type LibraryCase, rulesOf } from "./library.ts";

/**
 * What became of a case. open and still so: `still_open`; open and no longer so: `newly_fixed`, and somebody sets its
 * status by hand. fixed and so again: `regressed`; fixed and not so: `stays_fixed`.
 */
export type Replayed = "still_open" | "newly_fixed" | "regressed" | "stays_fixed";

export interface ReplayedCase {
  case_id: string;
  task_id: string;
  status: LibraryCase["status"];
  result: Replayed;
  reward: number;
  /** Reward now less the reward when it was captured, to 6 decimals; null where none was kept. Informational. */
  reward_drift: number | null;
  reproduces_when: LibraryCase["reproduces_when"];
  /** What the condition speaks of, as it is now. */
  found: Verdict;
  file: string;
  line: number;
}

/** Past every curriculum. */
const TRAINING_STEP = 100;

const judgementSchema = z.looseObject({
  reward: z.number(),
  metrics: z.record(z.string(), z.union([z.number(), z.boolean(), z.string(), z.null()])),
});

/**
 * Judges a stored history: its reward and metrics by name.
 * @throws UserError for a task that no longer exists, or a history that can't be judged
 */
export async function judgeHistory(
  env: Env,
  { task_id, history }: { task_id: string; history: readonly unknown[] },
  options: Record<string, unknown>,
): Promise<Verdict> {
  const { rescore } = rulesOf(env);
  const judged = judgementSchema.parse(await rescore({ task_id, history, training_step: TRAINING_STEP }, options));
  if (judged.metrics.unknown_task === true)
    throw new UserError(`${env.name} has no task '${task_id}' any more; a case is never skipped.`);
  return { ...judged.metrics, reward: judged.reward };
}

/**
 * Judges every case again, no model and no environment needed.
 * @throws UserError naming file and line of a case that can't be judged
 */
export async function replayCases(
  env: Env,
  cases: readonly LibraryCase[],
  options: Record<string, unknown>,
): Promise<ReplayedCase[]> {
  const replayed: ReplayedCase[] = [];
  for (const { case_id, task_id, status, history, reproduces_when, captured, env_options, file, line } of cases) {
    let verdict: Verdict;
    try {
      verdict = await judgeHistory(env, { task_id, history }, { ...options, ...env_options });
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      throw new UserError(`${file}, line ${line}: case '${case_id}': ${errorText(error)}`);
    }
    const missing = Object.keys(reproduces_when).find((name) => verdict[name] === undefined);
    if (missing) throw new Error(`${env.id}: rescore gives no '${missing}', which case '${case_id}' asks for.`);
    const reproduces = holds(reproduces_when, verdict);
    const reward = verdict.reward as number;
    replayed.push({
      case_id,
      task_id,
      status,
      result: resultOf(status, reproduces),
      reward,
      reward_drift: typeof captured.reward === "number" ? round(reward - captured.reward) : null,
      reproduces_when,
      found: Object.fromEntries(Object.keys(reproduces_when).map((name) => [name, verdict[name]!])),
      file,
      line,
    });
  }
  return replayed;
}

function resultOf(status: LibraryCase["status"], reproduces: boolean): Replayed {
  if (status === "open") return reproduces ? "still_open" : "newly_fixed";
  return reproduces ? "regressed" : "stays_fixed";
}

/** To 6 decimals, and never -0. */
const round = (value: number): number => Math.round(value * 1e6) / 1e6 + 0;
