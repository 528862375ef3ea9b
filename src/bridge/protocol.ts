import { z } from "zod";
import { messageSchema } from "../core/message.ts";

/**
 * Every message between TypeScript and Python. `ops`: what Python asks while it works, and the answers.
 * `entries`: what TypeScript asks of Python, `py/trainers/<entry>.py: run(request, host)`. Numbers are finite unless
 * said otherwise, ids and seeds below 2^53, lists in the order asked.
 */

const count = z.int().nonnegative();
const seed = z.int().nonnegative();

/** A number that may be NaN or infinite: a diverged loss has to reach the log as it is. */
export const anyNumber = z.custom<number>((value) => typeof value === "number", "expected a number");

const record = z.record(z.string(), z.unknown());

/** One episode to play: the task, the environment's seed (equal within a group), which member of the group. */
export const episodeRequest = z.strictObject({ task_id: z.string(), seed, trial: count });
export type EpisodeRequest = z.infer<typeof episodeRequest>;

const endedBy = z.enum(["terminated", "truncated", "error", "timeout"]);
const metricValue = z.union([z.number(), z.boolean(), z.string(), z.null()]);

// ------------------------------------------------------------------------------------------ what Python asks

export const ops = {
  /** Starts a batch of episodes. */
  start: {
    payload: z.strictObject({
      /** Optimizer steps the policy has taken; null outside training. */
      policy_step: count.nullable(),
      /** Who plays, as it stands in the log: "model:runs/x/final". */
      policy: z.string(),
      episodes: z.array(episodeRequest).min(1),
    }),
    answer: z.strictObject({
      episodes: z.array(
        z.strictObject({
          handle: z.int(),
          /** The prompt; [] where the episode failed at reset. */
          messages: z.array(messageSchema),
          /** true: it failed at reset. It still has to be finished. */
          done: z.boolean(),
          /** Replies the policy has at most. */
          max_turns: z.int().positive(),
        }),
      ),
    }),
  },
  /** Plays one reply in each of the episodes. */
  step: {
    payload: z.strictObject({ episodes: z.array(z.strictObject({ handle: z.int(), reply: z.string() })).min(1) }),
    answer: z.strictObject({
      episodes: z.array(
        z.strictObject({
          /** Turns of their own that the policy reads next; [] when done. */
          observations: z.array(messageSchema),
          done: z.boolean(),
          ended_by: endedBy.nullable(),
        }),
      ),
    }),
  },
  /** Ends and scores episodes and writes their trajectories. Each handle is finished exactly once. */
  finish: {
    payload: z.strictObject({
      episodes: z
        .array(
          z.strictObject({
            handle: z.int(),
            /** Set where the sampler stopped an episode that was not done: its tokens ran out. */
            ended: z.strictObject({ by: z.literal("truncated"), why: z.string() }).nullable(),
            tokens: z.strictObject({ prompt: count, policy: count, observation: count }),
          }),
        )
        .min(1),
    }),
    answer: z.strictObject({
      episodes: z.array(
        z.strictObject({
          /** null: the rollout is invalid (`error`, `timeout`) and carries no reward. */
          reward: z.number().nullable(),
          /** Every reward component before weights, null where the task gives it nothing to judge. */
          parts: z.record(z.string(), z.number().nullable()),
          metrics: z.record(z.string(), metricValue),
          success: z.boolean(),
          ended_by: endedBy,
          ended_why: z.string().nullable(),
        }),
      ),
    }),
  },
  /** One point of the run's curves. The only place where numbers may be NaN or infinite. */
  log: {
    payload: z.strictObject({ step: count, metrics: z.record(z.string(), anyNumber) }),
    answer: z.strictObject({}),
  },
  /** A line for the person watching. */
  note: { payload: z.strictObject({ text: z.string() }), answer: z.strictObject({}) },
} as const;

export type Op = keyof typeof ops;
export type OpPayload<Name extends Op> = z.infer<(typeof ops)[Name]["payload"]>;
export type OpAnswer<Name extends Op> = z.infer<(typeof ops)[Name]["answer"]>;

