import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { createRandom } from "../src/core/random.ts";
import type { Trajectory } from "../src/core/trajectory.ts";
import { envs } from "../src/envs/index.ts";
import { runCommand as run } from "../src/fixtures/run-command.ts";
import {
  type Answer,
  completion,
  cutShort,
  json,
  type SeenRequest,
  type StubEndpoint,
  startEndpoint,
} from "../src/llm/fixtures/endpoint.ts";
import { readTrajectories } from "../src/trajectory-log.ts";

// The whole path against a real server: the command line, the policy, the client, the log.

const root = join(import.meta.dirname, "..");
const folder = mkdtempSync(join(tmpdir(), "api-"));
const runs = join(folder, "runs");
const KEY = "sk-test-0123456789abcdef";

const stubs: StubEndpoint[] = [];
afterEach(async () => {
  for (const stub of stubs.splice(0)) await stub.close();
});

let count = 0;
/** A stub, and the flags that lead a command there. */
async function endpoint(answer: Answer) {
  const stub = await startEndpoint(answer);
  stubs.push(stub);
  const dotenv = join(folder, `${++count}.env`);
  writeFileSync(dotenv, `LLM_BASE_URL=${stub.url}\nLLM_API_KEY=${KEY}\nMODEL=stub-model\n`);
  return {
    stub,
    flags: ["--dotenv", dotenv, "--runs-dir", runs, "--name", `run-${count}`, "--json"],
    dir: join(runs, `run-${count}`),
  };
}

const logOf = (dir: string): Trajectory[] => readTrajectories(join(dir, "trajectories", "rank-0.jsonl"));
const lastLine = (stdout: string) => JSON.parse(stdout.trim().split("\n").at(-1)!) as Record<string, unknown>;
const everyFile = (dir: string): string =>
  readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"))
    .join("\n");

/** Plays the gold replies of every task, which it knows by the prompt. */
async function goldModel(split: string): Promise<(seen: SeenRequest) => string> {
  const tasks = await envs.arxiv!.load(split);
  const byPrompt = new Map<string, string[]>();
  for (const id of tasks.ids) {
    const { messages } = await tasks.start(id, { seed: 0 });
    byPrompt.set(messages[0]!.content, tasks.replies("gold", id, createRandom(0)));
  }
  return ({ body }) => {
    const turn = body.messages.filter(({ role }) => role === "assistant").length;
    return byPrompt.get(body.messages[0]!.content)![turn]!;
  };
}

test("bench: a model that answers with gold solves a whole split, setups included; tokens, cost and latency are told", async () => {
  const gold = await goldModel("v3_81:train");
  const { stub, flags, dir } = await endpoint(
    (response, seen) => void setTimeout(() => json(response, 200, completion(gold(seen))), 5),
  );
  const bench = ["bench", "--policy", "api:", "--split", "v3_81:train", "--repeat", "2", "--temperature", "0.1"];
  const prices = ["--prompt-price", "1", "--completion-price", "2"];
  const { code, stdout } = await run(...bench, ...prices, "--no-thinking", "--parallel", "16", ...flags);
  expect(code).toBe(0);
  const result = lastLine(stdout) as { api: Record<string, number> };
  expect(result).toMatchObject({
    policy: "api:stub-model",
    trials: 2,
    complete: true,
    pass_hat: { "1": 1, "2": 1 },
    api: { answered: stub.requests.length, gave_up: 0, retries: 0, prompt_tokens: stub.requests.length * 100 },
  });
  expect(result.api.cost).toBeCloseTo((stub.requests.length * (100 + 20)) / 1e6, 12);
  expect(JSON.parse(readFileSync(join(dir, "timing.json"), "utf8"))).toMatchObject({
    avg_policy_ms: expect.any(Number),
    sittings: [{ episodes: 102, api: { latency_ms: { p50: expect.any(Number), p95: expect.any(Number) } } }],
  });
  expect(JSON.parse(readFileSync(join(dir, "manifest.json"), "utf8"))).toMatchObject({
    status: "completed",
    details: { endpoint: `${stub.url}/chat/completions`, api: { answered: stub.requests.length } },
  });
  const log = logOf(dir);
  expect(log).toHaveLength(102);
  for (const { turns, tokens, metrics } of log) {
    expect(tokens.policy).toBe(turns.length * 10);
    expect(metrics).toMatchObject({ llm_calls: turns.length, llm_prompt_tokens: turns.length * 100, strict: true });
  }
  expect(stub.requests[0]!.body).toMatchObject({
    model: "stub-model",
    max_tokens: 256,
    temperature: 0.1,
    stop: ["\nObservation:"],
    chat_template_kwargs: { enable_thinking: false },
  });
  expect(stub.most_in_flight()).toBeGreaterThan(1);
});

