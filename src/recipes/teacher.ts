import { existsSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import type { Teacher } from "../bridge/protocol.ts";
import { UserError } from "../core/errors.ts";
import { loadEnv } from "../envs/index.ts";
import { readEndpoint, SHORTEST_SECRET, shownUrl } from "../llm/endpoint.ts";
import { listRuns, type Manifest } from "../run-folder.ts";
import { modelHash } from "./model-hash.ts";
import { isTinyModel, localPath, modelProblems, readRunConfig, refuse, TINY_MODEL } from "./shared.ts";

// Who teaches: its config keys, and how it is found and opened.

/** Keys that only a teacher behind an API reads. */
const endpointKeys = {
  teacher_tokenizer: z
    .string()
    .nullable()
    .default(null)
    .describe("api: a folder or hub id with the teacher's tokenizer, to be compared with the student's."),
  trust_teacher_tokenizer: z
    .boolean()
    .default(false)
    .describe("api: take the teacher's tokenizer for the student's where it can't be compared."),
  dotenv: z.string().default(".env").describe("api: the file with LLM_BASE_URL, LLM_API_KEY and MODEL."),
  parallel: z.int().positive().max(256).default(4).describe("api: requests under way at a time."),
  max_retries: z.int().nonnegative().max(20).default(5).describe("api: tries after the first, with growing waits."),
  answer_timeout_ms: z
    .int()
    .positive()
    .max(2 ** 31 - 1)
    .default(180_000)
    .describe("api: time to connect, and for each wait for more of an answer."),
};

export const teacherKeys = {
  teacher: z
    .string()
    .nullable()
    .default(null)
    .describe(
      "model:<folder or hub id>, or api:<model> behind LLM_BASE_URL; left out: the newest GRPO result of the tiny model.",
    ),
  ...endpointKeys,
};

export type TeacherConfig = z.output<z.ZodObject<typeof teacherKeys>>;

export interface OpenTeacher {
  /** As it stands in records: "model:runs/x/final", "api:my-model". */
  name: string;
  /** What Python gets. The key is not in it. */
  request: Teacher;
  /** For the manifest: the weights' hash of a local one, the address of another without its query. */
  details: { name: string; sha256: string | null; endpoint: string | null };
  /** Variables for Python alone: the key. */
  env: Record<string, string>;
}

/**
 * Reads and checks a teacher's name without a request or a model.
 * @param given keys that the user set
 * @param recorded texts that a run's record holds: the key must not be among them
 * @throws UserError
 */
export function openTeacher(
  config: TeacherConfig & { teacher: string },
  { given, recorded }: { given: ReadonlySet<string>; recorded: readonly string[] },
): OpenTeacher {
  const { teacher } = config;
  if (teacher.startsWith("model:")) {
    const ignored = Object.keys(endpointKeys).find((key) => given.has(key));
    if (ignored) throw new UserError(`${ignored} is set, but the teacher '${teacher}' is a local model. Leave it out.`);
    const model = localPath(teacher.slice("model:".length));
    refuse(modelProblems(model).map((problem) => problem.replace(/^model is/, "teacher is")));
    const name = `model:${model}`;
    return {
      name,
      request: { kind: "model", model },
      details: { name, sha256: modelHash(model), endpoint: null },
      env: {},
    };
  }
  if (!teacher.startsWith("api:"))
    throw new UserError(
      `teacher is '${teacher}'; expected model:<folder or hub id> or api:<model>` +
        `${modelProblems(localPath(teacher)).length === 0 ? `, as model:${teacher}` : ""}.`,
    );
  const { api_key, url, model } = readEndpoint({
    dotenv: config.dotenv,
    dotenv_given: given.has("dotenv"),
    model: teacher.slice("api:".length),
    env: process.env,
  });
  if (api_key.length >= SHORTEST_SECRET && recorded.some((text) => text.includes(api_key)))
    throw new UserError(
      "The value of LLM_API_KEY stands in the command or the config, and a run records both. Take it out.",
    );
  const base_url = shownUrl(url).replace(/\/chat\/completions$/, "");
  const tokenizer = config.teacher_tokenizer === null ? null : localPath(config.teacher_tokenizer);
  return {
    name: `api:${model}`,
    request: {
      kind: "api",
      base_url,
      query: url.search,
      model,
      tokenizer,
      trust_tokenizer: config.trust_teacher_tokenizer,
      max_retries: config.max_retries,
      timeout_s: config.answer_timeout_ms / 1000,
      parallel: config.parallel,
    },
    details: { name: `api:${model}`, sha256: null, endpoint: base_url },
    env: { LLM_API_KEY: api_key },
  };
}

interface Start {
  runs_dir: string;
  env: string;
  env_options: Record<string, unknown>;
  /** The student; null: the newest SFT result of the tiny model. */
  model: string | null;
}

/**
 * The teacher where none is named: the newest GRPO result of the tiny model in this environment and style, else the SFT
 * result of most steps, if it has more than the student.
 * @throws UserError with the command that makes one
 */
export async function defaultTeacher({ runs_dir, env, env_options, model }: Start): Promise<string> {
  if (model !== null && !isTinyModel(model))
    throw new UserError(
      `No --teacher: name one for ${model}, as --teacher model:<folder or hub id>. Only for the tiny model one is found.`,
    );
  const { continuation } = await loadEnv(env);
  const style = continuation(env_options);
  const runs = [...listRuns(runs_dir), ...listRuns(join(runs_dir, "quickstart"))].flatMap(({ dir, manifest }) => {
    const config = readRunConfig(dir);
    const final = join(dir, "final");
    const fits =
      manifest.status === "completed" &&
      config?.env === env &&
      existsSync(join(final, "config.json")) &&
      isTinyModel(final) &&
      isDeepStrictEqual(continuation((config.env_options ?? {}) as Record<string, unknown>), style);
    return fits ? [{ final, recipe: manifest.recipe, steps: stepsOf(manifest), base: config.model }] : [];
  });
  const trained = runs.find(({ recipe, final }) => recipe === "grpo" && final !== model);
  if (trained) return `model:${trained.final}`;
  const sft = runs.filter(({ recipe, base }) => recipe === "sft" && base === TINY_MODEL);
  const student = model === null ? sft[0] : sft.find(({ final }) => final === model);
  const longest = sft.reduce<(typeof sft)[number] | undefined>(
    (best, run) => (best && best.steps >= run.steps ? best : run),
    undefined,
  );
  if (student && longest && longest.steps > student.steps) return `model:${longest.final}`;
  throw new UserError(
    `No --teacher, and no GRPO result of the tiny model for ${env} in ${runs_dir}. ` +
      "Make one: npx tsx src/cli.ts grpo --dapo. Or name a teacher: --teacher model:<folder or hub id>.",
  );
}

function stepsOf({ details }: Manifest): number {
  const steps = (details.result as { steps?: unknown } | undefined)?.steps;
  return typeof steps === "number" ? steps : 0;
}
