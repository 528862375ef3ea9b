import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { pairSettings } from "../../core/pair.ts";
import { pairData } from "../../pair-data.ts";
import { arxiv } from "./env.ts";
import { arxivOptions } from "./options.ts";
import { arxivPairs } from "./pair-data.ts";
import { readSplitFile } from "./splits.ts";

const options = arxivOptions.parse({});
const v3 = readSplitFile("v3_81").file;

describe("tasks that may become pairs", () => {
  test.each([
    ["v3_81:train", 51],
    ["v6:rl_train", 33],
  ])("%s: %i, all of them train tasks", async (split, size) => {
    const { tasks } = await arxivPairs.load(split, options);
    expect(tasks).toHaveLength(size);
    for (const { id } of tasks) expect(v3.split.train).toContain(id);
  });

  test("rl_variations: train tasks with other parameters", async () => {
    const { tasks } = await arxivPairs.load("rl_variations", options);
    expect(tasks.length).toBeGreaterThan(33);
  });

  test.each(["train", "all", "smoke", "dev", "v3_81:iid_test", "v6:ceiling_control", "v3_81:train,v3_81:dev"])(
    "%s is refused",
    async (split) => {
      await expect(async () => arxivPairs.load(split, options)).rejects.toThrow(
        /pairs come from a train group alone.*v3_81:train/,
      );
    },
  );

  test("a group for reinforcement learning that holds a held-out task is refused, naming it", async () => {
    const path = join(mkdtempSync(join(tmpdir(), "split-")), "leaky.json");
    const { rates, rates_metadata, ...rest } = v3;
    const split = { rl_train: ["search_CL_7d_5", "search_CR_14d_10"] };
    writeFileSync(path, JSON.stringify({ ...rest, version: "leaky", derived_from: null, split }));
    await expect(async () => arxivPairs.load(`${path}:rl_train`, options)).rejects.toThrow(
      /task 'search_CR_14d_10' comes from 'search_CR_14d_10', which is held out/,
    );
  });
});

describe("histories in the format of score", () => {
  const search = { name: "get_recently_submitted_cs_papers", args: { aspect: "CL", days: 7, max_results: 5 } };
  const found = "Found 5 papers:\n1. 2608.14546v1 A title";
  const steps = {
    search: { thought: "I look.", action: search, observation: found },
    asText: { thought: "I look.", action: JSON.stringify(search), observation: `Observation: ${found}` },
    finish: { thought: "Done.", action: "FINISH", observation: "任务完成" },
    unread: { thought: "?", action: "nonsense", parse_failed: true, observation: "无法解析", reply: "Hm" },
  };
  const reply = `Thought: I look.\nAction: {"name": "get_recently_submitted_cs_papers", "args": {"aspect": "CL", "days": 7, "max_results": 5}}`;
  const read = (line: object) => arxivPairs.history!(line);

  test("are written as the policy would have written them; a call as an object or as its text is one call", () => {
    const both = [steps.search, steps.asText].map((step) => read({ task_id: "t", history: [step, steps.finish] }));
    expect(both[0]).toEqual(both[1]);
    expect(both[0]!.turns).toEqual([
      {
        reply,
        action: `{"args":{"aspect":"CL","days":7,"max_results":5},"name":"get_recently_submitted_cs_papers"}`,
        observations: [{ role: "user", content: `Observation: ${found}` }],
        unreadable: false,
      },
      { reply: "Thought: Done.\nAction: FINISH", action: "FINISH", observations: [], unreadable: false },
    ]);
  });

  test.each([
    ["a reply that could not be read is known where the record has it", [steps.unread], ["Hm", "UNREADABLE"]],
    ["and is unknown where it has not", [{ ...steps.unread, reply: undefined }], [null, "UNREADABLE"]],
    [
      "a thought that would be read as something else",
      [{ ...steps.finish, thought: "Action: FINISH" }],
      [null, "FINISH"],
    ],
    [
      "a call written as a wrapped FINISH",
      [{ ...steps.finish, action: { name: "FINISH" } }],
      ["Thought: Done.\nAction: FINISH", "FINISH"],
    ],
  ])("%s", (_, history, [text, action]) => {
    expect(read({ task_id: "t", history })!.turns[0]).toMatchObject({ reply: text, action });
  });

  test("what the framework added was not said", () => {
    const forced = { ...steps.finish, forced_finish: true };
    expect(read({ task_id: "t", history: [steps.search, forced] })!.turns).toHaveLength(1);
    expect(read({ task_id: "t", history: [steps.search, steps.finish], forced_finish: true })!.turns).toHaveLength(1);
  });

  test("a task that comes inline is nobody's, whatever id it bears", () => {
    expect(read({ task_id: "search_CL_7d_5", task: { expected_tools: [] }, history: [] })).toBeNull();
    expect(read({ history: [] })).toBeNull();
  });

  test("make pairs under the task's own prompt, with the trajectories of a log too", async () => {
    const path = join(mkdtempSync(join(tmpdir(), "histories-")), "histories.jsonl");
    const tasks = await arxiv.load("train");
    const episode = await tasks.start("search_CL_7d_5", { seed: 0 });
    await episode.reply("Thought: No.\nAction: FINISH");
    const logged = await episode.finish();
    const lines = [
      { task_id: "search_CL_7d_5", history: [steps.search, steps.finish], agent_type: "model:x" },
      { task_id: "search_CL_7d_5", history: [] },
      { task_id: "search_CR_14d_10", history: [steps.search, steps.finish] },
      logged,
    ];
    writeFileSync(path, lines.map((line) => JSON.stringify(line)).join("\n"));
    const settings = { ...pairSettings.parse({ max_pairs: 3 }), seed: 42 };
    const { rows, manifest } = await pairData(arxiv, { files: [path], family: "arxiv", env_options: {}, settings });
    expect(rows.map(({ chosen, rejected }) => [chosen[0]!.reply, rejected[0]!.reply]).sort()).toEqual([
      [reply, "Thought: \nAction: FINISH"], // the empty history counts as a FINISH
      [reply, "Thought: No.\nAction: FINISH"],
    ]);
    for (const row of rows) expect(row.prompt).toEqual(logged.messages.slice(0, 1));
    expect(rows.map(({ meta }) => (meta.rejected as { made_up: boolean }).made_up).sort()).toEqual([false, true]);
    expect(manifest.lines).toMatchObject({ left_out: { not_in_split: { tasks: { search_CR_14d_10: 1 } } } });
  });
});
