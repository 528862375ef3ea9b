// Bad cases: stored histories in which a reward was wrong, or a policy went wrong, each with the condition by which it
// is known. What eval/badcases/ replays and captures; a family says what its judgements are called.
import { z } from "zod";
import type { Trajectory } from "./trajectory.ts";

const boundsSchema = z
  .strictObject({ lt: z.number(), le: z.number(), gt: z.number(), ge: z.number() })
  .partial()
  .refine((bounds) => Object.keys(bounds).length > 0, "expected at least one of lt, le, gt, ge");

/** By name of a figure: the value it has, or bounds it lies in. All must hold. */
export type Condition = Record<string, number | boolean | string | z.output<typeof boundsSchema>>;

export type Verdict = Record<string, number | boolean | string | null>;

/** What a condition can ask of a figure. A list: the texts that it can be. */
export type FigureKind = "number" | "boolean" | readonly string[];

/** What a family puts in for its library of bad cases, besides `rescore`, which judges a `{task_id, history}`. */
export interface BadCaseRules {
  /** What conditions may speak of besides `reward`: metrics of the family's `rescore`. */
  figures: Readonly<Record<string, FigureKind>>;
  /** Only trajectories of which this holds are captured. */
  eligible: Condition;
  /** A trajectory is captured by the first of these that holds, which becomes the case's condition. */
  capture: readonly Condition[];
  /** A trajectory of ours as the history that `rescore` takes. */
  history(trajectory: Trajectory): unknown[];
}

/** Reads conditions on `reward` and the family's figures; one that could never hold is refused. */
export function conditionSchema({ figures }: BadCaseRules): z.ZodType<Condition> {
  const kinds = { reward: "number" as const, ...figures };
  const shape = Object.fromEntries(
    Object.entries(kinds).map(([name, kind]) => [
      name,
      (kind === "number"
        ? z.union([z.number(), boundsSchema])
        : kind === "boolean"
          ? z.boolean()
          : z.enum(kind)
      ).optional(),
    ]),
  );
  return z
    .strictObject(shape)
    .refine(
      (condition) => Object.keys(condition).length > 0,
      `expected at least one of ${Object.keys(kinds).join(", ")}`,
    )
    .transform((condition) => condition as Condition);
}

/** Whether all that the condition asks is so. A figure that is not there holds nothing. */
export function holds(condition: Condition, verdict: Verdict): boolean {
  return Object.entries(condition).every(([name, wanted]) => {
    const found = verdict[name];
    if (typeof wanted !== "object") return found === wanted;
    if (typeof found !== "number") return false;
    const { lt, le, gt, ge } = wanted;
    return (
      (lt === undefined || found < lt) &&
      (le === undefined || found <= le) &&
      (gt === undefined || found > gt) &&
      (ge === undefined || found >= ge)
    );
  });
}
