import { playInEnv } from "../../core/baselines.ts";
import { defineEnv, type EnvSpec } from "../../core/env.ts";
import type { Tool } from "../../core/tool.ts";
import { airlineBaselines } from "./baselines.ts";
import { categoryOf } from "./category.ts";
import { airlineCollection } from "./collection.ts";
import { databaseOf } from "./database.ts";
import { airlineBenchmark } from "./measures.ts";
import { type AirlineOptions, airlineOptions } from "./options.ts";
import { airlinePolicies } from "./policies.ts";
import { systemText } from "./prompt.ts";
import { startLog } from "./protocol/turn.ts";
import { rescoreLine } from "./rescore.ts";
import { airlineComponents, airlineGroupRewards, scoreEpisode } from "./score-episode.ts";
import { borrowSimulator, returnSimulator } from "./simulators.ts";
import { airlineSplits, loadAirlineSplit } from "./splits.ts";
import { type AirlineState, beginState } from "./state.ts";
import { playReply } from "./step.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { airlineTools } from "./tools/index.ts";
import { asksModel } from "./users/index.ts";

/** Replies a policy has; τ-bench's own agents have as many. */
const MAX_TURNS = 30;

export const airlineSpec: EnvSpec<AirlineTask, AirlineState, AirlineOptions> = {
  id: "airline@1",
  summary: "Customer service of an airline: 14 tools on a database, a policy, a user who answers",
  options: airlineOptions,
  max_turns: MAX_TURNS,
  gold_is_shortest: false, // the scripted teacher asks and reports
  tools: airlineTools.map(onEpisode),
  template_tools: ({ prompt }) => prompt.tools,
  components: airlineComponents,
  splits: airlineSplits,
  eval_split: "test",
  load(split, options) {
    if (asksModel(options.user)) returnSimulator(borrowSimulator(options.user)); // an endpoint that is not set is told now
    return loadAirlineSplit(split, options);
  },

  async reset(task, { options, trial, signal }) {
    const simulator = borrowSimulator(options.user);
    try {
      const opening = await simulator.reset(task, { draw: trial, signal });
      const system = { role: "system" as const, content: systemText(options) };
      const heard = options.protocol.drop_first_user_message ? [] : [{ role: "user" as const, content: opening.text }];
      const messages = [system, ...heard];
      const start = { log: startLog(messages), user: opening.state, simulator, user_turns: heard.length };
      return { state: beginState(databaseOf(options), start), messages };
    } catch (error) {
      returnSimulator(simulator);
      throw error;
    }
  },

  step: (state, reply, { options, trial, signal }, task) =>
    playReply(state, reply, task, options, ({ simulator, user }, text, probe) =>
      simulator.step(task, user, text, probe, { draw: trial, signal }),
    ),

  score: scoreEpisode,
  group_rewards: airlineGroupRewards,
  close: ({ simulator }) => returnSimulator(simulator),
  policies: airlinePolicies,
  baselines: airlineBaselines((...given) => playInEnv(airlineSpec)(...given)),
  rescore: rescoreLine,
  benchmark: airlineBenchmark,
  collection: airlineCollection,
  category: categoryOf,
};

export const airline = defineEnv(airlineSpec);

/** A tool of the data as a tool of the episode. */
function onEpisode(tool: (typeof airlineTools)[number]): Tool<AirlineState> {
  return {
    ...tool,
    async call(state, args) {
      const { state: data, output } = await tool.call(state.data, args);
      return { state: { ...state, data }, output };
    },
  };
}
