import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { REFERENCE_POLICY } from "../src/core/baselines.ts";
import { errorText, nearest, UserError } from "../src/core/errors.ts";
import { loadEnv } from "../src/envs/index.ts";
import { defineRecipe } from "../src/recipes/recipe.ts";
import { dryRun, envKeys } from "../src/recipes/shared.ts";
import { textTable } from "../src/report.ts";
import { shownPath, writeJson, writeWhole } from "../src/run-folder.ts";
import { type GateResult, judgeBaselines, topPlays } from "./gate.ts";

const gap = z.number().positive().nullable().default(null);

const config = z.object({
  ...envKeys,
  profile: z.string().nullable().default(null).describe("How rewards read a trajectory; short for an env option."),
  split: z.string().nullable().default(null).describe("Whose tasks are played; left out: as the environment says."),
  policies: z
    .array(z.string())
    .default([])
    .describe(`Held against ${REFERENCE_POLICY}; left out: all of the environment's.`),
  seed: z.int().nonnegative().default(42).describe("Of the first sample; the next ones count up."),
  random_samples: z.int().positive().default(20).describe("Plays of each task by a policy that draws."),
  min_reference_gap: gap.describe(
    `Least gap to ${REFERENCE_POLICY} over all tasks; left out: the environment's, as a rule 0.3.`,
  ),
  min_category_gap: gap.describe("The same in each category."),
  top: z.int().nonnegative().default(5).describe("Best-paid tasks that are told of each policy."),
  training_step: z.int().nonnegative().default(100).describe("What the scorer takes for the steps trained."),
  output: z.string().nullable().default(null).describe("A folder for baseline_report.json and baseline_report.md."),
});

export const baselines = defineRecipe({
  name: "baselines",
  summary: "The gate: does the reward tell policies that don't try from gold, over all tasks and in each category?",
  examples: ["baselines", "baselines --profile reference --json", "baselines --policies always_search --output report"],
  config,
  async run(given, { dry_run, given: set }) {
    const env = await loadEnv(given.env);
    const env_options = given.profile === null ? given.env_options : { ...given.env_options, profile: given.profile };
    env.parseOptions(env_options);
    const known = env.baselines.policies;
    for (const policy of given.policies) {
      if (policy === REFERENCE_POLICY || known.includes(policy)) continue;
      const near = nearest(policy, known);
      throw new UserError(
        `policies has '${policy}'${near ? `; did you mean '${near}'?` : "."} Expected some of ${known.join(", ")}.`,
      );
    }
    const chosen = given.policies.filter((policy) => policy !== REFERENCE_POLICY);
    const policies = chosen.length > 0 ? chosen : known;
    if (policies.length === 0)
      throw new UserError(`${env.name} has no policy besides ${REFERENCE_POLICY}: there is nothing to tell it from.`);
    if (set.has("random_samples") && !policies.some((policy) => env.baselines.random.includes(policy)))
      throw new UserError(`random_samples is set, but none of ${policies.join(", ")} draws anything. Leave it out.`);
    if (set.has("top") && given.output === null)
      throw new UserError("top is set, but only the report has that list. Add --output, or leave it out.");
    const bounds = {
      aggregate: given.min_reference_gap ?? env.baselines.bounds.aggregate,
      category: given.min_category_gap ?? env.baselines.bounds.category,
    };
    const { seed, random_samples, training_step, top, output } = given;
    const split = given.split ?? env.baselines.split;
    const facts = { env: env.id, split, env_options, seed, random_samples, training_step, bounds };
    if (dry_run) return dryRun("baselines", { ...given, ...facts, policies });
    if (output !== null) makeFolder(output);

    const { rows, sources } = await env.baselines.play({
      policies,
      split,
      seed,
      samples: random_samples,
      training_step,
      options: env_options,
    });
    const judged = judgeBaselines(rows, bounds);
    const best = topPlays(rows, top);
    if (output !== null) {
      writeJson(join(output, "baseline_report.json"), {
        ...facts,
        sources,
        ...judged,
        top: best,
        rows: rows.map(flat),
      });
      writeWhole(join(output, "baseline_report.md"), markdown(facts, judged, best));
    }
    const written =
      output === null ? [] : [`Written to ${shownPath(output)}: baseline_report.json, baseline_report.md`];
    return {
      text: [
        textTable(policyRows(judged)),
        "",
        "Mean reward by category, without the plays that did what gold does (a blank where none remains):",
        textTable(categoryRows(judged)),
        "",
        ...verdict(judged, bounds),
        ...written,
      ].join("\n"),
      json: [
        ...judged.policies,
        { ...facts, sources, passed: judged.passed, breaches: judged.breaches, ...(output === null ? {} : { output }) },
      ],
      exit_code: judged.passed ? 0 : 1,
    };
  },
});

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    throw new UserError(`output is '${path}', which can't be a folder: ${errorText(error)}`);
  }
}

