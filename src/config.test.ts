import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { flagsOf, loadConfig, readYaml, trainerFlags } from "./config.ts";

const schema = z.object({
  model: z.string().default("models/tiny").describe("The model."),
  split: z.enum(["train", "dev", "test"]).default("train"),
  max_turns: z.int().min(1).max(100).nullable().default(null),
  lora: z.boolean().default(false),
  follows: z.boolean().nullable().default(null),
  note: z.string().nullable().default(null),
  task_ids: z.array(z.string()).default([]),
  env_options: z.record(z.string(), z.unknown()).default({}),
  trainer: z.record(z.string(), z.unknown()).default({}),
  dapo: z.boolean().default(false),
  gspo: z.boolean().default(false),
  dr_grpo: z.boolean().default(false),
});
const ours = Object.keys(schema.shape);

const folder = mkdtempSync(join(tmpdir(), "config-"));
function load(yaml: string | null, flags: Record<string, unknown> = {}) {
  const file = yaml === null ? null : join(folder, "grpo.yaml");
  if (file) writeFileSync(file, yaml!);
  return loadConfig<z.output<typeof schema>>({
    recipe: "grpo",
    schema,
    file,
    flags,
    presets: (values) => [
      ...(values.dapo === true
        ? [{ switch: "dapo", values: { trainer: { loss_type: "dapo", beta: 0, epsilon_high: 0.28 } } }]
        : []),
      ...(values.gspo === true
        ? [{ switch: "gspo", values: { split: "dev", trainer: { importance_sampling_level: "sequence" } } }]
        : []),
      ...(values.dr_grpo === true ? [{ switch: "dr_grpo", values: { trainer: { loss_type: "dr_grpo" } } }] : []),
    ],
  });
}

describe("precedence: flag > YAML > default", () => {
  test.each([
    ["nothing set", null, {}, { split: "train", trainer: {} }],
    ["YAML over default", "split: dev", {}, { split: "dev" }],
    ["flag over YAML", "split: dev", { split: "test" }, { split: "test" }],
    ["null by flag", "max_turns: 3", { max_turns: null }, { max_turns: null }],
    [
      "mappings merge key by key",
      "trainer: {beta: 1, seed: 2}",
      { trainer: { beta: 3 } },
      { trainer: { beta: 3, seed: 2 } },
    ],
    ["an empty file", "", {}, { split: "train" }],
    ["the recipe's own name", "recipe: grpo\nsplit: dev", {}, { split: "dev" }],
  ])("%s", (_, yaml, flags, expected) => {
    expect(load(yaml, flags).config).toMatchObject(expected);
  });

  test("what the user set is known", () => {
    expect([...load("split: dev", { lora: true }).given].sort()).toEqual(["lora", "split"]);
  });

  test("a switch by flag beats the file below it; explicit flags beat the switch", () => {
    const yaml = "trainer: {beta: 0.04, learning_rate: 1e-5}";
    expect(load(yaml, { dapo: true }).config.trainer).toEqual({
      loss_type: "dapo",
      beta: 0,
      epsilon_high: 0.28,
      learning_rate: 1e-5,
    });
    expect(load(yaml, { dapo: true, trainer: { beta: 0.1 } }).config.trainer).toMatchObject({ beta: 0.1 });
  });

  test("a switch in the file leaves the file's own values in place", () => {
    expect(load("dapo: true\ntrainer: {beta: 0.04}").config.trainer).toMatchObject({ beta: 0.04, loss_type: "dapo" });
    expect(load("dapo: true", { dapo: false }).config.trainer).toEqual({});
  });
});

