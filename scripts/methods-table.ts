// What each way of training brought over several seeds, from the benchmark folders that scripts/methods.sh leaves:
//
//     node --import tsx scripts/methods-table.ts runs/methods 42,43,44 dapo,grpo,gspo,dr_grpo,dpo,opd
//
// A line a split and method: pass^1 of the SFT policy and after training, the gain with its 95 % interval over seeds and
// tasks, and each seed's own.

import { join } from "node:path";
import { mean } from "../eval/pass.ts";
import { gainByTask, type Judgement } from "../eval/run.ts";
import { gainAcrossSeeds } from "../eval/seeds.ts";
import { judgeSplits } from "../eval/tables.ts";
import { loadEnv } from "../src/envs/index.ts";
import { readTrajectories } from "../src/trajectory-log.ts";

const [folder, seeds, methods] = process.argv.slice(2);
if (!folder || !seeds || !methods) {
  console.error("Expected a folder, seeds and methods, as: runs/methods 42,43,44 dapo,dpo");
  process.exit(2);
}
const SPLITS = ["v6:rl_train", "dev", "iid_test", "ood_test"];
const TRIALS = 8;
const env = await loadEnv("arxiv");
const sets = await Promise.all(SPLITS.map((split) => env.load(split, { prompt: "minimal" })));
const judged = (name: string): Judgement[] =>
  judgeSplits(sets, readTrajectories(join(folder, name, "trajectories", "rank-0.jsonl")), TRIALS).map(
    ({ judged }) => judged,
  );
const show = (value: number | undefined) => (value === undefined ? "n/a" : value.toFixed(3));
const signed = (value: number) => `${value < 0 ? "" : "+"}${show(value)}`;

const before = seeds.split(",").map((seed) => judged(`bench-sft-${seed}`));
for (const method of methods.split(",")) {
  const after = seeds.split(",").map((seed) => judged(`bench-${method}-${seed}`));
  for (const [index, split] of SPLITS.entries()) {
    const gains = before.map((splits, seed) => gainByTask(splits[index]!, after[seed]![index]!));
    const { gain, interval, tasks, by_seed } = gainAcrossSeeds(gains);
    const [from, to] = [before, after].map((runs) => mean(runs.map((splits) => splits[index]!.pass_hat["1"] ?? 0)));
    console.log(
      `| ${method} | ${split} (${tasks}) | ${show(from ?? undefined)} | ${show(to ?? undefined)} | ` +
        `${signed(gain)} [${interval.map(show).join(", ")}] | ${by_seed.map(signed).join(", ")} |`,
    );
  }
}
