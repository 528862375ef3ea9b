import { z } from "zod";
import { messageSchema } from "../core/message.ts";
import type { FunctionTool } from "../core/tool.ts";

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

/** What episodes are played for. All but training's are exams: they teach nothing. */
export const purpose = z.enum(["training", "canary", "validation", "verification"]);
export type Purpose = z.infer<typeof purpose>;

const endedBy = z.enum(["terminated", "truncated", "error", "timeout"]);
const metricValue = z.union([z.number(), z.boolean(), z.string(), z.null()]);

// ------------------------------------------------------------------------------------------ what Python asks

export const ops = {
  /** Starts a batch of episodes. */
  start: {
    payload: z.strictObject({
      purpose: purpose.default("training"),
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
          /** What single replies earned, one each; absent where the environment does not say. */
          turn_scores: z.array(z.number()).optional(),
        }),
      ),
    }),
  },
  /** One point of the run's curves. The only place where numbers may be NaN or infinite. */
  log: {
    payload: z.strictObject({ step: count, metrics: z.record(z.string(), anyNumber) }),
    answer: z.strictObject({}),
  },
  /** A checkpoint was written: where this process's logs end, and what it has counted, so that a run can go on from it. */
  checkpoint: {
    payload: z.strictObject({ step: count }),
    answer: z.strictObject({
      step: count,
      /** Bytes of each log that are on the disk, by its path in the run folder. */
      logs: z.record(z.string(), count),
      counters: record,
    }),
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

const functionTool: z.ZodType<FunctionTool> = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({ name: z.string(), description: z.string(), parameters: record }),
});

/** How a dialogue becomes tokens. */
const chat = {
  /** In place of the model's own template: the name of one of Python's, as "hermes", or a .jinja file. null: its own. */
  chat_template: z.string().nullable().default(null),
  /** Passed to the chat template, as { enable_thinking: false }. */
  chat_template_kwargs: record,
  continuation,
  /** What the chat template writes into every prompt. null: the environment's messages tell of its tools, if it has any. */
  tools: z.array(functionTool).nullable().default(null),
};

/** Keys of peft's LoraConfig; those left out are Python's defaults, or a continued adapter's. null: train all parameters. */
export const lora = z
  .strictObject({
    r: z.int().positive().optional(),
    lora_alpha: z.number().positive().optional(),
    lora_dropout: z.number().min(0).lt(1).optional(),
    /** Module names, or "all-linear". */
    target_modules: z.union([z.literal("all-linear"), z.array(z.string()).min(1)]).optional(),
  })
  .nullable();
export type Lora = z.infer<typeof lora>;

/** Who scores the student's tokens: a local model, or one behind an OpenAI-compatible server; its key is not in here. */
export const teacher = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("model"), model: z.string() }),
  z.strictObject({
    kind: z.literal("api"),
    /** Mostly ends in /v1. */
    base_url: z.string(),
    /** "", or as "?api-version=1". */
    query: z.string(),
    model: z.string(),
    /** A folder or hub id with the teacher's tokenizer. */
    tokenizer: z.string().nullable(),
    trust_tokenizer: z.boolean(),
    max_retries: count,
    timeout_s: z.number().positive(),
    parallel: z.int().positive(),
  }),
]);
export type Teacher = z.infer<typeof teacher>;

/** How advantages become one a token, and which KL term the loss has. null: TRL's own way. */
export const shaping = z
  .strictObject({
    advantage: z.enum(["none", "turn_discount", "lata", "turn_scores"]),
    alpha: z.number().positive(),
    alpha_unit: z.enum(["token", "turn"]),
    /** null: as the shaper has it. */
    length_norm: z.enum(["none", "sqrt"]).nullable(),
    length_base: z.enum(["tokens", "turns"]),
    kl_estimator: z.enum(["k3", "squared"]),
  })
  .nullable();
export type ShapingRequest = z.infer<typeof shaping>;

