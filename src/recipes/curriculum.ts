import { z } from "zod";
import type { TaskSet } from "../core/env.ts";
import { UserError } from "../core/errors.ts";
import { BANDS, type Band, band } from "../core/rates.ts";
import { modelHash } from "./model-hash.ts";

// Which tasks a training run draws from, by how hard they were when they were measured. A stage follows from the optimizer
// step and the plan alone, so a run that goes on at step n is in the stage that an unbroken one is in.

const BAND = `(?:${BANDS.join("|")})`;
const STAGE = new RegExp(`^${BAND}(?:\\+${BAND})*(?::\\d+)?$`);

export const curriculumKeys = {
  curriculum: z
    .array(
      z.string().regex(STAGE, `expected BAND[+BAND…][:UNTIL_STEP] with bands of ${BANDS.join(", ")}, as middle:20`),
    )
    .default([])
    .describe(
      "Stages by measured difficulty, each until the optimizer step behind its colon and the last one to the end, as " +
        "ceiling+middle:20,middle. Left out: all tasks, all the time.",
    ),
  stale_rates: z
    .boolean()
    .default(false)
    .describe("Train by rates of another model, snapshot or protocol all the same."),
};

/** From optimizer step `from_step` (0: the first) until the next stage, groups are drawn from `task_ids`. */
export interface Stage {
  from_step: number;
  bands: Band[];
  task_ids: string[];
}

type Measured = Pick<TaskSet, "ids" | "split" | "rates">;

/**
 * The stages of a curriculum; none: [].
 * @param max_steps Optimizer steps of the run; null: not known.
 * @throws UserError for steps that do not rise, a stage that the run does not reach, a task without a rate, a stage
 *   without tasks.
 */
export function planCurriculum(curriculum: readonly string[], tasks: Measured, max_steps: number | null): Stage[] {
  const strict = tasks.rates?.strict;
  if (curriculum.length > 0 && !strict) {
    throw new UserError(
      `curriculum: ${tasks.split} has no measured rates. Make them with data arxiv rates, or leave curriculum out.`,
    );
  }
  const unknown = curriculum.length === 0 ? [] : tasks.ids.filter((id) => strict![id] === undefined);
  if (unknown.length > 0) {
    throw new UserError(
      `curriculum: ${unknown.length} of ${tasks.ids.length} tasks of ${tasks.split} have no rate, as '${unknown[0]}'. ` +
        "Measure all of them, with data arxiv rates.",
    );
  }
  let from_step = 0;
  return curriculum.map((text, index) => {
    const [names, until] = text.split(":") as [string, string | undefined];
    const last = index === curriculum.length - 1;
    const stage = `curriculum: stage ${index + 1} ('${text}')`;
    if (last !== (until === undefined)) {
      throw new UserError(
        last
          ? `${stage} is the last one and goes on to the end; leave ':${until}' out.`
          : `${stage} has no end; write the optimizer step it lasts until, as '${text}:20'.`,
      );
    }
    const begin = from_step;
    if (max_steps !== null && begin >= max_steps)
      throw new UserError(`${stage} begins at step ${begin}, but the run has ${max_steps} steps (max_steps).`);
    if (!last && Number(until) <= begin)
      throw new UserError(`${stage} ends at step ${until}, where it begins at ${begin}; steps must rise.`);
    from_step = Number(until);
    const bands = names.split("+") as Band[];
    const task_ids = tasks.ids.filter((id) => bands.includes(band(strict![id]!)));
    if (task_ids.length === 0) {
      const count = (name: Band) => tasks.ids.filter((id) => band(strict![id]!) === name).length;
      throw new UserError(
        `${stage} is empty: ${tasks.split} has ${BANDS.map((name) => `${count(name)} ${name}`).join(", ")}.`,
      );
    }
    return { from_step: begin, bands, task_ids };
  });
}

/**
 * Rates say which tasks teach this policy in this world; where one of them has changed they say nothing (arxiv.md 6.3).
 * @param model The folder that training starts from; null: not known yet.
 * @returns What has changed, a phrase each; [] where the rates hold, and where nothing depends on them.
 */
export function staleRates(
  { rates }: Pick<TaskSet, "rates">,
  { env_id, model, curriculum }: { env_id: string; model: string | null; curriculum: readonly string[] },
): string[] {
  if (!rates || (!rates.selected && curriculum.length === 0)) return [];
  const changed = [...rates.stale];
  if (rates.env !== null && rates.env !== env_id) changed.push(`${rates.env}, where this is ${env_id}`);
  if (model !== null && rates.model_sha256 !== null && rates.model_sha256 !== modelHash(model))
    changed.push(`another model than ${model}`);
  return changed;
}

/** @throws UserError with what has changed */
export function refuseStaleRates(split: string, changed: readonly string[]): void {
  if (changed.length === 0) return;
  throw new UserError(
    `The rates of ${split} were measured with ${changed.join("; ")}. Measure again with data arxiv rates, or train by ` +
      "them all the same with --stale-rates.",
  );
}
