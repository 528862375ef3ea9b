// Stored trajectories that went wrong become cases: open ones, since nobody has looked at them yet.
import { z } from "zod";
import { type BadCaseRules, type Condition, holds, type Verdict } from "../../src/core/bad-case.ts";
import type { Env } from "../../src/core/env.ts";
import { errorText, nearest, UserError } from "../../src/core/errors.ts";
import { describeIssues } from "../../src/core/tool.ts";
import { logSource, logsOf, readJsonLines, trajectorySchema } from "../../src/trajectory-log.ts";
import { type BadCase, rulesOf } from "./library.ts";
import { judgeHistory } from "./replay.ts";

/** A trajectory as it can become a case. */
interface Stored {
  task_id: string;
  trial: number;
  history: Record<string, unknown>[];
  /** The environment failed: nothing can be held against the policy. */
  invalid: boolean;
  policy: string | null;
  /** For messages: file and line. */
  place: string;
  /** For the case: the run's name, not where it lay. */
  source: string;
}

const historySchema = z.array(z.record(z.string(), z.unknown())).min(1);

/** A trace of another runner: a history of texts. */
const traceSchema = z.looseObject({
  task_id: z.string().min(1),
  trial: z.int().nonnegative().default(0),
  agent_type: z.string().optional(),
  history: historySchema,
});

/**
 * The trajectories of a log, or of all logs of a run's folder. A last line that a killed run left is passed over.
 * @throws UserError naming file and line of what is neither a trajectory of this environment nor a trace
 */
export function readStored(env: Env, path: string): Stored[] {
  return logsOf(path).flatMap((file) =>
    readJsonLines(file, { allow_cut_last_line: true }).map(({ line, value }) => {
      const place = `${file}, line ${line}`;
      return { ...readLine(env, value, place), place, source: `${logSource(file)}, line ${line}` };
    }),
  );
}

function readLine(env: Env, value: unknown, place: string): Omit<Stored, "place" | "source"> {
  if (typeof value === "object" && value !== null && "turns" in value) {
    const parsed = trajectorySchema.safeParse(value);
    if (!parsed.success) throw new UserError(`${place}: ${describeIssues(parsed.error)}`);
    const { env: played, task_id, trial, policy, reward } = parsed.data;
    if (played.split("@")[0] !== env.name)
      throw new UserError(`${place}: a trajectory of ${played}, not of ${env.name}. Name its environment by --env.`);
    const history = rulesOf(env).rules.history(parsed.data) as Record<string, unknown>[];
    return { task_id, trial, policy, history, invalid: reward === null || history.length === 0 };
  }
  const parsed = traceSchema.safeParse(value);
  if (!parsed.success)
    throw new UserError(
      `${place}: neither a line of a trajectory log nor a trace {task_id, trial, history}: ${describeIssues(parsed.error)}`,
    );
  const { task_id, trial, history, agent_type = null } = parsed.data;
  return { task_id, trial, history, invalid: false, policy: agent_type };
}

export interface CaptureOptions {
  env_options: Record<string, unknown>;
  task_id: string | null;
  trial: number | null;
  /** Instead of the family's own rules: whatever of the chosen trajectories this holds for. */
  when: Condition | null;
  note: string;
}

/** Why a trajectory did not become a case. */
export type LeftOut = (typeof LEFT_OUT)[number];
const LEFT_OUT = [
  "failed in the environment",
  "did not finish",
  "nothing wrong",
  "the condition does not hold",
  "known already",
] as const;

export interface Captured {
  cases: BadCase[];
  left_out: Record<LeftOut, number>;
  /** Those left out, with the figures that were looked at. */
  looked_at: { place: string; why: LeftOut; verdict: Verdict | null }[];
}

/**
 * Judges the chosen trajectories and makes cases of those that went wrong and are not in the library yet.
 * @throws UserError where none is there to choose, or one can't be judged
 */
export async function captureCases(
  env: Env,
  stored: readonly Stored[],
  library: readonly BadCase[],
  { env_options, task_id, trial, when, note }: CaptureOptions,
): Promise<Captured> {
  const { rules } = rulesOf(env);
  const names = ["reward", ...Object.keys(rules.figures)];
  const taken = new Set(library.map(({ case_id }) => case_id));
  const known = new Set(library.map(keyOf));
  const cases: BadCase[] = [];
  const looked_at: Captured["looked_at"] = [];
  for (const one of choose(stored, task_id, trial)) {
    const all = one.invalid ? null : await judgeStored(env, one, env_options);
    const verdict = all && Object.fromEntries(names.map((name) => [name, all[name] ?? null]));
    const found = wrongBy(verdict, rules, when);
    if (typeof found === "string" || known.has(keyOf(one))) {
      looked_at.push({ place: one.place, why: typeof found === "string" ? found : "known already", verdict });
      continue;
    }
    const case_id = freeId(`${one.task_id}#${one.trial}`, taken);
    taken.add(case_id);
    known.add(keyOf(one));
    cases.push({
      case_id,
      task_id: one.task_id,
      status: "open",
      reproduces_when: found,
      history: one.history,
      source: one.policy === null ? one.source : `${one.source}, policy ${one.policy}`,
      note,
      captured: verdict!,
      ...(Object.keys(env_options).length > 0 ? { env_options } : {}),
    });
  }
  const left_out = Object.fromEntries(
    LEFT_OUT.map((why) => [why, looked_at.filter((one) => one.why === why).length]),
  ) as Captured["left_out"];
  return { cases, left_out, looked_at };
}

/** The condition that makes a case of it, or why it is none. */
function wrongBy(verdict: Verdict | null, rules: BadCaseRules, when: Condition | null): Condition | LeftOut {
  if (!verdict) return "failed in the environment";
  if (when) return holds(when, verdict) ? when : "the condition does not hold";
  if (!holds(rules.eligible, verdict)) return "did not finish";
  return rules.capture.find((condition) => holds(condition, verdict)) ?? "nothing wrong";
}

function choose(stored: readonly Stored[], task_id: string | null, trial: number | null): readonly Stored[] {
  const chosen = stored.filter(
    (one) => (task_id === null || one.task_id === task_id) && (trial === null || one.trial === trial),
  );
  if (chosen.length > 0) return chosen;
  if (stored.length === 0) throw new UserError("The log holds no trajectories.");
  const ids = new Set(stored.map((one) => one.task_id));
  if (task_id !== null && !ids.has(task_id)) {
    const near = nearest(task_id, ids);
    throw new UserError(`The log has no trajectory of task '${task_id}'${near ? `; did you mean '${near}'?` : "."}`);
  }
  const trials = [
    ...new Set(stored.filter((one) => task_id === null || one.task_id === task_id).map((one) => one.trial)),
  ];
  const shown = trials.sort((a, b) => a - b).slice(0, 20);
  throw new UserError(`The log has no trial ${trial}${task_id ? ` of ${task_id}` : ""}; it has ${shown.join(", ")}.`);
}

async function judgeStored(env: Env, one: Stored, env_options: Record<string, unknown>): Promise<Verdict> {
  try {
    return await judgeHistory(env, one, env_options);
  } catch (error) {
    throw error instanceof UserError ? new UserError(`${one.place}: ${errorText(error)}`) : error;
  }
}

/** The same history of the same task is one case, however often it was played. */
function keyOf({ task_id, history }: Pick<BadCase, "task_id" | "history">): string {
  return JSON.stringify([task_id, history]);
}

function freeId(stem: string, taken: ReadonlySet<string>): string {
  let id = stem;
  for (let clash = 1; taken.has(id); clash++) id = `${stem}+${clash}`;
  return id;
}
