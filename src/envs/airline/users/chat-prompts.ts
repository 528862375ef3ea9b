import type { ChatMessage } from "./cache.ts";
import { STOP_TOKEN } from "./types.ts";

// What the user models read, in our own words. Source: spec section 6.1.

/** The agent's side opens, so that the model speaks second, as the customer. */
export const GREETING = "Welcome to airline customer service. What can I do for you today?";
/** Stands for an agent's message without a text: servers refuse empty messages. */
export const SILENCE = "(The agent sent an empty message.)";

/** How each strategy wants its answer written. */
export type AnswerForm = "plain" | "react";

/** @param wait_for_completion adds that a yes is no goodbye */
export function systemPrompt(instruction: string, form: AnswerForm, wait_for_completion: boolean): string {
  const rules = [
    "Write one line per turn, as a customer would say it. You are the customer and never the agent.",
    "Reveal only what the current step needs, and not the whole wish at once.",
    "Invent nothing. Where the agent asks for something that your instruction does not tell, say that you do not remember it or do not have it.",
    "Do not quote the instruction. Say its content in your own words.",
    "Keep the persona that the instruction describes, in manner and in mood.",
    `When your goal is met, or the agent has handed you to a human, answer with exactly ${STOP_TOKEN} and nothing else: it ends the conversation.`,
    ...(wait_for_completion
      ? [
          `A yes is not the end. Never send ${STOP_TOKEN} together with a confirmation: confirm first, wait until the agent says that the action is done, and only then end the conversation.`,
        ]
      : []),
  ];
  const answer =
    form === "react"
      ? "Answer in two parts. First a line that begins with 'Thought:', in which you consider what to say; the agent does not see it. " +
        "Then a line that begins with 'User Response:', with what you say to the agent."
      : "Answer with what you say to the agent, and nothing else.";
  return [
    "You play a customer who talks to the agent of an airline. This is what you want, and who you are:",
    instruction.trim() || "(no instruction)",
    `Rules:\n${rules.map((rule) => `- ${rule}`).join("\n")}`,
    answer,
  ].join("\n\n");
}

/** The dialogue without the rules, for those who judge it. */
function transcript(dialogue: readonly ChatMessage[]): string {
  const lines = dialogue
    .filter(({ role }) => role !== "system")
    .map(({ role, content }) => `${role === "assistant" ? "Customer" : "Agent"}: ${content}`);
  return lines.join("\n");
}

/** Asks whether an answer fits. */
export function judgePrompt(instruction: string, dialogue: readonly ChatMessage[], candidate: string): ChatMessage[] {
  return [
    {
      role: "system",
      content:
        "You check what a simulated customer of an airline is about to say. It fits when it agrees with the instruction and with " +
        "what was said before, invents nothing, tells no more than the agent's last message calls for, and is said as the " +
        "customer and not as the agent. Give your reason in one short sentence, then the verdict on a line of its own: " +
        "true if it fits, false if it does not.",
    },
    {
      role: "user",
      content: `Instruction of the customer:\n${instruction}\n\nConversation:\n${transcript(dialogue)}\n\nNext, the customer would say:\n${candidate}`,
    },
  ];
}

/** Asks for a better answer than one that did not fit. */
export function reflectPrompt(instruction: string, dialogue: readonly ChatMessage[], candidate: string): ChatMessage[] {
  return [
    {
      role: "system",
      content:
        "You improve what a simulated customer of an airline is about to say, which was found not to fit the instruction or the conversation. " +
        "Answer in two parts. First a line that begins with 'Reflection:', on what is wrong. Then a line that begins with 'Response:', " +
        `with what the customer should say instead: one line, nothing invented. ${STOP_TOKEN} alone ends the conversation.`,
    },
    {
      role: "user",
      content: `Instruction of the customer:\n${instruction}\n\nConversation:\n${transcript(dialogue)}\n\nWhat did not fit:\n${candidate}`,
    },
  ];
}
