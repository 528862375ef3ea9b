import { UserError } from "../../core/errors.ts";
import type { Trajectory } from "../../core/trajectory.ts";
import { playLine } from "./actions.ts";
import { parseJson } from "./data/python-json.ts";
import { isDict, type PyValue } from "./data/python-values.ts";
import { stateSha256 } from "./data/state-hash.ts";
import { databaseOf } from "./database.ts";
import { findAirlineTask } from "./known-tasks.ts";
import { type AirlineOptions, airlineOptions } from "./options.ts";
import { renderReply } from "./protocol/hermes.ts";
import { replayEpisode } from "./replay.ts";
import { airlineToolNamed, airlineTools } from "./tools/index.ts";

// How this family is played from the command line: lists of actions, and a person on either side.

export const airlinePlay = {
  /**
   * What plays a line of actions; options as `env_options` are written. It throws UserErrors about the line.
   * @throws UserError for data that can't be loaded: no line could be played
   */
  actions(options: unknown) {
    const parsed = airlineOptions.parse(options);
    databaseOf(parsed);
    return (line: string) => playLine(line, parsed);
  },
  reply: typedReply,
  account,
  /** Makes a person the user. */
  user: { strategy: "human" },
  help: `A line is a call, as get_user_details {"user_id": "…"}, or else what you say to the user. Tools: ${airlineTools
    .map(({ name }) => name)
    .join(", ")}.`,
};

/**
 * A typed line as a reply: `name {json}` for a tool's name is a call, anything else is said to the user.
 * @throws UserError for a call whose arguments are no JSON object
 */
export function typedReply(line: string): string {
  const { name, rest } = /^(?<name>[a-z_]+)\s*(?<rest>\{.*)?$/s.exec(line.trim())?.groups ?? {};
  if (!name || !airlineToolNamed(name)) return line;
  const given = rest === undefined ? new Map<string, PyValue>() : jsonOf(rest);
  if (!isDict(given)) throw new UserError(`The arguments of ${name} are no JSON object: ${rest}`);
  return renderReply("", [{ name, arguments: given }]);
}

function jsonOf(text: string): PyValue {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

/** What is told of the end beside the score: the hash of all data. */
async function account(trajectory: Trajectory, raw: unknown): Promise<Record<string, unknown>> {
  const options: AirlineOptions = airlineOptions.parse(raw);
  const task = findAirlineTask(trajectory.task_id, options);
  if (!task) return {};
  const { state } = await replayEpisode(task, trajectory as Parameters<typeof replayEpisode>[1], options);
  return { state_sha256: stateSha256(state.data, options.scoring.number_mode) };
}
