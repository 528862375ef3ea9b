import { expect, test } from "vitest";
import type { ReportContext } from "../../../core/measure.ts";
import { airlineOptions } from "../options.ts";
import { evaluationReports } from "./benchmark.ts";
import { episode, referenceRun } from "./fixtures/episodes.ts";
import { evalReportSchema, splitEvalReportSchema } from "./schema.ts";

const context: ReportContext = {
  ...{ env: "airline@1", policy: "model:runs/joint/final", variant: "prm_lite_lata", step: 250, trials: 4, seed: 45 },
  env_options: airlineOptions.parse({ metrics: { error_rate: "call" } }),
  max_turn_tokens: 4096,
  count_tokens: "not asked for",
};

test("both files, groups as the options have them", async () => {
  const { trajectories, groups } = referenceRun({ covered_seen: 25, uncovered_seen: 4, unseen: 6 });
  const files = await evaluationReports((options) => {
    expect(options).toBe(context.env_options);
    return groups;
  })(trajectories, context);
  expect(Object.keys(files)).toEqual(["eval_report.json", "split_eval_report.json"]);
  const report = evalReportSchema.parse(files["eval_report.json"]);
  expect(report).toMatchObject({
    error_rate_kind: "call",
    turn_token_limit: 4096,
    run: { variant: "prm_lite_lata", step: 250 },
  });
  expect(report.overall.turn_tokens).toMatchObject({ p50: null, missing: "not asked for" });
  expect(splitEvalReportSchema.parse(files["split_eval_report.json"]).unseen).toMatchObject({
    tasks: 10,
    episodes: 40,
  });
});

test("tokens of each text are asked for once, empty ones never", async () => {
  const asked: string[][] = [];
  const count_tokens = async (texts: readonly string[]) => {
    asked.push([...texts]);
    return texts.map(({ length }) => length);
  };
  const call = `<tool_call>\n{"name": "list_all_airports", "arguments": {}}\n</tool_call>`;
  const trajectories = [
    episode({ trial: 0 }, [{ reply: "Hello." }, { reply: call }]),
    episode({ trial: 1 }, [{ reply: "Hello." }, { reply: `<think>Hm.</think>Bye.\n${call}` }]),
  ];
  const groups = () => ({ covered_seen: [], uncovered_seen: [], unseen: [] });
  const files = await evaluationReports(groups)(trajectories, { ...context, count_tokens });
  expect(asked).toEqual([["Hello.", "Bye."]]);
  const { tasks, overall } = evalReportSchema.parse(files["eval_report.json"]);
  expect(tasks[0]!.trajectories.map(({ turn_tokens }) => turn_tokens)).toEqual([
    [6, 0],
    [6, 4],
  ]);
  expect(overall.turn_tokens).toMatchObject({ p50: 5, mean: 4, messages: 4 });
  await evaluationReports(groups)([episode({}, [{ reply: call }])], { ...context, count_tokens });
  expect(asked).toHaveLength(1);
});
