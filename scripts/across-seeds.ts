// What training brought over several seeds, from the folders of `quickstart --seed N --name NAME`:
//
//     node --import tsx scripts/across-seeds.ts runs/seed-42 runs/seed-43 runs/seed-44
//
// Prints a line a split: the gain in pass^1, its 95 % interval over seeds and tasks, and each seed's own.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { mean } from "../eval/pass.ts";
import { type GainByTask, gainAcrossSeeds } from "../eval/seeds.ts";

interface Results {
  seed: number;
  splits: { split: string; before: Measured; after: Measured; gain_by_task: GainByTask }[];
}
interface Measured {
  pass_hat: Record<string, number>;
}

const folders = process.argv.slice(2);
if (folders.length === 0) {
  console.error("Expected the folders of one or more quickstart runs.");
  process.exit(2);
}
const runs = folders.map((folder) => JSON.parse(readFileSync(join(folder, "results.json"), "utf8")) as Results);
const show = (value: number) => value.toFixed(3);
const signed = (value: number) => `${value < 0 ? "" : "+"}${show(value)}`;

console.log(`seeds ${runs.map(({ seed }) => seed).join(", ")}`);
for (const { split } of runs[0]!.splits) {
  const rows = runs.map((run) => run.splits.find((each) => each.split === split)!);
  const { gain, interval, tasks, by_seed } = gainAcrossSeeds(rows.map((row) => row.gain_by_task));
  const [before, after] = (["before", "after"] as const).map((when) =>
    mean(rows.map((row) => row[when].pass_hat["1"]!)),
  );
  console.log(
    `${split} (${tasks}): ${show(before!)} -> ${show(after!)}, gain ${signed(gain)} ` +
      `[${interval.map(show).join(", ")}], by seed ${by_seed.map(signed).join(" ")}`,
  );
}
