import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { entries } from "../src/bridge/protocol.ts";
import { type Python, startPython } from "../src/bridge/python.ts";
import type { Env } from "../src/core/env.ts";
import type { ExpertRow } from "../src/core/task.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { writeExpertRows } from "../src/expert-rows.ts";
import type { Progress } from "../src/metrics.ts";
import { chatOf } from "../src/recipes/shared.ts";
import type { ComparedPolicy } from "./policies.ts";

interface Settings {
  env_options: Record<string, unknown>;
  chat_template: string | null;
  chat_template_kwargs: Record<string, unknown>;
  python: string | null;
}

/**
 * The KL of every policy to the reference, by label: the mean over the tokens that it sampled in these plays of
 * log π − log π_ref, nats. Empty where there is no reference, or nothing beside it.
 */
export async function policyKls(
  env: Env,
  policies: readonly ComparedPolicy[],
  reference: string | null,
  settings: Settings,
  progress: Progress,
): Promise<ReadonlyMap<string, number>> {
  const others = reference === null ? [] : policies.filter(({ model }) => model !== reference);
  if (others.length === 0) return new Map();
  const folder = mkdtempSync(join(tmpdir(), "trestle-kl-"));
  let python: Python | null = null;
  try {
    python = await startPython({ interpreter: settings.python ?? undefined });
    const kls = new Map<string, number>();
    for (const [place, { label, model, trajectories }] of others.entries()) {
      progress.line(`KL of ${label} to the base, over what it wrote`);
      const rows = trajectories.flatMap((trajectory) => rowOf(trajectory) ?? []);
      if (rows.length === 0) continue;
      const rows_path = join(folder, `${place}.jsonl`);
      writeExpertRows(rows_path, { rows, manifest: {} });
      const request = entries.reference_kl.request.parse({ model, reference, ...chatOf(env, settings), rows_path });
      const { rows: scored } = entries.reference_kl.result.parse(await python.call("reference_kl", request));
      const tokens = scored.reduce((sum, row) => sum + row.tokens, 0);
      if (tokens > 0) kls.set(label, scored.reduce((sum, row) => sum + row.kl, 0) / tokens);
    }
    return kls;
  } finally {
    await python?.close();
    rmSync(folder, { recursive: true });
  }
}

/** A trajectory as replies to a prompt; null: the policy wrote nothing. */
export function rowOf({ task_id, trial, messages }: Trajectory): ExpertRow | null {
  const first = messages.findIndex(({ role }) => role === "assistant");
  if (first < 0) return null;
  const turns: ExpertRow["turns"] = [];
  for (const message of messages.slice(first)) {
    if (message.role === "assistant") turns.push({ reply: message.content, observations: [] });
    else turns.at(-1)!.observations.push(message);
  }
  turns.at(-1)!.observations = []; // nothing was said after them
  return { id: `${task_id}/${trial}`, task_id, prompt: messages.slice(0, first), turns, meta: {} };
}
