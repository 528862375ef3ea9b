import { withoutThinking } from "../thinking.ts";
import { type Asker, type AskOptions, startAsking } from "./asking.ts";
import type { ChatMessage } from "./cache.ts";
import { GREETING, judgePrompt, reflectPrompt, SILENCE, systemPrompt } from "./chat-prompts.ts";
import { hear } from "./hearing.ts";
import {
  endsDialogue,
  NOTHING_SPENT,
  type Spent,
  STOP_TOKEN,
  type UserContext,
  type UserSimulator,
  type UserTask,
  type UserTurn,
} from "./types.ts";

// A language model as the user. Source: spec section 6.1.

export const CHAT_STRATEGIES = ["llm", "react", "verify", "reflection"] as const;
export type ChatStrategy = (typeof CHAT_STRATEGIES)[number];

export interface ChatState {
  kind: "chat";
  /** The dialogue as the model knows it: rules, then the agent as `user` and the model's own words as `assistant`. */
  messages: readonly ChatMessage[];
  spent: Spent;
}

export interface ChatOptions extends Omit<AskOptions, "strategy"> {
  strategy: ChatStrategy;
  /** A stop token that comes with a yes is held back: the agent has not done yet what the yes was for. */
  wait_for_completion: boolean;
}

/** What a strategy comes to: what is sent, and what the model remembers of it; null: nothing. */
interface Answer {
  said: string;
  kept: string | null;
}

type Strategy = (asker: Asker, dialogue: readonly ChatMessage[], instruction: string) => Promise<Answer>;

const VERIFY_ATTEMPTS = 3;
const REFLECTION_ATTEMPTS = 2;

export function chatUser(options: ChatOptions): UserSimulator<ChatState> {
  const { strategy, wait_for_completion } = options;

  async function answer(
    task: UserTask,
    messages: readonly ChatMessage[],
    before: Spent,
    context: UserContext,
  ): Promise<UserTurn<ChatState>> {
    const asker = startAsking(options, before, context);
    const { said, kept } = await strategies[strategy](asker, messages, task.instruction);
    const held = wait_for_completion ? withoutEarlyStop(said, messages.at(-1)!.content) : said;
    const stops = endsDialogue(held);
    // A stop token that was held back was not said.
    const memory = kept === null ? [] : [stops ? kept : kept.replaceAll(STOP_TOKEN, "").trim()];
    return {
      state: {
        kind: "chat",
        messages: [...messages, ...memory.map((content) => ({ role: "assistant" as const, content }))],
        spent: asker.spent(),
      },
      text: stops && strategy === "react" ? STOP_TOKEN : held,
    };
  }

  return {
    strategy,
    reset(task, context) {
      const form = strategy === "react" ? "react" : "plain";
      const messages: ChatMessage[] = [
        { role: "system", content: systemPrompt(task.instruction, form, wait_for_completion) },
        { role: "user", content: GREETING },
      ];
      return answer(task, messages, NOTHING_SPENT, context);
    },
    step(task, state, agent_text, _probe, context) {
      const content = withoutThinking(agent_text) || SILENCE;
      return answer(task, [...state.messages, { role: "user", content }], state.spent, context);
    },
    cost: ({ spent }) => spent.cost,
    close: () => options.client.close(),
  };
}

const strategies: Record<ChatStrategy, Strategy> = {
  async llm(asker, dialogue) {
    const said = await asker.ask(dialogue, plainText);
    return { said, kept: said };
  },

  async react(asker, dialogue) {
    return asker.ask(dialogue, (text) => {
      const whole = plainText(text);
      const response = whole && afterMark(whole, /user response:/gi);
      if (!whole) return null;
      // The model goes on in its own form, thought and all; the agent sees the response alone. A stop token counts
      // wherever it stands.
      if (endsDialogue(whole))
        return { said: `${response?.replaceAll(STOP_TOKEN, "") ?? ""} ${STOP_TOKEN}`, kept: whole };
      return response ? { said: response, kept: whole } : null;
    });
  },

  async verify(asker, dialogue, instruction) {
    let candidate = "";
    for (let attempt = 1; attempt <= VERIFY_ATTEMPTS; attempt++) {
      candidate = await asker.ask(dialogue, plainText);
      if (await accepted(asker, dialogue, instruction, candidate)) return { said: candidate, kept: candidate };
    }
    // As the original: an answer that nobody accepted is said, but the model does not learn that it said so.
    return { said: candidate, kept: null };
  },

  async reflection(asker, dialogue, instruction) {
    const first = await asker.ask(dialogue, plainText);
    let candidate = first;
    for (let attempt = 1; attempt <= REFLECTION_ATTEMPTS; attempt++) {
      if (await accepted(asker, dialogue, instruction, candidate)) return { said: candidate, kept: candidate };
      if (attempt < REFLECTION_ATTEMPTS)
        candidate = await asker.ask(reflectPrompt(instruction, dialogue, candidate), reflectedText);
    }
    return { said: first, kept: first };
  },
};

/** Without thinking; null where nothing is left. */
const plainText = (text: string): string | null => withoutThinking(text) || null;

const reflectedText = (text: string): string | null => {
  const whole = plainText(text);
  return whole && (afterMark(whole, /(?:^|\n)\s*response:/gi) || null);
};

/** What stands behind the last of the marks; null: there is none. */
function afterMark(text: string, mark: RegExp): string | null {
  const last = [...text.matchAll(mark)].at(-1);
  return last ? text.slice(last.index + last[0].length).trim() : null;
}

async function accepted(
  asker: Asker,
  dialogue: readonly ChatMessage[],
  instruction: string,
  candidate: string,
): Promise<boolean> {
  const verdict = await asker.ask(judgePrompt(instruction, dialogue, candidate), plainText);
  return verdict.toLowerCase().includes("true");
}

const YES =
  /^(?:yes|yeah|yep|sure|ok(?:ay)?|correct|absolutely|of course|i confirm|confirmed|please (?:do|proceed|go ahead)|go ahead|proceed)\b/i;

/** Drops the stop token from a yes to a question that needed one; any other text stays as it is. */
function withoutEarlyStop(said: string, agent_text: string): string {
  if (!endsDialogue(said)) return said;
  const rest = said.replaceAll(STOP_TOKEN, " ").replace(/\s+/g, " ").trim();
  return YES.test(rest) && hear(agent_text).confirmation ? rest : said;
}
