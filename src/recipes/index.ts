import { collect } from "../../benchmark/collect.ts";
import { compare } from "../../benchmark/compare.ts";
import { bench, rollout } from "../../benchmark/run.ts";
import { baselines } from "../../eval/baselines.ts";
import { dpo } from "./dpo.ts";
import { grpo } from "./grpo.ts";
import { opd } from "./opd.ts";
import { ppo } from "./ppo.ts";
import { pretrain } from "./pretrain.ts";
import { quickstart } from "./quickstart.ts";
import type { Recipe } from "./recipe.ts";
import { sft } from "./sft.ts";

/** Every command that takes a config. */
export const recipes: readonly Recipe[] = [
  pretrain,
  sft,
  dpo,
  grpo,
  opd,
  ppo,
  rollout,
  collect,
  bench,
  compare,
  baselines,
  quickstart,
];
