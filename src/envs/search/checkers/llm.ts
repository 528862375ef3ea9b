import { setTimeout as sleep } from "node:timers/promises";
import { errorText, UserError } from "../../../core/errors.ts";
import { createRandom } from "../../../core/random.ts";
import { backoff_ms, createClient, type LlmClient } from "../../../llm/client.ts";
import { type Endpoint, LLM_NAMES, readEndpoint, readVariables } from "../../../llm/endpoint.ts";
import { LlmError } from "../../../llm/errors.ts";
import type { CorpusDocument } from "../types.ts";
import { type CacheKey, createCache, type VerdictCache } from "./cache.ts";
import { judgeMessages, PROMPT_VERSION, readVerdict } from "./judge-prompt.ts";
import type { CheckerOptions } from "./options.ts";
import { type Checker, CheckerError, type Question, type Verdict } from "./types.ts";

// A language model as the document checker. Source: spec section 4.2.

/** Calls for one verdict, whatever went wrong with those before: no answer, or one that is no verdict. */
const ATTEMPTS = 3;

const OWN_NAMES = { base_url: "CHECKER_BASE_URL", api_key: "CHECKER_API_KEY", model: "CHECKER_MODEL" };

/**
 * The checker's endpoint: CHECKER_BASE_URL with CHECKER_API_KEY; without CHECKER_BASE_URL, the policy's LLM_BASE_URL with
 * LLM_API_KEY. The model is `model`, or CHECKER_MODEL.
 * @throws UserError naming the variable that is missing or no good
 */
export function readCheckerEndpoint({ model, dotenv }: CheckerOptions, env: NodeJS.ProcessEnv): Endpoint {
  const source = { dotenv, dotenv_given: dotenv !== ".env", model, env };
  const { value } = readVariables(source);
  const shared = value(OWN_NAMES.base_url) === "" && value(LLM_NAMES.base_url) !== "";
  return readEndpoint({ ...source, names: shared ? { ...LLM_NAMES, model: OWN_NAMES.model } : OWN_NAMES });
}

const RESERVED = ["messages", "model", "stream", "n"];

export interface LlmCheckerParts {
  env?: NodeJS.ProcessEnv;
  /** Milliseconds before try number `retry`. */
  backoff?: typeof backoff_ms;
}

/** @throws UserError for an endpoint that is not set */
export function llmChecker(options: CheckerOptions, { env = process.env, backoff }: LlmCheckerParts = {}): Checker {
  const reserved = RESERVED.find((key) => Object.hasOwn(options.extra_body, key));
  if (reserved !== undefined)
    throw new UserError(`checker.extra_body holds '${reserved}', which is not for it to set. Leave it out.`);
  const endpoint = readCheckerEndpoint(options, env);
  const client = createClient({
    ...options,
    endpoint,
    in_flight: options.concurrency,
    requests_per_minute: null,
    tokens_per_minute: null,
    max_retries: 0, // tries are counted here, those that brought nonsense too
    prices: null,
    random: createRandom("checker"),
  });
  const cache = options.cache_dir === null ? null : createCache(options.cache_dir);
  const sampling = withoutNulls({
    temperature: 0,
    max_tokens: options.max_tokens,
    chat_template_kwargs: { enable_thinking: false },
    ...options.extra_body,
  });
  return askingChecker({ client, cache, model: endpoint.model, sampling, backoff: backoff ?? backoff_ms });
}

function withoutNulls(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

interface Asking {
  client: LlmClient;
  cache: VerdictCache | null;
  model: string;
  sampling: Record<string, unknown>;
  backoff: typeof backoff_ms;
}

function askingChecker({ client, cache, model, sampling, backoff }: Asking): Checker {
  const random = createRandom("checker/back-off");
  /** Questions under way: the rollouts of a group find the same documents at the same time. */
  const asked = new Map<string, Promise<Verdict>>();

  async function ask(question: Question, sub_goal: string, document: CorpusDocument): Promise<Verdict> {
    const messages = judgeMessages(question, sub_goal, document);
    for (let attempt = 1; ; attempt++) {
      let problem: string;
      let wish_ms: number | null = null;
      try {
        const { text } = await client.chat({ messages, ...sampling });
        const verdict = readVerdict(text);
        if (verdict) return verdict;
        problem = `its answer is no {"label": …}: ${JSON.stringify(text.slice(0, 80))}`;
      } catch (error) {
        problem = errorText(error);
        if (!(error instanceof LlmError && error.may_pass))
          throw new CheckerError(`${model} can't judge document '${document.docid}': ${problem}`);
        wish_ms = error.retry_after_ms;
      }
      if (attempt >= ATTEMPTS)
        throw new CheckerError(
          `${model} gave no label for document '${document.docid}': ${problem} (${attempt} tries)`,
        );
      await sleep(backoff(attempt, wish_ms, random));
    }
  }

  async function judge(key: CacheKey, ...question: Parameters<typeof ask>): Promise<Verdict> {
    const verdict = await ask(...question);
    cache?.keep(key, verdict);
    return verdict;
  }

  return {
    async check(question, sub_goal, document) {
      const key: CacheKey = {
        model,
        prompt_version: PROMPT_VERSION,
        question: question.text,
        sub_goal,
        docid: document.docid,
      };
      const known = cache?.read(key);
      if (known) return known;
      const name = JSON.stringify(key);
      let answer = asked.get(name);
      if (!answer) {
        answer = judge(key, question, sub_goal, document);
        asked.set(name, answer);
        answer.finally(() => asked.delete(name)).catch(() => {});
      }
      return answer;
    },
  };
}
