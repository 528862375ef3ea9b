import { z } from "zod";
import { CANCEL_REASONS } from "../policy/facts.ts";
import { tripQuerySchema } from "./trips.ts";

// What makes a task's gold the only right end: `proveTask` checks it against the database.

const temptingSchema = z.strictObject({
  name: z.string(),
  kwargs: z.record(z.string(), z.unknown()),
  /** The rule of section 3 that it breaks; null: it is legal, but dearer than the customer takes. */
  rule: z.int().min(1).max(29).nullable(),
  /** Dollars that the customer pays at most. */
  over: z.number().nullable().default(null),
  /** How many of the gold's actions come before it. */
  after: z.int().nonnegative().default(0),
});

export const proofSchema = z.strictObject({
  /** Why the customer cancels; null: nothing is to be cancelled. */
  reason: z.enum(CANCEL_REASONS).nullable().default(null),
  /** What decides the flights. */
  trips: z
    .array(
      z.strictObject({
        /** Which of the gold's writes; null: no flight fits, so nothing is to be done. */
        write: z.int().nonnegative().nullable(),
        way: z.enum(["whole", "out", "back"]),
        query: tripQuerySchema,
      }),
    )
    .default([]),
  /** What a careless agent would do, and why it must not. */
  tempting: z.array(temptingSchema).min(1),
});

export type TaskProof = z.output<typeof proofSchema>;
export type ProofInput = z.input<typeof proofSchema>;
