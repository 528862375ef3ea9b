import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { chooseInterpreter } from "../bridge/interpreter.ts";
import { runCommand } from "../fixtures/run-command.ts";
import { readJsonLines, readTrajectories } from "../trajectory-log.ts";
import { defaultTeacher } from "./teacher.ts";

// The whole path with real processes: two small models made on the spot, one learning from the other.

const root = join(import.meta.dirname, "../..");
const folder = mkdtempSync(join(tmpdir(), "opd-"));
const runs = join(folder, "runs");
const [student, teacher, other] = ["student", "teacher", "other"].map((name) => join(folder, name)) as [
  string,
  string,
  string,
];
const LONG = 300_000; // a run starts a Python that imports torch
const KEY = "sk-of-the-teacher-1";

const makeModels = `
import sys
from tiny import tiny_model, tiny_tokenizer
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "max_position_embeddings": 1024}
for seed, folder in enumerate(sys.argv[1:]):
    tokenizer = tiny_tokenizer(straddle=seed == 2)
    tiny_model(tokenizer, seed=seed, end_rate=0, **shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
`;

beforeAll(() => {
  const python = chooseInterpreter({}).path;
  const PYTHONPATH = [join(root, "py"), join(root, "py/tests")].join(":");
  const env = { ...process.env, PYTHONPATH };
  execFileSync(python, ["-c", makeModels, student, teacher, other], { env, stdio: "pipe" });
}, LONG);

afterEach(() => vi.unstubAllEnvs());

const json = (...path: string[]) => JSON.parse(readFileSync(join(runs, ...path), "utf8")) as Record<string, unknown>;
const opd = (name: string, ...flags: string[]) =>
  runCommand("opd", "configs/tiny/opd.yaml", "--model", student, "--runs-dir", runs, "--name", name, ...flags);

test("two steps from configs/tiny: teacher and tokens in the manifest, every rollout in the log", {
  timeout: LONG,
}, async () => {
  const { code, stdout } = await opd("local", "--teacher", `model:${teacher}`, "--json");
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ recipe: "opd", steps: 2, rollouts: 16 });
  const manifest = json("local", "manifest.json") as {
    details: { result: { policy_tokens: number; teacher_tokens: number } };
  };
  expect(manifest).toMatchObject({
    recipe: "opd",
    status: "completed",
    details: {
      teacher: { name: `model:${teacher}`, sha256: expect.stringMatching(/^[0-9a-f]{64}$/), endpoint: null },
      algorithm: { beta: 1, lmbda: 1 },
      result: { steps: 2, rollouts: 16, invalid: 0, teacher_calls: 0, missing_logprobs: 0 },
    },
  });
  const { policy_tokens, teacher_tokens } = manifest.details.result;
  expect(teacher_tokens).toBe(policy_tokens);
  expect(json("local", "config.json")).toMatchObject({ teacher: `model:${teacher}`, trainer: { max_steps: 2 } });

  const trajectories = readTrajectories(join(runs, "local", "trajectories", "rank-0.jsonl"));
  expect(trajectories).toHaveLength(16);
  expect(trajectories.map(({ policy_step }) => policy_step)).toEqual([...Array(8).fill(0), ...Array(8).fill(1)]);
  expect(trajectories.reduce((sum, { tokens }) => sum + tokens.policy, 0)).toBe(policy_tokens);
  const points = readJsonLines(join(runs, "local", "metrics.jsonl")).map(({ value }) => value as object);
  const names = ["loss", "reward", "rollout/success", "rollout/turns", "opd/reverse_kl"];
  for (const point of points.slice(0, 2))
    for (const name of [...names, "opd/teacher_logprob", "opd/student_logprob"])
      expect(point).toHaveProperty([name], expect.any(Number));
  expect(existsSync(join(runs, "local", "final", "config.json"))).toBe(true);
  expect(readdirSync(join(runs, "local"))).toContain("report.html");
});