describe("tools that go through the chat template", () => {
  const file = join(root, "src/fixtures/sums-env.ts");

  /** Each server's way of telling of a call: taken out of the text, or left in it. */
  const parsed = (a: number) => ({
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "c1", type: "function", function: { name: "add", arguments: JSON.stringify({ a, b: 1 }) } },
          ],
        },
        finish_reason: "tool_calls",
      },
    ],
    usage: { prompt_tokens: 100, completion_tokens: 10 },
  });
  const plain = (a: number) =>
    completion(`<tool_call>\n{"name": "add", "arguments": {"a": ${a}, "b": 1}}\n</tool_call>`);

  test.each([
    ["a server that parses calls", parsed],
    ["a server that does not", plain],
  ])("%s: the environment reads one format", async (_, called) => {
    const { stub, flags, dir } = await endpoint((response, { body }) => {
      const a = Number(/What is (\d)/.exec(body.messages[1]!.content)![1]);
      json(response, 200, body.messages.length === 2 ? called(a) : completion("Done."));
    });
    expect((await run("rollout", "--policy", "api:", "--env", file, ...flags)).code).toBe(0);
    const log = logOf(dir);
    expect(log.map(({ success, turns }) => [success, turns.length])).toEqual(Array(4).fill([true, 2]));
    const [first, second] = stub.requests.filter(({ body }) => body.messages[1]!.content === "What is 1 + 1?");
    expect(first!.body.tools).toMatchObject([
      { type: "function", function: { name: "add", parameters: { type: "object", required: ["a", "b"] } } },
    ]);
    expect(second!.body.tools).toEqual(first!.body.tools);
    expect(second!.body.messages.slice(2)).toEqual([
      { role: "assistant", content: expect.stringMatching(/^<tool_call>\n{"name": "add", .*}\n<\/tool_call>$/) },
      { role: "user", content: "<tool_response>\n2\n</tool_response>" },
    ]);
  });

  test("are not sent where the environment's messages tell of them", async () => {
    const { stub, flags } = await endpoint((response) => json(response, 200, completion("No.")));
    const untold = ["--env-options", '{"template": false}'];
    expect((await run("rollout", "--policy", "api:", "--env", file, ...untold, ...flags)).code).toBe(0);
    expect(stub.requests[0]!.body).not.toHaveProperty("tools");
  });
});

