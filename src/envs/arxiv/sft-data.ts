// Expert rows for SFT: gold steps played in the environment, in several wordings, and what must never become a row.
import type { EnvSpec } from "../../core/env.ts";
import { startEpisode } from "../../core/episode.ts";
import { UserError } from "../../core/errors.ts";
import { createRandom } from "../../core/random.ts";
import type { ExpertRow, LoadedTasks } from "../../core/task.ts";
import { type DerivedTask, derivedTasks, variations, worldOf } from "./derivations.ts";
import type { ArxivOptions } from "./options.ts";
import { attachExpectedPaperIds } from "./oracle.ts";
import { canonicalJson, loadSnapshot, sha256 } from "./snapshot.ts";
import { textKey } from "./split-guards.ts";
import { loadArxivSplit, parseSplitName, readSplitFile, withOracle } from "./splits.ts";
import { arxivTasks, fileHash, smokeTasks, TASKS_FILE } from "./tasks.ts";
import type { ArxivState, ArxivTask } from "./types.ts";
import { goldReplies, THOUGHT_VARIANTS, taskWrappers } from "./wordings.ts";

type ArxivSpec = EnvSpec<ArxivTask, ArxivState, ArxivOptions>;

/** A task that may become rows, and where it comes from. `gold`: a train task itself. */
export type SftTask = { task: ArxivTask; parent_id: string | null } & (
  | { stage: "gold"; parameters: null }
  | { stage: DerivedTask["stage"]; parameters: Record<string, unknown> }
);

/** What rows are checked against. */
export interface Benchmark {
  train: readonly ArxivTask[];
  /** Every other task of the 81. */
  heldOut: readonly ArxivTask[];
  /** Not held out, since train tasks ask for the same, but their texts are no training texts either. */
  smoke: readonly ArxivTask[];
}

/**
 * The expert rows of a train group: its gold tasks, their derivations, and enough refusals, each in several wordings.
 * A row is a whole dialogue, FINISH included. Equal arguments give equal rows.
 * @param split Explicitly `FILE:train`; nothing else may become SFT data.
 * @throws UserError for another split, a leak, or a task whose gold replies are no strict success: then there are no rows.
 */
export async function expertRows(
  env: ArxivSpec,
  split: string,
  options: ArxivOptions,
): Promise<{ rows: ExpertRow[]; manifest: Record<string, unknown> }> {
  const { file, benchmark } = await trainBenchmark(split, options);
  const chosen = sftTasks(benchmark, options);
  const overlaps = checkLeaks(chosen.tasks, benchmark);

  const rows: ExpertRow[] = [];
  for (const [index, entry] of chosen.tasks.entries()) {
    rows.push(...(await taskRows(env, entry, index, split, options)));
  }

  const tasks = chosen.tasks.map(({ task, parent_id, stage, parameters }) => ({
    id: task.id,
    parent_id,
    stage,
    parameters,
    sha256: taskHash(task),
  }));
  const blocked = chosen.tasks.filter(({ task }) => task.terminal_mode === "blocked");
  return {
    rows,
    manifest: {
      version: 1,
      kind: "arxiv_sft",
      env: env.id,
      split: { name: split, path: file.path, sha256: file.sha256 },
      task_file: { path: TASKS_FILE, sha256: fileHash(TASKS_FILE) },
      snapshot: { path: options.snapshot, sha256: fileHash(options.snapshot) },
      prompt: options.prompt,
      style: options.protocol.style,
      options: options.sft,
      counts: {
        tasks: tasks.length,
        ...countBy(chosen.tasks, ({ stage }) => stage),
        parents: new Set(tasks.flatMap(({ parent_id }) => parent_id ?? [])).size,
        rows: rows.length,
        replies: rows.reduce((sum, { turns }) => sum + turns.length, 0),
      },
      histograms: {
        parent: countBy(chosen.tasks, ({ parent_id, task }) => parent_id ?? task.id),
        category: countBy(chosen.tasks, ({ task }) => task.category),
        chain_length: countBy(chosen.tasks, ({ task }) => String(task.steps.length)),
        terminal: countBy(chosen.tasks, ({ task }) => task.terminal_reason ?? "completed"),
      },
      refusals: {
        share_of_tasks: blocked.length / tasks.length,
        added: chosen.refusals.length,
        how: "blocked train tasks varied with seeded parameters, in turn, until they are refusal_share of all tasks",
      },
      // Checked above; anything but 0 would have stopped the run.
      overlaps,
      topology: "each derived task has the tools of its parent's setup and steps, in the same order",
      tasks,
      tasks_sha256: sha256(canonicalJson(tasks)),
      rows_sha256: sha256(canonicalJson(rows)),
    },
  };
}

/** Of `rl_variations`: how many new parameters each task gets, and the seed, which is not the one of SFT's variations. */
const RL_VARIATIONS = { variations: 40, seed: 43 };

/**
 * The split `rl_variations`: the tasks of `v6:rl_train`, and each again with other parameters. A policy that trains on
 * 33 fixed sentences learns them by heart; new parameters make it learn to read them. The guards of SFT data hold.
 */
