// An environment of your own in one file: `trestle rollout --env ./examples/guess-the-number.ts --policy gold`.
// The policy finds a number from 1 to 100 with a tool that says higher or lower, and names it at the end.
import { z } from "zod";
import { defineEnv, type EnvSpec } from "../src/core/env.ts";
import { ToolError, UserError } from "../src/core/errors.ts";
import { defineTool } from "../src/core/tool.ts";

const HIGHEST = 100;

interface State {
  secret: number;
}

const compare = defineTool({
  name: "compare",
  description: "Says whether the secret number is higher than yours, lower, or equal.",
  input: z.strictObject({ number: z.int() }),
  writes: false,
  run(state: State, { number }) {
    if (number < 1 || number > HIGHEST) throw new ToolError(`${number} is not between 1 and ${HIGHEST}.`);
    return { state, output: number === state.secret ? "equal" : state.secret > number ? "higher" : "lower" };
  },
});

const prompt = `I think of a whole number from 1 to ${HIGHEST}. Reply 'compare N' to hear whether mine is higher or lower than N, and 'answer N' when you know it.`;

/** The replies of a binary search. */
function search(secret: number): string[] {
  const replies: string[] = [];
  for (let low = 1, high = HIGHEST; low < high; ) {
    const middle = Math.floor((low + high) / 2);
    replies.push(`compare ${middle}`);
    if (secret <= middle) high = secret === middle ? middle : middle - 1;
    if (secret >= middle) low = secret === middle ? middle : middle + 1;
  }
  return [...replies, `answer ${secret}`];
}

/** Apart from what is made of it, for guess-the-number.test.ts: `envContract` plays the spec. */
export const spec: EnvSpec<{ id: string; secret: number }, State, object> = {
  id: "guess-the-number@1",
  summary: "Find a number with a tool that compares",
  options: z.strictObject({}),
  max_turns: 10,
  tools: [compare],
  components: [{ name: "found", range: [0, 1] }],
  splits: ["train", "test"],
  load(split) {
    if (split !== "train" && split !== "test") throw new UserError(`split is '${split}'; expected train or test.`);
    const all = Array.from({ length: HIGHEST }, (_, index) => ({ id: `n${index + 1}`, secret: index + 1 }));
    return { tasks: all.filter(({ secret }) => (secret % 2 === 0) === (split === "train")), sources: {} };
  },
  reset: ({ secret }) => ({ state: { secret }, messages: [{ role: "user", content: prompt }] }),
  async step(state, reply) {
    const [, name, digits] = /^\s*(compare|answer) (\d{1,9})\s*$/.exec(reply) ?? [];
    const turn = {
      state,
      thought: "",
      action: name ? { name, args: { number: Number(digits) } } : null,
      observations: [],
    };
    if (!name) return { ...turn, outcome: { kind: "parse_error", text: "" }, terminated: true };
    if (name === "answer") return { ...turn, outcome: { kind: "terminal", text: "" }, terminated: true };
    const answer = await compare.call(state, { number: Number(digits) }).catch((error: unknown) => {
      if (error instanceof ToolError) return error; // the model's mistake: it reads the text and goes on
      throw error;
    });
    const wrong = answer instanceof ToolError;
    const text = wrong ? `Error: ${answer.message}` : String(answer.output);
    const observations = [{ role: "user" as const, content: text, is_error: wrong }];
    return { ...turn, observations, outcome: { kind: wrong ? "tool_error" : "ok", text }, terminated: false };
  },
  score({ turns, final_state }) {
    const last = turns.at(-1)?.action;
    const found = last?.name === "answer" && last.args.number === final_state.secret ? 1 : 0;
    return { reward: found, parts: { found }, metrics: {}, success: found === 1 };
  },
  // for `trestle data ./examples/guess-the-number.ts dpo`: which tasks may be trained on
  pairs: {
    split: "train",
    load(split, options) {
      if (split !== "train") throw new UserError(`split is '${split}'; only train may be trained on.`);
      return spec.load(split, options);
    },
  },
  policies: { gold: ({ secret }) => search(secret), always_fifty: () => ["answer 50"] },
};

export const guessTheNumber = defineEnv(spec);
