// Function-calling dialogues of made-up worlds: what the tiny model is pretrained on (docs: recipe `pretrain`).
// Every dialogue has its own noun, tools, parameter names, values and wording, so that the one thing that pays is to
// read the prompt: which tool, whose name is copied; which value, copied from the task; which step comes next.

import type { Message } from "../core/message.ts";
import type { Random } from "../core/random.ts";
import { layOut } from "./layout.ts";
import { drawCall, explicitPlan, naturalPlan, refusalPlan, type Step } from "./plans.ts";
import { capital } from "./spelling.ts";
import { wrapTask } from "./wordings.ts";
import { makeWorld } from "./worlds.ts";

export type Action = { name: string; args: Record<string, unknown> } | "FINISH";

/** The text of a reply, as the protocol that the base is made for writes it. Passed in: this file knows no family. */
export type RenderReply = (thought: string, action: Action) => string;

export interface DialogueRow {
  prompt: Message[];
  /** The last turn has no observations. */
  turns: { reply: string; observations: Message[] }[];
}

export interface DialogueOptions {
  random: Random;
  renderReply: RenderReply;
  /**
   * `copy`: one call, named with all its arguments, hardly any prompt, no closing reply: where copying is learnt first.
   * `short`: up to two calls, up to three tools. `full`: up to five calls, up to nine tools.
   */
  stage: Stage;
}

export type Stage = "copy" | "short" | "full";

const LIMITS: Record<Stage, { tools: number; calls: number }> = {
  copy: { tools: 0, calls: 1 },
  short: { tools: 3, calls: 2 },
  full: { tools: 9, calls: 5 },
};

/** One dialogue. Equal streams give equal dialogues. */
export function makeDialogue({ random, renderReply, stage }: DialogueOptions): DialogueRow {
  const { tools: max_tools, calls: max_calls } = LIMITS[stage];
  const world = makeWorld(random);
  const explicit = stage === "copy" || random.next() < 0.1;
  const refusal = !explicit && random.next() < 0.1;
  const plan = explicit
    ? explicitPlan(random, world, max_calls)
    : refusal
      ? refusalPlan(random, world)
      : naturalPlan(random, world, max_calls);

  const needed = new Set(plan.steps.map((step) => step.tool));
  if (plan.near) needed.add(plan.near);
  const others = random.shuffle(world.tools.filter((tool) => !needed.has(tool)));
  const size = Math.max(explicit ? 0 : needed.size, random.int(max_tools + 1));
  const tools = random.shuffle([...needed, ...others].slice(0, size));
  const examples = random
    .shuffle(world.tools)
    .slice(0, 2)
    .map((tool) => renderReply("", drawCall(random, world, tool).call).split("\n")[1]!);
  const parts = { tools, examples, task: wrapTask(random, plan.task), context: plan.context };
  const prompt = layOut(random, world, parts, stage);

  const think = thoughtStyle(random, plan.steps.length);
  const turns: DialogueRow["turns"] = plan.steps.map((step, i) => ({
    reply: renderReply(think(step, i), step.call),
    observations: [{ role: "user", content: `Observation: ${step.observation}` }],
  }));
  if (stage === "copy") turns.at(-1)!.observations = [];
  else turns.push({ reply: renderReply(plan.last, "FINISH"), observations: [] });
  return { prompt: [{ role: "user", content: prompt }], turns };
}

/** How the thoughts of one dialogue are worded: alike at every step. */
function thoughtStyle(random: Random, total: number): (step: Step, i: number) => string {
  const style = random.int(6);
  return ({ plain, object, call }, i) => {
    if (style <= 1) return `Next: ${call.name} for ${object}.`;
    if (style <= 3) return `I need ${call.name} for ${object}.`;
    if (style === 4) return `Step ${i + 1} of ${total}: ${call.name} for ${object}.`;
    return `${capital(plain)} with ${call.name}.`;
  };
}
