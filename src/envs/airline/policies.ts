// Policies without a model. Each gives its replies in advance; an episode ends when they do.
import type { Random } from "../../core/random.ts";
import { fromPlain } from "./data/python-values.ts";
import { databaseOf } from "./database.ts";
import type { AirlineOptions } from "./options.ts";
import { renderReply } from "./protocol/hermes.ts";
import { randomCall } from "./random-calls.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { playTeacher } from "./teacher/index.ts";
import { answerText, GOODBYE } from "./teacher/phrases.ts";
import { airlineToolNamed } from "./tools/index.ts";
import { TRANSFER_TOOL } from "./users/script.ts";
import type { WriteCall } from "./users/types.ts";

const REFUSAL = "I am sorry, but unfortunately that is not possible.";
/** Users hold on to a wish for a while, and leave when nothing moves any more. */
const FAREWELL = [...Array<string>(8).fill(REFUSAL), ...Array<string>(8).fill(GOODBYE)];
const TRANSFER: WriteCall = { name: TRANSFER_TOOL, kwargs: { summary: "The customer needs a human agent." } };
const RANDOM_CALLS = 8;

type AirlinePolicy = (task: AirlineTask, random: Random, options: AirlineOptions) => string[];

/** A call as a reply. */
export const callReply = ({ name, kwargs }: WriteCall): string =>
  renderReply("", [{ name, arguments: fromPlain(kwargs) }]);

/** `gold` solves the task; the others show what a reward pays to policies that don't try to. */
export const airlinePolicies = {
  gold: (task, _, options) =>
    task.script && options.user.strategy !== "silent" ? taughtReplies(task, options) : goldReplies(task),
  do_nothing: () => [callReply(TRANSFER)],
  refuse: () => [...FAREWELL],
  double_end: () => [callReply(TRANSFER), callReply(TRANSFER)],
  read_only: (task) => [
    callReply({ name: "get_user_details", kwargs: { user_id: task.user_id } }),
    ...task.actions.filter(isRead).map(callReply),
    ...FAREWELL,
  ],
  random_calls: (task, random, options) => [
    ...Array.from({ length: RANDOM_CALLS }, () => callReply(randomCall(task, databaseOf(options), random))),
    callReply(TRANSFER),
  ],
} satisfies Record<string, AirlinePolicy>;

const isRead = ({ name }: WriteCall): boolean => name !== TRANSFER_TOOL && !airlineToolNamed(name)?.writes;

/** The gold actions, then what is to be said: for tasks without a script. */
function goldReplies({ actions, outputs }: AirlineTask): string[] {
  const calls = actions.filter(({ name }) => name !== TRANSFER_TOOL);
  const transfer = actions.find(({ name }) => name === TRANSFER_TOOL);
  if (transfer && outputs.length === 0) return [...calls, transfer].map(callReply);
  return [...calls.map(callReply), outputs.length > 0 ? answerText(outputs) : GOODBYE];
}

const taught = new WeakMap<AirlineTask, WeakMap<AirlineOptions, string[]>>();

/** What the scripted teacher says to the scripted user. */
function taughtReplies(task: AirlineTask, options: AirlineOptions): string[] {
  let known = taught.get(task);
  if (!known) {
    known = new WeakMap();
    taught.set(task, known);
  }
  let replies = known.get(options);
  if (!replies) {
    const { turns } = playTeacher(task, databaseOf(options), { peek: options.user.peek, tools: options.tools });
    replies = turns.map(({ reply }) => (reply.kind === "call" ? callReply(reply.call) : reply.text));
    known.set(options, replies);
  }
  return [...replies];
}
