import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { modelFiles } from "../benchmark/resume.ts";
import { arxiv } from "./envs/arxiv/env.ts";
import { type SplitFile, splitFileSchema } from "./envs/arxiv/split-file.ts";
import { readSplitFile } from "./envs/arxiv/splits.ts";
import { runCommand as run } from "./fixtures/run-command.ts";
import { readTrajectories } from "./trajectory-log.ts";

const folder = mkdtempSync(join(tmpdir(), "data-rates-"));
const runs = join(folder, "runs");
afterAll(() => rmSync(folder, { recursive: true }));

const bench = (name: string, ...argv: string[]) =>
  run("bench", "--policy", "random_tool", "--runs-dir", runs, "--name", name, "--seed", "43", ...argv);
const rates = (name: string, output: string, ...argv: string[]) =>
  run("data", "arxiv", "rates", join(runs, name), "--output", join(folder, output), ...argv);
const logOf = (name: string) => join(runs, name, "trajectories", "rank-0.jsonl");

/** The same benchmark under another name, changed. */
function copy(name: string, change: (dir: string) => void): string {
  const as = `${name}-${readdirSync(runs).length}`;
  cpSync(join(runs, name), join(runs, as), { recursive: true });
  change(join(runs, as));
  return as;
}
function changeManifest(dir: string, changes: Record<string, unknown>): void {
  const path = join(dir, "manifest.json");
  writeFileSync(path, JSON.stringify({ ...JSON.parse(readFileSync(path, "utf8")), ...changes }));
}

beforeAll(async () => {
  expect((await bench("train", "--split", "v3_81:train", "--repeat", "8")).code).toBe(0);
  expect((await bench("dev", "--split", "dev", "--repeat", "8")).code).toBe(0);
}, 120_000);

