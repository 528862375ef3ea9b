import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import type { EnvSpec } from "../../../core/env.ts";
import { startEpisode } from "../../../core/episode.ts";
import { createRandom } from "../../../core/random.ts";
import { createClient } from "../../../llm/client.ts";
import {
  type Answer,
  completion,
  cutShort,
  json,
  type StubEndpoint,
  startEndpoint,
} from "../../../llm/fixtures/endpoint.ts";
import { createCache } from "./cache.ts";
import { type ChatOptions, type ChatState, type ChatStrategy, chatUser } from "./chat.ts";
import { GREETING, SILENCE } from "./chat-prompts.ts";
import { createUserSimulator, readUserEndpoint, userOptions } from "./options.ts";
import { STOP_TOKEN, type UserSimulator, type UserTask } from "./types.ts";

const task: UserTask = { id: "t1", instruction: "You are Mia Li. Cancel trip ABC123." };
const context = { draw: 0, signal: new AbortController().signal };
const noWrites = { writes: [] };
const KEY = "sk-test-0123456789abcdef";

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const item of open.splice(0)) await item.close();
});

/** A simulator before a real HTTP server; without the real waits between tries. */
async function userBefore(
  answer: Answer,
  strategy: ChatStrategy = "llm",
  changes: Partial<ChatOptions> & { answer_timeout_ms?: number } = {},
): Promise<{ user: UserSimulator<ChatState>; stub: StubEndpoint }> {
  const stub = await startEndpoint(answer);
  const client = createClient({
    endpoint: { url: new URL(`${stub.url}/chat/completions`), api_key: KEY, model: "m" },
    in_flight: 8,
    requests_per_minute: null,
    tokens_per_minute: null,
    connect_timeout_ms: 5000,
    answer_timeout_ms: changes.answer_timeout_ms ?? 20_000,
    max_retries: 2,
    prices: null,
    random: createRandom(1),
    backoff: () => 1,
  });
  const user = chatUser({
    client,
    cache: createCache("off", "nowhere"),
    strategy,
    model: "m",
    base_url: stub.url,
    sampling: {},
    prices: { prompt: 1, completion: 10 },
    wait_for_completion: true,
    ...changes,
  });
  open.push(stub, user);
  return { user, stub };
}

/** Answers in order; the last one for good. */
const inOrder =
  (...texts: unknown[]): Answer =>
  (response, _, index) =>
    json(response, 200, completion(texts[Math.min(index, texts.length - 1)]));

const roles = (stub: StubEndpoint, index: number) => stub.requests[index]!.body.messages.map(({ role }) => role);

