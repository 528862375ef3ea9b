import { z } from "zod";
import { UserError } from "../src/core/errors.ts";
import type { Policy } from "../src/core/policy.ts";
import { createRandom } from "../src/core/random.ts";
import type { LlmAccount } from "../src/llm/account.ts";
import { createClient } from "../src/llm/client.ts";
import { readEndpoint, SHORTEST_SECRET, shownUrl } from "../src/llm/endpoint.ts";
import { type ApiPolicyOptions, type ApiSampling, apiPolicy } from "../src/policies/api.ts";

// A model behind an API as the policy of a command: its config keys, and how it is opened.

const ms = z
  .int()
  .positive()
  .max(2 ** 31 - 1); // more would fire at once
const price = z.number().nonnegative().nullable().default(null);
const perMinute = z.int().positive().nullable().default(null);

/** Keys that only a policy behind an API reads. */
export const apiKeys = {
  dotenv: z.string().default(".env").describe("api: the file with LLM_BASE_URL, LLM_API_KEY and MODEL."),
  parallel: z.int().positive().max(1024).default(8).describe("api: episodes, and so requests, under way at a time."),
  requests_per_minute: perMinute.describe("api: requests begun in any 60 s at most."),
  tokens_per_minute: perMinute.describe("api: tokens of answers in any 60 s, past which no request begins."),
  max_retries: z.int().nonnegative().max(20).default(5).describe("api: tries after the first, with growing waits."),
  connect_timeout_ms: ms.default(10_000).describe("api: time to connect."),
  answer_timeout_ms: ms.default(180_000).describe("api: time for a whole answer."),
  stop: z
    .array(z.string().min(1))
    .nullable()
    .default(null)
    .describe("api: texts that end a reply; left out: the environment's."),
  extra_body: z
    .record(z.string(), z.unknown())
    .default({})
    .describe('api: put over the request\'s keys, as {"reasoning_effort": "low"}; null leaves a key out.'),
  prompt_price: price.describe("api: of a million prompt tokens; with completion_price, cost is counted."),
  completion_price: price.describe("api: of a million completion tokens."),
};

type ApiConfig = z.output<z.ZodObject<typeof apiKeys>> &
  ApiSampling & { policy: string; seed: number; chat_template_kwargs: Record<string, unknown> };

export interface OpenApi {
  policy: Policy;
  /** For records: the address without its query, never the key. */
  endpoint: string;
  account(): LlmAccount;
  close(): void;
}

export const isApi = (policy: string): boolean => policy.startsWith("api:");

/** Keys of a request that are ours. */
const OWN_KEYS = ["model", "messages", "stream", "n"];

/** What an environment says of requests: texts at which a reply ends, and its tools where they are sent. */
type FromEnv = Pick<ApiPolicyOptions, "stop" | "tools">;

/**
 * Reads and checks all that can be checked without a request.
 * @param recorded texts that a run's record holds: the key must not be among them
 * @throws UserError
 */
export function openApi(
  config: ApiConfig,
  { stop, tools, given, recorded }: FromEnv & { given: ReadonlySet<string>; recorded: readonly string[] },
): OpenApi {
  const endpoint = readEndpoint({
    dotenv: config.dotenv,
    dotenv_given: given.has("dotenv"),
    model: config.policy.slice("api:".length),
    env: process.env,
  });
  const { api_key } = endpoint;
  if (api_key.length >= SHORTEST_SECRET && recorded.some((text) => text.includes(api_key)))
    throw new UserError(
      "The value of LLM_API_KEY stands in the command or the config, and a run records both. Take it out.",
    );
  const own = OWN_KEYS.find((key) => Object.hasOwn(config.extra_body, key));
  if (own) throw new UserError(`extra_body has the key '${own}', which is not to be changed; expected others.`);
  const { prompt_price: prompt, completion_price: completion } = config;
  if ((prompt === null) !== (completion === null))
    throw new UserError(`${prompt === null ? "prompt_price" : "completion_price"} is missing; cost takes both prices.`);
  const prices = prompt === null || completion === null ? null : { prompt, completion };

  const client = createClient({
    endpoint,
    in_flight: config.parallel,
    requests_per_minute: config.requests_per_minute,
    tokens_per_minute: config.tokens_per_minute,
    connect_timeout_ms: config.connect_timeout_ms,
    answer_timeout_ms: config.answer_timeout_ms,
    max_retries: config.max_retries,
    prices,
    random: createRandom(config.seed).fork("back-off"),
  });
  return {
    policy: apiPolicy({
      client,
      name: `api:${endpoint.model}`,
      parallel: config.parallel,
      sampling: config,
      stop: config.stop ?? stop,
      tools,
      chat_template_kwargs: config.chat_template_kwargs,
      extra_body: config.extra_body,
      prices,
      seed: config.seed,
    }),
    endpoint: shownUrl(endpoint.url),
    account: client.account,
    close: client.close,
  };
}

/** What the endpoint took, in a line for people. */
export function accountLine(account: LlmAccount): string {
  const { answered, gave_up, retries, prompt_tokens, completion_tokens, answers_without_usage, cost, latency_ms } =
    account;
  const failures = Object.entries(account.failures).map(([kind, times]) => `${kind} ${times}`);
  return [
    `api: ${answered} answers, ${gave_up} calls without one, ${retries} retries${failures.length > 0 ? ` (${failures.join(", ")})` : ""}`,
    `${prompt_tokens} prompt and ${completion_tokens} completion tokens` +
      (answers_without_usage > 0 ? `, not told by ${answers_without_usage} answers` : ""),
    ...(cost === null ? [] : [`cost ${cost.toFixed(4)}`]),
    ...(latency_ms ? [`latency p50 ${Math.round(latency_ms.p50)} ms, p95 ${Math.round(latency_ms.p95)} ms`] : []),
  ].join("; ");
}