describe("rollout", () => {
  test("plays one task, or several, with the model that is named", async () => {
    const gold = await goldModel("v3_81:train");
    const { stub, flags, dir } = await endpoint((response, seen) => json(response, 200, completion(gold(seen))));
    const ids = (await envs.arxiv!.load("v3_81:train")).ids.slice(3, 5);
    const some = ["rollout", "--policy", "api:org/other", "--split", "v3_81:train", "--task-ids", ids.join(",")];
    const { code, stdout } = await run(...some, "--stop", "", "--extra-body", '{"seed": null, "top_a": 1}', ...flags);
    expect([code, lastLine(stdout)]).toEqual([0, expect.objectContaining({ episodes: 2 })]);
    expect(Object.keys(stub.requests[0]!.body).sort()).toEqual([
      "max_tokens",
      "messages",
      "model",
      "temperature",
      "top_a",
    ]);
    expect(
      logOf(dir)
        .map(({ task_id }) => task_id)
        .sort(),
    ).toEqual([...ids].sort());
    expect(new Set(stub.requests.map(({ body }) => body.model))).toEqual(new Set(["org/other"]));
  });

  const FINISH = "Thought: done\nAction: FINISH";
  const COMMAS = 'Thought: a\nAction: {"name": "search_arxiv_papers", "args": {"query": "x", "max_results": 3,},}';

  /** What came of one bad answer, again and again, beside healthy ones. */
  test.each<[string, Answer, Partial<Trajectory> | RegExp]>([
    ["429", (response) => json(response, 429, {}), /429/],
    ["500", (response) => json(response, 500, {}), /500/],
    ["cut answers", (response) => cutShort(response, completion(FINISH)), /cut off/],
    [
      "cut streams",
      (response) => void response.writeHead(200).write('data: {"choi', () => response.destroy()),
      /cut off/,
    ],
    ["dropped connections", (response) => void response.destroy(), /connection failed/],
    ["an HTML page", (response) => void response.end("<html>Sorry</html>"), /no JSON object: Sorry/],
    ["invalid JSON", (response) => void response.end('{"choices": ['), /no JSON object/],
    ["empty choices", (response) => json(response, 200, { choices: [] }), /no choices/],
    ["a huge answer", (response) => json(response, 200, completion("x".repeat(5 * 2 ** 20))), /larger than/],
    ["null content", (response) => json(response, 200, completion(null)), { ended_by: "terminated", success: false }],
    [
      "long answers",
      (response) => json(response, 200, completion(`${COMMAS} ${"x".repeat(2 ** 17)}`)),
      { ended_by: "truncated", ended_why: "turns" },
    ],
    [
      "trailing commas in the call's JSON",
      (response) => json(response, 200, completion(COMMAS)),
      { ended_by: "truncated", ended_why: "turns" },
    ],
  ])("%s: every rollout ends defined, and what the endpoint did is no 0", async (_, bad, expected) => {
    const { flags, dir } = await endpoint((response, seen, index) =>
      index === 0 ? json(response, 200, completion(FINISH)) : bad(response, seen, index),
    );
    const tasks = ["rollout", "--policy", "api:", "--split", "dev", "--max-retries", "0"];
    const { code, stdout } = await run(...tasks, ...flags);
    expect(code).toBe(0);
    const log = logOf(dir);
    const dev = await envs.arxiv!.load("dev");
    expect(log.map(({ task_id }) => task_id).sort()).toEqual([...dev.ids].sort());
    const isHealthy = ({ turns }: Trajectory) => turns[0]?.reply === FINISH;
    const others = log.filter((trajectory) => !isHealthy(trajectory));
    expect(log.find(isHealthy)).toMatchObject({ ended_by: "terminated", reward: expect.any(Number) });
    expect(others).toHaveLength(log.length - 1);
    for (const trajectory of others) {
      if (!(expected instanceof RegExp)) expect(trajectory).toMatchObject({ ...expected, reward: expect.any(Number) });
      else
        expect(trajectory).toMatchObject({
          ended_by: "error",
          ended_why: expect.stringMatching(expected),
          reward: null,
        });
    }
    const gave_up = expected instanceof RegExp ? others.length : 0;
    expect(lastLine(stdout)).toMatchObject({ api: { gave_up } });
  });

  test("an endpoint that is down throughout: all invalid, counted, and no rate is made of them", async () => {
    const { flags, dir } = await endpoint((response) => json(response, 503, {}));
    const { code, stdout } = await run(
      "bench",
      "--policy",
      "api:",
      "--split",
      "dev",
      "--repeat",
      "1",
      "--max-retries",
      "0",
      ...flags,
    );
    expect(code).toBe(1);
    expect(lastLine(stdout)).toMatchObject({
      episodes: 0,
      invalid: 8,
      complete: false,
      pass_hat: { "1": null },
      mean_reward: null,
    });
    expect(logOf(dir).every(({ reward }) => reward === null)).toBe(true);
  });
});

