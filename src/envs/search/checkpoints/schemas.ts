import { z } from "zod";
import { LABELS } from "../types.ts";

// What a recorded run leaves behind: these schemas are the format's documentation. Source: spec section 6.
//
//   checkpoints/<question>/run_<number>/meta.json        metaSchema
//   checkpoints/<question>/run_<number>/<file of meta>   roundSchema: the state AFTER the round
//
// Other keys are ignored.

export const metaSchema = z.object({
  question_id: z.string().min(1),
  question: z.string().min(1),
  /** The run answered its question. */
  solved: z.boolean(),
  rounds: z
    .array(
      z.object({
        /** From 1, counting up by 1. */
        round: z.int().min(1),
        /** What the planner chose: rounds of "SEARCH" become samples. */
        strategy: z.string().min(1),
        /** In the run's own folder. */
        file: z.string().regex(/^[^/\\]+$/, "expected a file's name, without a folder"),
      }),
    )
    .min(1),
});

export const roundSchema = z.object({
  round: z.int().min(1),
  strategy: z.string().min(1),
  /** What the planner asked for in this round. */
  sub_goal: z.string(),
  /** What the Executor wrote in this round. */
  clues: z.array(z.string()),
  entities: z.array(z.object({ name: z.string(), type: z.string(), facts: z.array(z.string()) })),
  targets: z.array(z.object({ name: z.string(), status: z.string() })),
  documents: z.array(z.object({ docid: z.string(), title: z.string(), label: z.enum(LABELS) })),
  context: z.array(z.object({ source: z.string(), text: z.string() })),
  /** Found in this round; those of the rounds before may stand here too. */
  seen_docids: z.array(z.string()),
});

export type RunMeta = z.output<typeof metaSchema>;
export type RoundCheckpoint = z.output<typeof roundSchema>;
