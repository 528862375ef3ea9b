import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { createRandom } from "../core/random.ts";
import { quantile } from "./account.ts";
import { backoff_ms, type ClientOptions, createClient, type LlmClient } from "./client.ts";
import { type Answer, completion, cutShort, json, type StubEndpoint, startEndpoint } from "./fixtures/endpoint.ts";

const KEY = "sk-test-0123456789abcdef";
const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const item of open.splice(0)) await item.close();
});

function clientOf(url: string, options: Partial<ClientOptions> = {}, api_key = KEY): LlmClient {
  const client = createClient({
    endpoint: { url: new URL(`${url}/chat/completions`), api_key, model: "m" },
    in_flight: 8,
    requests_per_minute: null,
    tokens_per_minute: null,
    connect_timeout_ms: 2000,
    answer_timeout_ms: 2000,
    max_retries: 1,
    prices: null,
    random: createRandom(1),
    ...options,
  });
  open.push(client);
  return client;
}

async function pair(
  answer: Answer,
  options?: Partial<ClientOptions>,
): Promise<{ stub: StubEndpoint; client: LlmClient }> {
  const stub = await startEndpoint(answer);
  open.push(stub);
  return { stub, client: clientOf(stub.url, options) };
}

const ask = { messages: [{ role: "user", content: "Hi" }], temperature: 0 };

test("an answer, what was sent for it, and what it took", async () => {
  const { stub, client } = await pair((response) => json(response, 200, completion("Hello")), {
    prices: { prompt: 2, completion: 10 },
  });
  expect(await client.chat(ask)).toMatchObject({ text: "Hello", retries: 0, latency_ms: expect.any(Number) });
  expect(stub.requests[0]).toMatchObject({
    path: "/v1/chat/completions",
    authorization: `Bearer ${KEY}`,
    body: { model: "m", ...ask },
  });
  expect(client.account()).toMatchObject({
    answered: 1,
    prompt_tokens: 100,
    completion_tokens: 10,
    cost: 3e-4,
    latency_ms: { p50: expect.any(Number), p95: expect.any(Number) },
  });
});

test("without a key no authorization is sent", async () => {
  const { stub } = await pair((response) => json(response, 200, completion("x")));
  await clientOf(stub.url, {}, "").chat(ask);
  expect(stub.requests[0]!.authorization).toBeUndefined();
});

describe("what may pass is tried again", () => {
  test.each<[string, Answer, string]>([
    ["429", (response) => json(response, 429, { error: { message: "slow" } }), "rate_limited"],
    ["500", (response) => json(response, 500, {}), "server_error"],
    ["an HTML page", (response) => void response.end("<html>Oops</html>"), "not_json"],
    ["a cut answer", (response) => cutShort(response, completion("x")), "cut"],
    ["a cut stream", (response) => void response.writeHead(200).write('data: {"cho', () => response.destroy()), "cut"],
    ["a connection dropped at once", (response) => void response.destroy(), "connection"],
    [
      "a body shorter than it said",
      (response) => {
        response.writeHead(200, { "content-length": 1000 });
        response.write("{}", () => response.socket!.end());
      },
      "cut",
    ],
    ["empty choices", (response) => json(response, 200, { choices: [] }), "no_answer"],
    ["no answer in time", () => {}, "timeout"],
    [
      "an answer that drips",
      (response) => {
        response.writeHead(200);
        const drip = setInterval(() => response.write(" "), 50);
        response.on("close", () => clearInterval(drip));
      },
      "timeout",
    ],
  ])("%s", async (_, bad, kind) => {
    const good: Answer = (response) => json(response, 200, completion("at last"));
    const limits = { answer_timeout_ms: kind === "timeout" ? 300 : 5000 };
    const { client } = await pair((...args) => (args[2] === 0 ? bad : good)(...args), limits);
    expect(await client.chat(ask)).toMatchObject({ text: "at last", retries: 1 });
    expect(client.account()).toMatchObject({ answered: 1, gave_up: 0, retries: 1, failures: { [kind]: 1 } });

    const { client: hopeless, stub } = await pair(bad, { ...limits, max_retries: 1 });
    await expect(hopeless.chat(ask)).rejects.toMatchObject({ kind, message: expect.stringMatching(/\(2 tries\)$/) });
    expect(stub.requests).toHaveLength(2);
    expect(hopeless.account()).toMatchObject({ answered: 0, gave_up: 1, failures: { [kind]: 2 } });
  });
});

