import type { MeasuredRates } from "../../core/rates.ts";
import type { ArxivOptions } from "./options.ts";
import { canonicalJson } from "./snapshot.ts";
import type { SplitFile } from "./split-file.ts";
import { fileHash, TASKS_FILE } from "./tasks.ts";

// Rates hold for the snapshot and the options they were measured with (arxiv.md 6.3).

/** Options that can move a rate, besides the snapshot, whose hash stands beside them. */
const OPTIONS = ["profile", "prompt", "protocol", "parser", "reward_weights"] as const;

/** What a rate depends on, as it stands in `rates_metadata`. */
export type RatesMetadata = Record<string, string | number>;

/** What the data and options of a measurement are known by. */
const WORLD = {
  snapshot_sha256: ({ snapshot }: ArxivOptions) => fileHash(snapshot),
  tasks_sha256: () => fileHash(TASKS_FILE),
  env_options: (options: ArxivOptions) => canonicalJson(Object.fromEntries(OPTIONS.map((key) => [key, options[key]]))),
};
type Fact = keyof typeof WORLD;
const FACTS = Object.keys(WORLD) as Fact[];

export const worldMetadata = (options: ArxivOptions): RatesMetadata =>
  Object.fromEntries(FACTS.map((fact) => [fact, WORLD[fact](options)]));

/** A file's rates, and what has changed since they were measured. Metadata that was not recorded tells nothing. */
export function measuredRates(file: SplitFile, group: string, options: ArxivOptions): MeasuredRates | null {
  const { rates, rates_metadata: metadata = {} } = file;
  if (!rates) return null;
  const text = (key: string) => (metadata[key] === undefined ? null : String(metadata[key]));
  const changed: Record<Fact, string> = {
    snapshot_sha256: `another snapshot (${options.snapshot})`,
    tasks_sha256: `other tasks (${TASKS_FILE})`,
    env_options: `other env_options (${text("env_options")})`,
  };
  return {
    strict: rates,
    selected: group !== "train",
    env: text("env"),
    model_sha256: text("model_sha256"),
    stale: [
      ...(text("policy") !== null && text("model_sha256") === null
        ? [`the policy ${text("policy")}, of which no weights were recorded`]
        : []),
      ...FACTS.filter((fact) => text(fact) !== null && text(fact) !== WORLD[fact](options)).map(
        (fact) => changed[fact],
      ),
    ],
  };
}
