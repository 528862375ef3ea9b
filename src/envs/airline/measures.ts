// What a benchmark tells of this family beside reward and success. Everything is read from the scorer's metrics.
import type { BenchmarkRules, Measure } from "../../core/measure.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { evaluationReports } from "./evaluation/benchmark.ts";
import { errorOf, failureClass } from "./evaluation/episode.ts";
import { airlineOptions } from "./options.ts";
import { taskGroups } from "./splits.ts";

const number = (episode: Trajectory, metric: string): number => {
  const value = episode.metrics[metric];
  return typeof value === "number" ? value : 0;
};

const average = (name: string, metric: string): Measure => ({
  name,
  over: "episodes",
  of: (episode) => number(episode, metric),
});

const share = (name: string, metric: string): Measure => ({
  name,
  over: "episodes",
  of: ({ metrics }) => metrics[metric] === true,
});

export const airlineBenchmark: BenchmarkRules = {
  criteria: ["solved", "strict"],
  measures: [
    {
      // Its pass^1 on these very episodes: the figure that every result has to stand beside (airline.md 4.4).
      name: "do_nothing",
      over: "episodes",
      of: ({ metrics }) => metrics.needs_action === false,
    },
    {
      name: "success_needs_action",
      over: "episodes of tasks that doing nothing does not solve",
      of: ({ metrics, success }) => (metrics.needs_action === true ? success : null),
    },
    { name: "error_rate_trajectory", over: "episodes", of: (episode) => errorOf(episode) !== null },
    {
      name: "error_rate_call",
      over: "episodes with a call",
      of(episode) {
        const calls = number(episode, "num_tool_calls") + number(episode, "refused_calls");
        return calls === 0 ? null : number(episode, "tool_errors") / calls;
      },
    },
    average("malformed_calls", "malformed"),
    average("repaired_calls", "repaired"),
    average("extra_calls", "extra_calls"),
    average("num_turns", "num_turns"),
    average("tool_calls", "num_tool_calls"),
    average("writes", "writes"),
    share("transfers", "transferred"),
    { name: "process_score", over: "episodes", of: ({ parts }) => parts.process ?? null },
  ],
  failure: failureClass,
  reports: evaluationReports((env_options) => taskGroups(airlineOptions.parse(env_options))),
};
