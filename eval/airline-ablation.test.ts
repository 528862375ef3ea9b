import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { UserError } from "../src/core/errors.ts";
import type { Ablation } from "../src/envs/airline/evaluation/ablation.ts";
import { referenceRun } from "../src/envs/airline/evaluation/fixtures/episodes.ts";
import { evalReport, splitEvalReport } from "../src/envs/airline/evaluation/report.ts";
import { runCommand } from "../src/fixtures/run-command.ts";
import { ablationCommand } from "./airline-ablation.ts";
import { progressionAxes } from "./airline-plots.ts";

const folder = mkdtempSync(join(tmpdir(), "ablation-"));

interface Made {
  variant: string | null;
  step: number | null;
  successes: Parameters<typeof referenceRun>[0];
  tokens?: number | null;
  trials?: number;
}

/** A benchmark's folder with its two report files. */
function made(name: string, { variant, step, successes, tokens = 100, trials = 4 }: Made): string {
  const { trajectories, groups } = referenceRun(successes);
  const run = { env: "airline@1", policy: `model:runs/${name}/final`, variant, step, trials, seed: 45 };
  const turn_tokens =
    tokens === null ? "the policy is behind an API" : trajectories.map((_, index) => [tokens + (index % 7)]);
  const report = evalReport(trajectories, { run, groups, turn_tokens });
  const dir = join(folder, name);
  mkdirSync(dir);
  writeFileSync(join(dir, "eval_report.json"), JSON.stringify(report));
  writeFileSync(join(dir, "split_eval_report.json"), JSON.stringify(splitEvalReport(report, groups)));
  return dir;
}

const of = (covered_seen: number, uncovered_seen: number, unseen: number) => ({ covered_seen, uncovered_seen, unseen });
let dirs: string[];

beforeAll(() => {
  dirs = [
    made("v", { variant: "vanilla", step: 200, successes: of(25, 4, 6), tokens: 72 }),
    made("t200", { variant: "turn_discount", step: 200, successes: of(19, 3, 5), tokens: 181 }),
    made("t250", { variant: "turn_discount", step: 250, successes: of(18, 2, 5), tokens: 245 }),
    made("l250", { variant: "lata", step: 250, successes: of(27, 4, 6), tokens: null }),
    made("j200", { variant: "prm_lite_lata", step: 200, successes: of(30, 7, 6), tokens: 322 }),
    made("j250", { variant: "prm_lite_lata", step: 250, successes: of(33, 8, 7), tokens: 313 }),
  ];
});

const textOf = (...parts: string[]) => readFileSync(join(...parts), "utf8");

