import { UserError } from "../../../core/errors.ts";
import type { Trajectory } from "../../../core/trajectory.ts";
import type { AirlineFacts } from "../facts.ts";
import { IMPLICIT_THINK } from "../prm/records.ts";
import { parseHermes } from "../protocol/hermes.ts";
import type { EvalTrajectory, failureClasses } from "./schema.ts";

/** Ends of the protocol that are errors of an episode beside those of the environment (airline.md 10.5). */
const ERROR_ENDS: ReadonlySet<unknown> = new Set(["loop", "context"]);
const TIMEOUT_FROM_TURNS = 29;
const LONG_ABOVE_TURNS = 15;

/**
 * What the turns of a trajectory tell.
 * @throws UserError for a trajectory of another family
 */
export function factsOf({ turns, env, task_id }: Trajectory): AirlineFacts[] {
  return turns.map(({ outcome }, index) => {
    const facts = outcome.payload as Partial<AirlineFacts> | null | undefined;
    if (!Array.isArray(facts?.records) || !Array.isArray(facts.unknown_tools))
      throw new UserError(
        `task '${task_id}', turn ${index + 1}: expected the airline's facts about a turn; the log is of ${env}.`,
      );
    return facts as AirlineFacts;
  });
}

/** What the agent says in each of its messages, in order, without thinking and calls: what tokens per turn are of. */
export function spokenTexts({ turns }: Trajectory): string[] {
  return turns.map(({ reply }) => parseHermes(reply).spoken);
}

/** Why an episode counts in the error rate: an exception, the loop or context guard, an endpoint. null: it does not. */
export function errorOf({ ended_by, ended_why, metrics }: Trajectory): string | null {
  if (ended_by === "error" || ended_by === "timeout") return ended_why ? `${ended_by}: ${ended_why}` : ended_by;
  return ERROR_ENDS.has(metrics.terminated_by) ? String(metrics.terminated_by) : null;
}

/** In what way a trajectory without success failed; the first class that fits (airline.md 10.5). */
export function failureClass(trajectory: Trajectory): (typeof failureClasses)[number] {
  const { turns, messages } = trajectory;
  if (errorOf(trajectory) !== null) return "EXCEPTION";
  if (turns.length >= TIMEOUT_FROM_TURNS) return "TIMEOUT_OR_LOOP";
  if (turns.length === 0) return "NO_ASSISTANT_RESPONSE";
  if (/sorry|cannot|unable/i.test(spokenTexts(trajectory).at(-1)!)) return "MODEL_REFUSED_OR_GAVEUP";
  const answers = messages.filter(({ role }) => role === "tool");
  if (answers.some(({ content }) => /error|invalid|not found/i.test(content))) return "TOOL_CALL_ERROR";
  return turns.length > LONG_ABOVE_TURNS ? "LONG_HORIZON_DRIFT" : "UNKNOWN_FAILURE";
}

/**
 * A trajectory as reports keep it.
 * @param turn_tokens of each of its messages; null: not counted
 */
export function summariseEpisode(trajectory: Trajectory, turn_tokens: readonly number[] | null): EvalTrajectory {
  const { trial, seed, success, parts, metrics, reward, turns } = trajectory;
  const facts = factsOf(trajectory);
  const records = facts.flatMap((turn) => turn.records).filter(({ tool }) => tool !== IMPLICIT_THINK);
  const unknown = facts.reduce((sum, { unknown_tools }) => sum + unknown_tools.length, 0);
  if (turn_tokens && turn_tokens.length !== turns.length)
    throw new Error(`${turn_tokens.length} counts of tokens for the ${turns.length} messages of an episode`);
  return {
    trial,
    seed,
    success: reward !== null && success,
    outcome: parts.outcome ?? null,
    process: parts.process ?? null,
    reward,
    turns: turns.length,
    tool_calls: records.length + unknown,
    call_errors: records.filter(({ observation }) => observation.startsWith("Error")).length + unknown,
    terminated_by: typeof metrics.terminated_by === "string" ? metrics.terminated_by : null,
    error: errorOf(trajectory),
    failure: reward !== null && success ? null : failureClass(trajectory),
    turn_tokens: turn_tokens && [...turn_tokens],
    strict: typeof metrics.strict === "boolean" ? metrics.strict : null,
  };
}
