import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ReportContext } from "../src/core/measure.ts";
import { evalReportSchema, splitEvalReportSchema } from "../src/envs/airline/evaluation/schema.ts";
import { runCommand } from "../src/fixtures/run-command.ts";
import type { Played } from "./folder.ts";
import { trainingOf, writeFamilyReports } from "./reports.ts";
import { tokenCounter } from "./token-counter.ts";

const runs = mkdtempSync(join(tmpdir(), "reports-"));

function trained(name: string, config: object, result: object): string {
  const dir = join(runs, name);
  mkdirSync(dir);
  const manifest = { recipe: "grpo", name, status: "completed", started: "", versions: {}, data: {} };
  writeFileSync(join(dir, "config.json"), JSON.stringify(config));
  writeFileSync(join(dir, "manifest.json"), JSON.stringify({ ...manifest, details: { result } }));
  return dir;
}

describe("the training behind a policy", () => {
  const dir = trained("joint", { exp: "prm_lite_lata" }, { steps: 300 });
  const plain = trained("plain", {}, {});
  function merged(name: string, facts: object): string {
    const model = join(runs, name);
    mkdirSync(model);
    writeFileSync(join(model, "merge.json"), JSON.stringify(facts));
    return model;
  }
  test.each([
    ["a checkpoint", join(dir, "checkpoint-250"), { variant: "prm_lite_lata", step: 250 }],
    ["an export", `${join(dir, "hf_step_200")}/`, { variant: "prm_lite_lata", step: 200 }],
    ["the end of a run", join(dir, "final"), { variant: "prm_lite_lata", step: 300 }],
    ["a merged checkpoint", merged("x-grpo-step200", { run: dir, step: 200 }), { variant: "prm_lite_lata", step: 200 }],
    ["a merged adapter of nobody's run", merged("y", { run: null, step: null }), { variant: null, step: null }],
    ["a run that says neither", join(plain, "final"), { variant: null, step: null }],
    ["a model of a hub, whose name has a number", "org/model-7", { variant: null, step: null }],
    ["no model", null, { variant: null, step: null }],
  ])("%s", (_, model, expected) => {
    expect(trainingOf(model)).toEqual(expected);
  });
});

describe("a family's own report files", () => {
  type Hook = (episodes: readonly unknown[], context: ReportContext) => Promise<Record<string, unknown>>;
  function played(name: string, policy: string, reports: Hook | undefined) {
    const dir = join(runs, name);
    mkdirSync(dir);
    const env = {
      id: "toy@1",
      benchmark: { criteria: ["x"], measures: [], reports },
      parseOptions: (it: unknown) => it,
    };
    const config = { policy, repeat: 4, seed: 45, env_options: { a: 1 }, max_turn_tokens: 99 };
    return { dir, given: { run: { dir }, env, config } as unknown as Pick<Played, "run" | "env" | "config"> };
  }

  test("are written whole, from what the benchmark knows", async () => {
    const { dir, given } = played("gold", "gold", async (_, context) => ({ "toy_report.json": context }));
    expect(await writeFamilyReports(given, [])).toEqual([join(dir, "toy_report.json")]);
    expect(JSON.parse(readFileSync(join(dir, "toy_report.json"), "utf8"))).toEqual({
      ...{ env: "toy@1", policy: "gold", variant: null, step: null, trials: 4, seed: 45, env_options: { a: 1 } },
      ...{ max_turn_tokens: null, count_tokens: "the policy is no model, and has no tokens" },
    });
  });

  test("may ask for tokens; the counter is given back, whatever happens", async () => {
    let closed = 0;
    const counter = () => ({
      count: async (texts: readonly string[]) => texts.map(({ length }) => length),
      close: async () => {
        closed++;
      },
    });
    const counting = played("model", "model:org/x", async (_, { count_tokens, max_turn_tokens }) => ({
      "toy.json": [max_turn_tokens, typeof count_tokens === "string" ? [] : await count_tokens(["ab", "c"])],
    }));
    await writeFamilyReports(counting.given, [], counter);
    expect(readFileSync(join(counting.dir, "toy.json"), "utf8").replace(/\s/g, "")).toBe("[99,[2,1]]");
    const failing = played("failing", "model:org/x", async () => {
      throw new Error("no");
    });
    await expect(writeFamilyReports(failing.given, [], counter)).rejects.toThrow("no");
    expect([closed, readdirSync(failing.dir)]).toEqual([2, []]);
  });

  test.each(["summary.json", "../x.json", "report.md"])("can't be called %s", async (name) => {
    const { dir, given } = played(`named-${name.replace(/\W/g, "")}`, "gold", async () => ({ [name]: {} }));
    await expect(writeFamilyReports(given, [])).rejects.toThrow(`names a file '${name}'`);
    expect(readdirSync(dir)).toEqual([]);
  });

  test("a family without any", async () => {
    expect(await writeFamilyReports(played("none", "gold", undefined).given, [])).toEqual([]);
  });
});

describe("tokens", () => {
  test("why they can't be counted", () => {
    expect(tokenCounter({ policy: "api:x", python: null }).count).toMatch("behind an API");
    expect(tokenCounter({ policy: "gold", python: null }).count).toMatch("no model");
  });

  test("are counted by the policy's own tokenizer", async () => {
    const counter = tokenCounter({ policy: "model:models/tiny", python: null });
    try {
      if (typeof counter.count === "string") throw new Error(counter.count);
      const [empty, one, two] = await counter.count(["", "Hello there.", "Hello there. Hello there."]);
      expect([empty, one! > 0, two! > one!]).toEqual([0, true, true]);
    } finally {
      await counter.close();
    }
  });
});

test("a benchmark of the airline leaves its two reports, the same bytes for the same play", async () => {
  const read = async (name: string) => {
    const on = ["--env", "airline", "--split", "test", "--task-ids", "synth-00,synth-12", "--repeat", "2"];
    const { code, stdout, stderr } = await runCommand("bench", ...on, "--runs-dir", runs, "--name", name);
    expect([code, stderr.includes("rror")]).toEqual([0, false]);
    expect(stdout).toContain("split_eval_report.json");
    return ["eval_report.json", "split_eval_report.json"].map((file) => readFileSync(join(runs, name, file), "utf8"));
  };
  const [report, split] = await read("airline-1");
  expect(await read("airline-2")).toEqual([report, split]);
  const { overall, tasks } = evalReportSchema.parse(JSON.parse(report!));
  expect(overall).toMatchObject({ tasks: 2, episodes: 4, pass_hat_1: 1, pass_hat_2: 1, pass_hat_4: null });
  expect(overall).toMatchObject({ baseline_do_nothing: 0.5, tasks_need_action: 1, failures: {} });
  expect(overall.turn_tokens).toMatchObject({ p50: null, missing: "the policy is no model, and has no tokens" });
  expect(tasks.map(({ task_id, group }) => [task_id, group])).toEqual([
    ["synth-00", "unseen"],
    ["synth-12", "covered_seen"],
  ]);
  expect(splitEvalReportSchema.parse(JSON.parse(split!)).generalisation.weights.unseen).toBe(10);
});
