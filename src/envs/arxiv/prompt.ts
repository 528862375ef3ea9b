import type { JsonSchema } from "../../core/tool.ts";
import { spacedJson } from "./protocol.ts";
import type { Call } from "./types.ts";

// The one prompt of training, SFT data and benchmark. The state that setup left stands at its end, since two tasks
// with the same wording can ask for opposite things depending on it.

/** A tool as a prompt lists it. */
export interface PromptTool {
  name: string;
  description: string;
  parameters: JsonSchema;
}

export interface PromptParts {
  tools: readonly PromptTool[];
  /** The user's words. */
  task: string;
  /** What `renderSetupContext` gave. */
  context: string;
  prompt: "full" | "compact" | "minimal";
  style: "chat" | "continuation";
}

/** The user message that opens an episode. */
export function renderPrompt({ tools, task, context, prompt, style }: PromptParts): string {
  if (prompt === "minimal") return `Task: ${task}\n${context}`;
  return prompt === "full" ? fullPrompt(tools, task, context, FOLLOWS[style]) : compactPrompt(tools, task, context);
}

const EXAMPLES = [
  { name: "get_recently_submitted_cs_papers", args: { aspect: "DB", days: 2, max_results: 6 } },
  { name: "download_arxiv_pdf", args: { ref: 4 } },
];

/** What a reply is followed by, in each style. */
const FOLLOWS = {
  chat: "The next message then begins with Observation: and tells what came of it. Never write an Observation yourself.",
  continuation:
    "An Observation: line then follows and tells what came of it, and you go on behind the next Thought: of the same " +
    "message. Never write an Observation yourself.",
};

function fullPrompt(tools: readonly PromptTool[], task: string, context: string, follows: string): string {
  return [
    "You are a research assistant who works with arXiv papers by calling tools.",
    "",
    "Tools:",
    ...tools.flatMap(toolEntry),
    "",
    `Task: ${task}`,
    "",
    "Work in turns. In each turn write exactly this:",
    "Thought: what you need next, and why",
    'Action: {"name": "tool name", "args": {"argument": "value"}}',
    follows,
    "",
    "When all that was asked for is done, write:",
    "Thought: what was done",
    "Action: FINISH",
    "",
    "When the task cannot be done (there is no such paper or position, nothing that a word refers to, or no tool for it), " +
      "do not make up arguments and do not call a tool that must fail. Say in the Thought what exactly stands in the way, " +
      "do not claim to have done it, and write Action: FINISH.",
    "",
    "Rules:",
    "- Use only the tools listed, one action a turn, and do nothing that was not asked for.",
    "- The action is strict JSON: double quotes, lower-case true, false and null, no trailing commas, no comments, nothing after it.",
    '- "ref" is a position in the current list (counted from 1), a paper id, or words from a title. "ref": null is the paper used last.',
    "- A paper must be downloaded before it is read, summarized or searched for figures.",
    "- Translation runs on its own: call it once, do not ask after it, and finish.",
    "",
    "Examples of actions:",
    ...EXAMPLES.map((action) => `Action: ${spacedJson(action)}`),
    "",
    "So far:",
    context,
  ].join("\n");
}

function compactPrompt(tools: readonly PromptTool[], task: string, context: string): string {
  return [
    "Use tools on arXiv papers.",
    ...tools.map((tool) => `- ${signature(tool)}`),
    `Task: ${task}`,
    "Each turn, write:",
    "Thought: reason",
    'Action: {"name": "tool", "args": {}}',
    "Then an Observation follows. When all is done, write Action: FINISH. " +
      "If it cannot be done, call nothing: say why in the Thought, then Action: FINISH.",
    'One action a turn, strict JSON. "ref" is a position, id or title words; null is the paper used last. ' +
      "Download before reading. Do not wait for translations.",
    `Action: ${spacedJson(EXAMPLES[0])}`,
    `Action: ${spacedJson(EXAMPLES[1])}`,
    context,
  ].join("\n");
}

