import type { Readable, Writable } from "node:stream";
import { z } from "zod";
import { UserError } from "../../../core/errors.ts";
import { createRandom } from "../../../core/random.ts";
import type { Prices } from "../../../llm/account.ts";
import { createClient } from "../../../llm/client.ts";
import { type Endpoint, LLM_NAMES, readEndpoint, readVariables, shownUrl } from "../../../llm/endpoint.ts";
import { ATTEMPTS, backoff } from "./asking.ts";
import { CACHE_MODES, createCache } from "./cache.ts";
import { CHAT_STRATEGIES, type ChatStrategy, chatUser } from "./chat.ts";
import { humanUser } from "./human.ts";
import { scriptedUser } from "./scripted.ts";
import { silentUser } from "./silent.ts";
import type { UserSimulator } from "./types.ts";

export const USER_STRATEGIES = ["scripted", "silent", ...CHAT_STRATEGIES, "human"] as const;

const price = z.number().nonnegative().nullable().default(null);
const ms = z
  .int()
  .min(1)
  .max(2 ** 31 - 1);

/** Which user an episode has, and what it may take. */
export const userOptions = z.strictObject({
  strategy: z
    .enum(USER_STRATEGIES)
    .default("scripted")
    .describe(
      "scripted needs no model; llm, react, verify and reflection ask an endpoint; human reads stdin; silent says the " +
        "instruction and leaves at the first answer, to replay gold actions.",
    ),
  peek: z
    .boolean()
    .default(true)
    .describe("scripted: sees the writes that were made; false: goes by the agent's words."),
  wait_for_completion: z
    .boolean()
    .default(true)
    .describe("With a model: the user does not leave in the turn in which it says yes."),
  model: z.string().default("").describe("The endpoint's name of the user model; '': what USER_MODEL says."),
  dotenv: z.string().default(".env").describe("A file of NAME=value lines with USER_BASE_URL and the like."),
  sampling: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Sent beside the messages, as temperature; nothing: the server's defaults."),
  cache: z.enum(CACHE_MODES).default("off").describe("replay: answers come from the cache alone."),
  cache_dir: z.string().min(1).default("usercache"),
  in_flight: z.int().min(1).default(8).describe("Requests under way at a time."),
  requests_per_minute: z.int().min(1).nullable().default(null),
  tokens_per_minute: z.int().min(1).nullable().default(null),
  connect_timeout_ms: ms.default(10_000),
  answer_timeout_ms: ms.default(60_000),
  prompt_price: price.describe("Of a million tokens, in any currency."),
  completion_price: price,
});
export type UserOptions = z.output<typeof userOptions>;

/** Whether an endpoint answers for this user. */
export const asksModel = ({ strategy }: UserOptions): boolean =>
  (CHAT_STRATEGIES as readonly string[]).includes(strategy);

const OWN_NAMES = { base_url: "USER_BASE_URL", api_key: "USER_API_KEY", model: "USER_MODEL" };
const RESERVED = ["messages", "model", "stream", "n"];

/**
 * The user model's endpoint: USER_BASE_URL with USER_API_KEY; without USER_BASE_URL, the policy's LLM_BASE_URL with
 * LLM_API_KEY. The one's key is never sent to the other's address. The model is `model`, or USER_MODEL.
 * @throws UserError naming the variable that is missing or no good
 */
export function readUserEndpoint({ model, dotenv }: UserOptions, env: NodeJS.ProcessEnv): Endpoint {
  const source = { dotenv, dotenv_given: dotenv !== ".env", model, env };
  const { value } = readVariables(source);
  const shared = value(OWN_NAMES.base_url) === "" && value(LLM_NAMES.base_url) !== "";
  return readEndpoint({ ...source, names: shared ? { ...LLM_NAMES, model: OWN_NAMES.model } : OWN_NAMES });
}

/**
 * The user simulator that the options name. One for all episodes: it holds connections, and nothing of an episode.
 * @throws UserError for an endpoint that is not set, or options that contradict each other
 */
export function createUserSimulator(
  options: UserOptions,
  { env = process.env, input = process.stdin, output = process.stderr }: Partial<UserSurroundings> = {},
): UserSimulator {
  const { strategy } = options;
  if (strategy === "scripted") return scriptedUser({ peek: options.peek });
  if (strategy === "silent") return silentUser();
  if (strategy === "human") return humanUser({ input, output });
  return remoteUser(options, strategy, env);
}

/** What a simulator takes from outside. */
export interface UserSurroundings {
  env: NodeJS.ProcessEnv;
  /** Of a person's lines, and where the agent's are shown. */
  input: Readable;
  output: Writable;
}

function remoteUser(options: UserOptions, strategy: ChatStrategy, env: NodeJS.ProcessEnv): UserSimulator {
  const reserved = RESERVED.find((key) => Object.hasOwn(options.sampling, key));
  if (reserved !== undefined)
    throw new UserError(`The user's sampling holds '${reserved}', which is not for it to set. Leave it out.`);
  const endpoint = readUserEndpoint(options, env);
  const prices = pricesOf(options);
  const client = createClient({
    ...options,
    endpoint,
    max_retries: ATTEMPTS - 1,
    prices,
    // The back-off has no jitter to draw.
    random: createRandom("user"),
    backoff,
  });
  return chatUser({
    client,
    cache: createCache(options.cache, options.cache_dir),
    strategy,
    model: endpoint.model,
    base_url: shownUrl(endpoint.url),
    sampling: options.sampling,
    prices,
    wait_for_completion: options.wait_for_completion,
  });
}

function pricesOf({ prompt_price, completion_price }: UserOptions): Prices | null {
  if (prompt_price === null && completion_price === null) return null;
  if (prompt_price === null || completion_price === null)
    throw new UserError("Of the user's prompt_price and completion_price only one is set. Set both, or none.");
  return { prompt: prompt_price, completion: completion_price };
}
