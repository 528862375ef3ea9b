import { readFileSync } from "node:fs";
import * as util from "node:util";
import { errorText, UserError } from "../core/errors.ts";

/** Where an OpenAI-compatible model answers. */
export interface Endpoint {
  /** Of the chat completions; may hold a query, never the key. */
  url: URL;
  /** "": none is sent, as local servers need none. */
  api_key: string;
  /** The endpoint's name of the model. */
  model: string;
}

/** Shorter keys are placeholders for local servers, as "EMPTY": hiding those would change what a model wrote. */
export const SHORTEST_SECRET = 8;

export interface EndpointSource {
  /** A file of NAME=value lines. */
  dotenv: string;
  /** false: a missing file is no mistake, the environment may have all. */
  dotenv_given: boolean;
  /** "": what MODEL says. */
  model: string;
  /** Variables that win over the file's. */
  env: NodeJS.ProcessEnv;
}

/**
 * Reads LLM_BASE_URL, LLM_API_KEY and MODEL, from the environment first, then from the file. The file's variables are
 * not put into the environment: no child inherits the key.
 * @throws UserError naming the variable; what stands in LLM_API_KEY is in no message
 */
export function readEndpoint({ dotenv, dotenv_given, model, env }: EndpointSource): Endpoint {
  const file = readDotenv(dotenv, dotenv_given);
  const value = (name: string): string => env[name]?.trim() || file[name]?.trim() || "";
  const where = `the environment or ${dotenv}`;

  const base = value("LLM_BASE_URL");
  if (base === "")
    throw new UserError(`LLM_BASE_URL is not set. Put it into ${where}, as LLM_BASE_URL=https://api.openai.com/v1`);
  const name = model || value("MODEL");
  if (name === "")
    throw new UserError(`The policy is 'api:', without a model. Write api:<model>, or set MODEL in ${where}.`);
  const api_key = value("LLM_API_KEY");
  // Node would name the header with its value in its own error.
  if (!/^[\x21-\x7e]*$/.test(api_key))
    throw new UserError(
      `LLM_API_KEY holds a blank, a line break or a letter beyond ASCII, which no key does. Copy it into ${where} again.`,
    );
  return { url: chatUrl(base), api_key, model: name };
}

/** The base as users copy it: with a slash at the end, or with the whole path of the chat completions. */
function chatUrl(base: string): URL {
  const url = URL.canParse(base) ? new URL(base) : null;
  // The text itself is not shown: it may be a key in the wrong place.
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UserError("LLM_BASE_URL is no http(s) address; expected one as https://api.openai.com/v1");
  if (url.username || url.password)
    throw new UserError("LLM_BASE_URL holds a user name or a password. Put the key into LLM_API_KEY instead.");
  url.hash = "";
  url.pathname = `${url.pathname.replace(/\/+$/, "").replace(/\/chat\/completions$/, "")}/chat/completions`;
  return url;
}

/** An address for messages and records: without its query, where some put a key. */
export const shownUrl = (url: URL): string => `${url.origin}${url.pathname}`;

function readDotenv(path: string, given: boolean): Record<string, string | undefined> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    if (missing && !given) return {};
    throw new UserError(`${path}: ${missing ? "there is no such file" : errorText(error)}.`);
  }
  if (typeof util.parseEnv !== "function")
    throw new UserError(`Reading ${path} needs Node 20.12 or newer. Update Node, or export the variables yourself.`);
  return util.parseEnv(text.replace(/^\ufeff/, ""));
}
