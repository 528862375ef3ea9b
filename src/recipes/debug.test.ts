import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { loadConfig } from "../config.ts";
import { runCommand } from "../fixtures/run-command.ts";
import { readJsonLines } from "../trajectory-log.ts";
import { adapterOf } from "./adapters.ts";
import { grpo } from "./grpo.ts";
import { TINY_MODEL } from "./shared.ts";

const configs = join(import.meta.dirname, "../../configs");
const { schema, presets } = grpo;
type Config = Parameters<typeof adapterOf>[0] & { trainer: Record<string, unknown>; resume: boolean };

const load = (file: string, flags: Record<string, unknown> = {}) =>
  loadConfig<Config>({ recipe: "grpo", schema, file, presets, flags: { debug: true, ...flags } });

const files = readdirSync(configs)
  .filter((name) => name.endsWith(".yaml"))
  .map((name) => join(configs, name))
  .filter((path) => /^recipe: grpo$/m.test(readFileSync(path, "utf8")));

describe("--debug", () => {
  test.each(files)("%s: two steps of the tiny model in a folder of their own", (file) => {
    const { config, given } = load(file);
    expect(config).toMatchObject({ model: TINY_MODEL, name: null, resume: false, qlora: false, max_turn_tokens: 64 });
    expect(config.trainer).toMatchObject({ max_steps: 2, num_generations: 2 });
    const adapter = /^(q?lora): true$/m.test(readFileSync(file, "utf8"));
    expect(adapterOf(config, given).lora !== null).toBe(adapter);
  });

  test("without it the published settings of search go on by themselves", () => {
    const file = join(configs, "search-qwen3-8b.yaml");
    const { config } = load(file, { debug: false });
    expect(config).toMatchObject({ name: "search-qwen3-8b", resume: true, qlora: true });
    expect(config.trainer).toMatchObject({ save_strategy: "steps", save_steps: 1 });
  });

  test("flags win", () => {
    const { config } = load(join(configs, "search-qwen3-8b.yaml"), { name: "mine", trainer: { max_steps: 3 } });
    expect(config).toMatchObject({ name: "mine", lora: true, trainer: { max_steps: 3, num_generations: 2 } });
  });

  test("the published settings of search: squared KL to the model without its adapter", async () => {
    const runs = mkdtempSync(join(tmpdir(), "debug-"));
    const argv = ["grpo", join(configs, "search-qwen3-8b.yaml"), "--debug", "--runs-dir", runs];
    const { code, stderr } = await runCommand(...argv);
    expect([code, code === 0 || stderr]).toEqual([0, true]);
    const run = join(runs, "grpo-search");
    expect(readdirSync(join(run, "final"))).toContain("adapter_config.json");
    const points = readJsonLines(join(run, "metrics.jsonl")).map(({ value }) => value as Record<string, number>);
    const kls = points.flatMap(({ kl }) => kl ?? []);
    expect(kls).toEqual([0, expect.any(Number)]); // a new adapter is its base
    expect(kls[1]).toBeGreaterThanOrEqual(0);
  }, 180_000);
});
