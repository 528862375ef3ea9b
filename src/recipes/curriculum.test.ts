import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { loadConfig } from "../config.ts";
import type { MeasuredRates } from "../core/rates.ts";
import { curriculumKeys, planCurriculum, refuseStaleRates, staleRates } from "./curriculum.ts";
import { modelHash } from "./model-hash.ts";

const rates: MeasuredRates = {
  strict: { hard: 0.1, edge: 0.2, even: 0.5, easy: 0.9 },
  selected: true,
  env: "arxiv@1",
  model_sha256: null,
  stale: [],
};
const tasks = { ids: ["hard", "edge", "even", "easy"], split: "mine.json:train", rates };

test("stages hold the tasks of their bands, from the step where the one before ends", () => {
  expect(planCurriculum(["ceiling+middle:20", "middle:40", "middle+floor"], tasks, 60)).toEqual([
    { from_step: 0, bands: ["ceiling", "middle"], task_ids: ["edge", "even", "easy"] },
    { from_step: 20, bands: ["middle"], task_ids: ["edge", "even"] },
    { from_step: 40, bands: ["middle", "floor"], task_ids: ["hard", "edge", "even"] },
  ]);
  expect(planCurriculum([], { ...tasks, rates: null }, 60)).toEqual([]);
  expect(planCurriculum(["middle"], tasks, null)).toHaveLength(1);
});

describe("a curriculum that can't be followed is refused before a model loads", () => {
  test.each<[string, string[], object, RegExp]>([
    ["no rates", ["middle"], { rates: null }, /mine\.json:train has no measured rates/],
    [
      "a task without a rate",
      ["middle"],
      { ids: [...tasks.ids, "new"] },
      /1 of 5 tasks of mine\.json:train have no rate, as 'new'/,
    ],
    ["a stage without an end", ["ceiling", "middle"], {}, /stage 1 \('ceiling'\) has no end/],
    ["an end of the last one", ["ceiling:5", "middle:9"], {}, /stage 2 .* goes on to the end; leave ':9' out/],
    [
      "steps that do not rise",
      ["ceiling:9", "middle:9", "floor"],
      {},
      /stage 2 .* ends at step 9, where it begins at 9/,
    ],
    ["an empty first stage", ["ceiling:0", "middle"], {}, /ends at step 0, where it begins at 0/],
    ["a stage that is never reached", ["ceiling:60", "middle"], {}, /begins at step 60, but the run has 60 steps/],
    [
      "a band without tasks",
      ["floor:5", "middle"],
      { ids: ["even", "easy"] },
      /stage 1 .* is empty: mine\.json:train has 0 floor, 1 middle, 1 ceiling/,
    ],
  ])("%s", (_, curriculum, changes, message) => {
    expect(() => planCurriculum(curriculum, { ...tasks, ...changes }, 60)).toThrow(message);
  });

  test.each(["medium", "middle+", "middle:x", "middle:-1", "middle 20"])("the stage '%s', in the config", (stage) => {
    const schema = z.object(curriculumKeys);
    const load = () => loadConfig({ recipe: "grpo", schema, file: null, flags: { curriculum: [stage] } });
    expect(load).toThrow(/--curriculum\.0 is '.*'; expected BAND\[\+BAND…\]\[:UNTIL_STEP\]/);
  });
});

describe("rates are of one model in one world", () => {
  const model = mkdtempSync(join(tmpdir(), "curriculum-"));
  writeFileSync(join(model, "model.safetensors"), "weights");
  const run = { env_id: "arxiv@1", model, curriculum: [] as string[] };
  const own = { ...rates, model_sha256: modelHash(model) };

  test("of this model they hold", () => {
    expect(staleRates({ rates: own }, run)).toEqual([]);
    expect(staleRates({ rates: null }, run)).toEqual([]);
    expect(() => refuseStaleRates("s", [])).not.toThrow();
  });

  test.each<[string, Partial<MeasuredRates>, RegExp]>([
    ["another model", { model_sha256: "0" }, /measured with another model than/],
    ["another environment", { env: "arxiv@0" }, /measured with arxiv@0, where this is arxiv@1/],
    ["another snapshot", { stale: ["another snapshot (x.json)"] }, /another snapshot \(x\.json\).*--stale-rates/],
  ])("%s", (_, changes, message) => {
    const changed = staleRates({ rates: { ...own, ...changes } }, run);
    expect(() => refuseStaleRates("mine.json:rl_train", changed)).toThrow(message);
    const unused = { ...own, ...changes, selected: false };
    expect(staleRates({ rates: unused }, run)).toEqual([]);
    expect(staleRates({ rates: unused }, { ...run, curriculum: ["middle"] })).toHaveLength(1);
  });
});
