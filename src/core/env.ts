import type { z } from "zod";
import type { BadCaseRules } from "./bad-case.ts";
import { type BaselineSpec, type Baselines, playBaselines, REFERENCE_POLICY } from "./baselines.ts";
import { canonicalJson } from "./canonical-json.ts";
import type { CollectionRules } from "./collection.ts";
import { checkContinuation, checkExpert, checkReplies, checkSpec, checkTasks } from "./env-checks.ts";
import { type Episode, type EpisodeOptions, startEpisode } from "./episode.ts";
import { UserError } from "./errors.ts";
import type { BenchmarkRules } from "./measure.ts";
import type { Message } from "./message.ts";
import type { PairEnd, PairRules, PairTurn } from "./pair.ts";
import { createRandom, type Random } from "./random.ts";
import type { MeasuredRates } from "./rates.ts";
import type { FinishedEpisode, RewardComponent, Score } from "./reward.ts";
import type { ExpertRow, LoadedTasks, TaskBase } from "./task.ts";
import { describeIssues, type Tool } from "./tool.ts";
import type { Outcome, Turn } from "./trajectory.ts";

/** What an environment may use from outside. A replay can stand in for all of it. */
export interface EpisodeContext<Options> {
  options: Options;
  /** This episode's own stream. */
  random: Random;
  /** Which of a group's rollouts this is, from 0: all of a group have one seed, and so one stream. */
  trial: number;
  /** Aborted when the episode's time is up or the run stops: pass it on to every remote call. */
  signal: AbortSignal;
}

export interface StartResult<State> {
  state: State;
  /** The prompt: all that the policy sees before its first reply. */
  messages: Message[];
}

export interface StepResult<State> {
  state: State;
  thought: string;
  action: { name: string; args: Record<string, unknown> } | null;
  outcome: Outcome;
  /** Turns of their own (tool or user role) that the policy reads next; empty when terminated. */
  observations: Message[];
  terminated: boolean;
}

/**
 * How an episode goes on inside one assistant message: `separator`, each observation, `separator`, `opening`, and the
 * next reply behind it. For checkpoints that were trained so; otherwise observations are turns of their own.
 */
export interface Continuation {
  /** Stands before each observation and before the opening: "\n". */
  separator: string;
  /** Begins every reply: the first one writes it itself, the others find it written, as "Thought:". */
  opening: string;
  /** What only the environment writes: a reply ends where this text begins, as "Observation:". */
  stop: string;
}

/**
 * An environment: a fixed object. What changes is the state that goes in and comes out, so episodes cannot disturb
 * each other. `reset`, `step` and `score` never change what they are given.
 */