test("a server that takes the connection and never greets", async () => {
  const server = createServer(() => {}).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  open.push(server);
  const { port } = server.address() as AddressInfo;
  const client = clientOf(`https://127.0.0.1:${port}/v1`, { connect_timeout_ms: 200, max_retries: 0 });
  await expect(client.chat(ask)).rejects.toMatchObject({ kind: "timeout", message: "no connection within 200 ms" });
});

test("Retry-After is waited for, by all who ask (AX-03)", async () => {
  const { stub, client } = await pair((response, _, index) =>
    index === 1
      ? json(response, 429, {}, { "retry-after": "1" })
      : void setTimeout(() => json(response, 200, completion("x")), 100),
  );
  await client.chat(ask);
  const limited = client.chat(ask);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await Promise.all([limited, client.chat(ask)]);
  const [, told, ...after] = stub.requests.map(({ at_ms }) => at_ms);
  expect(after.map((at) => at - told!).every((wait) => wait >= 1000)).toBe(true);
});

test("an endpoint that asks for an hour gets no second try", async () => {
  const { stub, client } = await pair((response) => json(response, 429, {}, { "retry-after": "3600" }));
  await expect(client.chat(ask)).rejects.toThrow(/asks to wait 3600 s, more than 300 s/);
  expect(stub.requests).toHaveLength(1);
});

test("back-off doubles up to 30 s, half of it by chance, and is never shorter than asked for", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 60 }),
      fc.option(fc.integer({ min: 0, max: 300_000 })),
      fc.integer(),
      (retry, wish, seed) => {
        const wait = backoff_ms(retry, wish, createRandom(seed));
        const step = Math.min(30_000, 500 * 2 ** (retry - 1));
        expect(wait).toBeGreaterThanOrEqual(Math.max(step / 2, wish ?? 0));
        expect(wait).toBeLessThanOrEqual(Math.max(step, (wish ?? 0) + 500));
      },
    ),
  );
});

describe("what will not pass is told at once", () => {
  test.each<[string, Answer, RegExp]>([
    [
      "wrong key",
      (response) => json(response, 401, { error: { message: "Incorrect API key provided" } }),
      /refuses every call: the endpoint answered 401: Incorrect.* Check LLM_API_KEY\./,
    ],
    [
      "wrong model",
      (response) => json(response, 404, { error: { message: "no model m" } }),
      /404: no model m. Check the model 'm', and LLM_BASE_URL/,
    ],
    [
      "wrong address",
      (response) => void response.writeHead(404).end("<h1>Not Found</h1>"),
      /404: Not Found. Check the model 'm', and LLM_BASE_URL/,
    ],
    [
      "moved",
      (response) => void response.writeHead(301, { location: "https://b.example/v1" }).end(),
      /go to https:\/\/b.example\/v1. Check LLM_BASE_URL/,
    ],
    ["no money left", (response) => json(response, 402, {}), /Check the account/],
    [
      "a request it does not take",
      (response) => json(response, 400, { error: { message: "Unsupported parameter: 'max_tokens'" } }),
      /refuses what it is asked for model 'm'.*'max_tokens'. --extra-body/,
    ],
  ])("%s", async (_, answer, message) => {
    const { stub, client } = await pair(answer, { max_retries: 5 });
    const results = await Promise.allSettled([client.chat(ask), client.chat(ask)]);
    for (const result of results)
      expect(result).toMatchObject({ reason: { name: "UserError", message: expect.stringMatching(message) } });
    expect(stub.requests.length).toBeLessThanOrEqual(2);
  });

  test("nobody listens", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    await expect(clientOf(`http://127.0.0.1:${port}/v1`).chat(ask)).rejects.toMatchObject({
      name: "UserError",
      message: expect.stringMatching(/can't be reached: .*ECONNREFUSED.* Check LLM_BASE_URL, and that the server runs/),
    });
  });

  test("TLS to a server that speaks none", async () => {
    const { stub } = await pair((response) => json(response, 200, completion("x")));
    await expect(clientOf(stub.url.replace("http:", "https:")).chat(ask)).rejects.toMatchObject({ name: "UserError" });
  });

  test("a server that is away later is a failure like others", async () => {
    const { stub, client } = await pair((response) => json(response, 200, completion("x")));
    await client.chat(ask);
    await stub.close();
    await expect(client.chat(ask)).rejects.toMatchObject({ name: "LlmError", kind: "connection" });
  });

  test("a dialogue refused after others were answered fails alone", async () => {
    const { client } = await pair((response, _, index) =>
      index === 0 ? json(response, 200, completion("x")) : json(response, 400, { error: { message: "no" } }),
    );
    await client.chat(ask);
    await expect(client.chat(ask)).rejects.toMatchObject({ name: "LlmError", kind: "bad_request" });
  });

  test("a huge answer", async () => {
    const { stub, client } = await pair((response) => json(response, 200, completion("x".repeat(5 * 2 ** 20))));
    await expect(client.chat(ask)).rejects.toMatchObject({ kind: "too_large" });
    expect(stub.requests).toHaveLength(1);
  });
});