describe("llm", () => {
  test("what is sent: nothing but role and content, no sampling, no call before the first turn", async () => {
    const { user, stub } = await userBefore(inOrder("I want to cancel.", "Yes."));
    expect(stub.requests).toHaveLength(0);
    const opened = await user.reset(task, context);
    expect(opened.text).toBe("I want to cancel.");
    const next = await user.step(task, opened.state, "Shall I cancel it?", noWrites, context);
    expect(next.text).toBe("Yes.");
    const { body } = stub.requests[1]!;
    expect(Object.keys(body).sort()).toEqual(["messages", "model"]);
    expect(body.messages.slice(1)).toEqual([
      { role: "user", content: GREETING },
      { role: "assistant", content: "I want to cancel." },
      { role: "user", content: "Shall I cancel it?" },
    ]);
    for (const message of body.messages) expect(Object.keys(message).sort()).toEqual(["content", "role"]);
    expect(body.messages[0]!.content).toContain(task.instruction);
    expect(user.cost(next.state)).toBeCloseTo((2 * 100 * 1 + 2 * 10 * 10) / 1e6, 12);
    expect(next.state.spent).toMatchObject({ calls: 2, cached: 0, prompt_tokens: 200, completion_tokens: 20 });
  });

  test("the state that went in is as it was: two dialogues go on from one", async () => {
    const { user } = await userBefore(inOrder("Hi.", "One.", "Two."));
    const { state } = await user.reset(task, context);
    const before = JSON.stringify(state);
    const one = await user.step(task, state, "a", noWrites, context);
    const two = await user.step(task, state, "b", noWrites, context);
    expect(JSON.stringify(state)).toBe(before);
    expect([one.state.messages.at(-1)!.content, two.state.messages.at(-1)!.content]).toEqual(["One.", "Two."]);
    expect(two.state.messages).not.toContainEqual({ role: "user", content: "a" });
  });

  test("thinking reaches neither side, and a stop token in it does not count (TB-08)", async () => {
    const { user, stub } = await userBefore(
      inOrder(`<think>Maybe ${STOP_TOKEN}?</think>\nHello`, `${STOP_TOKEN} maybe</think>Yes`),
    );
    const opened = await user.reset(task, context);
    expect(opened.text).toBe("Hello");
    const next = await user.step(task, opened.state, "<think>maybe ###STOP###</think>Hello", noWrites, context);
    expect(next.text).toBe("Yes");
    expect(stub.requests[1]!.body.messages.slice(2).map(({ content }) => content)).toEqual(["Hello", "Hello"]);
  });

  test("an agent's message without a text is sent as a note on that", async () => {
    const { user, stub } = await userBefore(inOrder("Hi."));
    const { state } = await user.reset(task, context);
    await user.step(task, state, "<think>hm", noWrites, context);
    expect(stub.requests[1]!.body.messages.at(-1)).toEqual({ role: "user", content: SILENCE });
  });

  test("an empty answer, or nothing but thinking, is asked for again; three of them end the rollout", async () => {
    const { user, stub } = await userBefore(inOrder("", "<think>hm</think> ", "Hi."));
    expect((await user.reset(task, context)).text).toBe("Hi.");
    expect(stub.requests).toHaveLength(3);
    const { user: silent, stub: mute } = await userBefore(inOrder(null));
    await expect(silent.reset(task, context)).rejects.toMatchObject({
      name: "UserSimulatorError",
      message: "user_simulator: m gave no answer that can be used (3 tries)",
    });
    expect(mute.requests).toHaveLength(3);
  });

  test("sampling and the rule to wait are what the options say", async () => {
    const { user, stub } = await userBefore(inOrder("x"), "llm", { sampling: { temperature: 0.3 } });
    await user.reset(task, context);
    expect(stub.requests[0]!.body.temperature).toBe(0.3);
    expect(stub.requests[0]!.body.messages[0]!.content).toContain("A yes is not the end");
    const { user: hasty, stub: other } = await userBefore(inOrder("x"), "llm", { wait_for_completion: false });
    await hasty.reset(task, context);
    expect(other.requests[0]!.body.messages[0]!.content).not.toContain("A yes is not the end");
  });

  test.each<[string, string, boolean, string]>([
    [`Yes, go ahead. ${STOP_TOKEN}`, "Do you confirm?", true, "Yes, go ahead."],
    [`Yes, go ahead. ${STOP_TOKEN}`, "Do you confirm?", false, `Yes, go ahead. ${STOP_TOKEN}`],
    [`Thanks, that is all. ${STOP_TOKEN}`, "It is done.", true, `Thanks, that is all. ${STOP_TOKEN}`],
    [`Yes, that is all. ${STOP_TOKEN}`, "It is done. Is there more?", true, `Yes, that is all. ${STOP_TOKEN}`],
    [STOP_TOKEN, "Shall I proceed?", true, STOP_TOKEN],
  ])("a stop token with a yes: %j to %j, waiting %j", async (said, agent, wait_for_completion, text) => {
    const { user } = await userBefore(inOrder("Hi.", said), "llm", { wait_for_completion });
    const { state } = await user.reset(task, context);
    const next = await user.step(task, state, agent, noWrites, context);
    expect(next.text).toBe(text);
    expect(next.state.messages.at(-1)!.content).toBe(text);
  });
});

