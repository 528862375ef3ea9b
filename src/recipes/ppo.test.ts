import { expect, test } from "vitest";
import { runCommand as run } from "../fixtures/run-command.ts";
import { recipes } from "./index.ts";

test.each([
  [[]],
  [["configs/nowhere.yaml"]],
  [["--model", "outputs/grpo/final", "--epochs", "1", "--init-kl", "0.05", "--temperature", "0.7"]],
  [["a", "b", "c", "--dry-run", "--json", "--lr=1e-6", "--no-verify", "--seed", "x", "-x"]],
  [["--", "--model"]],
])("ppo %j says what to take instead and exits with 2", async (argv) => {
  const { code, stdout, stderr } = await run("ppo", ...argv);
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/^There is no ppo: TRL 0\.28 and later.* has no classic PPO trainer/);
  for (const [, name] of stderr.matchAll(/cli\.ts (\w+)/g)) expect(["grpo", "opd"]).toContain(name);
});

test("its help names what to take instead", async () => {
  const { code, stdout } = await run("ppo", "--help");
  expect(code).toBe(0);
  expect(stdout).toMatch(/grpo.*opd/s);
  expect(stdout).not.toMatch(/--dry-run/);
});

test("called as a recipe it refuses too", async () => {
  const ppo = recipes.find(({ name }) => name === "ppo")!;
  await expect(ppo.run({}, {} as never)).rejects.toThrow(/There is no ppo/);
});
