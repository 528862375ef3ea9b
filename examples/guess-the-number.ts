// An environment of your own in one file: `trestle rollout --env ./examples/guess-the-number.ts --policy gold`.
// The policy finds a number from 1 to 100 with a tool that says higher or lower, and names it at the end.
import { z } from "zod";
import { defineEnv } from "../src/core/env.ts";
import { ToolError } from "../src/core/errors.ts";
import { defineTool } from "../src/core/tool.ts";

const HIGHEST = 100;

interface State {
  secret: number;
  guesses: number;
}

const compare = defineTool({
  name: "compare",
  description: "Says whether the secret number is higher than yours, lower, or equal.",
  input: z.strictObject({ number: z.int() }),
  writes: true,
  run(state: State, { number }) {
    if (number < 1 || number > HIGHEST) throw new ToolError(`${number} is not between 1 and ${HIGHEST}.`);
    const output = number === state.secret ? "equal" : state.secret > number ? "higher" : "lower";
    return { state: { ...state, guesses: state.guesses + 1 }, output };
  },
});

const prompt = `I think of a whole number from 1 to ${HIGHEST}. Reply 'compare N' to hear whether mine is higher or lower than N, and 'answer N' when you know it.`;

/** The replies of a binary search. */
function search(secret: number): string[] {
  const replies: string[] = [];
  for (let low = 1, high = HIGHEST; low < high; ) {
    const middle = Math.floor((low + high) / 2);
    replies.push(`compare ${middle}`);
    if (secret === middle) low = high = middle;
    else if (secret > middle) low = middle + 1;
    else high = middle - 1;
  }
  return [...replies, `answer ${secret}`];
}

export const guessTheNumber = defineEnv<{ id: string; secret: number }, State, object>({
  id: "guess-the-number@1",
  summary: "Find a number with a tool that compares",
  options: z.strictObject({}),
  max_turns: 10,
  tools: [compare],
  components: [{ name: "found", range: [0, 1] }],
  splits: ["train", "test"],
  // Even numbers to train on, odd ones to test on.
  load: (split) => ({
    tasks: Array.from({ length: HIGHEST }, (_, index) => ({ id: `n${index + 1}`, secret: index + 1 })).filter(
      ({ secret }) => secret % 2 === (split === "train" ? 0 : 1),
    ),
    sources: {},
  }),
  reset: ({ secret }) => ({ state: { secret, guesses: 0 }, messages: [{ role: "user", content: prompt }] }),
  async step(state, reply) {
    const [, verb, digits] = /^\s*(compare|answer) (\d{1,9})\s*$/.exec(reply) ?? [];
    const number = Number(digits);
    const read = { thought: "", action: verb ? { name: verb, args: { number } } : null };
    if (verb === "answer" || !verb)
      return {
        ...read,
        state,
        outcome: { kind: verb ? "terminal" : "parse_error", payload: number, text: "" },
        observations: [],
        terminated: true,
      };
    try {
      const { state: next, output } = await compare.call(state, { number });
      const text = String(output);
      return {
        ...read,
        state: next,
        outcome: { kind: "ok", text },
        observations: [{ role: "user", content: text }],
        terminated: false,
      };
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      const observations = [{ role: "user" as const, content: `Error: ${error.message}`, is_error: true }];
      return { ...read, state, outcome: { kind: "tool_error", text: error.message }, observations, terminated: false };
    }
  },
  score({ turns, final_state }) {
    const last = turns.at(-1);
    const found = last?.action?.name === "answer" && last.outcome.payload === final_state.secret ? 1 : 0;
    return { reward: found, parts: { found }, metrics: { guesses: final_state.guesses }, success: found === 1 };
  },
  policies: { gold: ({ secret }) => search(secret), always_fifty: () => ["answer 50"] },
});
