import { z } from "zod";
import { UserError } from "../../../core/errors.ts";
import { describeIssues } from "../../../core/tool.ts";

// The facts that stand in for a language model. Source: spec section 6.3.

/** What an agent may ask a user for. */
export const SLOTS = [
  "user_id",
  "reservation_id",
  "reason",
  "trip_type",
  "origin",
  "destination",
  "date",
  "return_date",
  "cabin",
  "time_window",
  "passenger_count",
  "passengers",
  "dob",
  "bags",
  "insurance",
  "payment",
  "budget",
  "other",
] as const;
export type Slot = (typeof SLOTS)[number];

export const CABINS = ["basic economy", "economy", "business"] as const;
export type CabinWords = (typeof CABINS)[number];

export const TRANSFER_TOOL = "transfer_to_human_agents";
export const WRITE_TOOLS = [
  "book_reservation",
  "cancel_reservation",
  "send_certificate",
  "update_reservation_baggages",
  "update_reservation_flights",
  "update_reservation_passengers",
] as const;

const text = z.string().min(1);
const slot = z.enum(SLOTS);
const value = z.union([text, z.number().transform(String)]);
const oneOrMore = <Item extends z.ZodType>(item: Item) =>
  z.union([item.transform((one) => [one] as z.output<Item>[]), z.array(item).min(1)]);
const cabin = text
  .transform((name) => name.toLowerCase().replaceAll("_", " "))
  .pipe(z.enum(CABINS, { error: "expected basic_economy, economy or business" }));
/** How often the wish is repeated against a refusal, or a claim against the truth. */
const insist = z.int().min(0).max(20);

const matchSchema = z.union(
  [
    z.strictObject({ tool: z.enum(WRITE_TOOLS), kwargs: z.record(z.string(), z.unknown()).default({}) }),
    z.strictObject({ tool: z.literal(TRANSFER_TOOL) }),
    z.strictObject({ tool: z.null(), said: z.array(text).min(1) }),
  ],
  {
    error:
      `expected {"tool": ${WRITE_TOOLS.join(" | ")}, "kwargs": {…}}, {"tool": "${TRANSFER_TOOL}"} ` +
      'or {"tool": null, "said": ["…"]}',
  },
);

const acceptSchema = z.strictObject({
  /** Dollars: no amount to be paid may be larger. */
  max_extra_cost: z.number().nonnegative().optional(),
  /** The only flights the user takes. */
  flights: oneOrMore(text).optional(),
  /** The only dates, as 2024-05-20. */
  dates: oneOrMore(z.iso.date()).optional(),
  cabin: oneOrMore(cabin).optional(),
});

const goalSchema = z.strictObject({
  id: text,
  /** What it is about, as "cancel": for readers and for the teacher's words. */
  kind: text,
  /** The wish as the user says it. */
  say: text,
  match: matchSchema,
  /** Limits on what the user says yes to. */
  accept: acceptSchema.default({}),
  insist: insist.default(0),
  /** Another goal's id, "accept" (the user gives in), or "stop" (the user goes); null: gives in to a refusal only. */
  on_refused: text.nullable().default(null),
  /** Another goal's id; null: the next in list order. */
  on_done: text.nullable().default(null),
});

const scriptShape = z.strictObject({
  persona: z
    .strictObject({
      style: z.enum(["terse", "neutral", "chatty"]).default("neutral"),
      /** As "fr": the user opens with a word of that language. */
      language_tag: text.nullable().default(null),
      /** Stands behind each message but the stop token. */
      suffix: text.nullable().default(null),
    })
    .prefault({}),
  /** Goals that the first message states; the first of them is the current one. */
  opening: z.array(text).min(1),
  disclosure: z.enum(["on_request", "all_at_once"]).default("on_request"),
  facts: z.partialRecord(slot, oneOrMore(value)).default({}),
  /** Slots that the user doesn't remember. */
  unknown: z.array(slot).default([]),
  /** Slots for which the user points to the profile. */
  in_profile: z.array(slot).default([]),
  /** What the user says against the truth, `insist` times. */
  claims: z.array(z.strictObject({ slot, claimed: value, truth: value, insist })).default([]),
  goals: z.array(goalSchema).min(1),
});

export type Script = z.output<typeof scriptShape>;
export type Goal = Script["goals"][number];
export type GoalMatch = Goal["match"];

/** A script record with all that may be left out filled in; names that point nowhere are refused. */
export const scriptSchema = scriptShape.superRefine((script, context) => {
  const problem = (path: PropertyKey[], message: string) => context.addIssue({ code: "custom", path, message });
  const ids = script.goals.map((goal) => goal.id);
  const known = `the goals are ${ids.join(", ")}`;
  ids.forEach((id, i) => {
    if (id === "accept" || id === "stop")
      problem(["goals", i, "id"], `'${id}' is a word of on_refused, choose another`);
    if (ids.indexOf(id) < i) problem(["goals", i, "id"], `'${id}' is the id of an earlier goal too`);
  });
  script.opening.forEach((id, i) => {
    if (!ids.includes(id)) problem(["opening", i], `there is no goal '${id}'; ${known}`);
  });
  script.goals.forEach(({ id, on_done, on_refused }, i) => {
    if (on_done !== null && !ids.includes(on_done))
      problem(["goals", i, "on_done"], `there is no goal '${on_done}'; ${known}`);
    if (on_refused !== null && !["accept", "stop", ...ids].includes(on_refused))
      problem(
        ["goals", i, "on_refused"],
        `there is no goal '${on_refused}'; expected "accept", "stop" or a goal; ${known}`,
      );
    if (on_done === id || on_refused === id) problem(["goals", i], `goal '${id}' follows itself`);
  });
  script.claims.forEach(({ slot }, i) => {
    if (script.claims.findIndex((claim) => claim.slot === slot) < i)
      problem(["claims", i, "slot"], `'${slot}' is claimed twice`);
  });
  const reached = reachable(script);
  for (const [i, { id }] of script.goals.entries())
    if (!reached.has(id))
      problem(["goals", i], `goal '${id}' is never reached: name it in opening, on_done or on_refused`);
});

/** Goals that some dialogue can come to. */
function reachable({ opening, goals }: Script): Set<string> {
  const reached = new Set<string>(opening);
  for (const id of reached) {
    const at = goals.findIndex((goal) => goal.id === id);
    if (at < 0) continue;
    const { on_done, on_refused } = goals[at]!;
    for (const next of [on_refused, on_done ?? goals[at + 1]?.id])
      if (next && goals.some((goal) => goal.id === next)) reached.add(next);
  }
  return reached;
}

/** Reads a script record. @throws UserError with `where` in front, naming each key that does not fit */
export function readScript(record: unknown, where: string): Script {
  const parsed = scriptSchema.safeParse(record);
  if (!parsed.success) throw new UserError(`${where}: script: ${describeIssues(parsed.error)}`);
  return parsed.data;
}
