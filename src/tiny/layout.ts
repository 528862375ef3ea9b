// How a prompt is laid out: tools, rules, context and task.

import type { Random } from "../core/random.ts";
import type { Stage } from "./dialogues.ts";
import type { Tool, World } from "./worlds.ts";

/** Puts a prompt together, in one of many ways: parts come in any order that leaves the tools first. */
export function layOut(
  random: Random,
  { noun, plural, ref }: World,
  { tools, examples, task, context }: { tools: Tool[]; examples: string[]; task: string; context: string[] },
  stage: Stage,
): string {
  const list =
    random.next() < 0.7
      ? tools.map((tool) => `- ${signature(tool)}${random.next() < 0.5 ? `: ${tool.description}` : ""}`)
      : tools.map(signature);
  const asked = task.startsWith("Task: ") ? task : random.pick([`Task: ${task}`, `Task: ${task}`, `Task:\n${task}`]);
  if (stage === "copy") return random.next() < 0.5 ? asked : [...context, asked].join("\n");
  const role = random.pick([
    `Use tools on ${plural}.`,
    `You work with ${plural}.`,
    `You help with ${plural}, one tool at a time.`,
    "Call tools.",
  ]);
  const rules = [
    "Each turn, write:",
    "Thought: reason",
    'Action: {"name": "tool", "args": {}}',
    ...random.pick([
      ["Then an Observation follows. When all is done, write Action: FINISH."],
      ["When all is done, or it cannot be done, say so in the Thought, then Action: FINISH."],
      [
        "Then an Observation follows. When all is done, write Action: FINISH. If it cannot be done, call nothing: say why.",
        `One action a turn, strict JSON. "${ref}" is a position, id or title words; null is the ${noun} used last.`,
      ],
    ]),
    ...(random.next() < 0.5 ? examples : []),
  ];
  const head = [role, ...(tools.length > 0 ? list : [])];
  return random
    .pick([
      [...head, asked, ...rules, ...context],
      [...head, ...rules, ...context, asked],
      [...head, ...context, asked, ...rules],
      [...head, ...context, asked],
      [...head, asked, ...context],
    ])
    .join("\n");
}

/** `archive_ticket(ref=null, force=false, style="tldr"|"plain")`: defaults, and some of what else there is. */
function signature({ name, parameters_said }: Tool): string {
  const parts = parameters_said.map(({ name, schema, required }) => {
    if (required && schema.default === undefined) return name;
    const others = ((schema.enum as unknown[] | undefined) ?? []).filter((value) => value !== schema.default);
    const shown = others.length > 5 ? [] : others;
    return `${name}=${[schema.default, ...shown].map((value) => JSON.stringify(value)).join("|")}`;
  });
  return `${name}(${parts.join(", ")})`;
}
