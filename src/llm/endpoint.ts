import { readFileSync } from "node:fs";
import * as util from "node:util";
import { errorText, UserError } from "../core/errors.ts";

/** The variables that an endpoint is read from. */
export interface EndpointNames {
  base_url: string;
  api_key: string;
  model: string;
}

export const LLM_NAMES: EndpointNames = { base_url: "LLM_BASE_URL", api_key: "LLM_API_KEY", model: "MODEL" };

/** Where an OpenAI-compatible model answers. */
export interface Endpoint {
  /** Of the chat completions; may hold a query, never the key. */
  url: URL;
  /** "": none is sent, as local servers need none. */
  api_key: string;
  /** The endpoint's name of the model. */
  model: string;
  /** For messages; left out: LLM_NAMES. */
  names?: EndpointNames;
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
  /** Left out: LLM_NAMES, of the policy's endpoint. */
  names?: EndpointNames;
}

/**
 * Reads LLM_BASE_URL, LLM_API_KEY and MODEL, or the other `names` given, from the environment first, then from the file.
 * The file's variables are not put into the environment: no child inherits the key.
 * @throws UserError naming the variable; what stands in LLM_API_KEY is in no message
 */
export function readEndpoint(source: EndpointSource): Endpoint {
  const { model, names = LLM_NAMES } = source;
  const { value, where } = readVariables(source);

  const base = value(names.base_url);
  if (base === "")
    throw new UserError(
      `${names.base_url} is not set. Put it into ${where}, as ${names.base_url}=https://api.openai.com/v1`,
    );
  const name = model || value(names.model);
  if (name === "")
    throw new UserError(
      names === LLM_NAMES
        ? `The policy is 'api:', without a model. Write api:<model>, or set MODEL in ${where}.`
        : `${names.model} is not set. Put the model's name into ${where}.`,
    );
  const api_key = value(names.api_key);
  // Node would name the header with its value in its own error.
  if (!/^[\x21-\x7e]*$/.test(api_key))
    throw new UserError(
      `${names.api_key} holds a blank, a line break or a letter beyond ASCII, which no key does. Copy it into ${where} again.`,
    );
  return { url: chatUrl(base, names), api_key, model: name, ...(names === LLM_NAMES ? {} : { names }) };
}

/** A variable's value by its name, "" where it is not set, and where to set it. @throws UserError for a broken file */
export function readVariables({ dotenv, dotenv_given, env }: Omit<EndpointSource, "model" | "names">) {
  const file = readDotenv(dotenv, dotenv_given);
  return {
    value: (name: string): string => env[name]?.trim() || file[name]?.trim() || "",
    where: `the environment or ${dotenv}`,
  };
}

/** The base as users copy it: with a slash at the end, or with the whole path of the chat completions. */
function chatUrl(base: string, names: EndpointNames): URL {
  const url = URL.canParse(base) ? new URL(base) : null;
  // The text itself is not shown: it may be a key in the wrong place.
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UserError(`${names.base_url} is no http(s) address; expected one as https://api.openai.com/v1`);
  if (url.username || url.password)
    throw new UserError(
      `${names.base_url} holds a user name or a password. Put the key into ${names.api_key} instead.`,
    );
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