export interface EnvSpec<Task extends TaskBase, State, Options> {
  /** Name and version, as "arxiv@1". Raise the number when a change can move a score. */
  id: string;
  summary: string;
  /** What a user may set under `env_options`; every key has a default. */
  options: z.ZodType<Options>;
  /** Replies a policy has at most; past this a rollout is truncated. A task may override it. */
  max_turns: number | ((task: Task) => number);
  /** false: a policy may need fewer replies than gold, which asks and reports; left out: gold needs the fewest. */
  gold_is_shortest?: false;
  tools: readonly Tool<State>[];
  /** Texts at which a reply is over, as what only the environment may write: a model behind an API is told to stop there. */
  stop?: readonly string[];
  /** Set where these options ask for the continuation style. Left out: the environment has none. */
  continuation?(options: Options): Continuation | null;
  /** Whether under these options the tools' schemas go to the chat template. Left out: the prompt tells of them. */
  template_tools?(options: Options): boolean;
  components: readonly RewardComponent[];
  /** Split names for --help and error messages; the first is what training uses by default. */
  splits: readonly string[];
  /** What models are compared on by default; left out: the first split. */
  eval_split?: string;
  /** @throws UserError for a split that is missing, empty or broken. */
  load(split: string, options: Options): LoadedTasks<Task> | Promise<LoadedTasks<Task>>;
  reset(task: Task, context: EpisodeContext<Options>): StartResult<State> | Promise<StartResult<State>>;
  /** `reply` is the model's text as it was decoded, any text at all. Throws only where the environment itself fails. */
  step(
    state: State,
    reply: string,
    context: EpisodeContext<Options>,
    task: Task,
  ): StepResult<State> | Promise<StepResult<State>>;
  /** The one scorer: pure, no I/O. */
  score(episode: FinishedEpisode<State>, task: Task, options: Options): Score;
  /**
   * Training rewards of one task's rollouts under one seed, where they hang on each other: one a member, null where it
   * has none (its score is null). Null in place of the list, or the hook left out: each keeps its own.
   */
  group_rewards?(group: readonly (Score | null)[], options: Options): (number | null)[] | null;
  /** Gives back what the episode holds outside its state. Called exactly once, however it ended. */
  close?(state: State): void | Promise<void>;
  /** Policies without a model: a task in, its replies out. `gold` solves the task. */
  policies: Record<string, (task: Task, random: Random, options: Options) => string[]> & {
    gold: (task: Task, random: Random, options: Options) => string[];
  };
  /** How the gate plays them (`trestle baselines`); left out: all of them in the environment, on the first split. */
  baselines?: BaselineSpec<Task, Options>;
  /** SFT data that goes beyond gold replays (derived tasks, wordings). Left out: the gold replays of the split. */
  expert?(split: string, options: Options): Promise<{ rows: ExpertRow[]; manifest: Record<string, unknown> }>;
  /** A short line for tables, as a task's category. */
  category?(task: Task): string;
  /**
   * Judges stored trajectories again, without a model: one line of the family's score format in, one out. A result with
   * a text as `skipped` says why there is nothing to judge, as for a task that nobody knows.
   * @throws UserError for a line that does not fit the format
   */
  rescore?(line: unknown, options: Options): unknown | Promise<unknown>;
  /** What a library of bad cases asks of `rescore`. */
  bad_cases?: BadCaseRules;
  /** How its stored trajectories become preference pairs. */
  pairs?: PairRules<Task, Options>;
  /** Its own measures in a benchmark's report. */
  benchmark?: BenchmarkRules;
  /** How a teacher's episodes become SFT data; left out: successes of the first split. */
  collection?: CollectionRules;
  /** Tasks that training plays now and then to see that nothing is unlearnt. Left out: the config names them. */
  canary?: CanaryTasks;
}

/** A few tasks of a split, by id. */
export interface CanaryTasks {
  split: string;
  task_ids: readonly string[];
}

/** A split of an environment with the family's types sealed in. */
export interface TaskSet {
  env_id: string;
  split: string;
  ids: readonly string[];
  sources: Record<string, string>;
  /** Left out: none were measured. */
  rates?: MeasuredRates | null;
  /** false: a turn budget below gold's replies may do. Left out: it does not. */
  gold_is_shortest?: false;
  category(task_id: string): string;
  max_turns(task_id: string): number;
  /** See `EnvSpec.group_rewards`. null, or left out: each member keeps its own reward. */
  group_rewards?(group: readonly (Score | null)[]): (number | null)[] | null;
  start(task_id: string, options: EpisodeOptions): Promise<Episode>;
  /** The replies of one of the environment's own policies. */
  replies(policy: string, task_id: string, random: Random): string[];
}