export async function loadRlVariations(options: ArxivOptions): Promise<LoadedTasks<ArxivTask>> {
  const { benchmark } = await trainBenchmark("v3_81:train", options);
  const { tasks: parents, sources } = await loadArxivSplit("v6:rl_train", options);
  const ids = parents.map(({ id }) => id);
  const sft = { ...options.sft, ...RL_VARIATIONS, gold: false, derivations: "none" as const, only_parents: ids };
  const { tasks } = sftTasks(benchmark, { ...options, sft: { ...sft, refusal_share: 0 } });
  checkLeaks(tasks, benchmark);
  const varied = await Promise.all(tasks.map(({ task }) => withOracle(task, options.snapshot)));
  return { tasks: [...parents, ...varied], sources };
}

/** A train group and what is held out beside it. @throws UserError for any other group */
export async function trainBenchmark(split: string, options: ArxivOptions) {
  const { file: name, group } = parseSplitName(split);
  if (name === null || group !== "train") {
    throw new UserError(`split '${split}': SFT data comes from a train group alone, named with its file: v3_81:train.`);
  }
  const file = readSplitFile(name);
  const { tasks: train } = await loadArxivSplit(split, options);
  const trainIds = new Set(train.map(({ id }) => id));
  const heldOut = arxivTasks().filter(({ id }) => !trainIds.has(id));
  return { file, benchmark: { train, heldOut, smoke: smokeTasks() } };
}

/** Which tasks become rows: gold ones, the fixed derivations, variations, and refusals up to their share. */
export function sftTasks(
  benchmark: Benchmark,
  options: Pick<ArxivOptions, "snapshot" | "sft">,
): { tasks: SftTask[]; refusals: SftTask[] } {
  const { gold, derivations, only_parents, variations: perParent, refusal_share, seed } = options.sft;
  const { train, heldOut } = benchmark;
  const stranger = only_parents.find((id) => !train.some((task) => task.id === id));
  if (stranger) throw new UserError(`only_parents: '${stranger}' is no train task.`);
  const tasks: SftTask[] = gold
    ? train.map((task) => ({ task, parent_id: null, stage: "gold", parameters: null }))
    : [];
  if (derivations !== "none") tasks.push(...derivedTasks(train, derivations, only_parents));

  const { allows } = leakIndex(benchmark);
  const seen = new Set(tasks.map(({ task }) => sameTask(task)));
  const isNew = (task: ArxivTask) => allows(task) && !seen.has(sameTask(task));
  const world = worldOf(loadSnapshot(options.snapshot), heldOut);
  const sources = train
    .filter(({ id }) => only_parents.length === 0 || only_parents.includes(id))
    .map((parent) => ({
      blocked: parent.terminal_mode === "blocked",
      more: variations(parent, world, createRandom(`${seed}/${parent.id}`), isNew),
    }));
  function draw({ more }: { more: Generator<SftTask, void> }): SftTask[] {
    const { value } = more.next();
    if (!value) return [];
    seen.add(sameTask(value.task));
    return [value];
  }
  for (const source of sources) for (let i = 0; i < perParent; i++) tasks.push(...draw(source));

  const refusals: SftTask[] = [];
  let blocked = tasks.filter(({ task }) => task.terminal_mode === "blocked").length;
  for (let drawn = true; drawn; ) {
    drawn = false;
    for (const source of sources.filter((candidate) => candidate.blocked)) {
      if (blocked >= refusal_share * (tasks.length + refusals.length)) break;
      const more = draw(source);
      refusals.push(...more);
      blocked += more.length;
      drawn ||= more.length > 0;
    }
  }
  return { tasks: [...tasks, ...refusals], refusals };
}

/** One sentence in one state is one task, whatever parent it comes from. */
const sameTask = ({ task, setup }: ArxivTask): string => canonicalJson([textKey(task), setup]);

/** All wordings of one task; each thought variant is played in full, and must be a strict success. */
async function taskRows(
  env: ArxivSpec,
  { task, parent_id, stage, parameters }: SftTask,
  index: number,
  split: string,
  options: ArxivOptions,
): Promise<ExpertRow[]> {
  const solvable = task.expected_paper_ids ? task : await attachExpectedPaperIds(task, loadSnapshot(options.snapshot));
  const played = new Map<number, ExpertRow["turns"]>();
  const rows: ExpertRow[] = [];
  for (let i = 0; i < options.sft.views; i++) {
    // Fewer views than there are start at another one for each task, so all of them occur.
    const view = (index * options.sft.views + i) % (taskWrappers.length * THOUGHT_VARIANTS);
    const [wrapper, thought] = [view % taskWrappers.length, Math.floor(view / taskWrappers.length)];
    const wrapped = { ...solvable, task: taskWrappers[wrapper]!(task.task) };
    const turns = played.get(thought) ?? (await playGold(env, solvable, thought, options));
    played.set(thought, turns);
    const { messages: prompt } = await startEpisode(env, wrapped, options, { seed: 0 });
    const sample = { prompt: [...prompt], turns };
    rows.push({
      id: `${task.id}#${wrapper}.${thought}`,
      task_id: task.id,
      ...sample,
      meta: {
        source_task_id: parent_id ?? task.id,
        source_split: split,
        dataset_stage: stage,
        ...(parent_id !== null && {
          derived_task_id: task.id,
          parent_task_id: parent_id,
          generation_parameters: parameters,
        }),
        task_sha256: taskHash(task),
        augmentation: { kind: "wording", task_variant: wrapper, thought_variant: thought },
        sample_sha256: sha256(canonicalJson(sample)),
      },
    });
  }
  return rows;
}

