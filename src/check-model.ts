import { play } from "../benchmark/play.ts";
import { planTrials } from "../benchmark/tasks.ts";
import { startPython } from "./bridge/python.ts";
import type { Env } from "./core/env.ts";
import { errorText, UserError } from "./core/errors.ts";
import { pickTasks } from "./core/task-choice.ts";
import type { Trajectory } from "./core/trajectory.ts";
import { createProgress } from "./metrics.ts";
import { chatOf, localPath, modelProblems, refuse } from "./recipes/shared.ts";

/** What a model made of one task. */
export interface TriedModel {
  model: string;
  task_id: string;
  /** Its first reply; null: the episode failed before it. */
  reply: string | null;
  reward: number | null;
  ended_by: string;
}

interface Asked {
  env: Env;
  env_options: Record<string, unknown>;
  split: string;
  task_id: string;
  model: string;
}

const NEW_TOKENS = 256;

/**
 * Loads a model and lets it answer one task, greedily: does it load, and does it write?
 * @throws UserError where there is no such model, or it can't be loaded
 */
export async function tryModel({ env, env_options, split, task_id, model: named }: Asked): Promise<TriedModel> {
  const model = localPath(named);
  refuse(modelProblems(model));
  const tasks = pickTasks(await env.load(split, env_options), [task_id]);
  const chat = chatOf(env, { env_options, chat_template: null, chat_template_kwargs: {} });
  const python = await startPython({});
  const played: Trajectory[] = [];
  try {
    await play({
      tasks,
      policy: `model:${model}`,
      episodes: planTrials(tasks.ids, 1, 0),
      log: { write: (trajectory) => void played.push(trajectory) },
      seed: 0,
      max_turns: 1,
      timeout_ms: 300_000,
      progress: createProgress(),
      model: {
        python,
        sampling: {
          ...{ temperature: 0, top_p: 1, top_k: 0, min_p: 0 },
          ...{ max_turn_tokens: NEW_TOKENS, max_episode_tokens: NEW_TOKENS, max_context_tokens: null },
        },
        batch_size: 1,
        chat,
      },
    });
  } catch (error) {
    throw new UserError(`${model} could not be tried: ${errorText(error)}`);
  } finally {
    await python.close();
  }
  const [episode] = played;
  return {
    model,
    task_id,
    reply: episode?.messages.find(({ role }) => role === "assistant")?.content ?? null,
    reward: episode?.reward ?? null,
    ended_by: episode?.ended_by ?? "error",
  };
}