describe("react", () => {
  test.each([
    ["Thought: he asks.\nUser Response: I am Mia.", "I am Mia."],
    ["User Response: no.\nThought: hm.\nUser Response:  Yes, please. ", "Yes, please."],
    [`Thought: all done, ${STOP_TOKEN}.\nUser Response: Thanks.`, STOP_TOKEN],
    [`Thought: done.\nUser Response: ${STOP_TOKEN}`, STOP_TOKEN],
    [`<think>${STOP_TOKEN}</think>Thought: x\nUser Response: Go on.`, "Go on."],
  ])("%j is said as %j", async (raw, said) => {
    const { user } = await userBefore(inOrder(raw), "react");
    expect((await user.reset(task, context)).text).toBe(said);
  });
  test("a text without a response is no answer: no thought leaks", async () => {
    const { user } = await userBefore(
      inOrder("Thought: I should say my id.", "Just so.", "Thought: x\nUser Response: Good."),
      "react",
    );
    expect((await user.reset(task, context)).text).toBe("Good.");
    const { user: lost } = await userBefore(inOrder("I am Mia."), "react");
    await expect(lost.reset(task, context)).rejects.toThrow(/^user_simulator: m gave no answer/);
  });
  test("a yes that comes with a stop token stays a yes while the agent has not acted", async () => {
    const { user } = await userBefore(
      inOrder("Thought: a\nUser Response: Hi.", `Thought: fine.\nUser Response: Yes. ${STOP_TOKEN}`),
      "react",
    );
    const { state } = await user.reset(task, context);
    expect((await user.step(task, state, "Shall I proceed?", noWrites, context)).text).toBe("Yes.");
  });
});

describe("verify", () => {
  test("a candidate is judged; the accepted one is said and kept", async () => {
    const { user, stub } = await userBefore(inOrder("I am Bob.", "Wrong name.\nfalse", "I am Mia.", "TRUE"), "verify");
    const { text, state } = await user.reset(task, context);
    expect(text).toBe("I am Mia.");
    expect(state.messages.at(-1)).toEqual({ role: "assistant", content: "I am Mia." });
    expect(stub.requests).toHaveLength(4);
    expect(stub.requests[2]!.body.messages).toEqual(stub.requests[0]!.body.messages);
    expect(stub.requests[3]!.body.messages[1]!.content).toMatch(/Cancel trip ABC123.*Agent: .*I am Mia\./s);
  });
  test("the third is said though nobody accepts it, and is not kept; what follows is merged into one message", async () => {
    const { user, stub } = await userBefore(inOrder("1", "no", "2", "no", "3", "no", "4", "true"), "verify");
    const { text, state } = await user.reset(task, context);
    expect(text).toBe("3");
    expect(state.messages.map(({ role }) => role)).toEqual(["system", "user"]);
    await user.step(task, state, "Who?", noWrites, context);
    expect(roles(stub, 6)).toEqual(["system", "user"]);
    expect(stub.requests[6]!.body.messages[1]!.content).toBe(`${GREETING}\nWho?`);
  });
});

describe("reflection", () => {
  test("a rejected answer is reflected on, and the new one judged", async () => {
    const { user, stub } = await userBefore(
      inOrder("I am Bob.", "false", "Reflection: wrong.\nResponse: I am Mia.", "true"),
      "reflection",
    );
    expect((await user.reset(task, context)).text).toBe("I am Mia.");
    expect(stub.requests).toHaveLength(4);
  });
  test("after two attempts the first answer is said", async () => {
    const { user, stub } = await userBefore(inOrder("One.", "false", "Response: Two.", "false"), "reflection");
    const { text, state } = await user.reset(task, context);
    expect([text, state.messages.at(-1)!.content]).toEqual(["One.", "One."]);
    expect(stub.requests).toHaveLength(4);
  });
});