test("an abort ends a request under way, a wait for the next try, and a wait for a place", async () => {
  const abort = new AbortController();
  const { client } = await pair((response, _, index) => {
    if (index === 0) json(response, 500, {}, { "retry-after": "60" });
  });
  const waiting = [client.chat(ask, abort.signal), client.chat(ask, abort.signal), client.chat(ask, abort.signal)];
  await new Promise((resolve) => setTimeout(resolve, 100));
  const begin = performance.now();
  abort.abort();
  for (const call of waiting) await expect(call).rejects.toMatchObject({ kind: "stopped" });
  expect(performance.now() - begin).toBeLessThan(500);
});

test("requests under way never exceed the limit", async () => {
  const { stub, client } = await pair((response) => void setTimeout(() => json(response, 200, completion("x")), 20), {
    in_flight: 3,
  });
  await Promise.all(Array.from({ length: 20 }, () => client.chat(ask)));
  expect(stub.most_in_flight()).toBe(3);
});

describe("the key", () => {
  test("that a server sends back goes no further", async () => {
    const { client } = await pair((response, { authorization }, index) =>
      index === 0
        ? json(response, 200, completion(`You sent ${authorization}`))
        : json(response, 400, { error: { message: `bad ${authorization}` } }),
    );
    expect((await client.chat(ask)).text).toBe("You sent Bearer [LLM_API_KEY]");
    const failure = await client.chat(ask).catch((error: unknown) => error);
    expect(JSON.stringify([failure, String(failure), client.account()])).not.toContain(KEY);
    expect(String(failure)).toContain("[LLM_API_KEY]");
  });

  test("stays hidden where a server spells it otherwise, or puts it into a redirect", async () => {
    const spelled = JSON.stringify({ error: { message: KEY } }).replace("sk-", "\\u0073k-");
    const { client } = await pair((response) => void response.writeHead(401).end(spelled));
    await expect(client.chat(ask)).rejects.toThrow(/401: \[LLM_API_KEY\]/);
    const { client: moved } = await pair((response) => void response.writeHead(302, { location: `/${KEY}` }).end());
    await expect(moved.chat(ask)).rejects.toThrow(/go to \/\[LLM_API_KEY\]/);
  });

  test("of a local server is a placeholder, and no text is changed for it", async () => {
    const { stub } = await pair((response) => json(response, 200, completion("The list is EMPTY.")));
    expect((await clientOf(stub.url, {}, "EMPTY").chat(ask)).text).toBe("The list is EMPTY.");
  });
});

test("half an emoji is replaced on its way out and in (BR-23)", async () => {
  const { stub, client } = await pair((response) => void response.end(JSON.stringify(completion("a\ud83dz"))));
  expect((await client.chat({ messages: [{ role: "user", content: "b\ude00c" }] })).text).toBe("a\ufffdz");
  expect(stub.requests[0]!.body.messages[0]!.content).toBe("b\ufffdc");
});

test.each([
  [[1], 0.5, 1],
  [[1, 2, 3, 4], 0.5, 2],
  [[1, 2, 3, 4], 0.95, 4],
  [Array.from({ length: 100 }, (_, index) => index + 1), 0.95, 95],
])("quantile of %j at %d", (values, share, expected) => {
  expect(quantile(values, share)).toBe(expected);
});
