// The words of experts: what a gold reply thinks before it acts, why a task cannot be done, and the frames that task
// sentences come in. Thoughts are short and regular: a small model has to learn them. No task id ever appears in one.
import { renderReply } from "./protocol.ts";
import type { ArxivTask, BlockedReason, Call } from "./types.ts";

/** Frames around a task sentence. The first leaves it as it is; none takes a parameter away. */
export const taskWrappers: readonly ((task: string) => string)[] = [
  (task) => task,
  (task) => `Please help me with this: ${task}`,
  (task) => `My request: ${task}`,
  (task) => `${task} Thank you!`,
  (task) => `Here is what I need. ${task}`,
  (task) => `Hello, I have a request. ${task}`,
];

export const THOUGHT_VARIANTS = 2;

/** What a step acts on, in words. */
function stepObject({ args }: Call): string {
  if (typeof args.query === "string") return `the query "${args.query}"`;
  if (typeof args.aspect === "string") return `aspect ${args.aspect}`;
  if (args.ref === null) return "the current paper";
  return typeof args.ref === "string" ? `paper "${args.ref}"` : `paper ${args.ref}`;
}

/** The thought of a gold step: which tool is needed, and for what. At most 15 words; `variant` 0 or 1. */
export function stepThought(step: Call, variant = 0): string {
  return variant === 0 ? `Next: ${step.tool} for ${stepObject(step)}.` : `I need ${step.tool} for ${stepObject(step)}.`;
}

const blockedThoughts: Record<BlockedReason, readonly ((task: ArxivTask) => string)[]> = {
  missing_context: [
    () => "The session has no paper list and no recent paper, so this cannot be done.",
    () => "Unable to do this: the context is missing, no paper came before.",
  ],
  invalid_reference: [
    (task) =>
      `The index ${namedIndex(task)} is out of range: the list has ${listLength(task)} papers, so this cannot be done.`,
    (task) => `Unable to do this: index ${namedIndex(task)} is invalid, the list has papers 1 to ${listLength(task)}.`,
  ],
  paper_not_found: [
    (task) => `The paper ${namedId(task)} is not found in the list, so this cannot be done.`,
    (task) => `Unable to do this: the paper ${namedId(task)} does not exist in the list.`,
  ],
  unsupported_capability: [
    () => "No tool can do what is asked: it is unsupported, so this cannot be done.",
    () => "Unable to do this: it is unsupported, no tool offers it.",
  ],
};

/** The index that an unsolvable sentence names, as it stands there: "0" in "paper 0", "20" in "the 20th paper". */
function namedIndex({ task }: ArxivTask): string {
  return /(?<![\w.])(-?\d+)(?:st|nd|rd|th)?\b/.exec(task)?.[1] ?? "asked for";
}

function namedId({ task }: ArxivTask): string {
  return /\b\d{4}\.\d{4,5}(?:v\d+)?\b/.exec(task)?.[0] ?? "asked for";
}

/** How many papers the last search of the setup asked for; 0 without one. */
function listLength({ prior = [], setup }: ArxivTask): number {
  return Number([...prior, ...setup].findLast(({ args }) => args.max_results !== undefined)?.args.max_results ?? 0);
}

/**
 * The thought of the reply that ends a task rightly: that all is done, or what stands in the way and of which nature.
 * `variant` 0 or 1.
 */
export function terminalThought(task: ArxivTask, variant = 0): string {
  if (task.terminal_reason) return blockedThoughts[task.terminal_reason][variant % THOUGHT_VARIANTS]!(task);
  return variant === 0 ? "Every step is done." : "All that was asked for is done.";
}

/** The replies that solve a task: its gold steps and FINISH. `variant` 0 or 1 chooses the wording of the thoughts. */
export function goldReplies(task: ArxivTask, variant = 0): string[] {
  return [
    ...task.steps.map((step) => renderReply(stepThought(step, variant), { name: step.tool, args: step.args })),
    renderReply(terminalThought(task, variant), "FINISH"),
  ];
}
