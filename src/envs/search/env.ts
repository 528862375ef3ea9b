import { defineEnv, type EnvSpec, type StepResult } from "../../core/env.ts";
import type { Checker } from "./checkers/types.ts";
import { searchBenchmark } from "./measures.ts";
import { type SearchOptions, searchOptions } from "./options.ts";
import { goesOn, updateContext } from "./planner.ts";
import { searchPolicies } from "./policies.ts";
import { renderDocuments, renderNoClues, renderPrompt } from "./prompt.ts";
import { checkerOf, indexOf } from "./resources.ts";
import { scoreEpisode, searchComponents } from "./rewards.ts";
import { playRound } from "./round.ts";
import { loadTasks, searchSplits } from "./tasks.ts";
import type { RoundContext, SearchState, SearchTask } from "./types.ts";

/** @param checkerFor who labels the documents; left out: whom the options name. For tests. */
export function searchSpecWith(
  checkerFor: (options: SearchOptions) => Checker = checkerOf,
): EnvSpec<SearchTask, SearchState, SearchOptions> {
  return {
    id: "search@1",
    summary: "One search round: write clues, BM25 finds documents, a checker labels them",
    options: searchOptions,
    max_turns: (task) => task.max_rounds,
    tools: [],
    components: searchComponents,
    splits: searchSplits,
    eval_split: "eval",
    load(split, options) {
      const tasks = loadTasks(split, options);
      checkerFor(options); // one that can't work is told before anything is played
      return tasks;
    },

    reset(task, { options }) {
      const { question_id, question, sub_goal, entities, targets, documents, context, seen_docids } = task;
      const round: RoundContext = {
        question_id,
        question,
        sub_goal,
        entities,
        targets,
        documents,
        context,
        seen_docids,
      };
      return { state: { ...round, played: 0 }, messages: [{ role: "user", content: renderPrompt(round, options) }] };
    },

    async step(state, reply, { options }, task): Promise<StepResult<SearchState>> {
      const index = indexOf(options);
      const played = state.played + 1;
      const facts = await playRound(state, reply, played, { index, checker: checkerFor(options) }, options);
      const context = updateContext(state, facts.documents, index.document);
      const terminated = played >= task.max_rounds || !goesOn(context);
      const read = facts.clues.length > 0;
      const text = read ? renderDocuments(facts.documents) : renderNoClues(options.max_clues);
      return {
        state: { ...context, played },
        thought: "",
        action: read ? { name: "search", args: { clues: facts.clues } } : null,
        outcome: { kind: read ? "ok" : "parse_error", text, payload: facts },
        observations: terminated ? [] : [{ role: "user", content: `${text}\n\n${renderPrompt(context, options)}` }],
        terminated,
      };
    },

    score: scoreEpisode,
    policies: searchPolicies,
    baselines: { split: "all", bounds: { aggregate: 0.5, category: 0.3 } }, // spec section 11
    benchmark: searchBenchmark,
    category: ({ round }) => (round === 1 ? "first_round" : "later_round"),
  };
}

export const searchSpec = searchSpecWith();

export const search = defineEnv(searchSpec);
