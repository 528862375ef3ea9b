// How the gate plays the arXiv policies: no tool runs, every call is taken and answered by the same words. So the
// scorer is alone in telling good from bad, which is harder for it than a world where nonsense fails.
import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { BaselinePlay, BaselineSpec } from "../../core/baselines.ts";
import type { Turn } from "../../core/trajectory.ts";
import type { ArxivOptions } from "./options.ts";
import { arxivPlans, type Choose, type Plan } from "./policies.ts";
import { expectationOf, scoreSteps, stepOfTurn } from "./rewards.ts";
import type { ArxivFacts, ArxivTask, Call } from "./types.ts";
import { stepThought, THOUGHT_VARIANTS, terminalThought } from "./wordings.ts";

/** Rewards of stored histories have this curriculum by default, and so have these. */
const CURRICULUM_STEPS = 30;

type Scorer = typeof scoreSteps;

/** `score`: the scorer that is put to the test. */
export function arxivBaselines(score: Scorer = scoreSteps): BaselineSpec<ArxivTask, ArxivOptions> {
  return {
    split: "all",
    random: ["random_tool"],
    bounds: { aggregate: 0.3, category: 0.3 },
    play(policy, task, { sample_seed, training_step, options }) {
      const plan: Plan = arxivPlans[policy as keyof typeof arxivPlans](task, drawn(sample_seed, task));
      // No tool ran, so no call resolved to a paper: references are judged as they are written.
      const expected = { ...expectationOf(task), expected_paper_ids: null };
      const { curriculum_steps = CURRICULUM_STEPS, ...rest } = options;
      const judged = score(turnsOf(plan).map(stepOfTurn), expected, { ...rest, curriculum_steps, training_step });
      return { score: judged, ...accountOf(plan, task, judged.metrics) };
    },
  };
}

/** The choice is the hash's, so that anyone can draw the same. */
function drawn(sample_seed: number, task: ArxivTask): Choose {
  const digest = createHash("sha256").update(`${sample_seed}:${task.id}`).digest();
  return (below) => Number(digest.readBigUInt64BE(0) % BigInt(below));
}

/** A plan as the scorer would read it from an episode, every call answered by the same words. */
export function turnsOf({ calls, closing }: Plan): Pick<Turn, "thought" | "action" | "outcome">[] {
  return [
    ...calls.map((call) => ({
      thought: stepThought(call),
      action: { name: call.tool, args: call.args },
      outcome: { kind: "ok" as const, text: "synthetic baseline action", payload: factsOf(call) },
    })),
    { thought: closing, action: null, outcome: { kind: "terminal", text: "", payload: null } },
  ];
}

/** A figure question is answered: the scorer asks no more of an answer than that it is there. */
function factsOf({ tool }: Call): ArxivFacts {
  const answers = tool === "analyze_figure";
  return {
    tool,
    paper_id: answers ? "2608.00000v1" : null,
    result: null,
    empty: false,
    answer: answers ? "synthetic baseline answer" : null,
    repairs: [],
  };
}

/** What was done, beside what `gold` does. */
function accountOf(plan: Plan, task: ArxivTask, metrics: Record<string, unknown>): Omit<BaselinePlay, "score"> {
  const blocked = task.terminal_reason !== null;
  const explanations = Array.from({ length: THOUGHT_VARIANTS }, (_, variant) => terminalThought(task, variant));
  return {
    finished: metrics.finished === true,
    exact_reference:
      isDeepStrictEqual([...plan.calls], task.steps) && (!blocked || explanations.includes(plan.closing)),
    figures: {
      exact_tool_path: metrics.accurate === true,
      arg_score: task.steps.length === 0 ? null : (metrics.arg_score as number),
      false_finish: metrics.false_finish === true,
    },
  };
}