/** An environment with the family's types sealed in, so that families fit one list without generics. */
export interface Env {
  id: string;
  /** The id without its version. */
  name: string;
  summary: string;
  max_turns: number | null;
  components: readonly RewardComponent[];
  splits: readonly string[];
  eval_split: string;
  policies: readonly string[];
  tools: readonly { name: string; description: string; parameters: Record<string, unknown> }[];
  /** Texts at which a reply is over. */
  stop: readonly string[];
  /** null: under these options a dialogue is of messages. @throws UserError for options that do not fit */
  continuation(options?: unknown): Continuation | null;
  /** Whether under these options `tools` go to the chat template. @throws UserError for options that do not fit */
  template_tools(options?: unknown): boolean;
  /** @throws UserError naming each option that does not fit. */
  parseOptions(options: unknown): Record<string, unknown>;
  load(split: string, options?: unknown): Promise<TaskSet>;
  /** The discrimination gate: see baselines.ts. */
  baselines: Baselines;
  /** SFT rows of a split. */
  expert(split: string, options?: unknown): Promise<{ rows: ExpertRow[]; manifest: Record<string, unknown> }>;
  /** null: the family has no format for stored trajectories. */
  rescore: ((line: unknown, options?: unknown) => Promise<unknown>) | null;
  /** null: the family keeps no bad cases. */
  bad_cases: BadCaseRules | null;
  /** null: the family does not say which of its tasks may become preference data. */
  pairs: EnvPairs | null;
  /** null: the family has no measures of its own. */
  benchmark: BenchmarkRules | null;
  /** null: the family has no rules of its own. */
  collection: CollectionRules | null;
  /** null: the family names none. */
  canary: CanaryTasks | null;
}

/** How stored trajectories become preference pairs, with the family's types sealed in. */
export interface EnvPairs {
  split: string;
  end: PairEnd;
  action(turn: Turn): string;
  history: ((line: unknown) => { task_id: string; turns: PairTurn[] } | null) | null;
  /** The tasks of a split that is there to be trained on. @throws UserError for any other */
  load(
    split: string,
    options?: unknown,
  ): Promise<TaskSet & { fits(task_id: string, prompt: readonly Message[]): boolean }>;
}