describe("an endpoint that fails", () => {
  const failures: [string, Answer][] = [
    ["429", (response) => json(response, 429, { error: { message: "slow" } })],
    ["500", (response) => json(response, 500, {})],
    ["a cut body", (response) => cutShort(response, completion("x"))],
    ["no JSON", (response) => void response.end("<html>")],
  ];
  test.each(failures)("%s: twice is lived through, thrice ends the rollout", async (_, bad) => {
    const { user } = await userBefore((...args) => (args[2] < 2 ? bad : inOrder("Hi."))(...args));
    expect((await user.reset(task, context)).text).toBe("Hi.");
    const { user: lost, stub } = await userBefore(bad);
    await expect(lost.reset(task, context)).rejects.toMatchObject({
      name: "UserSimulatorError",
      message: expect.stringMatching(/^user_simulator: .*\(3 tries\)$/),
    });
    expect(stub.requests).toHaveLength(3);
  });
  test("no answer in time", async () => {
    const { user, stub } = await userBefore(() => {}, "llm", { answer_timeout_ms: 150 });
    await expect(user.reset(task, context)).rejects.toThrow(
      /^user_simulator: no whole answer within 150 ms \(3 tries\)$/,
    );
    expect(stub.requests).toHaveLength(3);
  });
  test("a 429 storm: of twelve users each is answered in the end, or fails by itself", async () => {
    const { user } = await userBefore((response, _, index) =>
      index % 3 === 0 ? json(response, 200, completion("Hi.")) : json(response, 429, {}, { "retry-after-ms": "1" }),
    );
    const results = await Promise.allSettled(
      Array.from({ length: 12 }, (_, draw) => user.reset(task, { ...context, draw })),
    );
    expect(results.some(({ status }) => status === "fulfilled")).toBe(true);
    for (const result of results)
      if (result.status === "rejected") expect(result.reason).toMatchObject({ name: "UserSimulatorError" });
  });
  test("a wrong key is named, and not shown", async () => {
    const { user } = await userBefore((response) => json(response, 401, { error: { message: `bad key ${KEY}` } }));
    const failure = await user.reset(task, context).catch((error: Error) => error);
    expect(failure).toMatchObject({
      name: "UserSimulatorError",
      message: expect.stringContaining("Check LLM_API_KEY"),
    });
    expect((failure as Error).message).not.toContain(KEY);
  });
  test("the episode ends by error, without a reward: never a zero", async () => {
    const { user } = await userBefore((response) => json(response, 503, {}));
    const spec: EnvSpec<UserTask, null, object> = {
      id: "fake@1",
      summary: "",
      options: z.strictObject({}),
      max_turns: 3,
      tools: [],
      components: [{ name: "outcome", range: [0, 1] }],
      splits: ["all"],
      load: () => ({ tasks: [task], sources: {} }),
      async reset(of, { trial, signal }) {
        const { text } = await user.reset(of, { draw: trial, signal });
        return { state: null, messages: [{ role: "user", content: text }] };
      },
      step: () => ({
        state: null,
        thought: "",
        action: null,
        outcome: { kind: "ok", text: "" },
        observations: [],
        terminated: true,
      }),
      score: () => ({ reward: 0, parts: { outcome: 0 }, metrics: {}, success: false }),
      policies: { gold: () => ["x"] },
    };
    const episode = await startEpisode(spec, task, {}, { seed: 1 });
    expect(await episode.finish()).toMatchObject({
      ended_by: "error",
      ended_why: expect.stringMatching(/^reset: user_simulator: the endpoint answered 503/),
      reward: null,
    });
  });
  test("the episode's end ends the call", async () => {
    const { user } = await userBefore(() => {});
    const abort = new AbortController();
    const asked = user.reset(task, { draw: 0, signal: abort.signal });
    setTimeout(() => abort.abort(), 20);
    await expect(asked).rejects.toThrow(/stopped/);
  });
});