// ------------------------------------------------------------------------------------- what Python is asked

/** How a turn is sampled. Budgets are in tokens. */
export const sampling = z.strictObject({
  /** 0: greedy. */
  temperature: z.number().nonnegative(),
  top_p: z.number().gt(0).max(1),
  /** 0: off. */
  top_k: count,
  /** 0: off. */
  min_p: z.number().min(0).max(1),
  max_turn_tokens: z.int().positive(),
  /** Policy tokens of a whole episode; observations are not counted. */
  max_episode_tokens: z.int().positive(),
  /** Prompt, replies and observations together; null: what the model can take. */
  max_context_tokens: z.int().positive().nullable(),
});
export type Sampling = z.infer<typeof sampling>;

/** Texts of the continuation style, as core/env.ts has them. null: observations are messages of the chat template. */
export const continuation = z
  .strictObject({ separator: z.string(), opening: z.string().min(1), stop: z.string().min(1) })
  .nullable();

/** Keys of peft's LoraConfig. null: train all parameters. */
export const lora = z
  .strictObject({
    r: z.int().positive(),
    lora_alpha: z.number().positive(),
    lora_dropout: z.number().min(0).lt(1),
    /** Module names, or "all-linear". */
    target_modules: z.union([z.literal("all-linear"), z.array(z.string()).min(1)]),
  })
  .nullable();
export type Lora = z.infer<typeof lora>;

const expertRow = z.object({
  id: z.string(),
  task_id: z.string(),
  prompt: z.array(messageSchema),
  turns: z.array(z.object({ reply: z.string(), observations: z.array(messageSchema) })),
});

const training = {
  /** A folder in Hugging Face format, or a hub id. */
  model: z.string(),
  /** The run folder: checkpoints go to `checkpoint-N/`, the trained model with its tokenizer to `final/`. */
  output_dir: z.string(),
  seed,
  /** Keys of TRL's config class, as the user gave them. */
  trainer: record,
  lora,
  /** Passed to the chat template, as { enable_thinking: false }. */
  chat_template_kwargs: record,
  continuation,
};

const trained = {
  /** Optimizer steps taken. */
  steps: count,
  train_loss: anyNumber.nullable(),
  /** "max_steps_or_epochs_completed", "stop_requested", or a guard's reason. */
  stop_reason: z.string(),
  parameters: z.strictObject({ total: count, trainable: count }),
  /** Wall-clock time of the training loop, seconds. */
  train_s: z.number().nonnegative(),
  peak_memory_gib: z.number().nonnegative().nullable(),
};

/** Time that `host.ask` took as Python saw it, seconds, all asks together: bridge and TypeScript. */
const ask_s = z.number().nonnegative();