test.each<[string, Answer, RegExp]>([
  [
    "a wrong key",
    (response) => json(response, 401, { error: { message: `Incorrect API key: ${KEY}` } }),
    /401: Incorrect API key: \[LLM_API_KEY\]. Check LLM_API_KEY/,
  ],
  [
    "a wrong model",
    (response) => json(response, 404, { error: { message: "no such model" } }),
    /404: no such model. Check the model 'stub-model'/,
  ],
])("%s stops the run at once: one request, one sentence, exit 2", async (_, answer, message) => {
  const { stub, flags, dir } = await endpoint(answer);
  const { code, stdout, stderr } = await run("bench", "--policy", "api:", "--split", "iid_test", ...flags);
  expect([code, stdout, stub.requests.length]).toEqual([2, "", 1]);
  expect(stderr.match(message)).toHaveLength(1);
  expect(stderr).not.toMatch(/\n {4}at /);
  expect(JSON.parse(readFileSync(join(dir, "manifest.json"), "utf8"))).toMatchObject({
    status: "failed",
    details: { error: expect.stringMatching(message) },
  });
  for (const { reward, ended_by } of logOf(dir)) expect([reward, ended_by]).toEqual([null, "error"]);
  expect(stdout + stderr + everyFile(dir)).not.toContain(KEY);
});

test("the key is in nothing that a run writes, even where the endpoint sends it back", async () => {
  const { flags, dir } = await endpoint((response, { authorization }, index) =>
    index % 3 === 0
      ? json(response, 500, { error: { message: `debug: ${authorization}` } })
      : json(response, 200, completion(`Thought: ${authorization}\nAction: FINISH`)),
  );
  const { stdout, stderr } = await run("bench", "--policy", "api:", "--split", "dev", "--max-retries", "0", ...flags);
  const written = stdout + stderr + everyFile(dir);
  expect(written).not.toContain(KEY);
  expect(written).toContain("debug: Bearer [LLM_API_KEY]");
  expect(written).toContain("Thought: Bearer [LLM_API_KEY]");
});

describe("refused before a request", () => {
  test.each<[string, string[], RegExp]>([
    [
      "a local model's key",
      ["--policy", "api:m", "--batch-size", "4"],
      /batch_size is set, but the policy 'api:m' is not a local model/,
    ],
    [
      "an API's key for gold",
      ["--policy", "gold", "--parallel", "4"],
      /parallel is set, but the policy 'gold' is not a model/,
    ],
    [
      "an API's key for a local model",
      ["--policy", "model:models/tiny", "--max-retries", "4"],
      /max_retries is set, but .* is not behind an API/,
    ],
    ["one price", ["--policy", "api:m", "--prompt-price", "1"], /completion_price is missing/],
    [
      "a request's own key",
      ["--policy", "api:m", "--extra-body", '{"messages": []}'],
      /extra_body has the key 'messages'/,
    ],
    [
      "the key in the config",
      ["--policy", "api:m", "--extra-body", `{"key": "${KEY}"}`],
      /LLM_API_KEY stands in the command or the config/,
    ],
    ["the key as the model", ["--policy", `api:${KEY}`], /LLM_API_KEY stands in the command or the config/],
    ["too few turns", ["--policy", "api:m", "--max-turns", "1"], /max_turns is 1, but/],
    [
      "a file that is not there",
      ["--policy", "api:m", "--dotenv", "nowhere.env"],
      /nowhere.env: there is no such file/,
    ],
  ])("%s", async (_, argv, message) => {
    const { stub, flags } = await endpoint((response) => json(response, 200, completion("x")));
    const to = argv[1]!.startsWith("api:") ? flags : ["--runs-dir", runs];
    const { code, stdout, stderr } = await run("bench", ...to, ...argv);
    expect(stderr).toMatch(message);
    expect([code, stdout, stub.requests.length]).toEqual([2, "", 0]);
    expect(stderr).not.toContain(KEY);
  });

  test("--dry-run asks nobody, and shows the model but not the key", async () => {
    const { stub, flags } = await endpoint((response) => json(response, 200, completion("x")));
    const { code, stdout } = await run("bench", "--policy", "api:", "--dry-run", ...flags);
    expect([code, stub.requests.length]).toEqual([0, 0]);
    expect(lastLine(stdout)).toMatchObject({ config: { policy: "api:stub-model" } });
    expect(stdout).not.toContain(KEY);
  });
});