/** A play as one flat record. */
function flat({ figures, parts, ...row }: Parameters<typeof judgeBaselines>[0][number]) {
  return { ...row, ...figures, components: parts };
}

const number = (value: number | null): string => (value === null ? "n/a" : value.toFixed(4));

function policyRows({ policies }: GateResult): string[][] {
  const figures = [...new Set(policies.flatMap((policy) => Object.keys(policy.figures)))];
  return [
    ["policy", "n", "mean", "std", "min", "max", "finished", ...figures, "gap"],
    ...policies.map((policy) => [
      policy.policy,
      String(policy.samples),
      ...[policy.mean, policy.std, policy.min, policy.max, policy.finish_rate].map(number),
      ...figures.map((name) => number(policy.figures[name] ?? null)),
      policy.gap === null ? "-" : number(policy.gap),
    ]),
  ];
}

/** Policies as columns, as there are more categories. A blank: all its plays there did what gold does. */
function categoryRows({ policies, categories }: GateResult): string[][] {
  return [
    ["category", ...policies.map(({ policy }) => policy)],
    ...categories.map((category) => [
      category,
      ...policies.map((policy) => {
        const { mean = null } = policy.categories[category] ?? {};
        return mean === null ? "" : number(mean);
      }),
    ]),
  ];
}

function verdict({ passed, breaches }: GateResult, bounds: { aggregate: number; category: number }): string[] {
  const asked = `at least ${bounds.aggregate} over all tasks, ${bounds.category} in each category`;
  if (passed) return [`Both gates pass: ${asked}.`];
  const failed = (["aggregate", "category"] as const).filter((gate) => breaches.some((breach) => breach.gate === gate));
  return [
    `The ${failed.join(" gate and the ")} gate ${failed.length === 1 ? "fails" : "fail"} (${asked}):`,
    ...breaches.map(({ gate, message }) => `  ${gate}: ${message}`),
  ];
}

function markdown(facts: Record<string, unknown>, judged: GateResult, best: ReturnType<typeof topPlays>): string {
  const table = ([heading, ...rows]: string[][]) =>
    [heading!, heading!.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");
  const top = Object.entries(best).flatMap(([policy, rows]) =>
    rows.map(({ task_id, category, reward }) => [policy, task_id, category, number(reward)]),
  );
  return `${[
    "# Baselines",
    `${Object.entries(facts)
      .map(([key, value]) => `${key}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
      .join("; ")}`,
    table(policyRows(judged)),
    "## Mean reward by category",
    "Plays that did what gold does are left out; a blank where none remains.",
    table(categoryRows(judged)),
    "## Gates",
    verdict(judged, facts.bounds as { aggregate: number; category: number }).join("\n\n"),
    "## What pays best without being gold",
    table([["policy", "task", "category", "reward"], ...top]),
  ].join("\n\n")}\n`;
}
