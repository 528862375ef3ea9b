import { hasPlaceholder, type KeywordMode } from "./placeholders.ts";
import { type ActionRecord, ESCALATE_TOOL, IMPLICIT_THINK, READ_TOOLS, THINK_TOOLS, WRITE_TOOLS } from "./records.ts";

/** How many records before a call are searched for the same call. */
const WINDOW = 3;

/** A record as the rules see it: everything about it that does not depend on a weight. */
export interface Step {
  /** `other`: a tool of none of the groups. */
  group: "read" | "write" | "escalate" | "think" | "other";
  placeholder: boolean;
  /** The same call is among the few records before; thinking there is skipped, but takes a place. */
  redundant: boolean;
  /** The record before is an error. */
  after_error: boolean;
  /** It has the same tool and arguments as the record before. */
  same_as_previous: boolean;
  /** Some READ record stands earlier. */
  reads_before: boolean;
  /** A READ tool that was not used before. */
  new_read: boolean;
  /** An argument is equal to something that an earlier observation named. */
  chained: boolean;
  /** A THINK record that is no empty gesture (8.5). */
  useful_think: boolean;
  implicit: boolean;
  /** Code points of the message's text. */
  content_length: number;
}

/** Reads the records of one trajectory once; rules of any weights then apply to the result. */
export function readSteps(actions: readonly ActionRecord[], mode: KeywordMode): Step[] {
  const seen = new Set<string>();
  const reads = new Set<string>();
  return actions.map((action, index) => {
    const { tool, parameters } = action;
    const previous = actions[index - 1];
    const step: Step = {
      group: groupOf(tool),
      placeholder: hasPlaceholder(parameters, mode),
      redundant: isRedundant(actions, index),
      after_error: previous?.is_error ?? false,
      same_as_previous: previous !== undefined && isSameCall(previous, action),
      reads_before: reads.size > 0,
      new_read: READ_TOOLS.has(tool) && !reads.has(tool),
      chained: Object.values(parameters).some((value) => typeof value === "string" && seen.has(value)),
      useful_think: THINK_TOOLS.has(tool) && isUsefulThink(actions, index, mode),
      implicit: tool === IMPLICIT_THINK,
      content_length: [...action.content].length,
    };
    if (READ_TOOLS.has(tool)) reads.add(tool);
    for (const found of Object.values(action.extracted_entities)) for (const entity of found) seen.add(entity);
    return step;
  });
}

function groupOf(tool: string): Step["group"] {
  if (READ_TOOLS.has(tool)) return "read";
  if (WRITE_TOOLS.has(tool)) return "write";
  if (tool === ESCALATE_TOOL) return "escalate";
  return THINK_TOOLS.has(tool) ? "think" : "other";
}

function isSameCall(a: ActionRecord, b: ActionRecord): boolean {
  return a.tool === b.tool && a.param_str === b.param_str;
}

function isRedundant(actions: readonly ActionRecord[], index: number): boolean {
  const window = actions.slice(Math.max(0, index - WINDOW), index);
  return window.some((earlier) => !THINK_TOOLS.has(earlier.tool) && isSameCall(earlier, actions[index]!));
}

/** Thinking earns nothing behind other thinking, at the end, or before a call that is made up or a repetition (8.5). */
function isUsefulThink(actions: readonly ActionRecord[], index: number, mode: KeywordMode): boolean {
  const [previous, next] = [actions[index - 1], actions[index + 1]];
  if (next === undefined || (previous && THINK_TOOLS.has(previous.tool))) return false;
  return !hasPlaceholder(next.parameters, mode) && !isRedundant(actions, index + 1);
}
