import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { runCommand } from "../src/fixtures/run-command.ts";
import { makeTinyModel } from "../src/fixtures/tiny-model.ts";

const folder = mkdtempSync(join(tmpdir(), "compare-"));
const [base, other] = [join(folder, "base"), join(folder, "other")];
const output = join(folder, "out");
const env = ["--env", "./examples/guess-the-number.ts", "--split", "test", "--task-ids", "n1,n3,n5"];
const short = ["--max-turn-tokens", "24", "--max-episode-tokens", "240"];
const LONG = 180_000;

beforeAll(() => {
  makeTinyModel(base);
  makeTinyModel(other, 0.3);
}, LONG);

test("a base and two checkpoints: a row each, differences, KL; again plays nothing", { timeout: LONG }, async () => {
  const argv = ["eval", ...env, ...short, "--baseline", "--base", base, "--output", output, "--repeat", "2", "--json"];
  const first = await runCommand(...argv, "--temperature", "1", "--checkpoint", other);
  expect([first.code, first.code === 0 || first.stderr]).toEqual([0, true]);
  const [result] = first.stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, never>);
  expect(result).toMatchObject({ split: "test", temperature: 1, repeat: 2 });
  const policies = (result as unknown as { policies: { label: string; episodes: number; kl: number | null }[] })
    .policies;
  expect(policies.map(({ label, episodes }) => [label, episodes])).toEqual([
    ["baseline", 6],
    [other, 6],
  ]);
  expect(policies[0]!.kl).toBeNull();
  expect(Number.isFinite(policies[1]!.kl)).toBe(true);
  expect(JSON.parse(readFileSync(join(output, "comparison.json"), "utf8"))).toEqual(result);
  expect(readFileSync(join(output, "comparison.md"), "utf8")).toMatch(/\| n3 \| /);
  const again = await runCommand(...argv, "--temperature", "1", "--checkpoint", other);
  expect([again.code, again.stdout]).toEqual([0, first.stdout]);
  expect(again.stderr.match(/6 of 6 episodes are there, 0 are played/g)).toHaveLength(2);
});

test.each([
  ["nothing to play", [], /Nothing to play/],
  ["a base without the baseline", ["--base", base, "--checkpoint", other], /base is set without baseline/],
  ["a checkpoint that is not there", ["--checkpoint", join(folder, "othre")], /Did you mean .*other/],
  ["one checkpoint twice", ["--checkpoint", other, `${other}/`], /names .* twice/],
  ["two that would share a folder", ["--checkpoint", "a/b", "a-b"], /a-b would have the same folder of plays/],
  ["a base that nobody names", ["--baseline", "--checkpoint", other], /no checkpoint names a base/],
])("%s is refused before a model loads", { timeout: LONG }, async (_, flags, message) => {
  const { code, stderr } = await runCommand("compare", ...env, ...flags, "--output", join(folder, "refused"));
  expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
});