export const entries = {
  /** Checks what can be checked before a model loads: config names, model files, the budgets against real tokens. */
  preflight: {
    request: z.strictObject({
      recipe: z.enum(["sft", "grpo", "play"]),
      model: z.string(),
      /** Keys of TRL's config class; {} for play. */
      trainer: record,
      lora,
      chat_template_kwargs: record,
      continuation,
      /** Of the whole run, and of them on this machine. */
      processes: z.int().positive().default(1),
      local_processes: z.int().positive().default(1),
      /** Worked solutions to be measured; the longest ones where there are many. */
      gold: z.array(expertRow),
      /** null where the recipe has none. */
      budgets: z.strictObject({
        max_turn_tokens: z.int().positive().nullable(),
        max_episode_tokens: z.int().positive().nullable(),
        max_context_tokens: z.int().positive().nullable(),
        /** SFT: tokens of a whole row. */
        max_length: z.int().positive().nullable(),
      }),
    }),
    result: z.strictObject({
      ok: z.boolean(),
      /** What has to change first, a sentence each: what came, what was expected, what to do. */
      problems: z.array(z.string()),
      warnings: z.array(z.string()),
      /** Tokens of the longest worked solution; null without `gold`. */
      longest: z
        .strictObject({
          prompt: count,
          turn: count,
          policy: count,
          observation: count,
          total: count,
          least_total: count,
        })
        .nullable(),
    }),
  },
  sft: {
    request: z.strictObject({
      ...training,
      /** JSON lines, an ExpertRow each. */
      rows_path: z.string(),
      max_length: z.int().positive(),
      /** Of Muon, for the layers' matrices; null: trainer.optim for all weights. */
      matrix_learning_rate: z.number().positive().nullable(),
    }),
    result: z.looseObject({
      ...trained,
      rows: count,
      /** Rows longer than max_length, left out. */
      rows_dropped: count,
      tokens: z.strictObject({ policy: count, total: count }),
    }),
  },
  grpo: {
    request: z.strictObject({
      ...training,
      /** The policy's name in the log. */
      policy: z.string(),
      task_ids: z.array(z.string()).min(1),
      /** From which optimizer step on groups are drawn from which of the tasks, rising from 0; []: always from all. */
      stages: z.array(z.strictObject({ from_step: count, task_ids: z.array(z.string()).min(1) })).default([]),
      sampling,
    }),
    result: z.looseObject({
      ...trained,
      /** Of all processes, as are the next three. */
      rollouts: count,
      invalid: count,
      groups: count,
      /** Groups whose valid rewards are all equal: they teach a group-relative trainer nothing. */
      groups_without_signal: count,
      ask_s,
    }),
  },
  /** Plays episodes with a model, no training. */
  play: {
    request: z.strictObject({
      model: z.string(),
      policy: z.string(),
      seed,
      chat_template_kwargs: record,
      continuation,
      /** Episodes of one batch are played at a time. */
      batches: z.array(z.array(episodeRequest).min(1)).min(1),
      sampling,
    }),
    result: z.looseObject({
      episodes: count,
      policy_tokens: count,
      /** Replies cut where the policy began to write the environment's part; always 0 where observations are messages. */
      stopped_replies: count,
      /** Wall-clock time of play, without loading the model, seconds. */
      play_s: z.number().nonnegative(),
      ask_s,
    }),
  },
  /** Trains a small model from scratch on generated dialogues, its tokenizer too. */
  pretrain: {
    request: z.strictObject({
      seed,
      output_dir: z.string(),
      threads: z.int().positive().nullable(),
      /** JSON lines of dialogues: a stage's own, and full ones that are never trained on. */
      dialogues: z.strictObject({ copy: z.string(), short: z.string(), full: z.string(), held_out: z.string() }),
      /** More rows for the tokenizer alone. */
      tokenizer_rows: z.array(z.string()),
      vocab_size: z.int().positive(),
      shape: z.strictObject({
        hidden_size: z.int().positive(),
        intermediate_size: z.int().positive(),
        layers: z.int().positive(),
        heads: z.int().positive(),
        initializer_range: z.number().positive(),
      }),
      stages: z.array(z.strictObject({ dialogues: z.enum(["copy", "short", "full"]), steps: count })).min(1),
      batch_size: z.int().positive(),
      learning_rate: z.number().positive(),
      /** Muon's, for the layers' matrices. */
      matrix_learning_rate: z.number().positive(),
      warmup_steps: z.int().positive(),
      /** Matrix products in bfloat16. */
      bf16: z.boolean(),
      log_steps: z.int().positive(),
      held_out_steps: z.int().positive(),
    }),
    result: z.looseObject({
      steps: count,
      stop_reason: z.string(),
      parameters: count,
      tokens: count,
      policy_tokens: count,
      train_s: z.number().nonnegative(),
      bytes: count,
      /** Shares of held-out actions, and of dialogues with all actions, that greedy decoding writes exactly. */
      "held_out/actions": z.number().min(0).max(1).optional(),
      "held_out/dialogues": z.number().min(0).max(1).optional(),
    }),
  },
  /** What is installed and works. */
  doctor: { request: z.looseObject({}), result: z.looseObject({}) },
} as const;

export type Entry = keyof typeof entries;
export type EntryRequest<Name extends Entry> = z.infer<(typeof entries)[Name]["request"]>;
export type EntryResult<Name extends Entry> = z.infer<(typeof entries)[Name]["result"]>;