describe("several switches", () => {
  test("combine, from file and flags", () => {
    const both = { loss_type: "dapo", beta: 0, epsilon_high: 0.28, importance_sampling_level: "sequence" };
    expect(load(null, { dapo: true, gspo: true }).config).toMatchObject({ split: "dev", trainer: both });
    expect(load("gspo: true", { dapo: true }).config).toMatchObject({ split: "dev", trainer: both });
  });

  test("each stands under the layer that set it", () => {
    const yaml = "gspo: true\nsplit: test\ntrainer: {importance_sampling_level: token, beta: 0.04}";
    expect(load(yaml, { dapo: true }).config).toMatchObject({
      split: "test",
      trainer: { importance_sampling_level: "token", beta: 0 },
    });
    expect(load(yaml, { gspo: true }).config).toMatchObject({
      split: "dev",
      trainer: { importance_sampling_level: "sequence", beta: 0.04 },
    });
  });

  test.each([
    ["both by flag", null, { dapo: true, dr_grpo: true }],
    ["one in the file", "dapo: true", { dr_grpo: true }],
    ["whatever is set beside them", "trainer: {loss_type: bnpo}", { dapo: true, dr_grpo: true }],
  ])("that contradict each other are refused: %s", (_, yaml, flags) => {
    expect(() => load(yaml, flags)).toThrow(
      "--dapo and --dr-grpo contradict each other: trainer.loss_type is 'dapo' in one and 'dr_grpo' in the other. " +
        "Leave one of them out.",
    );
  });

  test("a switch that is turned off again contradicts nothing", () => {
    expect(load("dapo: true", { dapo: false, dr_grpo: true }).config.trainer).toEqual({ loss_type: "dr_grpo" });
  });
});

describe("what does not fit is refused with file, value, expectation and the nearest name", () => {
  test.each([
    [
      "an unknown value",
      "split: trian",
      {},
      /grpo\.yaml: split is 'trian'; expected one of train, dev, test \(did you mean 'train'\?\)/,
    ],
    ["an unknown key", "modle: x", {}, /grpo\.yaml: grpo has no key 'modle'; did you mean 'model'\?/],
    [
      "a trainer key at the top",
      "learning_rate: 1",
      {},
      /no key 'learning_rate'; a key of TRL's config class stands under 'trainer:'/,
    ],
    ["a flag's value", null, { split: "x" }, /^--split is 'x'; expected one of/],
    ["a flag over a file", "lora: true", { max_turns: 0 }, /^--max-turns is 0; expected (1 or more|more than 0)/],
    ["a wrong type", "max_turns: many", {}, /grpo\.yaml: max_turns is 'many'; expected a number/],
    ["another recipe's file", "recipe: sft", {}, /grpo\.yaml is a config of 'sft', not of 'grpo'. Run: trestle sft/],
    ["broken YAML", "split: [", {}, /grpo\.yaml: .*line 1/s],
    ["a key twice", "split: dev\nsplit: test", {}, /grpo\.yaml: .*unique/s],
    ["a list instead of a mapping", "- a", {}, /grpo\.yaml: expected keys and values/],
  ])("%s", (_, yaml, flags, message) => {
    expect(() => load(yaml, flags)).toThrow(message);
  });

  test("several problems are all told", () => {
    expect(() => load("split: x\nlora: 3")).toThrow(/split is 'x'.*\n.*lora is 3/);
  });

  test("a file that is not there", () => {
    expect(() => loadConfig({ recipe: "grpo", schema, file: "nowhere.yaml", flags: {} })).toThrow(
      /nowhere.yaml: there is no such file/,
    );
  });
});

