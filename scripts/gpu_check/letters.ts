// An environment for the checks alone: whatever a policy says earns something, so that a few steps move its weights.
import { z } from "zod";
import { defineEnv, type EnvSpec } from "../../src/core/env.ts";
import { UserError } from "../../src/core/errors.ts";

interface Task {
  id: string;
  word: string;
}

const spec: EnvSpec<Task, object, object> = {
  id: "letters@1",
  summary: "Two replies, scored by the share of vowels in them",
  options: z.strictObject({}),
  max_turns: 2,
  tools: [],
  components: [{ name: "vowels", range: [0, 1] }],
  splits: ["train"],
  load(split) {
    if (split !== "train") throw new UserError(`split is '${split}'; expected train.`);
    return { tasks: ["sea", "area", "idea", "queue"].map((word) => ({ id: word, word })), sources: {} };
  },
  reset: ({ word }) => ({ state: {}, messages: [{ role: "user", content: `Write words like '${word}'.` }] }),
  async step(state, _reply) {
    const observations = [{ role: "user" as const, content: "More." }];
    return { state, thought: "", action: null, observations, outcome: { kind: "ok", text: "" }, terminated: false };
  },
  score({ turns }) {
    const text = turns.map(({ reply }) => reply).join("");
    const vowels = (text.match(/[aeiou]/g) ?? []).length / Math.max(1, text.length);
    return { reward: vowels, parts: { vowels }, metrics: {}, success: vowels > 0.5 };
  },
  policies: { gold: ({ word }) => [word, word] },
};

export const letters = defineEnv(spec);