/** The command in a process of its own. */
function start(...argv: string[]): { child: ChildProcess; ended: Promise<{ code: number | null; stderr: string }> } {
  const child = spawn(process.execPath, ["--import", "tsx", "src/cli.ts", ...argv], { cwd: root, stdio: "pipe" });
  let stderr = "";
  child.stderr!.on("data", (text) => {
    stderr += text;
  });
  return {
    child,
    ended: new Promise((resolve) => child.once("close", (code) => resolve({ code, stderr }))),
  };
}

const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 20));
};

describe("Ctrl-C", { timeout: 60_000 }, () => {
  const slowly: Answer = (response, _, index) =>
    void setTimeout(
      () =>
        json(
          response,
          200,
          completion('Thought: a\nAction: {"name": "get_paper_cache_status", "args": {"ref": null}}'),
        ),
      index === 0 ? 0 : 150,
    );
  const argv = ["bench", "--policy", "api:", "--split", "iid_test", "--parallel", "4"];

  test("once: those under way are played to their end, no more begin", async () => {
    const { stub, flags, dir } = await endpoint(slowly);
    const { child, ended } = start(...argv, ...flags);
    await until(() => stub.requests.length >= 6);
    child.kill("SIGINT");
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/Stopped by SIGINT; .* \d+ of 54 episodes\./)]);
    const log = logOf(dir);
    expect(log.length).toBeGreaterThanOrEqual(4);
    expect(log.length).toBeLessThan(12);
    expect(log.every(({ reward }) => reward !== null)).toBe(true);
    expect(JSON.parse(readFileSync(join(dir, "manifest.json"), "utf8"))).toMatchObject({ status: "stopped" });
  });

  test("twice: they end where they are, as invalid, and every line is whole", async () => {
    const { stub, flags, dir } = await endpoint((response, seen, index) => {
      if (index < 6) slowly(response, seen, index); // then none answers any more
    });
    const { child, ended } = start(...argv, ...flags);
    await until(() => stub.requests.length >= 8);
    child.kill("SIGINT");
    await new Promise((resolve) => setTimeout(resolve, 1200));
    const begin = performance.now();
    child.kill("SIGINT");
    const { code } = await ended;
    expect(performance.now() - begin).toBeLessThan(5000);
    expect(code).toBe(1);
    const log = logOf(dir);
    expect(log.length).toBeGreaterThanOrEqual(4);
    expect(log.filter(({ reward }) => reward === null).map(({ ended_why }) => ended_why)).toEqual(
      Array(4).fill("policy: the run was stopped"),
    );
  });

  test("a kill -9 leaves whole lines only, and --resume asks for the other episodes alone", async () => {
    const { stub, flags, dir } = await endpoint(slowly);
    const { child, ended } = start(...argv, ...flags);
    await until(() => stub.requests.length >= 40);
    child.kill("SIGKILL");
    await ended;
    const played = logOf(dir);
    expect(played.length).toBeGreaterThan(0);

    const asked = stub.requests.length;
    const { code, stderr } = await run("bench", "--resume", "--policy", "api:", "--parallel", "48", ...flags);
    expect([code, stderr]).toEqual([0, expect.stringContaining(`${played.length} of 54 episodes are there`)]);
    const log = logOf(dir);
    expect(new Set(log.map(({ task_id, trial }) => `${task_id}/${trial}`)).size).toBe(54);
    expect(log).toEqual(expect.arrayContaining(played));
    expect(stub.requests.length - asked).toBe(
      log.reduce((sum, { turns }) => sum + turns.length, 0) - played.reduce((sum, { turns }) => sum + turns.length, 0),
    );
  });
});
