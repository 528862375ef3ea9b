import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { isApi, openApi } from "../benchmark/api.ts";
import { rolloutConfig } from "../benchmark/config.ts";
import type { Env, TaskSet } from "./core/env.ts";
import type { Episode } from "./core/episode.ts";
import { errorText, UserError } from "./core/errors.ts";
import type { Message } from "./core/message.ts";
import type { Player } from "./core/policy.ts";
import type { Trajectory } from "./core/trajectory.ts";
import { airlinePlay } from "./envs/airline/play.ts";
import { loadEnv } from "./envs/index.ts";
import { scriptedPolicy } from "./policies/scripted.ts";
import { templateTools } from "./recipes/shared.ts";
import { readInput } from "./text-file.ts";
import { splitLines } from "./trajectory-log.ts";

// `trestle play`: a list of actions on a task's data, or a person on either side of a dialogue.

/** What a family puts in. What it leaves out, `play` does not do with it. */
interface FamilyPlay {
  /** Takes options, gives what plays one line of a file of actions, and throws UserErrors about the line. */
  actions?(options: unknown): (line: string) => readonly object[];
  /** A typed line as a reply; left out: as it stands. @throws UserError for a line that can't be meant */
  reply?(line: string): string;
  /** What is told of an end beside the score. */
  account?(trajectory: Trajectory, options: unknown): Promise<Record<string, unknown>>;
  /** The option `user` that makes a person the user. */
  user?: Record<string, unknown>;
  /** How to type. */
  help?: string;
}

const families: Readonly<Record<string, FamilyPlay>> = { airline: airlinePlay };

export interface PlayFlags {
  env: string;
  actions?: string;
  dataDir?: string;
  tasks?: string;
  taskId?: string;
  as: "agent" | "user";
  policy: string;
  seed: number;
  envOptions: Record<string, unknown>;
  json?: boolean;
}

export interface PlayStreams {
  input: Readable;
  /** Results and observations. */
  output: Writable;
  /** Prompts and problems. */
  errors: Writable;
}

const standard = (): PlayStreams => ({ input: process.stdin, output: process.stdout, errors: process.stderr });

/** The exit code: 1 where lines of a file of actions were left out. @throws UserError */
export async function runPlay(flags: PlayFlags, streams: PlayStreams = standard()): Promise<number> {
  const env = await loadEnv(flags.env);
  const family = families[env.name] ?? {};
  const options = env.parseOptions({
    ...flags.envOptions,
    ...(flags.dataDir === undefined ? {} : { data_dir: flags.dataDir }),
    ...(flags.tasks === undefined ? {} : { tasks: flags.tasks }),
  });
  if (flags.actions !== undefined) return playActions(env, family, flags.actions, options, streams);
  if (flags.taskId === undefined)
    throw new UserError("play needs --task-id for a person, or --actions for a list of actions.");
  await playPerson(env, family, flags, options, streams);
  return 0;
}

async function playActions(
  env: Env,
  family: FamilyPlay,
  file: string,
  options: Record<string, unknown>,
  { output, errors }: PlayStreams,
): Promise<number> {
  if (!family.actions)
    throw new UserError(`${env.name} has no lists of actions. Play it with --task-id, or bench it with --policy.`);
  const play = family.actions(options);
  const { text, name } = await readInput(file);
  let wrong = 0;
  for (const { line, content } of splitLines(text)) {
    try {
      output.write(
        play(content)
          .map((result) => `${JSON.stringify(result)}\n`)
          .join(""),
      );
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      errors.write(`${name}, line ${line}: ${error.message}\n`);
      wrong++;
    }
  }
  return wrong > 0 ? 1 : 0;
}

