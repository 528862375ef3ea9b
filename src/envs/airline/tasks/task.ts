import { z } from "zod";
import { UserError } from "../../../core/errors.ts";
import type { TaskBase } from "../../../core/task.ts";
import { describeIssues } from "../../../core/tool.ts";
import { isDict, type PyDict, type PyValue, toPlain } from "../data/python-values.ts";
import { readScript, type Script } from "../users/script.ts";
import type { WriteCall } from "../users/types.ts";
import { proofSchema, type TaskProof } from "./proof-record.ts";

/** A task of this family (airline.md 4.1). */
export interface AirlineTask extends TaskBase {
  /** "synth-07", "extra-007", or "tau-07" for a converted original. */
  id: string;
  task_index: number;
  user_id: string;
  /** For the user simulators with a language model, and for a person. */
  instruction: string;
  /** One gold sequence; only the data that it leads to counts. Ints and floats of `kwargs` are told apart. */
  actions: readonly GoldAction[];
  /** Texts that the agent must say. */
  outputs: readonly string[];
  /** For the scripted user; null: originals have none. */
  script: Script | null;
  /** What it exercises, for tables: "refusal", "cancel", "book" …; null: nobody said. */
  category: string | null;
  /** Rules of section 3 that it turns on. */
  policy_rules: readonly number[];
  source: "synthetic" | "tau";
  /** Why its gold is the only right end; left out: nobody said. */
  proof?: TaskProof;
}

/** A gold call; `kwargs` as parsed, so that 50 and 50.0 stay two values. */
export interface GoldAction extends WriteCall {
  kwargs: PyDict;
}

const recordSchema = z.looseObject({
  id: z.string().min(1).optional(),
  task_index: z.int().nonnegative(),
  annotator: z.string().optional(),
  user_id: z.string().min(1),
  instruction: z.string(),
  actions: z.array(z.strictObject({ name: z.string().min(1), kwargs: z.record(z.string(), z.unknown()) })),
  outputs: z.array(z.string()),
  script: z.unknown().optional(),
  category: z.string().nullable().optional(),
  policy_rules: z.array(z.int().min(1).max(29)).optional(),
  source: z.enum(["synthetic", "tau"]).optional(),
  proof: proofSchema.optional(),
});

/**
 * Reads one task record, as `parseJson` gives it.
 * @param where the file and place, for errors
 * @throws UserError naming each key that doesn't fit
 */
export function readTask(record: PyValue, where: string): AirlineTask {
  const parsed = recordSchema.safeParse(isDict(record) ? toPlain(record) : record);
  if (!parsed.success) throw new UserError(`${where}: ${describeIssues(parsed.error)}`);
  const { task_index, user_id, instruction, outputs, script, category, policy_rules, proof } = parsed.data;
  const { source = "tau" } = parsed.data;
  const actions = (record as PyDict).get("actions") as readonly PyDict[];
  return {
    id: parsed.data.id ?? `${source === "tau" ? "tau" : "synth"}-${String(task_index).padStart(2, "0")}`,
    task_index,
    user_id,
    instruction,
    actions: actions.map((action) => ({ name: action.get("name") as string, kwargs: action.get("kwargs") as PyDict })),
    outputs,
    script: script === undefined || script === null ? null : readScript(script, where),
    category: category ?? null,
    policy_rules: policy_rules ?? [],
    source,
    ...(proof ? { proof } : {}),
  };
}