describe("with a cache", () => {
  const folder = () => {
    const path = mkdtempSync(join(tmpdir(), "usercache-"));
    open.push({ close: () => rmSync(path, { recursive: true, force: true }) });
    return path;
  };
  test("a second run asks nobody and says the same, at no cost; another draw asks anew", async () => {
    const cache = createCache("readwrite", folder());
    const { user, stub } = await userBefore(
      (response, _, index) => json(response, 200, completion(`no. ${index}`)),
      "llm",
      { cache },
    );
    const play = async (draw: number) => {
      const { state, text } = await user.reset(task, { ...context, draw });
      const next = await user.step(task, state, "And?", noWrites, { ...context, draw });
      return { texts: [text, next.text], spent: next.state.spent };
    };
    const first = await play(0);
    const again = await play(0);
    expect(again.texts).toEqual(first.texts);
    expect(again.spent).toEqual({ calls: 0, cached: 2, prompt_tokens: 0, completion_tokens: 0, cost: 0 });
    expect((await play(1)).texts).not.toEqual(first.texts);
    expect(stub.requests).toHaveLength(4);
  });
  test("replay asks nobody: what is not there ends the rollout, and no empty answer was kept", async () => {
    const path = folder();
    const { user, stub } = await userBefore(inOrder("", "Hi."), "llm", {
      cache: createCache("readwrite", path),
      base_url: "u",
    });
    const { state } = await user.reset(task, context);
    const { user: replay } = await userBefore(inOrder("never"), "llm", {
      cache: createCache("replay", path),
      base_url: "u",
    });
    expect((await replay.reset(task, context)).text).toBe("Hi.");
    await expect(replay.step(task, state, "And?", noWrites, context)).rejects.toThrow(
      /^user_simulator: the cache .* has no answer for draw 0 of m/,
    );
    expect(stub.requests).toHaveLength(2);
  });
  test("a strategy that asks the same again keeps each answer apart", async () => {
    const path = folder();
    const texts = ["1", "no", "2", "no", "3", "true"];
    const { user } = await userBefore(inOrder(...texts), "verify", {
      cache: createCache("readwrite", path),
      base_url: "u",
    });
    expect((await user.reset(task, context)).text).toBe("3");
    const { user: replay } = await userBefore(inOrder("never"), "verify", {
      cache: createCache("replay", path),
      base_url: "u",
    });
    expect((await replay.reset(task, context)).text).toBe("3");
  });
});

describe("options", () => {
  const env = { USER_BASE_URL: "http://127.0.0.1:8001/v1", USER_MODEL: "big", USER_API_KEY: "k-user" };
  const dotenv = "/nowhere/.env";
  const read = (given: NodeJS.ProcessEnv, options = {}) => readUserEndpoint(userOptions.parse(options), given);
  test("the user's own endpoint, or the policy's with the user's model; never one's key for the other", () => {
    expect(read(env)).toMatchObject({ model: "big", api_key: "k-user" });
    expect(read({ ...env, LLM_API_KEY: "k-policy", USER_API_KEY: "" }).api_key).toBe("");
    const shared = {
      LLM_BASE_URL: "http://127.0.0.1:8000/v1",
      LLM_API_KEY: "k-policy",
      USER_API_KEY: "k-user",
      MODEL: "small",
    };
    expect(read(shared, { model: "big" })).toMatchObject({ model: "big", api_key: "k-policy" });
    expect(read(shared, { model: "big" }).url.port).toBe("8000");
    expect(() => read(shared)).toThrow("USER_MODEL is not set.");
    expect(() => read({})).toThrow(/^USER_BASE_URL is not set/);
    expect(() => read(env, { dotenv })).toThrow(/there is no such file/);
  });
  test("a user model of its own: three tries, 1 s and 2 s apart; its own variables in messages", async () => {
    const stub = await startEndpoint((response, { authorization }) =>
      authorization === "Bearer k-user" ? json(response, 500, {}) : json(response, 401, {}),
    );
    const make = (key: string) =>
      createUserSimulator(userOptions.parse({ strategy: "llm" }), {
        env: { ...env, USER_BASE_URL: stub.url, USER_API_KEY: key },
      });
    const users = [make("k-user"), make("k-wrong")];
    open.push(stub, ...users);
    const begin = performance.now();
    await expect(users[0]!.reset(task, context)).rejects.toThrow(
      /^user_simulator: the endpoint answered 500.*\(3 tries\)$/,
    );
    expect(performance.now() - begin).toBeGreaterThan(2990);
    expect(stub.requests).toHaveLength(3);
    await expect(users[1]!.reset(task, context)).rejects.toThrow(/Check USER_API_KEY/);
  }, 60_000);
  test("what contradicts itself is refused before anything is asked", () => {
    const make = (options: object) => () =>
      createUserSimulator(userOptions.parse({ strategy: "llm", ...options }), { env });
    expect(make({ sampling: { messages: [] } })).toThrow("The user's sampling holds 'messages'");
    expect(make({ prompt_price: 1 })).toThrow(/only one is set/);
    expect(() => userOptions.parse({ strategy: "gpt" })).toThrow();
    expect(createUserSimulator(userOptions.parse({})).strategy).toBe("scripted");
    const user = make({})();
    expect(user.strategy).toBe("llm");
    user.close();
  });
});
