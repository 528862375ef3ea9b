import { z } from "zod";
import { UserError } from "../../../core/errors.ts";
import { describeIssues } from "../../../core/tool.ts";
import { type ActionRecord, actionRecord, IMPLICIT_THINK, IMPLICIT_THINK_ABOVE, implicitThink } from "./records.ts";

/** A played task as validation and search read it. */
export interface PrmSample {
  task_id: string;
  success: boolean;
  actions: ActionRecord[];
}

const recordSchema = z.looseObject({
  tool: z.string(),
  parameters: z.record(z.string(), z.unknown()).default({}),
  param_str: z.string().optional(),
  observation: z.string().default(""),
  content: z.string().nullish(),
});

const about = { task_id: z.union([z.string(), z.number()]).transform(String), success: z.boolean() };

/** A trajectory record of 7.4. */
const reportLine = z.looseObject({ ...about, actions: z.array(recordSchema) });

/** A line of a trajectory log: each turn keeps the records that it made. */
const logLine = z
  .looseObject({
    ...about,
    turns: z.array(
      z.looseObject({ outcome: z.looseObject({ payload: z.looseObject({ records: z.array(recordSchema) }) }) }),
    ),
  })
  .transform(({ turns, ...line }) => ({ ...line, actions: turns.flatMap(({ outcome }) => outcome.payload.records) }));

/**
 * Reads one stored trajectory. What follows from a call and its observation is made anew.
 * @param where the place of the line, as "report.jsonl, line 3"
 * @throws UserError for a line that is no trajectory with actions
 */
export function readSample(value: unknown, where: string): PrmSample {
  const isReport = typeof value === "object" && value !== null && "actions" in value;
  const parsed = (isReport ? reportLine : logLine).safeParse(value);
  if (!parsed.success)
    throw new UserError(
      `${where}: expected a trajectory {task_id, success, actions: [{tool, parameters, observation}]}, or a line of ` +
        `this environment's trajectory log (${describeIssues(parsed.error).slice(0, 200)}).`,
    );
  const { task_id, success, actions } = parsed.data;
  return { task_id, success, actions: actions.map(readRecord) };
}

/** `param_str` stays as it was stored: it knows how numbers were written. */
function readRecord({
  tool,
  parameters,
  param_str,
  observation,
  content,
}: z.output<typeof recordSchema>): ActionRecord {
  const text = content ?? "";
  if (tool === IMPLICIT_THINK) return { ...thought, content: text };
  const record = actionRecord({ tool, parameters, observation, content: text });
  return param_str === undefined ? record : { ...record, param_str };
}

const thought = implicitThink("x".repeat(IMPLICIT_THINK_ABOVE + 1), undefined)!;
