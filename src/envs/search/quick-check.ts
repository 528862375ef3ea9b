import { createRandom } from "../../core/random.ts";
import type { Difficulty } from "./checkpoints/samples.ts";
import type { SkippedRun } from "./checkpoints/scan.ts";
import { parseClues } from "./clues.ts";
import type { SearchOptions } from "./options.ts";
import { renderPrompt, renderReply } from "./prompt.ts";
import { indexOf } from "./resources.ts";
import { loadSamples, loadTasks } from "./tasks.ts";

// A look at the data before a model is loaded. Source: spec section 6, last paragraph.

export interface QuickCheck {
  documents: number;
  questions: number;
  runs: number;
  rounds: number;
  samples: number;
  /** Questions and samples of each side. */
  split: Record<"train" | "eval", { questions: number; samples: number }>;
  /** Samples whose gold clues find something IMPORTANT that is new, by the judgements. */
  solvable: number;
  skipped: readonly SkippedRun[];
  hardest: readonly Difficulty[];
  example: {
    task_id: string;
    prompt: string;
    /** The clues recorded for this round, as a reply, and as they are read again. */
    reply: string;
    clues: string[];
  };
}

/** @throws UserError for data that can't be used at all */
export function quickCheck(options: SearchOptions): QuickCheck {
  const { samples, questions, runs, rounds, skipped, split } = loadSamples(options);
  const sides = {
    train: loadTasks("train", options).tasks,
    eval: loadTasks("eval", options).tasks,
  };
  const recorded = sides.train.filter(({ recorded_clues }) => recorded_clues.length > 0);
  const task = createRandom("check").pick(recorded.length > 0 ? recorded : sides.train);
  const reply = renderReply(task.sub_goal, task.recorded_clues.length > 0 ? task.recorded_clues : task.gold_clues);
  return {
    documents: indexOf(options).documents,
    questions: questions.length,
    runs,
    rounds,
    samples: samples.length,
    split: {
      train: { questions: split.train.length, samples: sides.train.length },
      eval: { questions: split.eval.length, samples: sides.eval.length },
    },
    solvable: [...sides.train, ...sides.eval].filter(({ solvable }) => solvable).length,
    skipped,
    hardest: questions.filter(({ question_id }) => split.eval.slice(0, 3).includes(question_id)),
    example: {
      task_id: task.id,
      prompt: renderPrompt(task, options),
      reply,
      clues: parseClues(reply, options.max_clues).clues,
    },
  };
}

const SKIPPED_SHOWN = 20;

export function quickCheckText(check: QuickCheck): string {
  const { split, skipped, example } = check;
  const side = (name: "train" | "eval") => `${name} ${split[name].questions} questions, ${split[name].samples} samples`;
  return [
    `documents: ${check.documents}`,
    `questions: ${check.questions}; runs: ${check.runs}; rounds: ${check.rounds}; samples: ${check.samples}`,
    `split: ${side("train")}; ${side("eval")}`,
    `samples with a known way to something new that is important: ${check.solvable}`,
    `skipped: ${skipped.length}`,
    ...skipped.slice(0, SKIPPED_SHOWN).map(({ path, reason }) => `  ${path}: ${reason}`),
    ...(skipped.length > SKIPPED_SHOWN ? [`  and ${skipped.length - SKIPPED_SHOWN} more`] : []),
    "",
    `--- prompt of ${example.task_id}`,
    example.prompt,
    "--- a recorded reply",
    example.reply,
    `--- is read as ${example.clues.length} clues`,
    ...example.clues.map((clue) => `  ${clue}`),
  ].join("\n");
}