/** DAPO's dynamic sampling (arXiv:2503.14476): groups without a difference give way to groups of other tasks. null: off. */
export const dynamicSampling = z
  .strictObject({
    /** What must differ within a group. */
    metric: z.enum(["reward", "success"]),
    /** A group is accepted where the standard deviation of its rewards is above it. */
    std_threshold: z.number().nonnegative(),
    /** Groups that are played beside a batch's own, at most. */
    max_resamples: z.int().positive(),
    on_exhausted: z.enum(["fail", "fill_with_best_std"]),
  })
  .nullable();
export type DynamicSampling = z.infer<typeof dynamicSampling>;

/** What weights are stored as. */
export const storedPrecisions = ["bf16", "fp16", "fp32"] as const;
/** "auto": by hardware. Frozen weights and all computations have it; weights that are trained stay in 32 bits. */
export const precisions = ["auto", ...storedPrecisions] as const;
export type Precision = (typeof precisions)[number];

/** How a policy is adapted and computed. `qlora`: the base in 4 bits where hardware can. */
const adapted = { lora, qlora: z.boolean().default(false), precision: z.enum(precisions).default("auto") };

/** When a run ends because nothing is learnt any more. null: replies that are all cut off alone end it. */
export const guards = z
  .strictObject({
    /** Goes on where no group has any difference in reward. */
    allow_zero_variance: z.boolean(),
    /** Least entropy, as a share of the first step's. null: off, as of the next two. */
    min_entropy_share: z.number().min(0).max(1).nullable(),
    /** Most of the replies' n-grams that may stand earlier in the same reply, a share. */
    max_repetition: z.number().min(0).max(1).nullable(),
    /** Most of a step's episodes that may run out of tokens, a share. */
    max_clipped_share: z.number().min(0).max(1).nullable(),
    /** Steps in a row that one of these three has to be beyond its limit. */
    collapse_patience: z.int().positive(),
    /** Tasks played every `steps` optimizer steps, `generations` times each. null: none. */
    canary: z
      .strictObject({
        task_ids: z.array(z.string()).min(1),
        generations: z.int().positive(),
        steps: z.int().positive(),
        min_reward: z.number(),
        patience: z.int().positive(),
      })
      .nullable(),
  })
  .nullable()
  .default(null);
export type Guards = NonNullable<z.infer<typeof guards>>;

/** Tasks played every `steps` optimizer steps under the conditions of an evaluation, `samples` times each. null: none. */
export const validation = z
  .strictObject({
    task_ids: z.array(z.string()).min(1),
    samples: z.int().positive(),
    steps: z.int().positive(),
    sampling,
  })
  .nullable()
  .default(null);
export type ValidationRequest = z.infer<typeof validation>;

/** Episodes played with the policy once it is trained, each task `samples` times. null: none. */
const verification = z
  .strictObject({
    /** The policy's name in the log. */
    policy: z.string(),
    task_ids: z.array(z.string()).min(1),
    samples: z.int().positive(),
    sampling,
  })
  .nullable()
  .default(null);

/** null: no verification was asked for, or the run was stopped before it. */
const verified = z
  .strictObject({
    episodes: count,
    /** Episodes that did not fail in the environment; the figures are means over them, null without any. */
    valid: count,
    mean_reward: z.number().nullable(),
    /** Share of an episode's replies that can be read. */
    parse_rate: z.number().nullable(),
    success: z.number().nullable(),
  })
  .nullable()
  .default(null);
export type Verified = NonNullable<z.infer<typeof verified>>;

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
  /** A whole checkpoint to go on from; null: from `model`. */
  resume_from: z.string().nullable().default(null),
  seed,
  /** Keys of TRL's config class, as the user gave them. */
  trainer: record,
  ...adapted,
  ...chat,
};

const trained = {
  /** Optimizer steps taken. */
  steps: count,
  train_loss: anyNumber.nullable(),
  /** "max_steps_or_epochs_completed", "stop_requested", or a guard's reason. */
  stop_reason: z.string(),
  /** The sentence of the guard that stopped it. */
  stop_detail: z.string().nullable().default(null),
  verification: verified,
  parameters: z.strictObject({ total: count, trainable: count }),
  /** Wall-clock time of the training loop, seconds, that before a restart included. */
  train_s: z.number().nonnegative(),
  /** Of it, what `host.ask` took as Python saw it (bridge and TypeScript), and what the bridge alone did. */
  ask_s: z.number().nonnegative(),
  bridge_s: z.number().nonnegative(),
  peak_memory_gib: z.number().nonnegative().nullable(),
};

