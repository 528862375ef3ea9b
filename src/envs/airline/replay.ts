import type { Message } from "../../core/message.ts";
import type { Turn } from "../../core/trajectory.ts";
import { databaseOf } from "./database.ts";
import type { AirlineFacts } from "./facts.ts";
import type { AirlineOptions } from "./options.ts";
import { startLog } from "./protocol/turn.ts";
import { type AirlineState, beginState } from "./state.ts";
import { playReply } from "./step.ts";
import type { AirlineTask } from "./tasks/task.ts";
import { openSilent, silentUser } from "./users/silent.ts";

/** What of a log line a replay reads. */
export interface StoredEpisode {
  /** The dialogue; what stands before the first reply is what the agent saw first. */
  messages: readonly Message[];
  turns: readonly { reply: string; outcome: { payload?: Pick<AirlineFacts, "user"> | null } }[];
}

/** Plays the replies of a stored episode again, on fresh data. The user says what it said then. */
export async function replayEpisode(
  task: AirlineTask,
  stored: StoredEpisode,
  options: AirlineOptions,
): Promise<{ state: AirlineState; turns: Turn[] }> {
  const first = stored.messages.findIndex(({ role }) => role === "assistant");
  const prompt = first < 0 ? stored.messages : stored.messages.slice(0, first);
  const user = openSilent(task).state;
  let state = beginState(databaseOf(options), {
    ...{ log: startLog(prompt), user, simulator: silentUser() },
    user_turns: prompt.filter(({ role }) => role === "user").length,
  });
  const turns: Turn[] = [];
  for (const { reply, outcome } of stored.turns) {
    const answer = { state: user, text: outcome.payload?.user ?? "" };
    const step = await playReply(state, reply, task, options, async () => answer);
    state = step.state;
    turns.push({ reply, thought: step.thought, action: step.action, outcome: step.outcome });
    if (step.terminated) break;
  }
  return { state, turns };
}
