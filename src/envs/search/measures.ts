// What a benchmark tells of this family beside reward and success. Source: spec section 8.
import type { BenchmarkRules, Measure } from "../../core/measure.ts";

const mean = (name: string, over: string, key: string, from: "metrics" | "parts" = "metrics"): Measure => ({
  name,
  over,
  of: (episode) => {
    const value = episode[from][key];
    return typeof value === "number" ? value : null;
  },
});

/** A part of an episode by its rounds. */
const perRound = (name: string, part: string): Measure => ({
  name,
  over: "episodes, each by its rounds",
  of: ({ parts, metrics }) => {
    const [value, rounds] = [parts[part], metrics.rounds];
    return typeof value === "number" && typeof rounds === "number" && rounds > 0 ? value / rounds : null;
  },
});

export const searchBenchmark: BenchmarkRules = {
  criteria: ["solved", "discovered"],
  measures: [
    mean("important_discovery_rate", "episodes, each by its rounds", "discovery_share"),
    mean("important_recall", "episodes whose question has judgements", "important_recall"),
    perRound("clues_per_round", "clues"),
    perRound("documents_per_round", "documents"),
    mean("parse_failure_rate", "episodes, each by its rounds", "parse_failure_share"),
  ],
  unit: (task_id) => task_id.split("/")[0]!, // all rounds of a question
  failure({ metrics, ended_by }) {
    if (ended_by === "error" || ended_by === "timeout") return "failed_with_error";
    return metrics.parse_failure_share === 1 ? "failed_unreadable" : "failed_finding_nothing_new";
  },
};
