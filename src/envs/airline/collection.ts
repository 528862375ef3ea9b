import type { CollectionRules } from "../../core/collection.ts";
import { toConversation } from "./conversation.ts";
import { airlineOptions } from "./options.ts";
import { withCoverage } from "./split-file.ts";
import { splitOf } from "./splits.ts";
import { loadTasks } from "./tasks/load.ts";

/** Characters of a dialogue beyond which an attempt is given up (airline.md 7.3, 10.2). */
const MAX_CONTEXT_CHARS = 35_000;

/** Ends after which a dialogue is not the policy's own any more. */
const CONTAMINATED: Record<string, string> = {
  contaminated: "the policy wrote a tool's answer itself",
  context: `the dialogue is longer than max_context_chars, ${MAX_CONTEXT_CHARS} unless set otherwise`,
};

/** Teacher collection (airline.md 10.2). */
export const airlineCollection: CollectionRules = {
  split: "test",
  train: "seen",
  holdout: "unseen",
  env_options: { protocol: { max_context_chars: MAX_CONTEXT_CHARS } },
  contaminated: ({ metrics }) => CONTAMINATED[String(metrics.terminated_by)] ?? null,
  conversation: toConversation,
  counts: ({ metrics }) => ({
    num_turns: Number(metrics.num_turns),
    num_tool_calls: Number(metrics.num_tool_calls),
  }),
  files(covered, raw) {
    const options = airlineOptions.parse(raw);
    const { tasks } = loadTasks(options);
    const solved = new Set(covered);
    const coveredIndices = new Set(tasks.filter(({ id }) => solved.has(id)).map(({ task_index }) => task_index));
    return {
      "split.json": withCoverage(splitOf(tasks, options.split_file), (id) => coveredIndices.has(id)),
    };
  },
};