describe("a finished benchmark of a train group becomes a new version", () => {
  test("by probe: groups, rates and audit are those of the log, and the version loads", async () => {
    const { code, stdout } = await rates("train", "probe.json", "--json");
    expect(code).toBe(0);
    const { file } = readSplitFile(join(folder, "probe.json"));
    expect(splitFileSchema.parse(file)).toEqual(file);
    const log = readTrajectories(logOf("train"));
    for (const [id, rate] of Object.entries(file.rates!)) {
      const own = log.filter(({ task_id }) => task_id === id);
      expect(rate).toBe(own.filter(({ success }) => success).length / 8);
      const informative = [0, 4].filter((first) => {
        const group = own.filter(({ trial }) => trial >= first && trial < first + 4);
        return new Set(group.map(({ reward }) => reward)).size > 1;
      }).length;
      expect(file.probe!.tasks[id]!.informative_count).toBe(informative);
      expect(file.split[["ceiling_control", "dropped", "rl_train"][informative]!]).toContain(id);
    }
    expect(file.rates_metadata).toMatchObject({
      metric: "strict_success_rate",
      policy: "random_tool",
      trials: 8,
      seed: 43,
      env: "arxiv@1",
      version_trestle: expect.any(String),
      snapshot_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    const [told] = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { groups: Record<string, number> });
    expect(told!.groups.rl_train).toBe(file.split.rl_train!.length);
    const split = await arxiv.load(`${join(folder, "probe.json")}:rl_train`);
    expect(split.ids).toEqual(file.split.rl_train);
    expect(split.rates).toMatchObject({
      selected: true,
      stale: ["the policy random_tool, of which no weights were recorded"], // no model's rates, so of none to train
      env: "arxiv@1",
    });
  });

  test("the same log gives the same file, and what is there is never written over", async () => {
    expect((await rates("train", "one.json")).code).toBe(0);
    const before = readFileSync(join(folder, "one.json"), "utf8");
    const again = await rates("train", "one.json");
    expect(again).toMatchObject({ code: 2, stderr: expect.stringMatching(/one\.json is there already/) });
    expect(readFileSync(join(folder, "one.json"), "utf8")).toBe(before);
    expect((await rates("train", "two.json")).code).toBe(0);
    const two = JSON.parse(readFileSync(join(folder, "two.json"), "utf8")) as SplitFile;
    expect({ ...two, version: "one" }).toEqual(JSON.parse(before));
  });

  test("of a model: its weights and its sampling are recorded; other weights and greedy play are refused", async () => {
    const model = join(folder, "model");
    mkdirSync(model);
    writeFileSync(join(model, "model.safetensors"), "weights");
    const ofModel = (temperature: number) =>
      copy("train", (dir) => {
        const log = join(dir, "trajectories", "rank-0.jsonl");
        writeFileSync(log, readFileSync(log, "utf8").replaceAll('"random_tool"', JSON.stringify(`model:${model}`)));
        const config = JSON.parse(readFileSync(join(dir, "config.json"), "utf8"));
        writeFileSync(join(dir, "config.json"), JSON.stringify({ ...config, policy: `model:${model}`, temperature }));
        changeManifest(dir, { details: { env: "arxiv@1", splits: ["train"], model_files: modelFiles(model) } });
      });
    const [warm, greedy] = [ofModel(0.7), ofModel(0)];
    expect((await rates(warm, "model.json")).code).toBe(0);
    const hash = (text: string) => createHash("sha256").update(text).digest("hex");
    expect(readSplitFile(join(folder, "model.json")).file.rates_metadata).toMatchObject({
      policy: `model:${model}`,
      model_sha256: hash(`model.safetensors ${hash("weights")}\n`),
      temperature: 0.7,
      top_p: 1,
    });
    expect((await rates(greedy, "no.json")).stderr).toMatch(
      /temperature is 0, so all rollouts of a group are the same/,
    );
    writeFileSync(join(model, "model.safetensors"), "other weights");
    expect((await rates(warm, "no.json")).stderr).toMatch(/are no longer those that played/);
    expect(existsSync(join(folder, "no.json"))).toBe(false);
  });

  test("rates of a changed prompt are told as stale", async () => {
    await rates("train", "stale.json");
    const split = await arxiv.load(`${join(folder, "stale.json")}:rl_train`, { prompt: "minimal" });
    expect(split.rates!.stale).toEqual([expect.anything(), expect.stringMatching(/other env_options/)]);
  });
});

describe("grpo, before a model loads", () => {
  const grpo = (...argv: string[]) => run("grpo", "--model", "models/tiny", "--runs-dir", runs, "--dry-run", ...argv);

  test("refuses a group that was chosen by rates of another world", async () => {
    await rates("train", "chosen.json");
    const split = `${join(folder, "chosen.json")}:rl_train`;
    const { code, stderr } = await grpo("--split", split, "--env-options", '{"prompt": "minimal"}');
    expect(stderr).toMatch(/chosen\.json:rl_train were measured with .*; other env_options .*--stale-rates/);
    expect(code).toBe(2);
  });

  test("refuses a curriculum over tasks that were not all measured", async () => {
    const { code, stderr } = await grpo("--split", "v3_81:train", "--curriculum", "middle:5,floor");
    expect(stderr).toMatch(/15 of 51 tasks of v3_81:train have no rate/);
    expect(code).toBe(2);
    expect((await grpo("--split", "v6:rl_train", "--curriculum", "middle")).stderr).toMatch(/has no measured rates/);
  });
});

describe("what is no measurement of a train group is refused, and nothing is written", () => {
  test.each<[string, () => [string, string[]], RegExp]>([
    ["a benchmark of a held-out group", () => ["dev", []], /played dev, which is no train group/],
    [
      "a held-out episode in the log",
      () => [
        copy("train", (dir) =>
          appendFileSync(join(dir, "trajectories", "rank-0.jsonl"), readFileSync(logOf("dev"), "utf8")),
        ),
        [],
      ],
      /the log has '\w+', which is held out \(dev of v3_81\)/,
    ],
    [
      "episodes that are missing",
      () => [
        copy("train", (dir) => {
          const log = join(dir, "trajectories", "rank-0.jsonl");
          writeFileSync(log, readFileSync(log, "utf8").split("\n").slice(2).join("\n"));
        }),
        [],
      ],
      /lacks 2 of 408 episodes/,
    ],
    [
      "a failed episode",
      () => [
        copy("train", (dir) => {
          const log = join(dir, "trajectories", "rank-0.jsonl");
          const [first, ...rest] = readFileSync(log, "utf8").split("\n");
          const failed = { ...JSON.parse(first!), reward: null, success: false, ended_by: "error", ended_why: "down" };
          writeFileSync(log, [JSON.stringify(failed), ...rest].join("\n"));
        }),
        [],
      ],
      /lacks 1 of 408 episodes/,
    ],
    [
      "an episode that is there twice",
      () => [
        copy("train", (dir) => {
          const log = join(dir, "trajectories", "rank-0.jsonl");
          const text = readFileSync(log, "utf8");
          writeFileSync(log, `${text}${text.split("\n")[0]}\n`);
        }),
        [],
      ],
      /more than once/,
    ],
    [
      "a benchmark that was broken off",
      () => [copy("train", (dir) => changeManifest(dir, { status: "stopped" })), []],
      /the benchmark is stopped, not completed/,
    ],
    [
      "another snapshot than is here now",
      () => [copy("train", (dir) => changeManifest(dir, { data: { "data/arxiv/snapshot.json": "0" } })), []],
      /data\/arxiv\/snapshot\.json is no longer the file/,
    ],
    [
      "another environment",
      () => [copy("train", (dir) => changeManifest(dir, { details: { env: "arxiv@0", splits: ["train"] } })), []],
      /played in arxiv@0, not in arxiv@1/,
    ],
    [
      "a manifest without the split",
      () => [copy("train", (dir) => changeManifest(dir, { details: { env: "arxiv@1", splits: [5] } })), []],
      /its manifest does not say which split was played/,
    ],
    ["a broken manifest", () => [copy("train", (dir) => changeManifest(dir, { data: null })), []], /holds no run, or/],
    [
      "options that the environment does not have",
      () => [
        copy("train", (dir) => {
          const path = join(dir, "config.json");
          const config = JSON.parse(readFileSync(path, "utf8"));
          writeFileSync(path, JSON.stringify({ ...config, env_options: { gone: 1 } }));
        }),
        [],
      ],
      /env_options of arxiv: .*gone/,
    ],
    ["a folder without a run", () => ["nowhere", []], /holds no run/],
    ["groups that do not divide", () => ["train", ["--group-size", "3"]], /do not divide into groups of 3/],
    ["a single group", () => ["train", ["--group-size", "8"]], /1 group of 8 a task/],
    ["a group of one", () => ["train", ["--group-size", "1"]], /--group-size is '1'; expected a whole number of 2/],
    [
      "a group size without a probe",
      () => ["train", ["--by", "bands", "--group-size", "4"]],
      /--by bands does not take/,
    ],
    ["a split of its own", () => ["train", ["--split", "dev"]], /takes neither --split/],
  ])("%s", async (_, make, message) => {
    const [name, argv] = make();
    const { code, stderr } = await rates(name, "refused.json", ...argv);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
    expect(readdirSync(folder).filter((file) => file.startsWith("refused"))).toEqual([]);
  });

  test("an output that is no .json, none, and no benchmark", async () => {
    expect(await rates("train", "mine")).toMatchObject({ code: 2, stderr: expect.stringMatching(/ends in \.json/) });
    const none = await run("data", "arxiv", "rates", join(runs, "train"));
    expect(none).toMatchObject({ code: 2, stderr: expect.stringMatching(/--output is missing/) });
    const nothing = await run("data", "arxiv", "rates", "--output", join(folder, "x.json"));
    expect(nothing).toMatchObject({ code: 2, stderr: expect.stringMatching(/takes one folder of a benchmark/) });
    const sft = await run("data", "arxiv", "sft", "--group-size", "4", "--output", join(folder, "x.jsonl"));
    expect(sft).toMatchObject({ code: 2, stderr: expect.stringMatching(/--group-size is of data arxiv rates/) });
    expect(existsSync(join(folder, "x.jsonl"))).toBe(false);
  });

  test("gold solves every task every time: nothing to train on", async () => {
    await run(
      ...["bench", "--policy", "gold", "--runs-dir", runs, "--name", "gold", "--split", "train", "--repeat", "8"],
    );
    const { code, stderr } = await rates("gold", "gold.json");
    expect(stderr).toMatch(/no task has 2 groups whose rewards differ/);
    expect(code).toBe(2);
    expect((await rates("gold", "gold.json", "--by", "bands")).stderr).toMatch(/no rate lies in \[0\.2, 0\.8\]/);
  });
});