/** One episode with a person. It ends where the input does, too. */
async function playPerson(
  env: Env,
  family: FamilyPlay,
  flags: PlayFlags,
  given: Record<string, unknown>,
  streams: PlayStreams,
): Promise<void> {
  const { taskId: task_id = "", as: part, policy, seed, json = false } = flags;
  const asUser = part === "user";
  if (asUser && !family.user) throw new UserError(`${env.name} has no user whose part a person could take.`);
  const options = asUser ? { ...given, user: { ...(given.user as object | undefined), ...family.user } } : given;
  const tasks = await tasksWith(env, task_id, options);
  const agent = asUser ? agentOf(env, tasks, { task_id, policy, seed }, options) : null;
  const { show, tell } = shown(json, streams);
  try {
    const episode = await tasks.start(task_id, { seed, policy: agent ? policy : "human" });
    if (agent) await letAgentPlay(episode, agent.player);
    else await letPersonPlay(episode, family, show, streams);
    if (!episode.ended_by) episode.end("truncated", "the input is over");
    const trajectory = await episode.finish();
    const { ended_by, ended_why, reward, success, parts } = trajectory;
    tell({ task_id, ended_by, ended_why, reward, success, parts, ...(await family.account?.(trajectory, options)) });
  } finally {
    agent?.close();
  }
}

/** The first split that has the task. */
async function tasksWith(env: Env, task_id: string, options: Record<string, unknown>): Promise<TaskSet> {
  let problem: unknown = null;
  let loaded = false;
  for (const split of env.splits) {
    try {
      const tasks = await env.load(split, options);
      loaded = true;
      if (tasks.ids.includes(task_id)) return tasks;
    } catch (error) {
      problem ??= error; // another split may do without the file that this one lacks
    }
  }
  throw new UserError(
    `${env.name} has no task '${task_id}' in ${env.splits.join(", ")}.${loaded ? "" : ` ${errorText(problem)}`}`,
  );
}

async function letPersonPlay(
  episode: Episode,
  { reply = (line) => line, help }: FamilyPlay,
  show: (message: Message) => void,
  { input, errors }: PlayStreams,
): Promise<void> {
  for (const message of episode.messages) show(message);
  if (help) errors.write(`${help}\n`);
  const lines = createInterface({ input, terminal: false });
  try {
    if (!episode.ended_by) errors.write("agent> ");
    for await (const line of lines) {
      if (line.trim() !== "") {
        const { text, problem } = typed(line, reply);
        if (text === null) errors.write(`${problem}\n`);
        else for (const message of (await episode.reply(text)).observations) show(message);
      }
      if (episode.ended_by) break;
      errors.write("agent> ");
    }
  } finally {
    lines.close();
    errors.write("\n");
  }
}

function typed(line: string, reply: (line: string) => string): { text: string | null; problem: string } {
  try {
    return { text: reply(line), problem: "" };
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { text: null, problem: error.message };
  }
}

interface Agent {
  player: Pick<Player, "reply">;
  close(): void;
}

/** @throws UserError for a policy that can't be talked to */
function agentOf(
  env: Env,
  tasks: TaskSet,
  { task_id, policy, seed }: { task_id: string; policy: string; seed: number },
  options: Record<string, unknown>,
): Agent {
  if (policy.startsWith("model:"))
    throw new UserError(`${policy}: play talks to no local model; serve it, and name it as api:<model>.`);
  if (!isApi(policy))
    return { player: scriptedPolicy(policy, tasks, seed).start({ task_id, trial: 0 }), close: () => {} };
  const config = rolloutConfig.parse({ env: env.name, policy, seed });
  const tools = templateTools(env, options);
  const api = openApi(config, { stop: env.stop, tools, given: new Set(), recorded: [] });
  return { player: api.policy.start({ task_id, trial: 0 }), close: api.close };
}

/** The policy is the agent; the environment asks the person for the user's part. */
async function letAgentPlay(episode: Episode, player: Agent["player"]): Promise<void> {
  const { signal } = new AbortController();
  while (!episode.ended_by) {
    const answer = await player.reply(episode.messages, signal);
    if ("ended" in answer) return episode.end("truncated", answer.ended);
    await episode.reply(answer.text);
  }
}

/** Messages and the end, for people or as JSON lines. */
function shown(json: boolean, { output }: PlayStreams) {
  const line = (text: string) => void output.write(`${text}\n`);
  return {
    show: ({ role, content }: Message) => line(json ? JSON.stringify({ role, content }) : `${role}: ${content}`),
    tell(end: Record<string, unknown>) {
      if (json) return line(JSON.stringify(end));
      line("");
      for (const [name, value] of Object.entries(end))
        line(`${name}: ${typeof value === "object" ? JSON.stringify(value) : String(value)}`);
    },
  };
}
