import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { arxiv, arxivSpec } from "./env.ts";
import { arxivOptions } from "./options.ts";
import { type Benchmark, checkLeaks, expertRows, loadRlVariations, type SftTask, sftTasks } from "./sft-data.ts";
import type { sftOptions } from "./sft-options.ts";
import { canonicalJson, sha256 } from "./snapshot.ts";
import { readSplitFile } from "./splits.ts";
import { arxivTasks, findArxivTask, smokeTasks } from "./tasks.ts";

const trainIds = readSplitFile("v3_81").file.split.train!;
const benchmark: Benchmark = {
  train: arxivTasks().filter(({ id }) => trainIds.includes(id)),
  heldOut: arxivTasks().filter(({ id }) => !trainIds.includes(id)),
  smoke: smokeTasks(),
};
type Sft = z.input<typeof sftOptions>;
const optionsOf = (sft: Sft) => arxivOptions.parse({ prompt: "compact", sft });
const rowsOf = (sft: Sft, split = "v3_81:train") => expertRows(arxivSpec, split, optionsOf(sft));
const replies = (rows: Awaited<ReturnType<typeof rowsOf>>["rows"]) =>
  rows.reduce((sum, { turns }) => sum + turns.length, 0);

describe("expert rows", () => {
  test.each([
    ["v5", 80, 219, 2628],
    ["t5", 86, 249, 2988],
  ] as const)("%s alone: %i tasks, %i replies, %i in 12 wordings", async (derivations, tasks, once, twelve) => {
    const only = { gold: false, derivations, refusal_share: 0 } as const;
    const one = await rowsOf({ ...only, views: 1 });
    expect([one.rows.length, replies(one.rows)]).toEqual([tasks, once]);
    const all = await rowsOf(only);
    expect([all.rows.length, replies(all.rows)]).toEqual([tasks * 12, twelve]);
    expect(all.manifest.counts).toMatchObject({ tasks, parametric: tasks, rows: tasks * 12, replies: twelve });
  });

  test("by default: gold, t5 and refusals for a fifth, with a manifest that adds up", async () => {
    const { rows, manifest } = await arxiv.expert("v3_81:train", {});
    expect(manifest).toMatchObject({
      kind: "arxiv_sft",
      counts: { gold: 51, parametric: 86, rows: rows.length },
      split: { name: "v3_81:train", path: "data/arxiv/splits/v3_81.json" },
      overlaps: { held_out_ids: 0, held_out_texts: 0, held_out_solutions: 0, benchmark_texts: 0, repeated_ids: 0 },
      rows_sha256: sha256(canonicalJson(rows)),
    });
    const refused = rows.filter(({ turns }) => turns.length === 1).length;
    expect(refused / rows.length).toBeGreaterThanOrEqual(0.2);
    expect(JSON.stringify(manifest)).not.toContain(process.cwd());
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length);
    for (const { turns, prompt, meta } of rows) {
      expect(prompt.length).toBeGreaterThan(0);
      expect(turns.at(-1)!.observations).toEqual([]);
      expect(turns.at(-1)!.reply).toMatch(/Action: FINISH$/);
      for (const { observations } of turns.slice(0, -1)) {
        expect(observations).toHaveLength(1);
        expect(observations[0]!.content).not.toMatch(/^Observation: Error/);
      }
      expect(meta.source_split).toBe("v3_81:train");
      expect(meta.sample_sha256).toBe(sha256(canonicalJson({ prompt, turns })));
    }
  });

  test("a row shows the state that its setup left, so two tasks of one text are told apart", async () => {
    const { rows } = await rowsOf({ derivations: "none", refusal_share: 0, views: 1 });
    const [able, unable] = ["ref_ctrl_null_translate", "infeasible_no_session"].map(
      (id) => rows.find(({ task_id }) => task_id === id)!,
    );
    expect(able!.prompt[0]!.content).toMatch(/Downloaded paper 2/);
    expect(unable!.prompt[0]!.content).toMatch(/no paper list/);
  });

  test("equal options give equal rows; views and seeds change them", async () => {
    const small: Sft = { only_parents: ["opt_threads", "infeasible_no_session"], gold: false, variations: 5, views: 2 };
    const one = await rowsOf(small);
    expect(await rowsOf(small)).toEqual(one);
    expect((await rowsOf({ ...small, seed: 7 })).manifest.rows_sha256).not.toBe(one.manifest.rows_sha256);
    expect(new Set(one.rows.map(({ id }) => id.split("#")[1])).size).toBe(12);
  });

  test("variations are new tasks, all solved, none from what is held out", async () => {
    const { rows, manifest } = await rowsOf({ variations: 8, views: 1 });
    expect(manifest.counts).toMatchObject({ gold: 51, parametric: 86, parents: 51 });
    const { tasks } = sftTasks(benchmark, optionsOf({ variations: 8, views: 1 }));
    expect(tasks.filter(({ stage }) => stage === "variation").length).toBeGreaterThanOrEqual(51 * 8);
    expect(rows).toHaveLength(tasks.length);
    expect(new Set(tasks.map(({ task }) => canonicalJson([task.task, task.setup]))).size).toBe(tasks.length);
  });

  test.each(["train", "rl_train", "v6:rl_train", "v3_81:dev", "v3_81:iid_test", "all", "v3_81:train,v3_81:dev"])(
    "the split '%s' is refused: only FILE:train may become SFT data",
    async (split) => {
      await expect(rowsOf({}, split)).rejects.toThrow(/a train group alone, named with its file: v3_81:train/);
    },
  );

  test("a parent that is no train task is refused", async () => {
    await expect(rowsOf({ only_parents: ["opt_service"] })).rejects.toThrow(/'opt_service' is no train task/);
  });

  test("gold replies that do not solve their task stop everything", async () => {
    const parts = Object.fromEntries(arxivSpec.components.map(({ name }) => [name, null]));
    const spec = { ...arxivSpec, score: () => ({ reward: 0.9, parts, metrics: {}, success: true }) };
    await expect(expertRows(spec, "v3_81:train", optionsOf({ views: 1 }))).rejects.toThrow(
      /no strict success \(reward 0.9/,
    );
  });
});

