import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { envFlags } from "./shared.ts";

describe("the command that measures a model names the environment it was trained in", () => {
  test.each([
    ["the default one, without options", { env: "arxiv", env_options: {} }, ""],
    ["another", { env: "search", env_options: {} }, " --env search"],
    [
      "options",
      { env: "search", env_options: { prompt: "compact" } },
      ` --env search --env-options '{"prompt":"compact"}'`,
    ],
    [
      "what validation has otherwise goes over what training has",
      { env: "airline", env_options: { a: { b: 1, c: 2 } }, validate_env_options: { a: { c: 3 } } },
      ` --env airline --env-options '{"a":{"b":1,"c":3}}'`,
    ],
  ])("%s", (_, config, flags) => {
    expect(envFlags(config)).toBe(flags);
  });

  test("a shell reads the options as they were", () => {
    const env_options = { tasks: "it's $HOME `here`/tasks.json" };
    const read = execFileSync("sh", ["-c", `printf '%s\\n' ${envFlags({ env: "arxiv", env_options })}`]);
    expect(read.toString()).toBe(`--env-options\n${JSON.stringify(env_options)}\n`);
  });
});
