// Preference pairs of stored trajectories (arxiv.md 10.3): which tasks they may come from, and how a history is read.
import { z } from "zod";
import { canonicalJson } from "../../core/canonical-json.ts";
import { UserError } from "../../core/errors.ts";
import type { PairRules, PairTurn } from "../../core/pair.ts";
import { type HistoryStep, readAction } from "./import-history.ts";
import { observationMessage } from "./observation.ts";
import type { ArxivOptions } from "./options.ts";
import { renderReply } from "./protocol.ts";
import { checkLeaks, loadRlVariations, trainBenchmark } from "./sft-data.ts";
import { loadArxivSplit, parseSplitName, RL_VARIATIONS_SPLIT, readSplitFile } from "./splits.ts";
import type { ArxivTask } from "./types.ts";

const FINISH = "FINISH";
const UNREADABLE = "UNREADABLE";

/** The division that says what is held out, where a split file has no train group of its own. */
const TRAIN = "v3_81:train";

export const arxivPairs: PairRules<ArxivTask, ArxivOptions> = {
  split: TRAIN,

  async load(split, options) {
    if (split === RL_VARIATIONS_SPLIT) return loadRlVariations(options); // which has the guards
    const { file, group } = parseSplitName(split);
    if (file === null || (group !== "train" && group !== "rl_train"))
      throw new UserError(
        `split '${split}': pairs come from a train group alone, named with its file: ${TRAIN}, v6:rl_train, or ` +
          `${RL_VARIATIONS_SPLIT}.`,
      );
    const { benchmark } = await trainBenchmark(readSplitFile(file).file.split.train ? `${file}:train` : TRAIN, options);
    const loaded = await loadArxivSplit(split, options);
    checkLeaks(
      loaded.tasks.map((task) => ({ task, parent_id: null, stage: "gold", parameters: null })),
      benchmark,
    );
    return loaded;
  },

  fits: ({ task }, prompt) => prompt.some(({ role, content }) => role === "user" && content.includes(task)),

  action({ action, outcome }) {
    if (outcome.kind === "parse_error") return UNREADABLE;
    return action ? canonicalJson({ name: action.name, args: action.args }) : FINISH;
  },

  end: { action: FINISH, reply: renderReply("", FINISH) },

  history(line) {
    const { task_id, task, history, forced_finish } = lineSchema.parse(line);
    // An inline record is of a task of somebody else's, whatever id it bears.
    if (!task_id || (typeof task === "object" && task !== null)) return null;
    const last = history.at(-1);
    // What the framework added, the policy did not say: the trajectory was over before.
    const forced = last && (forced_finish || last.forced_finish);
    return { task_id, turns: (forced ? history.slice(0, -1) : history).map(historyTurn) };
  },
};

/** What of a line `rescore` does not tell; the rest it has checked. */
const lineSchema = z.looseObject({
  task_id: z.string().nullish(),
  task: z.unknown().optional(),
  history: z.array(z.custom<HistoryStep & { reply?: unknown }>()),
  forced_finish: z.boolean().nullish(),
});

function historyTurn(step: HistoryStep & { reply?: unknown }): PairTurn {
  const observation = observationOf(step);
  const observations = observation === "" ? [] : [observationMessage(observation, step.outcome?.kind === "tool_error")];
  const action = readAction(step.action, "project");
  const written = typeof step.reply === "string" ? step.reply : null;
  if (step.parse_failed || action.type === "unreadable" || step.outcome?.kind === "parse_error")
    return { reply: written, action: UNREADABLE, observations, unreadable: true };
  const call = action.type === "call" ? { name: action.name, args: action.args } : null;
  return {
    reply: written ?? rendered(step.thought ?? "", call),
    action: call ? canonicalJson(call) : FINISH,
    // FINISH ends the dialogue: what a record holds behind it, no policy has read
    observations: call ? observations : [],
    unreadable: false,
  };
}

function observationOf({ observation }: HistoryStep): string {
  if (observation === null || observation === undefined) return "";
  const text = typeof observation === "string" ? observation : JSON.stringify(observation);
  return text.replace(/^\s*Observation:\s*/, "");
}

/** null: a thought with the protocol's own markers in it, which would not be read back as it was. */
function rendered(thought: string, call: { name: string; args: Record<string, unknown> } | null): string | null {
  try {
    return renderReply(thought, call ?? FINISH);
  } catch {
    return null;
  }
}