describe("leak guards", () => {
  const { tasks } = sftTasks(benchmark, optionsOf({ variations: 3 }));
  const threads = tasks.find(({ task }) => task.id === "augp1_opt_threads_threads2")!;
  const changed = (changes: Partial<SftTask["task"]>, entry: SftTask = threads): SftTask[] => [
    { ...entry, task: { ...entry.task, ...changes } },
  ];
  const held = (id: string) => findArxivTask(id)!;

  test("what is made passes them", () => {
    expect(Object.values(checkLeaks(tasks, benchmark)).every((count) => count === 0)).toBe(true);
  });

  test.each<[string, SftTask[], RegExp]>([
    [
      "a held-out task itself",
      [{ task: held("opt_service"), parent_id: null, stage: "gold", parameters: null }],
      /'opt_service' comes from 'opt_service', which is held out/,
    ],
    [
      "a held-out parent",
      [{ ...threads, parent_id: "opt_service" } as SftTask],
      /comes from 'opt_service', which is held out/,
    ],
    [
      "a parent that is no train task",
      [{ ...threads, parent_id: "search_01" } as SftTask],
      /'search_01', which is no train task/,
    ],
    ["an id that stands twice", [threads, threads], /stands twice/],
    [
      "the text of a benchmark task, whatever its case and blanks",
      changed({ task: ` ${held("opt_threads").task.toUpperCase()}  ` }),
      /text of a benchmark task/,
    ],
    ["the text of a smoke task", changed({ task: held("download_01").task }), /text of a benchmark task/],
    ["the text of a held-out task", changed({ task: held("opt_service").task }), /held-out task's text/],
    [
      "a sentence that a frame turns into a held-out text",
      changed({ task: "X." }),
      /'augp1_opt_threads_threads2' has a wording that is a held-out task's text/,
    ],
    [
      "the solution of a held-out task",
      changed({ setup: held("opt_service").setup, steps: held("opt_service").steps }),
      /solution of a held-out task/,
    ],
    [
      "the value of a held-out refusal",
      changed(
        { task: "Get me paper number 20." },
        tasks.find(({ task }) => task.id === "augp1_infeasible_zero_index_ref50")!,
      ),
      /solution of a held-out task/,
    ],
    [
      "other calls than the parent's",
      changed({ steps: [...threads.task.steps, ...threads.task.steps] }),
      /tools of its parent/,
    ],
    ["another setup than the parent's", changed({ setup: [] }), /tools of its parent/],
    [
      "another end than the parent's",
      changed({ terminal_mode: "blocked", terminal_reason: "missing_context" }),
      /does not end as its parent/,
    ],
  ])("%s", (_, entries, message) => {
    const framed = {
      ...benchmark,
      heldOut: [...benchmark.heldOut, { ...held("opt_service"), id: "framed", task: "X. Thank you!", steps: [] }],
    };
    expect(() => checkLeaks(entries, framed)).toThrow(message);
  });
});

test("rl_variations holds rl_train and new parameters for it, each with its papers", async () => {
  const { tasks } = await loadRlVariations(arxivOptions.parse({ sft: { variations: 60 } }));
  const parents = new Set((await arxiv.load("v6:rl_train")).ids);
  const varied = tasks.filter(({ id }) => !parents.has(id));
  expect(tasks.length - varied.length).toBe(33);
  expect(varied.length).toBeGreaterThan(33 * 35);
  expect(varied.every(({ id }) => parents.has(id.replace(/^augv_/, "").replace(/_\d+$/, "")))).toBe(true);
  expect(tasks.every(({ expected_paper_ids }) => expected_paper_ids !== null)).toBe(true);
  expect((await arxiv.load("rl_variations")).ids).toEqual(tasks.map(({ id }) => id));
});
