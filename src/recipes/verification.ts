import { z } from "zod";
import type { EntryRequest, EntryResult, Sampling, Verified } from "../bridge/protocol.ts";
import { createRandom } from "../core/random.ts";
import type { Progress } from "../metrics.ts";
import { type RunFolder, writeJson } from "../run-folder.ts";

// Stage verification (arxiv.md 10.6): does what was trained do the least that its stage is for? It is played with the
// policy that is still in memory, through the same rollout, prompts and rewards as training.

export const verifyKeys = {
  verify: z
    .boolean()
    .default(true)
    .describe("Play a few tasks with the trained policy, and compare with the least that its stage should reach."),
};

interface Gate {
  measure: "parse_rate" | "mean_reward";
  at_least: number;
  /** false: it is only told. */
  fails_the_run: boolean;
}

/** What each stage should reach at least. Source: arxiv.md 10.6. */
export const GATES = {
  sft: { measure: "parse_rate", at_least: 0.3, fails_the_run: false },
  dpo: { measure: "mean_reward", at_least: -0.3, fails_the_run: false },
  grpo: { measure: "mean_reward", at_least: -0.2, fails_the_run: true },
  opd: { measure: "mean_reward", at_least: -0.2, fails_the_run: true },
} as const satisfies Record<string, Gate>;

const TASKS = 8;
const SAMPLES = 2;
const TEMPERATURE = 0.3;
/** Tokens that a reply may take beyond the longest worked one: a policy says the same in more words. */
const SPARE_TOKENS = 64;

type VerificationRequest = NonNullable<EntryRequest<"sft">["verification"]>;

/** What Python gets: 8 of the tasks, chosen by the run's seed, 2 samples each at temperature 0.3. null: off. */
export function verificationOf(
  config: { verify: boolean; seed: number },
  policy: string,
  task_ids: readonly string[],
  sampling: Sampling,
): VerificationRequest | null {
  if (!config.verify) return null;
  const chosen = createRandom(config.seed).fork("verification").shuffle(task_ids).slice(0, TASKS);
  return { policy, task_ids: chosen, samples: SAMPLES, sampling: { ...sampling, temperature: TEMPERATURE } };
}

/**
 * Compares what was played with the stage's gate, and writes `verification_report.json`. Without figures (it was off, or
 * the run was stopped before it) nothing is written and nothing changes.
 * @returns The result, with the stop reason `verification` where a gate that fails the run was missed.
 */
export function judgeVerification<Result extends { stop_reason: string; verification: Verified | null }>(
  stage: keyof typeof GATES,
  result: Result,
  request: VerificationRequest | null,
  run: RunFolder,
  progress: Progress,
): Result {
  const figures = result.verification;
  if (!figures || !request) return result;
  const gate: Gate = GATES[stage];
  const value = figures[gate.measure];
  const passed = value !== null && value >= gate.at_least;
  writeJson(run.path("verification_report.json"), {
    stage,
    ...gate,
    value,
    passed,
    ...figures,
    task_ids: request.task_ids,
    samples: request.samples,
    temperature: request.sampling.temperature,
  });
  if (passed) return result;
  const measured = value === null ? "could not be measured" : `is ${value.toFixed(3)}`;
  progress.line(
    `${gate.fails_the_run ? "" : "warning: "}verification: ${gate.measure} ${measured}; a policy after ${stage} should ` +
      `reach ${gate.at_least}. ${request.task_ids.length} tasks were played ${request.samples} times each, see ` +
      `${run.path("verification")}. The model is saved; --no-verify leaves this out.`,
  );
  return gate.fails_the_run ? { ...result, stop_reason: "verification" } : result;
}

/** How long replies and episodes may get: what the longest worked solution takes, and some more. */
export function solutionBudgets(longest: EntryResult<"preflight">["longest"]): Sampling {
  const { turn = 256, policy = 2048 } = longest ?? {};
  return {
    temperature: 1,
    top_p: 1,
    top_k: 0,
    min_p: 0,
    max_turn_tokens: turn + SPARE_TOKENS,
    max_episode_tokens: 2 * policy + SPARE_TOKENS,
    max_context_tokens: null,
  };
}