/** Time that `host.ask` took as Python saw it, seconds, all asks together: bridge and TypeScript. */
const ask_s = z.number().nonnegative();

export const entries = {
  /** Checks what can be checked before a model loads: config names, model files, the budgets against real tokens. */
  preflight: {
    request: z.strictObject({
      recipe: z.enum(["sft", "dpo", "grpo", "opd", "play"]),
      model: z.string(),
      /** Keys of TRL's config class; {} for play. */
      trainer: record,
      ...adapted,
      ...chat,
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
        /** SFT and DPO: tokens of a whole row. */
        max_length: z.int().positive().nullable(),
      }),
      /** OPD: compared with the model, and an endpoint is asked for a short text. */
      teacher: teacher.optional(),
      sampling: sampling.optional(),
    }),
    result: z.strictObject({
      ok: z.boolean(),
      /** What has to change first, a sentence each: what came, what was expected, what to do. */
      problems: z.array(z.string()),
      warnings: z.array(z.string()),
      /** Every key of TRL's config class with the value it has after its own defaults; {} where there are problems. */
      effective: record.default({}),
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
      /** JSON lines, an ExpertRow each, or a conversation each: src/conversation-rows.ts. */
      rows_path: z.string(),
      max_length: z.int().positive(),
      /** Of conversations alone: arguments that are JSON text become objects before the template writes them, */
      decode_arguments: z.boolean().default(true),
      /** the newline behind an end of turn is not learnt, */
      mask_final_newline: z.boolean().default(false),
      /** the template gets the row's tools, or `tools` where it names none. */
      write_tools: z.boolean().default(true),
      /** Of Muon, for the layers' matrices; null: trainer.optim for all weights. */
      matrix_learning_rate: z.number().positive().nullable(),
      verification,
    }),
    result: z.looseObject({
      ...trained,
      rows: count,
      /** Rows left out: longer than max_length, or a conversation for one of its reasons. */
      rows_dropped: count,
      tokens: z.strictObject({ policy: count, total: count }),
      /** null: the rows were no conversations. */
      conversations: z
        .strictObject({
          rows: count,
          kept: count,
          /** By the reason; airline.md 7.6. */
          dropped: z.strictObject({
            no_assistant: count,
            too_long: count,
            template_not_incremental: count,
            misaligned: count,
            too_few_labels: count,
            render_error: count,
          }),
          /** Means over the rows kept, and the learnt share of all their tokens. */
          mean_total_tokens: z.number(),
          mean_label_tokens: z.number(),
          label_share: z.number(),
        })
        .nullable()
        .default(null),
    }),
  },
  dpo: {
    request: z.strictObject({
      ...training,
      /** JSON lines, a PairRow each. */
      pairs_path: z.string(),
      max_length: z.int().positive(),
      verification,
    }),
    result: z.looseObject({
      ...trained,
      /** Pairs trained on. */
      pairs: count,
      /** Pairs left out, by the reason. */
      dropped: z.strictObject({ identical: count, empty: count, too_long: count }),
      /** `policy`: those that are scored. */
      tokens: z.strictObject({ policy: count, total: count }),
      /**
       * Means over all pairs, before the first step and after the last; null after a loss that was lost. Margin: beta
       * times (log-ratio of policy and reference of the chosen side − of the rejected one); logp: nats of a side's
       * replies under the policy; accuracy: share of pairs with a margin above 0.
       */
      margin_before: anyNumber,
      margin_after: anyNumber.nullable(),
      accuracy_after: anyNumber.nullable(),
      chosen_logp_before: anyNumber,
      chosen_logp_after: anyNumber.nullable(),
      rejected_logp_before: anyNumber,
      rejected_logp_after: anyNumber.nullable(),
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
      dynamic_sampling: dynamicSampling.default(null),
      sampling,
      shaping: shaping.default(null),
      guards,
      validation,
      verification,
    }),
    result: z.looseObject({
      ...trained,
      /** Played in all, by all processes; with dynamic sampling those too that no step learnt from. */
      rollouts: count,
      invalid: count,
      /** Groups that steps learnt from, and those of them whose valid rewards are all equal, which teach nothing. */
      groups: count,
      groups_without_signal: count,
      /** Over all batches; null where it is off. */
      dynamic_sampling: z
        .looseObject({
          batches: count,
          accepted_groups: count,
          rejected_groups: count,
          /** Groups played beside the batches' own. */
          attempts: count,
          /** Rejected groups that were learnt from all the same (fill_with_best_std). */
          filled_groups: count,
          /** The batch that ended the run, where one did. */
          exhausted: z.record(z.string(), z.number()).nullable(),
        })
        .nullish(),
    }),
  },
  /** On-policy distillation: the model is the student. LLM_API_KEY of Python's environment goes to an endpoint. */
  opd: {
    request: z.strictObject({
      ...training,
      /** The student's name in the log. */
      policy: z.string(),
      teacher,
      task_ids: z.array(z.string()).min(1),
      sampling,
      guards,
      verification,
    }),
    result: z.looseObject({
      ...trained,
      rollouts: count,
      policy_tokens: count,
      /** Policy tokens that the teacher gave a probability for, and those it gave none for. */
      teacher_tokens: count,
      missing_logprobs: count,
      /** Answered requests of an endpoint, and tries after a failed one. */
      teacher_calls: count,
      teacher_retries: count,
    }),
  },
  /** Plays episodes with a model, no training. */
  play: {
    request: z.strictObject({
      model: z.string(),
      policy: z.string(),
      seed,
      ...chat,
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
  /** Scores what a policy wrote under it and its reference: how far it has gone from there. */
  reference_kl: {
    request: z.strictObject({
      model: z.string(),
      /** null: the model with its adapter switched off. */
      reference: z.string().nullable(),
      ...chat,
      /** JSON lines, an ExpertRow each. */
      rows_path: z.string(),
    }),
    result: z.strictObject({
      /** In the order of the rows: policy tokens, and the sums over them of log π − log π_ref and of its square, nats. */
      rows: z.array(z.strictObject({ id: z.string(), tokens: count, kl: z.number(), squared: z.number() })),
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
  /** Merges an adapter into its base, and compares what was written with base and adapter. */
  merge: {
    request: z.strictObject({
      adapter: z.string(),
      /** null: the one that the adapter names. */
      base: z.string().nullable(),
      /** The folder that the merged model becomes. */
      output: z.string(),
      /** null: as the base is stored. */
      dtype: z.enum(storedPrecisions).nullable(),
      /** Replaces what an earlier merge made. */
      force: z.boolean(),
      /** Goes into merge.json as it is. */
      facts: record,
    }),
    result: z.looseObject({
      output: z.string(),
      base: z.string(),
      dtype: z.enum(storedPrecisions),
      largest_logit_difference: z.number().nonnegative(),
      /** What the largest difference may be. */
      tolerance: z.number().positive(),
      /** How far the adapter moves the base's logits. */
      adapter_effect: z.number().nonnegative(),
      prompts: count,
      /** The output head got a matrix of its own. */
      untied_embeddings: z.boolean(),
      /** What the adapter's base was loaded as in training; null: not known. */
      trained_on: z.looseObject({ quantization: z.string().nullable() }).nullable(),
    }),
  },
  /** How long texts are in a model's tokens, special ones not added. No weights are loaded. */
  count_tokens: {
    request: z.strictObject({ model: z.string(), texts: z.array(z.string()) }),
    result: z.strictObject({ counts: z.array(count) }),
  },
  /** What is installed and works. */
  doctor: { request: z.looseObject({}), result: z.looseObject({}) },
} as const;

export type ChatRequest = Pick<EntryRequest<"play">, keyof typeof chat>;
export type Entry = keyof typeof entries;
export type EntryRequest<Name extends Entry> = z.infer<(typeof entries)[Name]["request"]>;
export type EntryResult<Name extends Entry> = z.infer<(typeof entries)[Name]["result"]>;
