// What training brought over several seeds, from comparisons of one checkpoint with its base:
//
//     node --import tsx scripts/compare-seeds.ts runs/search-seeds/compare-42 runs/search-seeds/compare-43 …
//
// Prints the gain in mean reward, its 95 % interval over seeds and units (questions), and each seed's own.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { PolicyComparison } from "../eval/policies.ts";
import { gainAcrossSeeds } from "../eval/seeds.ts";

const folders = process.argv.slice(2);
if (folders.length === 0) {
  console.error("Expected the folders of one or more comparisons.");
  process.exit(2);
}
const compared = folders.map(
  (folder) => JSON.parse(readFileSync(join(folder, "comparison.json"), "utf8")) as PolicyComparison,
);
const gains = compared.map(({ units }) =>
  Object.fromEntries(units.flatMap(({ unit, differences: [, gain] }) => (gain == null ? [] : [[unit, gain]]))),
);
const { gain, interval, by_seed, seeds, tasks } = gainAcrossSeeds(gains);
const signed = (value: number) => `${value < 0 ? "" : "+"}${value.toFixed(3)}`;
for (const [index, { policies }] of compared.entries()) {
  const [before, after] = policies.map(({ mean_reward }) => mean_reward?.toFixed(3) ?? "n/a");
  console.log(`${folders[index]}: ${before} -> ${after}`);
}
console.log(
  `${seeds} seeds, ${tasks} units: gain ${signed(gain)} [${interval.map(signed).join(", ")}], by seed ${by_seed.map(signed).join(" ")}`,
);
