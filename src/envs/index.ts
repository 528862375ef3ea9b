import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Env } from "../core/env.ts";
import { errorText, nearest, UserError } from "../core/errors.ts";
import { failureOf } from "../core/measure.ts";
import { airline } from "./airline/env.ts";
import { readHermes } from "./airline/protocol/hermes.ts";
import { arxiv } from "./arxiv/env.ts";
import { parseReact } from "./arxiv/protocol.ts";
import { parseClues } from "./search/clues.ts";
import { search } from "./search/env.ts";

/** The environments that come with Trestle. */
export const envs: Record<string, Env> = { arxiv, airline, search };

/**
 * An environment by its name, or from a file that exports `defineEnv(…)`, as "./my-env.ts".
 * @throws UserError naming the nearest environment, or what is wrong with the file
 */
export async function loadEnv(nameOrFile: string): Promise<Env> {
  const known = Object.hasOwn(envs, nameOrFile) ? envs[nameOrFile] : undefined;
  if (known) return known;
  if (!/[/\\]|\.[mc]?[jt]s$/.test(nameOrFile)) {
    const names = Object.keys(envs);
    const near = nearest(nameOrFile, names);
    throw new UserError(
      `There is no environment '${nameOrFile}'${near ? `; did you mean '${near}'?` : "."} ` +
        `Expected ${names.join(", ")}, or a file of your own, as ./my-env.ts.`,
    );
  }
  const path = resolve(nameOrFile);
  if (!existsSync(path)) throw new UserError(`${nameOrFile}: there is no such file.`);
  let module: Record<string, unknown>;
  try {
    module = (await import(pathToFileURL(path).href)) as Record<string, unknown>;
  } catch (error) {
    throw new UserError(`${nameOrFile} can't be loaded: ${errorText(error)}${importAdvice(error)}`);
  }
  const found = [...new Set(Object.values(module).filter(isEnv))];
  if (found.length === 1) return ofFile(nameOrFile, path, found[0]!);
  throw new UserError(
    found.length === 0
      ? `${nameOrFile} exports no environment; expected 'export const myEnv = defineEnv({ … })'.`
      : `${nameOrFile} exports ${found.length} environments (${found.map(({ id }) => id).join(", ")}); expected one.`,
  );
}

/** What to do where an import of a user's file leads nowhere. */
function importAdvice(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code !== "MODULE_NOT_FOUND" && code !== "ERR_MODULE_NOT_FOUND") return "";
  return (
    `\nImports are looked up from that file: Trestle's by path, as ${join(import.meta.dirname, "../core/env.ts")}; a ` +
    "package, as zod, from a node_modules folder beside the file or above it (npm install zod)."
  );
}

function isEnv(value: unknown): value is Env {
  if (typeof value !== "object" || value === null) return false;
  const env = value as Partial<Env>;
  return typeof env.id === "string" && typeof env.load === "function" && typeof env.parseOptions === "function";
}

/**
 * A user's environment: what its file throws outside an episode is the user's to mend, told with its place in that file.
 * A UserError goes on as ours: its class may be of a second copy of our files, which Node makes for a file that it takes
 * for CommonJS.
 */
function ofFile(name: string, path: string, env: Env): Env {
  function told(hook: string, error: unknown): UserError {
    if (error instanceof Error && error.name === "UserError") return new UserError(error.message);
    const at = (error instanceof Error ? error.stack : null)
      ?.split("\n")
      .find((line) => line.includes(path))
      ?.match(/:\d+:\d+/)?.[0];
    return new UserError(`${name}${at ?? ""}: ${hook} failed: ${errorText(error)}`);
  }
  function now<Result>(hook: string, run: () => Result): Result {
    try {
      return run();
    } catch (error) {
      throw told(hook, error);
    }
  }
  const later =
    <Arguments extends unknown[], Result>(hook: string, run: (...args: Arguments) => Promise<Result>) =>
    (...args: Arguments): Promise<Result> =>
      run(...args).catch((error: unknown) => {
        throw told(hook, error);
      });
  return {
    ...env,
    parseOptions: (options) => now("options", () => env.parseOptions(options)),
    continuation: (options) => now("continuation", () => env.continuation(options)),
    template_tools: (options) => now("template_tools", () => env.template_tools(options)),
    load: later("load", async (split, options) => {
      const tasks = await env.load(split, options);
      return {
        ...tasks,
        category: (task_id) => now("category", () => tasks.category(task_id)),
        group_rewards: (group) => now("group_rewards", () => tasks.group_rewards?.(group) ?? null),
        replies: (policy, task_id, random) => now(`policy '${policy}'`, () => tasks.replies(policy, task_id, random)),
      };
    }),
    expert: later("expert", env.expert),
    rescore: env.rescore && later("rescore", env.rescore),
    pairs: env.pairs && {
      ...env.pairs,
      action: (turn) => now("pairs.action", () => env.pairs!.action(turn)),
      history: env.pairs.history && ((line) => now("pairs.history", () => env.pairs!.history!(line))),
      load: later("pairs.load", env.pairs.load),
    },
    baselines: { ...env.baselines, play: later("baselines", env.baselines.play) },
    benchmark: env.benchmark && {
      ...env.benchmark,
      measures: env.benchmark.measures.map(({ name, over, of }) => ({
        name,
        over,
        of: (trajectory) => now(`measure '${name}'`, () => of(trajectory)),
      })),
      failure: (trajectory) => now("benchmark.failure", () => (env.benchmark!.failure ?? failureOf)(trajectory)),
    },
    bad_cases: env.bad_cases && {
      ...env.bad_cases,
      history: (trajectory) => now("bad_cases.history", () => env.bad_cases!.history(trajectory)),
    },
  };
}

/** How a model's text can be read, by the protocol's name: what `parse` prints for a text. */
export const protocols: Record<string, (text: string) => Record<string, unknown>> = {
  react: readReact,
  hermes: readHermes,
  clues: readClues,
};

function readReact(text: string): Record<string, unknown> {
  const parsed = parseReact(text);
  return parsed.kind === "call"
    ? { kind: "call", thought: parsed.thought, name: parsed.name, args: parsed.args }
    : {
        kind: parsed.kind,
        thought: parsed.thought,
        ...(parsed.kind === "parse_error" ? { reason: parsed.reason } : {}),
      };
}

function readClues(text: string): Record<string, unknown> {
  const { clues } = parseClues(text);
  return { kind: clues.length > 0 ? "clues" : "parse_error", clues };
}
