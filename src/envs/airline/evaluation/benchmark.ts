import type { BenchmarkRules, ReportContext } from "../../../core/measure.ts";
import type { Trajectory } from "../../../core/trajectory.ts";
import { airlineOptions } from "../options.ts";
import { spokenTexts } from "./episode.ts";
import { evalReport, splitEvalReport } from "./report.ts";
import { EVAL_REPORT, SPLIT_EVAL_REPORT, type TaskGroups } from "./schema.ts";

/**
 * What a benchmark asks for this family's report files.
 * @param groupsOf the groups of tasks under a benchmark's options
 */
export function evaluationReports(
  groupsOf: (env_options: Record<string, unknown>) => TaskGroups | Promise<TaskGroups>,
): NonNullable<BenchmarkRules["reports"]> {
  return async (episodes, context) => {
    const { env, policy, variant, step, trials, seed, env_options, max_turn_tokens, count_tokens } = context;
    const groups = await groupsOf(env_options);
    const report = evalReport(episodes, {
      run: { env, policy, variant, step, trials, seed },
      groups,
      error_rate_kind: airlineOptions.parse(env_options).metrics.error_rate,
      turn_token_limit: max_turn_tokens,
      turn_tokens: await countTurns(episodes, count_tokens),
    });
    return { [EVAL_REPORT]: report, [SPLIT_EVAL_REPORT]: splitEvalReport(report, groups) };
  };
}

/** For each episode the tokens of each of its messages' texts, or why they were not counted. Each text is asked for once. */
async function countTurns(
  episodes: readonly Trajectory[],
  count: ReportContext["count_tokens"],
): Promise<number[][] | string> {
  if (typeof count === "string") return count;
  const texts = episodes.map(spokenTexts);
  const asked = [...new Set(texts.flat())].filter((text) => text !== "");
  const counts = asked.length === 0 ? [] : await count(asked);
  const tokens = new Map([["", 0], ...asked.map((text, index): [string, number] => [text, counts[index]!])] as const);
  return texts.map((own) => own.map((text) => tokens.get(text)!));
}