interface Parameter {
  name: string;
  /** Type names, as "integer or null". */
  type: string;
  description: string;
  default: unknown;
  required: boolean;
  values: unknown[];
}

function parametersOf(schema: JsonSchema): Parameter[] {
  const properties = (schema.properties ?? {}) as Record<string, JsonSchema>;
  return Object.entries(properties).map(([name, property]) => {
    const options = ((property.anyOf as JsonSchema[] | undefined) ?? [property]) as JsonSchema[];
    const values = options.flatMap((option) => (option.enum as unknown[] | undefined) ?? []);
    return {
      name,
      type: [...new Set(options.flatMap((option) => option.type as string | string[]))].join(" or "),
      description: String(property.description ?? ""),
      default: property.default,
      required: !("default" in property),
      values: options.some((option) => option.type === "null") && values.length > 0 ? [null, ...values] : values,
    };
  });
}

function toolEntry(tool: PromptTool): string[] {
  return [
    `- ${tool.name}: ${tool.description}`,
    ...parametersOf(tool.parameters).map((parameter) => {
      const values =
        parameter.values.length === 0
          ? ""
          : parameter.values.length > 5
            ? ` One of ${parameter.values.slice(0, 3).map(spacedJson).join(", ")}, … (${parameter.values.length} values).`
            : ` One of ${parameter.values.map(spacedJson).join(", ")}.`;
      const fallback = parameter.required ? " Required." : ` Default ${spacedJson(parameter.default)}.`;
      return `    ${parameter.name} (${parameter.type}): ${parameter.description}${values}${fallback}`;
    }),
  ];
}

/** `summarize_paper(ref=1, style="tldr"|"structured"|"bullet", max_words=120)`: defaults, and short enums after them. */
function signature(tool: PromptTool): string {
  const parameters = parametersOf(tool.parameters).map(({ name, required, values, default: fallback }) => {
    if (required) return name;
    const others = values.length > 5 ? [] : values.filter((value) => value !== fallback);
    return `${name}=${[fallback, ...others].map(spacedJson).join("|")}`;
  });
  return `${tool.name}(${parameters.join(", ")})`;
}

/**
 * Tells what the calls that ran before the episode left behind, since the policy never saw them. It names nothing
 * else: no task, no gold step, no reward.
 * @param calls Those of the dependency chain and the task's setup, in the order in which they ran.
 */
export function renderSetupContext(calls: readonly Call[]): string {
  if (calls.length === 0) return "There is no paper list and no paper was used yet, so null refers to nothing.";
  const lines = calls.map(({ tool, args }) => {
    switch (tool) {
      case "get_recently_submitted_cs_papers":
        return `The list holds the newest ${args.aspect ?? "*"} papers of the last ${args.days ?? 7} days, at most ${args.max_results ?? 50}.`;
      case "search_arxiv_papers":
        return `The list holds the results of the search ${spacedJson(args.query)}, at most ${args.max_results ?? 10}.`;
      default:
        return `${OPERATIONS[tool] ?? `${tool} ran for paper`} ${refText(tool, args)}: the paper used last, which null refers to.`;
    }
  });
  const hasList = calls.some(
    ({ tool }) => tool === "get_recently_submitted_cs_papers" || tool === "search_arxiv_papers",
  );
  return [
    ...lines,
    ...(hasList ? [] : ["There is no paper list."]),
    "This state exists already: do not repeat it.",
  ].join("\n");
}

const OPERATIONS: Record<string, string> = {
  download_arxiv_pdf: "Downloaded paper",
  translate_arxiv_pdf: "Translated paper",
  get_paper_cache_status: "Checked paper",
};

function refText(tool: string, args: Record<string, unknown>): string {
  const missing = tool === "translate_arxiv_pdf" || tool === "get_paper_cache_status" ? null : 1;
  return spacedJson(args.paper_id ?? (args.ref === undefined ? missing : args.ref));
}
