import { UserError } from "./core/errors.ts";
import { describeIssues } from "./core/tool.ts";
import { parseClues } from "./envs/search/clues.ts";
import { search } from "./envs/search/env.ts";
import { buildIndex } from "./envs/search/index/build.ts";
import { corpusFile } from "./envs/search/index/corpus.ts";
import { searchOptions } from "./envs/search/options.ts";
import { projectPath } from "./envs/search/project-files.ts";
import { quickCheck, quickCheckText } from "./envs/search/quick-check.ts";
import { EMBEDDED } from "./envs/search/resources.ts";
import { worldProblems, writeWorld } from "./envs/search/world/files.ts";
import { generateWorld } from "./envs/search/world/generate.ts";
import { createProgress, progressBar } from "./metrics.ts";
import type { RunResult } from "./recipes/recipe.ts";

// Data of the search environment: `data search index`, `data search world`, and `check --env search`.

/** Builds a collection's full-text index. */
export function indexAction(files: readonly string[], output: string | undefined): RunResult {
  const [corpus, ...rest] = files;
  if (!corpus || rest.length > 0 || !output)
    throw new UserError(
      "data search index takes one collection: data search index corpus.jsonl --output corpus.sqlite",
    );
  const progress = createProgress();
  const began = performance.now();
  try {
    const { documents, corpus_sha256 } = buildIndex(corpusFile(corpus), output, {
      name: corpus,
      progress: (share) => progress.status(progressBar(Math.round(100 * share), 100, "% indexed", began)),
    });
    return {
      text: `${output}: ${documents} documents`,
      json: [{ output, documents, corpus_sha256, seconds: Number(((performance.now() - began) / 1000).toFixed(2)) }],
    };
  } finally {
    progress.end();
  }
}

/** Makes the embedded world from a seed, or says what differs from it. */
export function worldAction(output: string | undefined, seed: number | undefined, check: boolean): RunResult {
  const folder = projectPath(output ?? EMBEDDED);
  const shown = output ?? EMBEDDED;
  const files = generateWorld(seed);
  if (!check) {
    writeWorld(folder, files);
    return { text: `${shown}: ${files.size} files`, json: [{ output: shown, files: files.size }] };
  }
  const problems = worldProblems(folder, files);
  return {
    text: problems.length === 0 ? `${shown}: good` : problems.map((problem) => `${shown}: ${problem}`).join("\n"),
    json: [{ path: shown, ok: problems.length === 0, problems }],
    exit_code: problems.length === 0 ? 0 : 1,
  };
}

/**
 * What there is to train on, and how it looks.
 * @param model one that answers the example's prompt; left out: none is loaded
 */
export async function checkSearch(env_options: Record<string, unknown>, model?: string): Promise<RunResult> {
  const parsed = searchOptions.safeParse(env_options);
  if (!parsed.success) throw new UserError(`env_options of search: ${describeIssues(parsed.error)}`);
  const check = quickCheck(parsed.data);
  if (model === undefined) return { text: quickCheckText(check), json: [check] };
  const { tryModel } = await import("./check-model.ts"); // with the bridge
  const tried = await tryModel({ env: search, env_options, split: "train", task_id: check.example.task_id, model });
  const { clues } = parseClues(tried.reply ?? "", parsed.data.max_clues);
  return {
    text: [
      quickCheckText(check),
      `--- ${tried.model} answers`,
      tried.reply ?? "nothing",
      `--- is read as ${clues.length} clues, reward ${tried.reward ?? "none"}`,
    ].join("\n"),
    json: [{ ...check, model: { ...tried, clues } }],
    exit_code: tried.reply === null || tried.reply === "" ? 1 : 0,
  };
}
