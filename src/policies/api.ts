import type { Message } from "../core/message.ts";
import { type Player, type Policy, PolicyError } from "../core/policy.ts";
import { createRandom } from "../core/random.ts";
import type { FunctionTool } from "../core/tool.ts";
import { costOf, type Prices } from "../llm/account.ts";
import type { CallAnswer, LlmClient } from "../llm/client.ts";
import { LlmError } from "../llm/errors.ts";

/** How a turn is sampled. Tokens are the endpoint's; budgets as a local model's, so that both end alike. */
export interface ApiSampling {
  temperature: number;
  /** 1: not sent. */
  top_p: number;
  /** 0: not sent; not every endpoint knows it. */
  top_k: number;
  /** 0: not sent. */
  min_p: number;
  max_turn_tokens: number;
  max_episode_tokens: number;
  /** null: what the endpoint takes. */
  max_context_tokens: number | null;
}

export interface ApiPolicyOptions {
  client: LlmClient;
  /** As it stands in logs, "api:my-model". */
  name: string;
  parallel: number;
  sampling: ApiSampling;
  /** Texts at which a reply ends; what follows is cut off here where the endpoint does not. */
  stop: readonly string[];
  /** Sent as they are; null: the messages tell of the tools, if there are any. */
  tools: readonly FunctionTool[] | null;
  /** Sent where it is not empty; vLLM, SGLang and llama.cpp read it. */
  chat_template_kwargs: Record<string, unknown>;
  /** Put over the request's own keys; null leaves a key out. */
  extra_body: Record<string, unknown>;
  prices: Prices | null;
  seed: number;
}

/** Plays by asking an endpoint for each turn, the whole dialogue anew. */
export function apiPolicy(options: ApiPolicyOptions): Policy {
  const { name, parallel, seed } = options;
  return {
    name,
    parallel,
    remote: true,
    start: ({ task_id, trial }) =>
      startPlayer(
        options,
        createRandom(`${seed}/${task_id}/${trial}`)
          .fork("policy")
          .int(2 ** 31),
      ),
  };
}

function startPlayer(options: ApiPolicyOptions, sampling_seed: number): Player {
  const { client, sampling, stop, prices } = options;
  const answers: CallAnswer[] = [];
  const sum = (read: (answer: CallAnswer) => number | undefined) =>
    answers.reduce((total, answer) => total + (read(answer) ?? 0), 0);
  const completion = () => sum(({ usage }) => usage?.completion_tokens);

  async function reply(messages: readonly Message[], signal: AbortSignal): ReturnType<Player["reply"]> {
    const last = answers.at(-1)?.usage;
    const context = last ? last.prompt_tokens + last.completion_tokens : 0;
    const episodeLeft = sampling.max_episode_tokens - completion();
    const contextLeft = (sampling.max_context_tokens ?? Number.POSITIVE_INFINITY) - context;
    if (episodeLeft <= 0) return { ended: "tokens" };
    if (contextLeft <= 0) return { ended: "context" };
    try {
      const max_tokens = Math.min(sampling.max_turn_tokens, episodeLeft, contextLeft);
      const answer = await client.chat(requestBody(options, messages, max_tokens, sampling_seed), signal);
      answers.push(answer);
      return { text: cutAt(answer.text, stop) };
    } catch (error) {
      if (!(error instanceof LlmError)) throw error;
      if (error.kind === "context") return { ended: "context" };
      throw new PolicyError(error.message, error.kind === "timeout" ? "timeout" : "error");
    }
  }

  return {
    reply,
    tokens() {
      const [first, last] = [answers[0]?.usage, answers.at(-1)?.usage];
      const policy = completion();
      const prompt = first?.prompt_tokens ?? 0;
      // All but the last reply stand in the last prompt; thinking that the endpoint dropped from it makes it shorter.
      const earlier = policy - (last?.completion_tokens ?? 0);
      return { prompt, policy, observation: Math.max(0, (last?.prompt_tokens ?? 0) - prompt - earlier) };
    },
    metrics() {
      const prompt_tokens = sum(({ usage }) => usage?.prompt_tokens);
      return {
        llm_calls: answers.length,
        llm_retries: sum(({ retries }) => retries),
        llm_ms: Math.round(sum(({ latency_ms }) => latency_ms)),
        llm_prompt_tokens: prompt_tokens,
        llm_completion_tokens: completion(),
        llm_cost: prices && costOf(prices, prompt_tokens, completion()),
      };
    },
  };
}

/** The JSON of a request, without the model. */
function requestBody(
  { sampling, stop, tools, chat_template_kwargs, extra_body }: ApiPolicyOptions,
  messages: readonly Message[],
  max_tokens: number,
  seed: number,
): Record<string, unknown> {
  const { temperature, top_p, top_k, min_p } = sampling;
  const body: Record<string, unknown> = {
    messages: wireMessages(messages),
    ...(tools ? { tools } : {}),
    max_tokens,
    temperature,
    ...(top_p < 1 ? { top_p } : {}),
    ...(top_k > 0 ? { top_k } : {}),
    ...(min_p > 0 ? { min_p } : {}),
    seed,
    ...(stop.length > 0 ? { stop } : {}),
    ...(Object.keys(chat_template_kwargs).length > 0 ? { chat_template_kwargs } : {}),
    ...extra_body,
  };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

interface WireMessage {
  role: string;
  content: string;
}

/**
 * Calls and their results as texts, as Hermes' and Qwen's templates write them: the replies are texts here, and an
 * endpoint takes a message of the role tool only after a call of its own making. Results in a row share a message.
 */
function wireMessages(messages: readonly Message[]): WireMessage[] {
  const sent: WireMessage[] = [];
  for (const [index, { role, content, tool_calls = [] }] of messages.entries()) {
    const calls = tool_calls.map((call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`);
    const result = `<tool_response>\n${content}\n</tool_response>`;
    if (role !== "tool") sent.push({ role, content: [content, ...calls].filter((part) => part !== "").join("\n") });
    else if (messages[index - 1]?.role === "tool") sent.at(-1)!.content += `\n${result}`;
    else sent.push({ role: "user", content: result });
  }
  return sent;
}

/** The text before the first of the stops. */
export function cutAt(text: string, stop: readonly string[]): string {
  const ends = stop.map((mark) => text.indexOf(mark)).filter((at) => at >= 0);
  return ends.length === 0 ? text : text.slice(0, Math.min(...ends));
}
