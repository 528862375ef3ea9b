import type { BaselineSpec } from "../../core/baselines.ts";
import type { AirlineOptions } from "./options.ts";
import type { AirlineTask } from "./tasks/task.ts";

type Spec = BaselineSpec<AirlineTask, AirlineOptions>;

/**
 * On a task whose gold changes nothing, a policy that changed nothing did what `gold` does, and so deserves its reward:
 * two of five tasks are there to be refused, and no reward by the data's end state can tell a good refusal from a bad one
 * (airline.md 4.4). Such plays leave the bounds of their category; the bound over all tasks keeps them, so that a suite
 * of refusals alone would not pass.
 * @param play plays a policy's replies in the environment
 */
export function airlineBaselines(play: NonNullable<Spec["play"]>): Spec {
  return {
    split: "test",
    random: ["random_calls"],
    async play(policy, task, settings) {
      const played = await play(policy, task, settings);
      const { needs_action, writes, strict } = played.score.metrics;
      return {
        ...played,
        exact_reference: played.exact_reference || (needs_action === false && writes === 0),
        figures: { ...played.figures, needs_action: needs_action === true, strict: strict === true },
      };
    },
  };
}