describe("a teacher behind an endpoint", () => {
  let server: Server;
  let down = false;
  const seen: { url: string; authorization: string | undefined }[] = [];

  beforeAll(async () => {
    server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += String(chunk);
      seen.push({ url: request.url ?? "", authorization: request.headers.authorization });
      const answer = (status: number, value: unknown) => {
        response.writeHead(status, { "content-type": "application/json" });
        response.end(JSON.stringify(value));
      };
      if (request.url !== "/v1/completions") return answer(404, {});
      if (down) return answer(503, { error: `no model for ${request.headers.authorization}` });
      const ids = (JSON.parse(text) as { prompt: number[] }).prompt;
      const prompt_logprobs = ids.map((id, place) => (place === 0 ? null : { [id]: { logprob: -2 } }));
      answer(200, { choices: [{ index: 0, text: "x", prompt_logprobs }] });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  afterAll(() => server.close());

  const named = () => {
    vi.stubEnv("LLM_BASE_URL", `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/`);
    vi.stubEnv("LLM_API_KEY", KEY);
    return ["--teacher", "api:big", "--teacher-tokenizer", teacher, "--max-retries", "1"];
  };

  test("is asked once a rollout, with the key, which stands nowhere else", { timeout: LONG }, async () => {
    const { code, stdout, stderr } = await opd("api", ...named(), "--max-steps", "1");
    expect([code, stderr]).toEqual([0, expect.stringContaining("towards api:big")]);
    expect(stdout).toMatch(/teacher: api:big, \d+ tokens scored, 0 left out, 8 calls/);
    expect(seen.filter(({ url }) => url === "/v1/completions").length).toBeGreaterThanOrEqual(8);
    expect(new Set(seen.map(({ authorization }) => authorization))).toEqual(new Set([`Bearer ${KEY}`]));
    const manifest = json("api", "manifest.json");
    expect(manifest).toMatchObject({
      details: {
        teacher: { name: "api:big", sha256: null, endpoint: expect.stringMatching(/^http:.*\/v1$/) },
        result: { teacher_calls: 8 },
      },
    });
    for (const name of ["manifest.json", "config.json", "metrics.jsonl"])
      expect(readFileSync(join(runs, "api", name), "utf8")).not.toContain(KEY);
    expect(stdout + stderr).not.toContain(KEY);
  });

  test("is refused before a model loads where it can't be held against the student, or asked", {
    timeout: LONG,
  }, async () => {
    const flags = [...named(), "--dry-run"];
    const untold = [...named().slice(0, 2), "--max-retries", "0", "--dry-run"];
    expect((await opd("no", ...untold)).stderr).toMatch(/could not be checked.*--trust-teacher-tokenizer/);
    down = true;
    const { code, stdout, stderr } = await opd("no", ...flags);
    down = false;
    expect(stderr).toMatch(/does not answer: HTTP 503.*\[LLM_API_KEY\].*2 tries/);
    expect(stderr).not.toContain(KEY);
    expect([code, stdout, existsSync(join(runs, "no"))]).toEqual([2, "", false]);
  });
});

describe("refused at once", () => {
  test.each([
    ["a share of others' samples", ["--lmbda", "0.5"], /lmbda is 0.5; expected 1/],
    ["a teacher without its kind", ["--teacher", "models/tiny"], /expected model:.*as model:models\/tiny/],
    ["a teacher that is not there", ["--teacher", "model:nowhere/at/all"], /^teacher is 'nowhere\/at\/all'/],
    [
      "a key that a local teacher ignores",
      ["--teacher", "model:models/tiny", "--max-retries", "3"],
      /max_retries is set, but the teacher 'model:models\/tiny' is a local model/,
    ],
    ["the key as the model's name", ["--teacher", `api:${KEY}`], /LLM_API_KEY stands in the command or the config/],
    [
      "no teacher, and none that could be found",
      [],
      /no GRPO result of the tiny model .*npx tsx src\/cli.ts grpo --dapo/,
    ],
  ])("%s", async (_, flags, message) => {
    vi.stubEnv("LLM_BASE_URL", "http://127.0.0.1:9/v1");
    vi.stubEnv("LLM_API_KEY", KEY);
    const { code, stdout, stderr } = await opd("refused", ...flags);
    expect(stderr).toMatch(message);
    expect([code, stdout, existsSync(join(runs, "refused"))]).toEqual([2, "", false]);
  });

  test("a teacher with another tokenizer (DT-13)", { timeout: LONG }, async () => {
    const refused = await opd("refused", "--teacher", `model:${other}`);
    expect(refused.stderr).toContain(student);
    expect(refused.stderr).toContain(other);
    expect(refused.stderr).toMatch(/id \d+ is '.*' in the first and '.*' in the second/);
    expect(refused.code).toBe(2);
  });
});

describe("where no teacher is named", () => {
  const place = join(folder, "found");
  const run = (name: string, recipe: string, config: object, details: object, started: string) => {
    mkdirSync(join(place, name, "final"), { recursive: true });
    cpSync(join(student, "config.json"), join(place, name, "final", "config.json"));
    writeFileSync(join(place, name, "config.json"), JSON.stringify({ env: "arxiv", env_options: {}, ...config }));
    const manifest = { recipe, name, status: "completed", started, versions: {}, data: {}, details };
    writeFileSync(join(place, name, "manifest.json"), JSON.stringify(manifest));
    return join(place, name, "final");
  };
  const find = (model: string | null = null) =>
    defaultTeacher({ runs_dir: place, env: "arxiv", env_options: {}, model });

  test("a longer SFT result than the student's teaches, and a GRPO result before any", async () => {
    await expect(find()).rejects.toThrow(/npx tsx src\/cli.ts grpo --dapo/);
    const long = run("long", "sft", { model: "models/tiny" }, { result: { steps: 500 } }, "2026-01-01");
    await expect(find()).rejects.toThrow(/No --teacher/); // it is the student itself
    const short = run("short", "sft", { model: "models/tiny" }, { result: { steps: 120 } }, "2026-01-02");
    expect(await find()).toBe(`model:${long}`);
    expect(await find(short)).toBe(`model:${long}`);
    await expect(find(long)).rejects.toThrow(/No --teacher/);
    run("other", "grpo", { env: "./mine.ts" }, {}, "2026-01-05");
    run("style", "grpo", { env_options: { protocol: { style: "continuation" } } }, {}, "2026-01-06");
    expect(await find()).toBe(`model:${long}`);
    run("older", "grpo", {}, {}, "2026-01-03");
    const newest = run("newest", "grpo", {}, {}, "2026-01-04");
    expect(await find(short)).toBe(`model:${newest}`);
  });

  test("a student that is not the tiny model's needs one named", async () => {
    const large = join(folder, "large");
    mkdirSync(large);
    writeFileSync(join(large, "config.json"), JSON.stringify({ hidden_size: 1024 }));
    await expect(find(large)).rejects.toThrow(/No --teacher: name one for .*large/);
  });
});
