import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execaSync } from "execa";
import { describe, expect, test, vi } from "vitest";
import { loadConfig, readYaml } from "./config.ts";
import { runCommand } from "./fixtures/run-command.ts";
import { recipes } from "./recipes/index.ts";
import { openRun } from "./run-folder.ts";
import { readTrajectories } from "./trajectory-log.ts";

const folder = mkdtempSync(join(tmpdir(), "cli-"));
const runs = join(folder, "runs");
const guess = ["--env", "./examples/guess-the-number.ts"];

async function run(...argv: string[]) {
  const result = await runCommand(...argv);
  const json = () =>
    result.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { ...result, json };
}

const write = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

/** A folder that looks like a model: enough for all that is checked before Python starts. */
function fakeModel(name: string): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "config.json"), '{"hidden_size": 1024}');
  return path;
}

describe("the continuation style", () => {
  const style = ["--env-options", '{"protocol": {"style": "continuation"}}'];

  test("is no style of a model behind an API: refused before a request", async () => {
    const dotenv = write("style.env", "LLM_BASE_URL=http://127.0.0.1:9/v1\nLLM_API_KEY=\nMODEL=m\n");
    const { code, stderr } = await run("bench", "--policy", "api:", "--dotenv", dotenv, "--runs-dir", runs, ...style);
    expect(code).toBe(2);
    expect(stderr).toMatch(/continuation style, but the policy 'api:' is behind an API/);
  });

  test("has no ready-made start for grpo, and none of the chat style is taken", async () => {
    const { code, stderr } = await run("grpo", "--runs-dir", join(folder, "empty"), ...style);
    expect(code).toBe(2);
    expect(stderr).toMatch(/No --model: .*chat style.*continuation style/);
  });

  test("a style that there is not", async () => {
    const { code, stderr } = await run("rollout", "--env-options", '{"protocol": {"style": "chatty"}}');
    expect(code).toBe(2);
    expect(stderr).toMatch(/env_options of arxiv: protocol\.style/);
  });
});