describe("flags", () => {
  const flags = Object.fromEntries(flagsOf(schema).map((flag) => [flag.key, flag]));

  test("come from the schema", () => {
    expect(flags.max_turns).toMatchObject({ usage: "--max-turns <number>", negative: null });
    expect(flags.lora).toMatchObject({ usage: "--lora", negative: "--no-lora" });
    expect(flags.follows).toMatchObject({ usage: "--follows", negative: "--no-follows" });
    expect(flags.model!.description).toBe("The model. (default: models/tiny)");
    expect(flags.split!.description).toContain("One of train, dev, test.");
  });

  test.each([
    ["max_turns", "12", 12],
    ["max_turns", "none", null],
    ["note", "none", null],
    ["note", "some", "some"],
    ["task_ids", "a, b,", ["a", "b"]],
    ["env_options", '{"prompt": "compact"}', { prompt: "compact" }],
    ["model", "5", "5"],
  ])("%s reads %s", (key, text, expected) => {
    expect(flags[key]!.read(text)).toEqual(expected);
  });

  test.each([
    ["max_turns", "many", /--max-turns is 'many'; expected a number/],
    ["max_turns", "", /expected a number/],
    ["env_options", "[1]", /expected a JSON object/],
    ["env_options", "{", /expected a JSON object/],
  ])("%s refuses %s", (key, text, message) => {
    expect(() => flags[key]!.read(text)).toThrow(message);
  });
});

describe("flags that are not ours go to the trainer", () => {
  test.each([
    [["--learning-rate", "1e-5"], { learning_rate: 1e-5 }, []],
    [["--loss-type=dr_grpo", "--scale-rewards", "none"], { loss_type: "dr_grpo", scale_rewards: "none" }, []],
    [["--bf16", "--no-tf32", "--max-steps", "-1"], { bf16: true, tf32: false, max_steps: -1 }, []],
    [["--bf16", "configs/x.yaml"], { bf16: true }, ["configs/x.yaml"]],
    [["--adam-beta1", ".9", "--log-completions", "true"], { adam_beta1: 0.9, log_completions: true }, []],
    [["--optim-args", '{"a": [1]}'], { optim_args: { a: [1] } }, []],
    [["configs/x.yaml"], {}, ["configs/x.yaml"]],
  ])("%j", (args, trainer, rest) => {
    expect(trainerFlags(args, ours)).toEqual({ trainer, rest });
  });

  test.each([
    [["--modle", "x"], /no flag --modle. Did you mean --model\?/],
    [["--max-turn", "3"], /Did you mean --max-turns\?/],
    [["--no-lroa"], /Did you mean --lora\?/],
  ])("%j is a near miss of ours", (args, message) => {
    expect(() => trainerFlags(args, ours)).toThrow(message);
  });

  test("TRL's names are not taken for near misses (LN-05: Python checks them)", () => {
    const names = ["max_steps", "beta", "top_p", "bf16", "max_prompt_length", "num_generation", "delta", "data_seed"];
    for (const name of names) expect(trainerFlags([`--${name}`, "1"], ours).trainer).toEqual({ [name]: 1 });
  });
});

describe("a YAML that is none of ours", () => {
  test.each([
    ["not a number", "max_turns: .nan", /max_turns is NaN; expected a number/],
    ["no end", "max_turns: .inf", /max_turns is Infinity; expected a number/],
    ["a text for a list", "task_ids: n1", /task_ids is 'n1'; expected an array/],
    ["a key that every object has", "constructor: 1", /grpo.yaml: grpo has no key 'constructor'/],
    ["two documents", "split: dev\n---\nsplit: test", /grpo.yaml: there are several documents/],
  ])("%s", (_, yaml, message) => {
    expect(() => load(yaml)).toThrow(message);
  });

  test("a union says all that it takes", () => {
    const either = z.object({ split: z.union([z.array(z.string()), z.string()]) });
    const given = { recipe: "bench", schema: either, file: null, flags: { split: 5 } };
    expect(() => loadConfig(given)).toThrow("--split is 5; expected an array or a string.");
  });

  test.each([
    ["UTF-16", Buffer.from("\uFEFFsplit: dev", "utf16le"), /not UTF-8 text/],
    ["a folder", null, /it is a folder; expected a file/],
  ])("%s", (_, bytes, message) => {
    const path = bytes ? join(folder, "odd.yaml") : folder;
    if (bytes) writeFileSync(path, bytes);
    expect(() => readYaml(path)).toThrow(message);
  });
});