describe("an ablation", () => {
  test("is a table, a page and two plots, all from the reports", () => {
    const output = join(folder, "out");
    const { text } = ablationCommand(dirs, { output });
    expect(readdirSync(output).sort()).toEqual([
      ...["ablation.json", "ablation.md", "ablation_comparison.png", "ablation_comparison.svg"],
      ...["ablation_progression.png", "ablation_progression.svg"],
    ]);
    const { rows } = JSON.parse(textOf(output, "ablation.json")) as Ablation;
    expect(rows.map(({ name, step, headline }) => [name, step, headline])).toEqual([
      ["vanilla", 200, true],
      ["turn_discount", 200, false],
      ["turn_discount", 250, true],
      ["lata", 250, true],
      ["joint", 200, false],
      ["joint", 250, true],
    ]);
    expect(rows[0]!.overall.value).toBeCloseTo(0.175, 12);
    expect(rows[0]!.generalisation.value).toBeCloseTo(10 / 136, 12);
    expect(rows.at(-1)).toMatchObject({ highlighted: true, overall: { value: 0.24 }, stability: { value: 1 } });
    expect(text).toMatch(/joint \*\s+250\s+0\.240 ± 0\.0\d\d/);
    expect(text).toContain("lata at 250: tokens per turn are missing: the policy is behind an API.");
    expect(text).toContain("published joint at step 250: overall 0.240, generalisation 0.110");
    expect(textOf(output, "ablation.md")).toContain("![ablation_comparison](ablation_comparison.svg)");
  });

  test("draws the same bytes again, the reference's limits, colours and the dashed level", () => {
    const [one, two] = [join(folder, "one"), join(folder, "two")];
    for (const output of [one, two]) ablationCommand(dirs, { output });
    for (const name of ["comparison", "progression"])
      for (const end of ["svg", "png"]) {
        const file = `ablation_${name}.${end}`;
        expect(readFileSync(join(one, file)).equals(readFileSync(join(two, file)))).toBe(true);
      }
    const progression = textOf(one, "ablation_progression.svg");
    for (const part of ["#f39c12", "#3498db", "#2ecc71", "#e74c3c", "stroke-dasharray", "Vanilla at 200", "sans-serif"])
      expect(progression).toContain(part);
    const comparison = textOf(one, "ablation_comparison.svg");
    expect(comparison.match(/#2ecc71/g)).toHaveLength(4); // the joint bar of each panel
    expect(comparison.match(/not measured/g)).toHaveLength(1);
  });

  test("the PNG is 1500 pixels wide, and has text", () => {
    const output = join(folder, "png");
    ablationCommand(dirs, { output });
    const png = readFileSync(join(output, "ablation_comparison.png"));
    expect([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual(["PNG", 1500, 900]);
  });

  test("without a step there is no progression, and an older one goes", () => {
    const output = join(folder, "stepless-out");
    ablationCommand(dirs, { output });
    const stepless = made("stepless", { variant: null, step: null, successes: of(25, 4, 6) });
    const { text } = ablationCommand([stepless], { output });
    expect(text).toContain("Not in the progression, as their reports know no step: stepless.");
    expect(readdirSync(output).filter((name) => name.includes("progression"))).toEqual([]);
  });

  test("names are the user's where given", () => {
    const { json } = ablationCommand(dirs.slice(0, 2), { output: join(folder, "named"), names: ["lata", "joint"] });
    expect(json.slice(0, 2)).toMatchObject([{ name: "lata" }, { name: "joint", highlighted: true }]);
  });
});

describe("refused", () => {
  const output = join(folder, "refused");
  const refuse = (paths: readonly string[], names?: string[]) => () => ablationCommand(paths, { output, names });
  test.each<[string, () => string[], string, string[]?]>([
    ["a folder that is not there", () => [join(folder, "none")], "there is no such folder"],
    ["one without reports", () => [folder], "eval_report.json: there is no such file. It is what trestle bench"],
    ["a name for two folders", () => dirs.slice(0, 2), "--names has 1 names for 2 folders", ["x"]],
    ["one name and step twice", () => dirs.slice(1, 3), "are both 'x' at step", ["x", "x"]],
  ])("%s", (story, paths, message, names) => {
    const given = story.startsWith("one name") ? [dirs[1]!, dirs[4]!] : paths();
    expect(refuse(given, names)).toThrow(UserError);
    expect(refuse(given, names)).toThrow(message);
    expect(existsSync(output)).toBe(false);
  });

  test("other trials", () => {
    const other = made("other", { variant: "lata", step: 1, successes: of(1, 1, 1), trials: 2 });
    expect(refuse([dirs[0]!, other])).toThrow("do not compare: trials 4 and 2");
  });

  test("two files of two evaluations, and a broken one", () => {
    const mixed = made("mixed", { variant: "lata", step: 1, successes: of(1, 1, 1) });
    writeFileSync(join(mixed, "split_eval_report.json"), textOf(dirs[0]!, "split_eval_report.json"));
    expect(refuse([mixed])).toThrow("are of two evaluations");
    writeFileSync(join(mixed, "eval_report.json"), "{");
    expect(refuse([mixed])).toThrow("not JSON");
    writeFileSync(join(mixed, "eval_report.json"), "{}");
    expect(refuse([mixed])).toThrow("no report of this version");
  });

  test("other data, unless it is asked for; another reward is none", () => {
    const [one, two] = [
      made("data1", { variant: "vanilla", step: 1, successes: of(1, 1, 1) }),
      made("data2", { variant: "lata", step: 1, successes: of(1, 1, 1) }),
    ];
    const summary = (dir: string, data: object, mode: string) =>
      writeFileSync(
        join(dir, "summary.json"),
        JSON.stringify({ versions: { trestle: "1", env: "airline@1", env_options: { reward: { mode } }, data } }),
      );
    summary(one, { "db.json": "aa" }, "binary");
    summary(two, { "db.json": "aa" }, "prm_lite");
    expect(refuse([one, two])).not.toThrow();
    summary(two, { "db.json": "bb" }, "binary");
    expect(refuse([one, two])).toThrow("different versions: db.json aa and bb");
    const { text } = ablationCommand([one, two], { output, across_versions: true });
    expect(text).toContain("NOTE: ");
  });
});

test("limits of the progression fit the data where these do not fit them", () => {
  expect(progressionAxes([{ step: 200 }, { step: 300 }], [0.125, 0.24])).toEqual({ x: [190, 310], y: [0.1, 0.28] });
  const { x, y } = progressionAxes([{ step: 2 }, { step: 4 }], [0, 0.9]);
  expect([x[0] < 2, x[1] > 4, y[0], y[1]]).toEqual([true, true, 0, 1]);
});

test("the command: eval --env airline … --output", async () => {
  const output = join(folder, "command");
  const { code, stdout } = await runCommand("eval", "--env", "airline", ...dirs, "--output", output, "--json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout.trim().split("\n").at(-1)!)).toMatchObject({
    written: expect.arrayContaining([join(output, "ablation.md")]),
  });
  const wrong = await runCommand("eval", ...dirs, "--output", output);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("Expected --env airline")]);
  const nameless = await runCommand("eval", ...dirs, "--names", "a,b");
  expect([nameless.code, nameless.stderr]).toEqual([2, expect.stringContaining("name a folder with it")]);
});
