import { describe, expect, test } from "vitest";
import type { Message } from "../core/message.ts";
import { PolicyError } from "../core/policy.ts";
import type { CallAnswer, LlmClient } from "../llm/client.ts";
import { LlmError } from "../llm/errors.ts";
import { type ApiPolicyOptions, apiPolicy, cutAt } from "./api.ts";

type Usage = [prompt: number, completion: number] | null;

/** A client that answers with these, in order, and keeps what it was asked. */
function scripted(...answers: (string | Error | { text: string; usage: Usage })[]) {
  const asked: Record<string, unknown>[] = [];
  const client: LlmClient = {
    async chat(body) {
      const answer = answers[asked.push(body) - 1]!;
      if (answer instanceof Error) throw answer;
      const { text, usage } = typeof answer === "string" ? { text: answer, usage: null } : answer;
      const counted = usage && { prompt_tokens: usage[0], completion_tokens: usage[1] };
      return { text, finish_reason: "stop", usage: counted, latency_ms: 12.4, retries: 0 } satisfies CallAnswer;
    },
    account: () => {
      throw new Error("not asked for");
    },
    close: () => {},
  };
  return { client, asked };
}

const sampling = {
  ...{ temperature: 0.1, top_p: 1, top_k: 0, min_p: 0 },
  ...{ max_turn_tokens: 50, max_episode_tokens: 120, max_context_tokens: null },
};
const options = {
  ...{ name: "api:m", parallel: 1, sampling, stop: ["\nObservation:"], chat_template_kwargs: {}, extra_body: {} },
  ...{ tools: null, prices: null, seed: 7 },
};
const player = (client: LlmClient, more: Partial<ApiPolicyOptions> = {}, trial = 0) =>
  apiPolicy({ ...options, client, ...more }).start({ task_id: "t", trial });

const signal = new AbortController().signal;
const hello: Message[] = [{ role: "user", content: "Hello" }];

describe("a request", () => {
  test("holds what differs from the endpoint's defaults, and no more", async () => {
    const { client, asked } = scripted("a");
    await player(client).reply(hello, signal);
    expect(asked[0]).toEqual({
      messages: hello,
      max_tokens: 50,
      temperature: 0.1,
      seed: expect.any(Number),
      stop: ["\nObservation:"],
    });
  });

  test("extra_body wins, null leaves a key out, thinking goes by the template's switch", async () => {
    const { client, asked } = scripted("a");
    const chat_template_kwargs = { enable_thinking: false };
    const extra_body = { max_tokens: null, max_completion_tokens: 9, temperature: 0.5, stop: null };
    const more = { sampling: { ...sampling, top_p: 0.9, top_k: 20, min_p: 0.1 }, chat_template_kwargs, extra_body };
    await player(client, more).reply(hello, signal);
    expect(asked[0]).toEqual({
      messages: hello,
      ...{ temperature: 0.5, top_p: 0.9, top_k: 20, min_p: 0.1, max_completion_tokens: 9 },
      seed: expect.any(Number),
      chat_template_kwargs,
    });
  });

  test("writes calls and their results as texts", async () => {
    const { client, asked } = scripted("a");
    const messages: Message[] = [
      { role: "system", content: "s" },
      { role: "assistant", content: "", tool_calls: [{ name: "look", arguments: { ref: 1 } }] },
      { role: "tool", content: "seen", is_error: true },
      { role: "tool", content: "and more" },
      { role: "user", content: "Well?" },
    ];
    await player(client).reply(messages, signal);
    expect(asked[0]!.messages).toEqual([
      { role: "system", content: "s" },
      { role: "assistant", content: '<tool_call>\n{"name":"look","arguments":{"ref":1}}\n</tool_call>' },
      {
        role: "user",
        content: "<tool_response>\nseen\n</tool_response>\n<tool_response>\nand more\n</tool_response>",
      },
      { role: "user", content: "Well?" },
    ]);
    expect(asked[0]).not.toHaveProperty("tools");
    expect(messages[2]!.content).toBe("seen");
  });

  test("has the tools that go to the chat template", async () => {
    const { client, asked } = scripted("a");
    const tools = [{ type: "function" as const, function: { name: "f", description: "d", parameters: {} } }];
    await player(client, { tools }).reply(hello, signal);
    expect(asked[0]!.tools).toEqual(tools);
  });

  test("carries a seed of its task, trial and run alone", async () => {
    const seedOf = async (trial: number, seed = 7) => {
      const { client, asked } = scripted("a");
      await player(client, { seed }, trial).reply(hello, signal);
      return asked[0]!.seed;
    };
    expect(await seedOf(0)).toBe(await seedOf(0));
    expect(new Set([await seedOf(0), await seedOf(1), await seedOf(0, 8)]).size).toBe(3);
  });
});

