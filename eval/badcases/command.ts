import { existsSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Condition, conditionSchema } from "../../src/core/bad-case.ts";
import type { Env } from "../../src/core/env.ts";
import { UserError } from "../../src/core/errors.ts";
import { describeIssues } from "../../src/core/tool.ts";
import { loadEnv } from "../../src/envs/index.ts";
import type { RunResult } from "../../src/recipes/recipe.ts";
import { textTable } from "../../src/report.ts";
import { captureCases, readStored } from "./capture.ts";
import { appendCases, defaultLibrary, nameOf, readLibrary, rulesOf } from "./library.ts";
import { type Replayed, type ReplayedCase, replayCases } from "./replay.ts";

export interface BadCaseFlags {
  env: string;
  env_options: Record<string, unknown>;
  profile?: string;
  library?: string;
  // capture alone
  task_id?: string;
  trial?: number;
  when?: Record<string, unknown>;
  note?: string;
  output?: string;
  dry_run?: boolean;
}

/**
 * `replay` judges the library again: 1 where a fixed case is bad again. `capture` makes open cases of a log's
 * trajectories.
 * @throws UserError for an action that is none, or a flag that the action would ignore
 */
export async function runBadCases(action: string, log: string | undefined, flags: BadCaseFlags): Promise<RunResult> {
  if (action !== "replay" && action !== "capture")
    throw new UserError(`badcases has no action '${action}'; expected replay or capture.`);
  const env = await loadEnv(flags.env);
  rulesOf(env);
  const env_options =
    flags.profile === undefined ? flags.env_options : { ...flags.env_options, profile: flags.profile };
  env.parseOptions(env_options);
  const library = flags.library ?? defaultLibrary(env);
  if (action === "capture") return capture(env, log, library, { ...flags, env_options });

  if (log !== undefined) throw new UserError(`badcases replay takes no log; a library is named by --library ${log}.`);
  const ignored = (["task_id", "trial", "when", "note", "output", "dry_run"] as const).find(
    (name) => flags[name] !== undefined,
  );
  if (ignored) throw new UserError(`badcases replay takes no --${ignored.replace("_", "-")}; it belongs to capture.`);
  return replay(env, library, env_options);
}

async function replay(env: Env, library: string, env_options: Record<string, unknown>): Promise<RunResult> {
  const cases = readLibrary(library, rulesOf(env).rules);
  if (cases.length === 0) throw new UserError(`${library}: this library holds no case.`);
  const replayed = await replayCases(env, cases, env_options);
  const counts = countsOf(replayed);
  const files = Object.fromEntries(
    [...new Set(replayed.map(({ file }) => file))].map((file) => [
      file,
      countsOf(replayed.filter((one) => one.file === file)),
    ]),
  );
  const line = (one: ReplayedCase) => `  ${one.case_id} (${one.file}, line ${one.line}): ${conditionText(one)}`;
  const of = (result: Replayed) => replayed.filter((one) => one.result === result);
  return {
    text: [
      textTable([
        ["case", "task", "status", "now", "reward", "drift"],
        ...replayed.map(({ case_id, task_id, status, result, reward, reward_drift }) => [
          case_id,
          task_id,
          status,
          result,
          reward.toFixed(6),
          reward_drift === null ? "n/a" : reward_drift.toFixed(6),
        ]),
      ]),
      "",
      ...told("REGRESSED: fixed cases that are bad again", of("regressed").map(line)),
      ...told("Open cases that are bad no more: set their status to fixed by hand", of("newly_fixed").map(line)),
      ...Object.entries(files).map(([file, found]) => `${file}: ${countsText(found)}`),
      `${replayed.length} cases: ${countsText(counts)}`,
    ].join("\n"),
    json: [
      ...replayed,
      { env: env.id, env_options, library: nameOf(library), cases: replayed.length, ...counts, files },
    ],
    exit_code: counts.regressed > 0 ? 1 : 0,
  };
}

async function capture(env: Env, log: string | undefined, library: string, flags: BadCaseFlags): Promise<RunResult> {
  const { rules } = rulesOf(env);
  if (log === undefined) throw new UserError("badcases capture: name a trajectory log or a run's folder.");
  const when = flags.when === undefined ? null : readCondition(flags.when, rules);
  const output = flags.output ?? outputOf(library);
  const known = existsSync(library) ? readLibrary(library, rules) : [];
  const inLibrary = resolve(output) === resolve(library) || resolve(dirname(output)) === resolve(library);
  if (!inLibrary && existsSync(output)) known.push(...readLibrary(output, rules));

  const { cases, left_out, looked_at } = await captureCases(env, readStored(env, log), known, {
    env_options: flags.env_options,
    task_id: flags.task_id ?? null,
    trial: flags.trial ?? null,
    when,
    note: flags.note ?? "",
  });
  const dry_run = flags.dry_run ?? false;
  if (!dry_run && cases.length > 0) appendCases(output, cases);
  const left = Object.entries(left_out).filter(([, count]) => count > 0);
  const few = flags.task_id !== undefined && looked_at.length <= 5 ? looked_at : [];
  return {
    text: [
      `${cases.length} ${cases.length === 1 ? "case" : "cases"} ${dry_run ? "would be added" : "added"} to ` +
        `${nameOf(output)}${dry_run ? "; nothing was written" : ""}.`,
      ...cases.map(({ case_id, reproduces_when, captured }) => {
        return `  ${case_id}: reward ${captured.reward}, ${JSON.stringify(reproduces_when)}`;
      }),
      ...(left.length > 0 ? [`Left out: ${left.map(([why, count]) => `${count} ${why}`).join(", ")}.`] : []),
      ...few.map(({ place, why, verdict }) => `  ${place}: ${why}${verdict ? `: ${JSON.stringify(verdict)}` : ""}`),
    ].join("\n"),
    json: [...cases, { output: nameOf(output), added: cases.length, dry_run, left_out }],
  };
}

/** Captured cases lie in a file of their own beside those written by hand. */
function outputOf(library: string): string {
  const isFile = existsSync(library) ? !statSync(library).isDirectory() : library.endsWith(".jsonl");
  return isFile ? library : join(library, "captured.jsonl");
}

function readCondition(value: unknown, rules: Parameters<typeof conditionSchema>[0]): Condition {
  const parsed = conditionSchema(rules).safeParse(value);
  if (!parsed.success)
    throw new UserError(`--when: ${describeIssues(parsed.error)}. Expected a condition, as '{"reward": {"ge": 0.6}}'.`);
  return parsed.data;
}

function countsOf(replayed: readonly ReplayedCase[]): Record<Replayed, number> {
  const counts = { stays_fixed: 0, still_open: 0, newly_fixed: 0, regressed: 0 };
  for (const { result } of replayed) counts[result]++;
  return counts;
}

function countsText(counts: Record<Replayed, number>): string {
  return Object.entries(counts)
    .map(([result, count]) => `${count} ${result}`)
    .join(", ");
}

function conditionText({ reproduces_when, found }: ReplayedCase): string {
  return `${JSON.stringify(reproduces_when)}, now ${JSON.stringify(found)}`;
}

function told(heading: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [`${heading}:`, ...lines, ""];
}