describe("help and mistakes", () => {
  test("--help lists the commands, and each has an example", async () => {
    const { code, stdout } = await run("--help");
    expect(code).toBe(0);
    for (const name of [
      "setup",
      "doctor",
      "sft",
      "grpo",
      "rollout",
      "bench",
      "baselines",
      "badcases",
      "eval",
      "score",
      "play",
      "parse",
      "quickstart",
      "data",
    ])
      expect(stdout).toContain(`  ${name} `);
    for (const { name } of recipes) expect((await run(name, "--help")).stdout).toMatch(/Examples:\n {2}trestle /);
  });

  test.each([
    [["tarin"], /unknown command 'tarin'/],
    [["bench", "--polciy", "gold"], /unknown option '--polciy'.*Did you mean --policy/s],
    [["grpo", "--modle", "x"], /no flag --modle. Did you mean --model\?/],
    [["grpo", "a.yaml", "b.yaml"], /takes one config file; got a.yaml, b.yaml/],
    [["grpo", "nowhere.yaml"], /nowhere.yaml: there is no such file/],
    [["bench", "--repeat", "many"], /--repeat is 'many'; expected a number/],
    [["bench", "--repeat", "0"], /--repeat is 0; expected/],
    [["bench", ...guess, "--split", "trian"], /split is 'trian'; expected train or test/],
    [["bench", "--env", "arxib"], /did you mean 'arxiv'/],
    [["bench", "--env-options", '{"promt": "compact"}'], /env_options of arxiv: .*promt/],
    [["bench", "--policy", "gould"], /policy is 'gould'; did you mean 'gold'\?/],
    [["bench", "--policy", "gold", "--temperature", "0.5"], /temperature is set, but the policy 'gold' is not a model/],
    [["bench", "--task-ids", "analyse_ai5_ref4_desc", "--split", "iid_test"], /did you mean 'analyze_ai5_ref4_desc'/],
    [["bench", "--policy", "model:./nowhere"], /model is '.\/nowhere': there is no such folder/],
    [["score", "nowhere.jsonl"], /nowhere.jsonl/],
    [["score", "nowhere.jsonl", "--process"], /arxiv has no process score/],
    [["play", "--env", "airline"], /play needs --task-id for a person, or --actions/],
    [["play", "--actions", "nowhere.jsonl"], /nowhere.jsonl: there is no such file/],
    [["play", "--env", "arxiv", "--actions", "nowhere.jsonl"], /arxiv has no lists of actions/],
    [["play", "--task-id", "synth-00", "--data-dir", "nowhere"], /nowhere/],
    [["eval", "nowhere.jsonl"], /nowhere.jsonl: there is no such log/],
    [["eval", write("nothing.jsonl", "\n")], /nothing.jsonl: no trajectories/],
    [["badcases", "repaly"], /no action 'repaly'; expected replay or capture/],
    [["badcases", "capture", "nowhere.jsonl", "--trial", "-1"], /--trial is '-1'; expected a whole number from 0/],
    [["badcases", "capture", "nowhere.jsonl", "--when", "[1]"], /--when is '\[1\]'; expected a JSON object/],
    [["baselines", "--policies", "always_serach"], /did you mean 'always_search'/],
    [["parse", "--protocol", "morse"], /morse/],
    [["parse", "nowhere.jsonl"], /^nowhere.jsonl: there is no such file.\n$/],
    [["parse", folder], /: it is a folder; expected a file.\n$/],
    [["parse", write("odd.jsonl", '{"id": 1, "text": 5}\n')], /odd.jsonl, line 1: expected .*, got {"id":1,"text":5}/],
    [["score", folder], /: it is a folder; expected a file.\n$/],
    [["score", write("none.jsonl", ""), "--env-options", '{"nope": 1}'], /^env_options of arxiv: .*nope/],
    [["bench", folder], /: it is a folder; expected a file.\n$/],
    [["bench", "--name", ".."], /--name is '..'; expected letters.* not dots alone/],
    [["bench", "--policy", "model:"], /model is empty; expected a folder/],
    [["bench", "--repeat", "1e9"], /--repeat is 1000000000; expected/],
    [["bench", "--split", "dev,dev"], /split names 'dev' twice/],
    [["bench", ...guess, "--task-ids", "n2,n2"], /task_ids names 'n2' twice/],
    [["bench", "--name", "x".repeat(300)], /x: its name is too long.\n$/],
    [["bench", "--runs-dir", write("file", ""), "--name", "x"], /file\/x can't be made: .*file is a file/],
    [["data", "arxiv", "snapshot", "--seed", "many"], /--seed is 'many'; expected a whole number of 0 or more/],
    [["data", "arxiv", "snapshot", "--seed", "-1"], /--seed is '-1'; expected/],
    [["data", "arxiv", "snapshot", "--env-options", "{}"], /data arxiv snapshot takes no --env-options/],
    [["data", "arxiv", "snapshot", "--output", folder], /: it is a folder; expected a file.\n$/],
    [["data", "./examples/guess-the-number.ts", "sft", "--output", folder], /: it is a folder; expected a file.\n$/],
    [["data", "arxiv", "corpus"], /has no action 'corpus'; expected one of snapshot, snapshot-build, .*sft/],
  ])("%j exits with 2 and says what was expected", async (argv, message) => {
    const own = argv[0] === "bench" && !argv.includes("--runs-dir") ? ["--runs-dir", runs] : [];
    const { code, stdout, stderr } = await run(...argv, ...own);
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(/\n {4}at /); // no stack for the user's own mistake
    expect([code, stdout]).toEqual([2, ""]);
  });
});

test("'none' by flag is null, for every key that takes it", async () => {
  const given = ["--name", "none", "--split", "none", "--max-turns", "none", "--runs-dir", runs];
  const { code, json } = await run("bench", ...guess, ...given, "--dry-run", "--json");
  expect(code).toBe(0);
  expect(json()[0]!.config).toMatchObject({ name: null, split: null, max_turns: null });
});

describe("before a model loads", () => {
  const grpo = (...argv: string[]) => run("grpo", "--model", fakeModel("model"), "--runs-dir", runs, ...guess, ...argv);

  test.each([
    ["a group of one (TR-13)", ["--num-generations", "1"], /num_generations is 1; a group needs at least 2/],
    [
      "a batch that holds no whole groups (TR-13)",
      ["--num-generations", "3", "--per-device-train-batch-size", "4"],
      /4 rollouts a step \(per_device_train_batch_size 4 × 1\) do not divide into groups of 3/,
    ],
    [
      "too few turns for the gold solutions",
      ["--max-turns", "3"],
      /max_turns is 3, but \d+ of 50 tasks need more replies/,
    ],
    [
      "a key of dynamic sampling without it",
      ["--dapo", "--no-dynamic-sampling", "--dynamic-sampling-metric", "success"],
      /dynamic_sampling_metric is set, but dynamic sampling is off/,
    ],
    ["a LoRA option without LoRA", ["--lora-r", "8"], /lora_r is set, but LoRA is off. Add --lora/],
    ["a name that is a path", ["--name", "a/b"], /--name is 'a\/b'; expected letters/],
  ])("%s is refused", async (_, argv, message) => {
    const begin = performance.now();
    const { code, stderr } = await grpo(...argv);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
    expect(performance.now() - begin).toBeLessThan(5000);
  });

  test("a folder that holds a run is refused", async () => {
    openRun({
      dir: join(runs, "taken"),
      recipe: "grpo",
      config: {},
      command: "",
      seed: 1,
      versions: {},
      data: {},
    }).close();
    const { code, stderr } = await grpo("--name", "taken");
    expect([code, stderr]).toEqual([2, expect.stringMatching(/taken already holds a run. Choose another --name/)]);
  });

  test.each([
    [
      "a folder that is not there",
      ["--model", join(folder, "modle")],
      /there is no such folder. Did you mean .*model\?/,
    ],
    [
      "a run's folder instead of its model",
      ["--model", join(folder, "run")],
      /without config.json.* Did you mean .*run\/final\?/,
    ],
    ["a file", ["--model", join(folder, "file")], /'.*file', a file; expected a folder/],
  ])("the model is %s", async (_, argv, message) => {
    fakeModel("model");
    fakeModel("run/final");
    write("file", "");
    const { code, stderr } = await run("grpo", "--runs-dir", runs, ...guess, ...argv);
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });

  test("a hub id while the hub is switched off is told at once (LN-09)", async () => {
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    vi.stubEnv("HF_HUB_CACHE", folder);
    const begin = performance.now();
    const { code, stderr } = await run("grpo", "--model", "someone/no-such-model", "--runs-dir", runs, ...guess);
    vi.unstubAllEnvs();
    expect(stderr).toMatch(/'someone\/no-such-model', which is not on this machine, and the hub is switched off/);
    expect(code).toBe(2);
    expect(performance.now() - begin).toBeLessThan(10_000);
  });
});

describe("without a model", () => {
  test("rollout writes trajectories; --json alone is on stdout", async () => {
    const played = await run(
      "rollout",
      ...guess,
      "--split",
      "test",
      "--runs-dir",
      runs,
      "--name",
      "gold-test",
      "--json",
    );
    expect(played.code).toBe(0);
    const lines = played.json();
    expect(lines).toHaveLength(51);
    expect(lines[0]).toMatchObject({ task_id: "n1", trial: 0, reward: 1, success: true });
    const log = join(runs, "gold-test", "trajectories", "rank-0.jsonl");
    expect(lines.at(-1)).toEqual({ log, episodes: 50 });
    expect(readTrajectories(log)).toHaveLength(50);
    expect(JSON.parse(readFileSync(join(runs, "gold-test", "manifest.json"), "utf8"))).toMatchObject({
      recipe: "rollout",
      status: "completed",
      details: { policy: "gold", tasks: 50 },
    });
  });

  test("bench tells pass^k split by split; its last line is for machines", async () => {
    const bench = (policy: string) =>
      run(
        "bench",
        ...guess,
        "--policy",
        policy,
        "--split",
        "train,test",
        "--repeat",
        "2",
        "--runs-dir",
        runs,
        "--name",
        policy,
        "--json",
      );
    const gold = await bench("gold");
    expect(gold.code).toBe(0);
    expect(gold.json().map(({ split }) => split)).toEqual(["train", "test"]);
    expect(gold.json().at(-1)).toMatchObject({
      policy: "gold",
      env: "guess-the-number@1",
      split: "test",
      tasks: 50,
      trials: 2,
      pass_hat: { "1": 1, "2": 1, "3": null },
      pass_at: { "1": 1, "2": 1, "3": null },
      complete: true,
      invalid: 0,
    });
    const fifty = await bench("always_fifty");
    expect(fifty.json()[0]).toMatchObject({ pass_hat: { "1": 1 / 50, "2": 1 / 50 } });

    const compared = await run("eval", join(runs, "always_fifty"), join(runs, "gold"), "--json");
    expect(compared.code).toBe(0);
    expect(compared.json().at(-1)).toMatchObject({ tasks: 100, difference: 0.99 });
    expect((await run("eval", join(runs, "gold"))).stdout).toMatch(/log .*pass\^1/);
  });

  test("--dry-run prints the resolved config and leaves nothing behind", async () => {
    const { code, json } = await run("bench", ...guess, "--runs-dir", runs, "--name", "dry", "--dry-run", "--json");
    expect(code).toBe(0);
    expect(json()[0]).toMatchObject({ recipe: "bench", config: { policy: "gold", seed: 45, repeat: 3 } });
    expect(existsSync(join(runs, "dry"))).toBe(false);
  });

  test("parse reads model texts", async () => {
    const file = write(
      "texts.jsonl",
      `${JSON.stringify({ id: 1, text: "Thought: done\nAction: FINISH" })}\n${JSON.stringify({ id: "b", text: "" })}\n`,
    );
    const { code, json } = await run("parse", file, "--protocol", "react", "--json");
    expect(code).toBe(0);
    expect(json()).toEqual([
      { id: 1, kind: "finish", thought: "done" },
      expect.objectContaining({ id: "b", kind: "parse_error" }),
    ]);
    expect((await run("parse", write("bad.jsonl", '{"id": 1}\n'))).stderr).toMatch(/line 1: expected \{"id"/);
  });

  test("parse --protocol hermes reads calls, their arguments as plain JSON", async () => {
    const call = '<tool_call>\n{"name": "find", "arguments": {"id": "a", "deep": [{"price": 100.0}]}}\n</tool_call>';
    const texts = [`<think>hm</think>I look.\n${call}`, "Hello.", "<tool_call>{oops}</tool_call>"];
    const lines = texts.map((text, id) => `${JSON.stringify({ id, text })}\n`).join("");
    const { code, json } = await run("parse", write("hermes.jsonl", lines), "--protocol", "hermes", "--json");
    expect(code).toBe(0);
    expect(json()).toEqual([
      {
        id: 0,
        kind: "calls",
        calls: [{ name: "find", arguments: { id: "a", deep: [{ price: 100 }] } }],
        text: "I look.",
      },
      { id: 1, kind: "text", calls: [], text: "Hello." },
      { id: 2, kind: "malformed", calls: [], text: "" },
    ]);
  });

  test("data makes rows with their manifest, and checks the snapshot", async () => {
    const output = join(folder, "rows.jsonl");
    const made = await run("data", "./examples/guess-the-number.ts", "sft", "--output", output, "--json");
    expect(made.json()[0]).toMatchObject({ output, rows: 50 });
    expect(readFileSync(output, "utf8").trim().split("\n")).toHaveLength(50);
    const own = join(folder, "own-split.jsonl"); // of the group that may be trained on, which is not arxiv's first
    expect(await run("data", "arxiv", "sft", "--output", own)).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(readFileSync(join(folder, "own-split.manifest.json"), "utf8")).split.name).toBe("v3_81:train");
    expect((await run("data", "arxiv", "snapshot", "--check", "--seed", "20260820")).code).toBe(0);
    expect((await run("data", "arxiv", "snapshot", "--check", "--seed", "1")).code).toBe(1);
    expect((await run("data", "arxiv", "sft", "--check")).stderr).toMatch(/takes neither/);
  });
});

const configs = ["configs", "configs/tiny", "benchmark/suites"].flatMap((dir) =>
  readdirSync(join(import.meta.dirname, "..", dir))
    .filter((name) => name.endsWith(".yaml"))
    .map((name) => join(dir, name)),
);
test.each(configs)("%s fits its recipe, and opens with the command that runs it", (file) => {
  const name = String(readYaml(file).recipe);
  const recipe = recipes.find((candidate) => candidate.name === name)!;
  expect(() =>
    loadConfig({ recipe: name, schema: recipe.schema, file, flags: {}, presets: recipe.presets }),
  ).not.toThrow();
  expect(readFileSync(file, "utf8")).toMatch(new RegExp(`^# tsx src/cli.ts ${name} `));
});

const bin = join(import.meta.dirname, "../bin/trestle.mjs");

test("the installed command prints its version, wherever it is called from", () => {
  expect(execFileSync(process.execPath, [bin, "--version"], { cwd: folder, encoding: "utf8" })).toMatch(
    /^\d+\.\d+\.\d+\n$/,
  );
});

test("a model of a run is measured in that run's environment, unless another is named", async () => {
  const model = fakeModel("trained/final");
  write("trained/config.json", JSON.stringify({ env: guess[1] }));
  const told = async (...argv: string[]) =>
    (await run("bench", "--policy", `model:${model}`, "--split", "x", ...argv)).stderr;
  expect(await told()).toMatch(/env as in the model's own run: .*guess-the-number.ts\n.*expected train or test/);
  expect(await told("--env", "arxiv")).not.toMatch(/own run|train or test/);
});

describe("as a process of its own", () => {
  const rows = Array.from(
    { length: 3000 },
    (_, id) => `${JSON.stringify({ id, text: "Thought: x\nAction: FINISH" })}\n`,
  );
  const shell = (line: string) => execaSync("bash", ["-o", "pipefail", "-c", line], { cwd: folder, reject: false });
  const command = `'${process.execPath}' '${bin}'`;

  test("a writer that is slow is waited for", () => {
    const { stdout, exitCode } = shell(`(sleep 2; echo '{"id": 1, "text": "x"}') | ${command} parse`);
    expect([stdout, exitCode]).toEqual([expect.stringMatching(/^{"id":1,/), 0]);
  });

  test("a reader that goes away is no error", () => {
    const { stdout, stderr, exitCode } = shell(`${command} parse ${write("many.jsonl", rows.join(""))} | head -1`);
    expect([stdout, stderr, exitCode]).toEqual([expect.stringMatching(/^{"id":0,/), "", 0]);
  });

  test("a Ctrl-C ends scripted play in order: the log is kept, the folder given back", async () => {
    const example = JSON.stringify(join(import.meta.dirname, "../examples/guess-the-number.ts"));
    const env = write(
      "waits.mts",
      `import { guessTheNumber } from ${example};
       const load = async (...given) => {
         const tasks = await guessTheNumber.load(...given);
         return { ...tasks, start: async (...task) => {
           const episode = await tasks.start(...task);
           setTimeout(() => process.kill(process.pid, "SIGINT"), 100);
           await new Promise((resolve) => setTimeout(resolve, 300));
           return episode;
         } };
       };
       export const waits = { ...guessTheNumber, load };`,
    );
    const { exitCode, stderr } = shell(`${command} rollout --env ${env} --name interrupted`);
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringContaining("Stopped by SIGINT; what was played is in the log."),
    ]);
    const dir = join(folder, "runs", "interrupted");
    expect(JSON.parse(readFileSync(join(dir, "manifest.json"), "utf8"))).toMatchObject({ status: "stopped" });
    expect(existsSync(join(dir, "lock"))).toBe(false);
    expect(readTrajectories(join(dir, "trajectories", "rank-0.jsonl"))).toHaveLength(16);
  });

  test("what an environment's file prints is not among the results; what it throws late exits with 3", () => {
    const example = JSON.stringify(join(import.meta.dirname, "../examples/guess-the-number.ts"));
    const played = (name: string, text: string) =>
      shell(`${command} rollout --env ${write(name, `${text}\nexport * from ${example};`)} --task-ids n42 --json`);
    const { stdout, stderr } = played("prints.mts", 'console.log("hello");');
    expect(stdout).toMatch(/^{"task_id":"n42"/);
    expect(stderr).toContain("hello");
    expect(played("never.mts", "await new Promise(() => {});")).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining("never settles"),
    });
    expect(played("late.mts", 'Promise.reject(new Error("late"));')).toMatchObject({
      exitCode: 3,
      stderr: expect.stringContaining("late"),
    });
  });
});

test("an environment in a folder that is no ES module package plays, and its UserError is one", () => {
  const root = join(import.meta.dirname, "..");
  const own = write(
    "own-env.ts",
    readFileSync(join(root, "examples/guess-the-number.ts"), "utf8")
      .replaceAll("../src/", `${root}/src/`)
      .replace('"zod"', `"${root}/node_modules/zod/index.js"`),
  );
  const rollout = (...argv: string[]) =>
    execaSync(process.execPath, [bin, "rollout", "--env", own, ...argv], { cwd: folder, reject: false });
  expect(rollout("--task-ids", "n42", "--json").stdout).toMatch(/"success":true/);
  expect(rollout("--split", "trian")).toMatchObject({
    exitCode: 2,
    stderr: "split is 'trian'; expected train or test.",
  });
});