export function defineEnv<Task extends TaskBase, State, Options>(spec: EnvSpec<Task, State, Options>): Env {
  checkSpec(spec);
  const name = spec.id.split("@")[0]!;

  function parseOptions(options: unknown = {}): Options {
    const parsed = spec.options.safeParse(options);
    if (!parsed.success) throw new UserError(`env_options of ${name}: ${describeIssues(parsed.error)}`);
    return parsed.data;
  }

  async function loadTasks(split: string, options: Options): Promise<LoadedTasks<Task>> {
    const loaded = await spec.load(split, options);
    checkTasks(spec, split, loaded);
    return loaded;
  }

  function unknownPolicy(policy: string): UserError {
    return new UserError(`${name} has no policy '${policy}'. It has: ${Object.keys(spec.policies).join(", ")}.`);
  }

  async function load(split: string, rawOptions?: unknown): Promise<TaskSet> {
    const options = parseOptions(rawOptions);
    return seal(split, options, await loadTasks(split, options)).set;
  }

  function seal(split: string, options: Options, { tasks, sources, rates = null }: LoadedTasks<Task>) {
    const byId = new Map(tasks.map((task) => [task.id, task]));
    function find(task_id: string): Task {
      const task = byId.get(task_id);
      if (!task)
        throw new UserError(
          `${name}: split ${split} has no task '${task_id}'. It has: ${shortList([...byId.keys()])}.`,
        );
      return task;
    }
    const set: TaskSet = {
      env_id: spec.id,
      split,
      ids: tasks.map((task) => task.id),
      sources,
      rates,
      ...(spec.gold_is_shortest === false && { gold_is_shortest: false as const }),
      category: (task_id) => spec.category?.(find(task_id)) ?? name,
      max_turns: (task_id) => (typeof spec.max_turns === "number" ? spec.max_turns : spec.max_turns(find(task_id))),
      group_rewards: (group) => spec.group_rewards?.(group, options) ?? null,
      start: (task_id, episode) => startEpisode(spec, find(task_id), options, episode),
      replies(policy, task_id, random) {
        const play = Object.hasOwn(spec.policies, policy) ? spec.policies[policy] : undefined;
        if (!play) throw unknownPolicy(policy);
        return checkReplies(policy, task_id, play(find(task_id), random, options));
      },
    };
    return { set, find };
  }

  function sealPairs(rules: PairRules<Task, Options>): EnvPairs {
    return {
      split: rules.split,
      end: rules.end ?? { action: "", reply: null },
      action: rules.action ?? (({ action, reply }) => (action ? canonicalJson(action) : reply.trim())),
      history: rules.history ?? null,
      async load(split, rawOptions) {
        const options = parseOptions(rawOptions);
        const loaded = await rules.load(split, options);
        checkTasks(spec, split, loaded);
        const { set, find } = seal(split, options, loaded);
        return { ...set, fits: (task_id, prompt) => rules.fits?.(find(task_id), prompt) ?? true };
      },
    };
  }

  return {
    id: spec.id,
    name,
    summary: spec.summary,
    max_turns: typeof spec.max_turns === "number" ? spec.max_turns : null,
    components: spec.components,
    splits: spec.splits,
    eval_split: spec.eval_split ?? spec.splits[0]!,
    policies: Object.keys(spec.policies),
    tools: spec.tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    stop: spec.stop ?? [],
    continuation: (options) => checkContinuation(spec.id, spec.continuation?.(parseOptions(options)) ?? null),
    template_tools: (options) => spec.template_tools?.(parseOptions(options)) ?? false,
    parseOptions: (options) => parseOptions(options) as Record<string, unknown>,
    load,
    baselines: {
      split: spec.baselines?.split ?? spec.splits[0]!,
      bounds: spec.baselines?.bounds ?? { aggregate: 0.3, category: 0.3 },
      policies: Object.keys(spec.policies).filter((policy) => policy !== REFERENCE_POLICY),
      random: spec.baselines?.random ?? [],
      async play({ options: rawOptions, split, ...request }) {
        const unknown = request.policies.find((policy) => !Object.hasOwn(spec.policies, policy));
        if (unknown !== undefined) throw unknownPolicy(unknown);
        const options = parseOptions(rawOptions);
        const loaded = await loadTasks(split, options);
        return { rows: await playBaselines(spec, loaded, options, request), sources: loaded.sources };
      },
    },
    async expert(split, rawOptions) {
      const options = parseOptions(rawOptions);
      if (spec.expert) return checkExpert(spec.id, split, await spec.expert(split, options));
      return replayGold(await load(split, rawOptions));
    },
    rescore: spec.rescore ? async (line, options) => spec.rescore!(line, parseOptions(options)) : null,
    bad_cases: spec.bad_cases ?? null,
    pairs: spec.pairs ? sealPairs(spec.pairs) : null,
    benchmark: spec.benchmark ?? null,
    collection: spec.collection ?? null,
    canary: spec.canary ?? null,
  };
}

/** The gold replies of every task, played in the environment. @throws UserError for a task that they do not solve. */
export async function replayGold(tasks: TaskSet): Promise<{ rows: ExpertRow[]; manifest: Record<string, unknown> }> {
  const rows: ExpertRow[] = [];
  for (const task_id of tasks.ids) {
    const episode = await tasks.start(task_id, { seed: 0 });
    const prompt = [...episode.messages];
    const turns: ExpertRow["turns"] = [];
    for (const reply of tasks.replies("gold", task_id, createRandom(0))) {
      const { observations } = await episode.reply(reply);
      turns.push({ reply, observations });
    }
    const trajectory = await episode.finish();
    if (!trajectory.success)
      throw new UserError(
        `${tasks.env_id}: the gold replies of task '${task_id}' do not solve it (${trajectory.ended_by}` +
          `${trajectory.ended_why ? `: ${trajectory.ended_why}` : ""}, reward ${trajectory.reward}).`,
      );
    rows.push({ id: task_id, task_id, prompt, turns, meta: {} });
  }
  return { rows, manifest: { kind: "gold_replay", split: tasks.split, rows: rows.length, sources: tasks.sources } };
}

function shortList(items: readonly string[]): string {
  return items.length <= 8 ? items.join(", ") : `${items.slice(0, 8).join(", ")} and ${items.length - 8} more`;
}