async function playGold(
  env: ArxivSpec,
  task: ArxivTask,
  thought: number,
  options: ArxivOptions,
): Promise<ExpertRow["turns"]> {
  const episode = await startEpisode(env, task, options, { seed: 0 });
  const turns: ExpertRow["turns"] = [];
  for (const reply of goldReplies(task, thought)) {
    turns.push({ reply, observations: (await episode.reply(reply)).observations });
  }
  const { success, reward, ended_by, ended_why } = await episode.finish();
  if (!success || reward !== 1) {
    const texts = turns.flatMap(({ observations }) => observations.map(({ content }) => content)).join(" | ");
    throw new UserError(
      `arxiv: the gold replies of '${task.id}' are no strict success (reward ${reward}, ${ended_by} ${ended_why ?? ""}): ${texts}`,
    );
  }
  return turns;
}

// ---- leak guards ----

const toolsOf = (calls: ArxivTask["steps"]): string => calls.map(({ tool }) => tool).join(" ");

/**
 * What a solution is: the state it starts from and its calls. A task that cannot be done has no calls; there it is what
 * the sentence names.
 */
function solutionKey({ task, prior = [], setup, steps }: ArxivTask): string {
  const named = steps.length > 0 ? null : (task.match(/-?\d+(?:\.\d+)?/g)?.map(Number) ?? textKey(task));
  return canonicalJson([prior, setup, steps, named]);
}

function leakIndex({ train, heldOut, smoke }: Benchmark) {
  const texts = new Set([...train, ...heldOut, ...smoke].map(({ task }) => textKey(task)));
  const solutions = new Set(heldOut.map(solutionKey));
  return {
    texts,
    solutions,
    allows: (task: ArxivTask) => !texts.has(textKey(task.task)) && !solutions.has(solutionKey(task)),
  };
}

/**
 * Refuses what would leak the benchmark into training data, and counts what it looked for (all 0 when it returns).
 * @throws UserError naming the task.
 */
export function checkLeaks(entries: readonly SftTask[], benchmark: Benchmark): Record<string, number> {
  const { texts, solutions } = leakIndex(benchmark);
  const train = new Map(benchmark.train.map((task) => [task.id, task]));
  const heldOut = new Set(benchmark.heldOut.map(({ id }) => id));
  const heldOutTexts = new Set(benchmark.heldOut.map(({ task }) => textKey(task)));
  const ids = new Set<string>();
  const refuse = (id: string, why: string): never => {
    throw new UserError(`training data: task '${id}' ${why}.`);
  };
  for (const { task, parent_id } of entries) {
    const { id } = task;
    if (ids.has(id)) refuse(id, "stands twice; ids must be unique");
    ids.add(id);
    const source = parent_id ?? id;
    if (heldOut.has(source)) refuse(id, `comes from '${source}', which is held out`);
    const parent = train.get(source) ?? refuse(id, `comes from '${source}', which is no train task`);
    if (solutions.has(solutionKey(task))) refuse(id, "has the solution of a held-out task");
    const sentence = taskWrappers.map((wrap) => wrap(task.task)).find((text) => heldOutTexts.has(textKey(text)));
    if (sentence) refuse(id, `has a wording that is a held-out task's text: ${JSON.stringify(sentence)}`);
    if (parent_id === null) continue;
    if (texts.has(textKey(task.task))) refuse(id, `has the text of a benchmark task: ${JSON.stringify(task.task)}`);
    if (toolsOf(task.steps) !== toolsOf(parent.steps) || toolsOf(task.setup) !== toolsOf(parent.setup)) {
      refuse(id, `does not have the tools of its parent '${source}', in the same order`);
    }
    if (task.terminal_reason !== parent.terminal_reason) refuse(id, `does not end as its parent '${source}'`);
  }
  return { held_out_ids: 0, held_out_texts: 0, held_out_solutions: 0, benchmark_texts: 0, repeated_ids: 0 };
}

function taskHash({ task, prior = [], setup, steps, terminal_reason }: ArxivTask): string {
  return sha256(canonicalJson({ task, prior, setup, steps, terminal_reason }));
}

function countBy<Item>(items: readonly Item[], key: (item: Item) => string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const item of items) counts[key(item)] = (counts[key(item)] ?? 0) + 1;
  return Object.fromEntries(Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1)));
}
