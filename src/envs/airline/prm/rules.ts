import type { Step } from "./steps.ts";

/** What each rule is worth. Penalties are negative; a length is a count of records. */
export interface PrmWeights {
  placeholder_write: number;
  placeholder_other: number;
  redundancy: number;
  error_repetition: number;
  escalation_without_read: number;
  escalation_after_read: number;
  no_reasoning: number;
  /** 0: off, as the reference's training loop never fills what the rule reads (8.4). */
  cheap_reasoning: number;
  /** For each record beyond `length_free`. */
  length: number;
  length_free: number;
  chain_write: number;
  chain_other: number;
  first_read: number;
  recovery: number;
  think: number;
  implicit_medium: number;
  implicit_long: number;
  read_diversity: number;
}

/** The weights that the reference ships ("v4-optimal"). */
export const prmWeights: PrmWeights = {
  placeholder_write: -0.05,
  placeholder_other: -0.03,
  redundancy: -0.03,
  error_repetition: -0.04,
  escalation_without_read: -0.1,
  escalation_after_read: -0.05,
  no_reasoning: -0.05,
  cheap_reasoning: 0,
  length: -0.01,
  length_free: 8,
  chain_write: 0.08,
  chain_other: 0.04,
  first_read: 0.01,
  recovery: 0.05,
  think: 0.01,
  implicit_medium: 0,
  implicit_long: 0,
  read_diversity: 0.01,
};

/** P7 where it is switched on. */
export const CHEAP_REASONING = -0.02;
/** Text of fewer code points beside a call is cheap reasoning. */
const CHEAP_BELOW = 30;
/** An implicit think of more code points counts as long. The reference's own bound is not known. */
const IMPLICIT_LONG_ABOVE = 200;
const LEAST_REASONED = 3;
const DIVERSE_READS = 3;

interface Rule<Of> {
  /** By the count of 8.3: P penalties, B bonuses. */
  id: string;
  name: string;
  /** The weight that it adds; null: it does not fire. */
  weight(of: Of, weights: PrmWeights): number | null;
}

const calls = ({ group }: Step): boolean => group !== "think";

/** Rules of one record, in the order of the table in 8.3. Those that fire add up. */
export const stepRules: readonly Rule<Step>[] = [
  {
    id: "P1",
    name: "placeholder, write",
    weight: (step, w) => (step.group === "write" && step.placeholder ? w.placeholder_write : null),
  },
  {
    id: "P2",
    name: "placeholder, other",
    weight: (step, w) => (calls(step) && step.group !== "write" && step.placeholder ? w.placeholder_other : null),
  },
  {
    id: "P3",
    name: "redundancy",
    weight: (step, w) => (calls(step) && step.redundant ? w.redundancy : null),
  },
  {
    id: "P4",
    name: "error repetition",
    weight: (step, w) => (calls(step) && step.after_error && step.same_as_previous ? w.error_repetition : null),
  },
  {
    id: "P5",
    name: "escalation",
    weight(step, w) {
      if (step.group !== "escalate") return null;
      return step.reads_before ? w.escalation_after_read : w.escalation_without_read;
    },
  },
  {
    id: "P7",
    name: "cheap reasoning",
    weight: (step, w) =>
      calls(step) && step.content_length > 0 && step.content_length < CHEAP_BELOW ? w.cheap_reasoning : null,
  },
  {
    id: "B1",
    name: "data chain",
    weight(step, w) {
      if (!calls(step) || !step.chained) return null;
      return step.group === "write" ? w.chain_write : w.chain_other;
    },
  },
  {
    id: "B2",
    name: "first read of a kind",
    weight: (step, w) => (step.new_read ? w.first_read : null),
  },
  // B3, a bonus for success, is gone: long failures collected it.
  {
    id: "B4",
    name: "recovery",
    weight: (step, w) => (calls(step) && step.after_error && !step.same_as_previous ? w.recovery : null),
  },
  {
    id: "B5",
    name: "think",
    weight: (step, w) => (step.useful_think ? w.think : null),
  },
  {
    id: "B6", // weightless: it is easy to fake; the search still tries it
    name: "implicit think, length",
    weight(step, w) {
      if (!step.implicit) return null;
      return step.content_length > IMPLICIT_LONG_ABOVE ? w.implicit_long : w.implicit_medium;
    },
  },
];

/** Rules of a whole trajectory of at least one record: they are added to the mean of its records, not averaged. */
export const trajectoryRules: readonly Rule<readonly Step[]>[] = [
  {
    id: "P6",
    name: "no reasoning",
    weight: (steps, w) => (steps.length >= LEAST_REASONED && steps.every(calls) ? w.no_reasoning : null),
  },
  {
    id: "B7",
    name: "read diversity",
    weight: (steps, w) => (steps.filter(({ new_read }) => new_read).length >= DIVERSE_READS ? w.read_diversity : null),
  },
  {
    id: "P8",
    name: "length",
    weight: (steps, w) => (steps.length > w.length_free ? w.length * (steps.length - w.length_free) : null),
  },
];
