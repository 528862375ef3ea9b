import { z } from "zod";
import { UserError } from "../core/errors.ts";
import type { Recipe } from "./recipe.ts";

/** The oldest TRL that calls a rollout function in multi-turn play is also the first without a classic PPO trainer. */
const instead = `There is no ppo: TRL 0.28 and later, which multi-turn rollouts need, has no classic PPO trainer.
Take one of these, which need no value model:
  npx tsx src/cli.ts grpo --dapo    rewards of the environment, compared within groups of rollouts
  npx tsx src/cli.ts opd            a teacher's log-probabilities, on the policy's own rollouts
Both take --help.`;

/** `trestle ppo` is what many look for first: it says what to take instead, and exits with 2. */
export const ppo: Recipe = {
  name: "ppo",
  summary: "Not there: says why, and what to take instead (grpo, opd)",
  examples: ["grpo --dapo", "opd"],
  schema: z.object({}),
  defaultFile: () => null,
  namedFile: () => null,
  several_processes: false,
  instead,
  run: () => Promise.reject(new UserError(instead)),
};