describe("budgets", () => {
  test("an episode's tokens shrink the last reply, and then end it", async () => {
    const { client, asked } = scripted(
      { text: "a", usage: [10, 50] },
      { text: "b", usage: [70, 50] },
      { text: "c", usage: [130, 20] },
    );
    const playing = player(client);
    for (const text of ["a", "b", "c"]) expect(await playing.reply(hello, signal)).toEqual({ text });
    expect(asked.map(({ max_tokens }) => max_tokens)).toEqual([50, 50, 20]);
    expect(await playing.reply(hello, signal)).toEqual({ ended: "tokens" });
    expect(asked).toHaveLength(3);
  });

  test("a full context ends it, by our limit or by the endpoint's", async () => {
    const full = scripted({ text: "a", usage: [90, 10] });
    const playing = player(full.client, { sampling: { ...sampling, max_context_tokens: 100 } });
    await playing.reply(hello, signal);
    expect(await playing.reply(hello, signal)).toEqual({ ended: "context" });
    const { client } = scripted(new LlmError("context", "too long"));
    expect(await player(client).reply(hello, signal)).toEqual({ ended: "context" });
  });
});

test("tokens as a local model counts them: the prompt once, replies, what the environment wrote between", async () => {
  const { client } = scripted(
    { text: "a", usage: [100, 10] },
    { text: "b", usage: [140, 20] },
    { text: "c", usage: [175, 5] },
  );
  const playing = player(client, { prices: { prompt: 1, completion: 10 } });
  expect(playing.tokens()).toEqual({ prompt: 0, policy: 0, observation: 0 });
  for (let turn = 0; turn < 3; turn++) await playing.reply(hello, signal);
  // 175 - 100 - (10 + 20)
  expect(playing.tokens()).toEqual({ prompt: 100, policy: 35, observation: 45 });
  expect(playing.metrics()).toEqual({
    llm_calls: 3,
    llm_retries: 0,
    llm_ms: 37,
    llm_prompt_tokens: 415,
    llm_completion_tokens: 35,
    llm_cost: (415 + 350) / 1e6,
  });
});

test("thinking that the endpoint drops from the dialogue makes no negative count", async () => {
  const { client } = scripted({ text: "a", usage: [100, 90] }, { text: "b", usage: [110, 5] });
  const playing = player(client);
  for (let turn = 0; turn < 2; turn++) await playing.reply(hello, signal);
  expect(playing.tokens().observation).toBe(0);
});

test.each([
  ["error", new LlmError("server_error", "down"), "error"],
  ["timeout", new LlmError("timeout", "late"), "timeout"],
] as const)("a failure of the endpoint ends the rollout by %s", async (_, error, ended_by) => {
  const failure = player(scripted(error).client).reply(hello, signal);
  await expect(failure).rejects.toBeInstanceOf(PolicyError);
  await expect(failure).rejects.toMatchObject({ ended_by, message: error.message });
});

test.each([
  ["Thought: a\nAction: FINISH\nObservation: b", "Thought: a\nAction: FINISH"],
  ["an Observation: in a line stays", "an Observation: in a line stays"],
  ["", ""],
])("an endpoint that overlooks the stop is cut: %j", async (text, expected) => {
  expect(await player(scripted(text).client).reply(hello, signal)).toEqual({ text: expected });
});

test("the first of several stops counts", () => {
  expect(cutAt("abcd", ["d", "b"])).toBe("a");
  expect(cutAt("abcd", [])).toBe("abcd");
});
