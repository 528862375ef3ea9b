// What a benchmark tells of this family beside reward and success. Everything is read from the scorer's metrics.
import { type BenchmarkRules, failureOf, type Measure } from "../../core/measure.ts";
import type { Trajectory } from "../../core/trajectory.ts";

type Metric = Trajectory["metrics"][string];

const share = (name: string, metric: string): Measure => ({
  name,
  over: "episodes",
  of: ({ metrics }) => metrics[metric] === true,
});

const average = (name: string, metric: string): Measure => ({
  name,
  over: "episodes",
  of: ({ metrics }) => number(metrics[metric]),
});

const number = (value: Metric | undefined): number | null => (typeof value === "number" ? value : null);

export const arxivBenchmark: BenchmarkRules = {
  criteria: ["strict", "accurate", "finished"],
  measures: [
    share("completion_rate", "finished"),
    share("tool_accuracy", "accurate"),
    {
      name: "arg_accuracy",
      over: "episodes whose task declares arguments",
      of: ({ metrics }) => (metrics.arg_applicable === true ? number(metrics.arg_score) : null),
    },
    {
      name: "ref_accuracy",
      over: "episodes whose task declares papers",
      of: ({ metrics }) => (metrics.ref_applicable === true ? number(metrics.ref_score) : null),
    },
    {
      name: "blocked_semantics_accuracy",
      over: "episodes of blocked tasks",
      of: ({ metrics }) =>
        typeof metrics.terminal_semantics === "string" ? metrics.terminal_semantics === "explained_block" : null,
    },
    share("false_finish_rate", "false_finish"),
    {
      name: "false_finish_of_completed",
      over: "episodes that finished",
      of: ({ metrics }) => (metrics.finished === true ? metrics.false_finish === true : null),
    },
    average("avg_parse_failures", "parse_failures"),
    average("avg_tool_failures", "tool_exec_failures"),
  ],
  // A reply that can't be read ends an episode too, and claims nothing.
  failure: (episode) =>
    episode.ended_by === "terminated" && episode.metrics.finished !== true ? "failed_unreadable" : failureOf(episode),
};
