// Function-calling dialogues of made-up worlds: what the tiny model is pretrained on (docs: recipe `pretrain`).
// Every dialogue has its own noun, tools, parameter names, values and wording, so that the one thing that pays is to
// read the prompt: which tool, whose name is copied; which value, copied from the task; which step comes next.

import type { Message } from "../core/message.ts";
import type { Random } from "../core/random.ts";
import {
  amounts,
  choices,
  codeKinds,
  codes,
  facets,
  flags,
  foreignActions,
  limitNames,
  nouns,
  queryNames,
  readVerbs,
  refNames,
  titleLinks,
  titleWords,
  verbs,
  windowUnits,
} from "./words.ts";

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

/** A parameter of a made-up tool, with a way to draw a value and to say it. */
interface Parameter {
  name: string;
  schema: Record<string, unknown>;
  required: boolean;
  draw(random: Random): Said;
}

/** A value and the words by which the task asks for it. */
interface Said {
  value: unknown;
  words: string;
}

interface Tool {
  name: string;
  description: string;
  kind: "list" | "search" | "item";
  /** "archive #", "read the status of #": # stands for the item. Empty for list tools. */
  clause: string;
  past: string;
  parameters_said: Parameter[];
}

interface World {
  noun: string;
  plural: string;
  ref: string;
  id_style: number;
  tools: Tool[];
}

interface Item {
  id: string;
  title: string;
}

interface Step {
  call: { name: string; args: Record<string, unknown> };
  /** How the task asks for it. */
  said: string;
  /** The same in plain words, numbers as digits, for thoughts. */
  plain: string;
  /** What it acts on: "ticket 3", "the query \"light proof\"". */
  object: string;
  observation: string;
  tool: Tool;
}

const ordinals = [
  "zeroth",
  "first",
  "second",
  "third",
  "fourth",
  "fifth",
  "sixth",
  "seventh",
  "eighth",
  "ninth",
  "tenth",
];
const numerals = [
  "zero",
  "one",
  "two",
  "three",
  "four",
  "five",
  "six",
  "seven",
  "eight",
  "nine",
  "ten",
  "eleven",
  "twelve",
];

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

// ---------------------------------------------------------------- prompts

/** Puts a prompt together, in one of many ways: parts come in any order that leaves the tools first. */
function layOut(
  random: Random,
  { noun, plural, ref }: World,
  { tools, examples, task, context }: { tools: Tool[]; examples: string[]; task: string; context: string[] },
  stage: Stage,
): string {
  const list =
    random.next() < 0.7
      ? tools.map((tool) => `- ${signature(tool)}${random.next() < 0.5 ? `: ${tool.description}` : ""}`)
      : tools.map((tool) => `${signature(tool)}`);
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

// ---------------------------------------------------------------- worlds

function makeWorld(random: Random): World {
  const noun = random.pick(nouns);
  const plural = `${noun}s`;
  const ref = random.pick(refNames);
  const id_style = random.int(5);
  const limit = random.pick(limitNames);
  const code = random.pick(codeKinds);
  const unit = random.pick(["days", "days", "days", ...windowUnits]);

  const browse: Tool = {
    kind: "list",
    clause: "",
    past: "listed",
    name: random.pick([
      `list_recent_${plural}`,
      `get_latest_${plural}`,
      `browse_${plural}`,
      `get_recently_added_${plural}`,
      `fetch_new_${plural}_by_${code}`,
      `list_${plural}`,
    ]),
    description: random.pick([
      `List the latest ${plural} of a ${code}.`,
      `Recent ${plural} of one ${code}.`,
      `Newest ${plural}, by ${code} and ${unit}.`,
    ]),
    parameters_said: random.shuffle([
      codeParameter(random, code),
      limitParameter(random, limit, plural),
      windowParameter(random, unit),
      ...(random.next() < 0.4 ? [flagParameter(random)] : []),
    ]),
  };
  const search: Tool = {
    kind: "search",
    clause: "",
    past: "found",
    name: random.pick([`search_${plural}`, `find_${plural}`, `query_${noun}_index`, `search_${noun}_titles`]),
    description: random.pick([
      `Search ${plural} by words.`,
      `Find ${plural} for a phrase.`,
      `Full-text search of ${plural}.`,
    ]),
    parameters_said: [
      queryParameter(random),
      limitParameter(random, limit, plural),
      ...(random.next() < 0.6 ? [windowParameter(random, unit)] : []),
    ],
  };

  const items: Tool[] = [];
  const actions = random.shuffle(verbs).slice(0, 4);
  const topics = random.shuffle(facets).slice(0, 4);
  for (const [verb, past] of actions) {
    const options = optionParameters(random);
    items.push({
      kind: "item",
      clause: `${verb} #`,
      past,
      name: random.pick([
        `${verb}_${noun}`,
        `${verb}_${noun}`,
        `${verb}_${noun}_file`,
        `${verb}_one_${noun}`,
        `${noun}_${verb}`,
      ]),
      description: random.pick([
        `${capital(verb)} a ${noun}.`,
        `${capital(verb)} one ${noun} of the list.`,
        `${capital(verb)} the ${noun}.`,
      ]),
      parameters_said: [refParameter(ref), ...options],
    });
  }
  for (const facet of topics) {
    const verb = random.pick(readVerbs);
    items.push({
      kind: "item",
      clause: `${verb} the ${facet} of #`,
      past: "looked at",
      name: random.pick([
        `get_${noun}_${facet}`,
        `read_${noun}_${facet}`,
        `get_${facet}`,
        `show_${facet}_of_${noun}`,
        `check_${noun}_${facet}`,
        `${verb.replace(" ", "_")}_${noun}_${facet}`,
      ]),
      description: random.pick([
        `The ${facet} of a ${noun}.`,
        `Get the ${facet} of one ${noun}.`,
        `Read a ${noun}'s ${facet}.`,
      ]),
      parameters_said: [refParameter(ref), ...optionParameters(random)],
    });
  }
  return { noun, plural, ref, id_style, tools: [browse, search, ...items] };
}

function refParameter(name: string): Parameter {
  return {
    name,
    schema: { default: null },
    required: true,
    draw: () => ({ value: null, words: "" }),
  };
}

function codeParameter(random: Random, name: string): Parameter {
  const shown = random.shuffle(codes).slice(0, 3 + random.int(5));
  const prefix = random.pick(["cs.", "", "", "", `${random.pick(codes).toLowerCase()}.`]);
  return {
    name,
    schema: { enum: ["*", ...shown], default: "*" },
    required: false,
    draw(random) {
      if (random.next() < 0.08)
        return {
          value: "*",
          words: random.pick([`of any ${name}`, `in all ${name}s`, `across every ${name}`, `from all ${name}s`]),
        };
      const code = random.pick(codes);
      return {
        value: code,
        words: random.pick([
          `in ${prefix}${code}`,
          `from ${prefix}${code}`,
          `of ${name} ${prefix}${code}`,
          `in the ${prefix}${code} ${name}`,
          `under ${prefix}${code}`,
          `for ${prefix}${code}`,
        ]),
      };
    },
  };
}

function limitParameter(random: Random, name: string, plural: string): Parameter {
  return {
    name,
    schema: { default: random.pick([5, 10, 20, 50]) },
    required: false,
    draw(random) {
      const value = random.next() < 0.8 ? 1 + random.int(30) : 1 + random.int(100);
      const said = numberWords(random, value);
      const name = value === 1 ? plural.slice(0, -1) : plural;
      return {
        value,
        words: random.pick([
          `at most ${said} ${name}`,
          `up to ${said}`,
          `no more than ${said}`,
          `${said} ${name}`,
          `${said} ${name} at most`,
          `a maximum of ${said}`,
          `limited to ${said}`,
          `capped at ${said}`,
          `only ${said}`,
          `the top ${said}`,
        ]),
      };
    },
  };
}

function windowParameter(random: Random, unit: string): Parameter {
  return {
    name: unit,
    schema: { default: random.pick([1, 7, 14]) },
    required: false,
    draw(random) {
      if (unit === "days" && random.next() < 0.2)
        return random.pick([
          { value: 7, words: "from the last week" },
          { value: 7, words: "of this week" },
          { value: 14, words: "of the last two weeks" },
          { value: 1, words: "since yesterday" },
          { value: 1, words: "from the last day" },
          { value: 30, words: "over the last month" },
        ]);
      const value = 1 + random.int(random.next() < 0.8 ? 30 : 90);
      const said = `${numberWords(random, value)} ${value === 1 ? unit.slice(0, -1) : unit}`;
      return {
        value,
        words: random.pick([
          `from the last ${said}`,
          `of the past ${said}`,
          `in the last ${said}`,
          `within ${said}`,
          `over the previous ${said}`,
          `going back ${said}`,
          `not older than ${said}`,
          `in a ${value}-${unit.slice(0, -1)} window`,
        ]),
      };
    },
  };
}

function queryParameter(random: Random): Parameter {
  return {
    name: random.pick(queryNames),
    schema: {},
    required: true,
    draw(random) {
      const words = Array.from({ length: 1 + random.int(4) }, () => random.pick(titleWords)).join(" ");
      const prefix = random.next() < 0.4 ? random.pick(["all:", "ti:", "au:"]) : "";
      const value = prefix + (random.next() < 0.2 ? titleCase(words) : words);
      return {
        value,
        words: random.pick([
          `for "${value}"`,
          `about "${value}"`,
          `on "${value}"`,
          `matching "${value}"`,
          `with the query "${value}"`,
        ]),
      };
    },
  };
}

function flagParameter(random: Random): Parameter {
  const { name, on, off } = random.pick(flags);
  const preset = random.next() < 0.5;
  return {
    name,
    schema: { default: preset },
    required: false,
    draw: (random) =>
      preset
        ? { value: false, words: random.pick([...off, `with ${name} off`, `with ${name} false`]) }
        : { value: true, words: random.pick([...on, `with ${name} on`, `with ${name} true`]) },
  };
}

/** None to three options of an item tool, each of its own kind. */
function optionParameters(random: Random): Parameter[] {
  const kinds = [
    () => flagParameter(random),
    () => {
      const { name, most, says } = random.pick(amounts);
      return {
        name,
        schema: { default: 1 + random.int(4) },
        required: false,
        draw(random: Random) {
          const value = 1 + random.int(most);
          return { value, words: random.pick([...says, `with ${name} #`]).replace("#", String(value)) };
        },
      };
    },
    () => {
      const { name, values, says } = random.pick(choices);
      const shown = random.shuffle(values).slice(0, 2 + random.int(values.length - 1));
      return {
        name,
        schema: { enum: shown, default: shown[0] },
        required: false,
        draw(random: Random) {
          const value = random.pick(shown);
          return { value, words: random.pick([...says, `with ${name} ${value}`]).replace("#", value) };
        },
      };
    },
  ];
  return random
    .shuffle(kinds)
    .slice(0, random.int(3))
    .map((make) => make());
}

// ---------------------------------------------------------------- plans

interface Plan {
  task: string;
  context: string[];
  steps: Step[];
  /** The thought of the closing FINISH. */
  last: string;
  /** A tool that the prompt should show although nothing calls it. */
  near?: Tool;
}

/** "Call archive_ticket with ref 3 and force true.": needs no tool list, teaches copying. */
function explicitPlan(random: Random, world: World, max_calls: number): Plan {
  const items = drawItems(random, world, 3 + random.int(4));
  const count = 1 + random.int(Math.min(max_calls, 3));
  const steps = Array.from({ length: count }, (): Step => {
    const tool = random.pick(world.tools);
    const { call, said, object } = drawCall(random, world, tool);
    const verb = random.pick(["call", "use", "run", "invoke"]);
    return {
      call,
      said: `${verb} ${tool.name}${said.length ? ` with ${said.join(random.pick([", ", " and ", ", "]))}` : ""}`,
      plain: `use ${tool.name}`,
      object,
      observation: observe(random, world, tool, items, random.pick(items)),
      tool,
    };
  });
  return {
    task: joinClauses(
      random,
      steps.map((step) => step.said),
    ),
    context: noContext(random, world),
    steps,
    last: doneThought(random, count),
  };
}

/** A call with its arguments at random, each also said as "name value". */
function drawCall(random: Random, world: World, tool: Tool) {
  const args: Record<string, unknown> = {};
  const said: string[] = [];
  const chosen = tool.parameters_said.filter((parameter) => parameter.required || random.next() < 0.7);
  for (const parameter of random.shuffle(chosen)) {
    const value = parameter.name === world.ref ? drawRefValue(random, world) : parameter.draw(random).value;
    args[parameter.name] = value;
    said.push(`${parameter.name} ${typeof value === "string" && random.next() < 0.7 ? `"${value}"` : String(value)}`);
  }
  const ref = args[world.ref];
  const object =
    ref === undefined
      ? (said[0] ?? world.plural)
      : ref === null
        ? `the current ${world.noun}`
        : `${world.noun} ${typeof ref === "string" ? `"${ref}"` : ref}`;
  return { call: { name: tool.name, args }, said, object };
}

function naturalPlan(random: Random, world: World, max_calls: number): Plan {
  const want = 1 + random.int(max_calls);
  const steps: Step[] = [];
  const clauses: string[] = [];
  let context: string[];
  let items: Item[] = [];
  let listed = 0;
  let active: { index: number; past: string } | null = null;

  if (random.next() < 0.55) {
    const tool = random.next() < 0.75 ? world.tools[0]! : world.tools[1]!;
    const listing = listStep(random, world, tool);
    items = listing.items;
    listed = items.length;
    steps.push(listing.step);
    clauses.push(listing.step.said);
    context = noContext(random, world);
  } else {
    listed = 2 + random.int(11);
    items = drawItems(random, world, Math.min(listed, 10));
    const before = random.next() < 0.55 ? random.pick(world.tools.filter((tool) => tool.kind === "item")) : null;
    if (before) active = { index: 1 + random.int(Math.min(listed, 10)), past: before.past };
    context = someContext(random, world, listed, active);
  }

  let index = 1 + random.int(Math.min(listed, 10));
  const itemTools = random.shuffle(world.tools.filter((tool) => tool.kind === "item"));
  for (let at = 0; steps.length < want && listed > 0; at++) {
    const tool =
      at > 0 && random.next() < 0.15 ? itemTools[(at - 1) % itemTools.length]! : itemTools[at % itemTools.length]!;
    const first = at === 0;
    if (!first && random.next() < 0.35) index = 1 + random.int(Math.min(listed, 10));
    const pointed = first && active !== null && random.next() < 0.6;
    const again = !first && steps.at(-1)!.call.args[world.ref] === index && random.next() < 0.6;
    let target: Said;
    let item = items[(pointed ? active!.index : index) - 1]!;
    let plainRef = `${world.noun} ${index}`;
    if (pointed) {
      target = { value: null, words: pointerWords(random, world, active!.past) };
      plainRef = random.pick([`the current ${world.noun}`, `the last ${world.noun}`]);
    } else if (again) {
      target = {
        value: index,
        words: random.pick(["it", `that ${world.noun}`, `the same ${world.noun}`, "it", "the same one"]),
      };
    } else if (first && steps.length === 0 && random.next() < 0.35) {
      const byId = random.next() < 0.5;
      target = byId ? idWords(random, world, item) : titleWordsOf(random, world, item);
      plainRef = `${world.noun} ${byId ? target.value : `"${target.value}"`}`;
    } else target = indexWords(random, world, index, listed);
    const chosen = tool.parameters_said.filter((parameter) => parameter.name !== world.ref && random.next() < 0.55);
    const drawn = chosen.map((parameter) => [parameter.name, parameter.draw(random)] as const);
    const args: Record<string, unknown> = { [world.ref]: target.value };
    for (const [name, { value }] of drawn) args[name] = value;
    const tail = drawn.map(([, { words }]) => ` ${words}`).join(random.next() < 0.3 ? "," : "");
    const clause = softenVerb(random, tool.clause);
    if (pointed) item = items[active!.index - 1] ?? item;
    steps.push({
      call: { name: tool.name, args },
      said: clause.replace("#", target.words) + tail,
      plain: tool.clause.replace("#", plainRef) + (random.next() < 0.5 ? tail : ""),
      object: plainRef,
      observation: observe(random, world, tool, items, item),
      tool,
    });
    clauses.push(steps.at(-1)!.said);
    if (pointed) break; // what null points to is not told by later indices
  }

  // Two calls of one tool in a row are often asked for in one clause.
  let task = joinClauses(random, clauses);
  const unused = world.tools.filter((tool) => tool.kind === "item" && !steps.some((step) => step.tool === tool));
  if (random.next() < 0.2 && unused.length > 0) task += ` ${limitSentence(random, world, random.pick(unused))}`;
  return {
    task,
    context,
    steps,
    last: doneThought(random, steps.length),
    near: random.next() < 0.5 ? random.pick(unused) : undefined,
  };
}

function refusalPlan(random: Random, world: World): Plan {
  const tool = random.pick(world.tools.filter((tool) => tool.kind === "item"));
  const { noun, plural } = world;
  const kind = random.int(5);
  const listed = 2 + random.int(10);
  let context = someContext(random, world, listed, null);
  let said: string;
  let last: string;
  if (kind === 0) {
    const index = listed + 1 + random.int(30);
    said = tool.clause.replace("#", indexWords(random, world, index, 0).words);
    last = random.pick([
      `Index ${index} is out of range: the list has ${listed} ${plural}. I cannot do this.`,
      `The reference ${index} is invalid, it is outside the list of ${listed} ${plural}, so I cannot go on.`,
    ]);
  } else if (kind === 1) {
    const index = random.pick([0, 0, -1, -2]);
    said = tool.clause.replace(
      "#",
      index === 0
        ? random.pick([`the zeroth ${noun}`, `the 0th ${noun}`, `${noun} 0`, `${noun} number 0`])
        : `${noun} ${index}`,
    );
    last = random.pick([
      `Index ${index} is invalid: a reference starts at 1. I cannot do this.`,
      `The reference ${index} is invalid, indices start at 1, so I cannot go on.`,
    ]);
  } else if (kind === 2) {
    // Ids begin with a year and a month: one far in the future is no item's.
    const id = `${random.pick(["29", "39", "49", "99", "38", "28"])}${String(90 + random.int(10))}.${String(random.int(100000)).padStart(5, "0")}v${1 + random.int(3)}`;
    said = tool.clause.replace("#", random.pick([`${noun} ${id}`, id, `the ${noun} with id ${id}`]));
    last = random.pick([
      `The ${noun} id ${id} was not found: it does not exist here. I cannot do this.`,
      `There is no record of ${noun} ${id}: not found, so I cannot go on.`,
    ]);
  } else if (kind === 3) {
    context = noContext(random, world);
    said = tool.clause.replace("#", pointerWords(random, world, tool.past));
    last = random.pick([
      `There is no list and no recent ${noun} in this session, the context is missing. I cannot tell which ${noun} is meant.`,
      `Missing context: no previous ${noun} in the session, so "${random.pick(["it", "that"])}" cannot be resolved.`,
    ]);
  } else {
    const action = random.pick(foreignActions);
    if (random.next() < 0.4) context = noContext(random, world);
    said = `${action} ${indexWords(random, world, 1 + random.int(Math.min(listed, 10)), listed).words}`;
    last = random.pick([
      `No tool can ${action.split(" ")[0]} here: this is unsupported. I cannot do this.`,
      `I cannot do this: the capability is unsupported, no tool of mine can ${action.split(" ")[0]}.`,
    ]);
  }
  return { task: capital(said), context, steps: [], last, near: tool };
}

// ---------------------------------------------------------------- pieces

function listStep(random: Random, world: World, tool: Tool): { step: Step; items: Item[] } {
  const args: Record<string, unknown> = {};
  const parts: string[] = [];
  let count = 0;
  const chosen = tool.parameters_said.filter((parameter) => parameter.required || random.next() < 0.85);
  const asked = chosen.map((parameter) => [parameter.name, parameter.draw(random)] as const);
  for (const [name, { value }] of asked) args[name] = value;
  const limit = asked.find(([name]) => limitNames.includes(name));
  count = limit ? (limit[1].value as number) : 5;
  // The count may stand in the noun's place: "list 5 tickets in AI".
  const inline = limit !== undefined && random.next() < 0.45;
  for (const [name, { words }] of random.shuffle(asked)) if (!(inline && name === limit![0])) parts.push(words);
  const verb = random.pick([
    "list",
    "find",
    "show me",
    "get",
    "browse",
    "fetch",
    "give me",
    "look up",
    "pull up",
    "collect",
  ]);
  const adjective =
    tool.kind === "list"
      ? random.pick(["the latest ", "the newest ", "recent ", "new ", ""])
      : random.pick(["", "all "]);
  const noun = inline && count === 1 ? world.noun : world.plural;
  const what = inline
    ? `${adjective.replace(/^all /, "")}${numberWords(random, count)} ${noun}`
    : `${adjective}${noun}`;
  const said = `${verb} ${what} ${parts.join(random.pick([" ", ", "]))}`.trim();
  const items = drawItems(random, world, Math.min(count, 10));
  const plain = random.pick([
    `list ${world.plural}`,
    `${tool.kind === "list" ? "list" : "search"} ${world.plural}${asked.map(([name, { value }]) => `, ${name} ${value}`).join("")}`,
  ]);
  const query = asked.find(([name]) => queryNames.includes(name));
  const code = asked.find(([name]) => codeKinds.includes(name));
  const object = query ? `the query "${query[1].value}"` : code ? `${code[0]} ${code[1].value}` : world.plural;
  const step = {
    call: { name: tool.name, args },
    said,
    plain,
    object,
    observation: listing(random, world, items, count),
    tool,
  };
  return { step, items };
}

function drawItems(random: Random, world: World, count: number): Item[] {
  return Array.from({ length: count }, () => ({ id: drawId(random, world.id_style), title: drawTitle(random) }));
}

function drawId(random: Random, style: number): string {
  const digits = (n: number) => Array.from({ length: n }, () => random.int(10)).join("");
  const month = `${String(10 + random.int(17)).padStart(2, "0")}${String(1 + random.int(12)).padStart(2, "0")}`;
  if (style <= 2) return `${month}.${digits(5)}v${1 + random.int(4)}`;
  if (style === 3) return `${random.pick(codes)}-${digits(4)}`;
  return `${random.pick(["a", "b", "c", "x", "k"])}${digits(5)}`;
}

function drawTitle(random: Random): string {
  const words: string[] = [];
  const length = 2 + random.int(5);
  for (let i = 0; i < length; i++)
    words.push(
      i > 0 && i < length - 1 && random.next() < 0.2 ? random.pick(titleLinks) : titleCase(random.pick(titleWords)),
    );
  if (random.next() < 0.15) words.unshift(random.pick(["A", "An", "The", "On"]));
  return words.join(" ");
}

function drawRefValue(random: Random, world: World): unknown {
  const item = drawItems(random, world, 1)[0]!;
  return random.pick([1 + random.int(12), 1 + random.int(40), item.id, fragment(random, item.title), null]);
}

function fragment(random: Random, title: string): string {
  const words = title.split(" ");
  const length = Math.min(words.length, 1 + random.int(3));
  const start = random.int(words.length - length + 1);
  return words.slice(start, start + length).join(" ");
}

function indexWords(random: Random, world: World, index: number, listed: number): Said {
  const { noun, plural } = world;
  const words = [
    `${noun} ${index}`,
    `${noun} number ${index}`,
    `number ${index}`,
    `the ${index}${suffix(index)} ${noun}`,
    `${noun} #${index}`,
    `the ${index}${suffix(index)}`,
  ];
  if (index <= 10)
    words.push(
      ...Array.from({ length: 3 }, () => `the ${ordinals[index]} ${noun}`),
      `the ${ordinals[index]}`,
      `the ${ordinals[index]} one`,
    );
  if (index === listed)
    words.push(
      ...[
        `the last ${noun}`,
        `the last of the ${numberWords(random, listed)}`,
        `the last one`,
        `the final ${noun} of the ${listed} ${plural}`,
      ].flatMap((text) => [text, text]),
    );
  return { value: index, words: random.pick(words) };
}

function idWords(random: Random, { noun }: World, { id }: Item): Said {
  return {
    value: id,
    words: random.pick([`${noun} ${id}`, id, `the ${noun} with id ${id}`, `${noun} id ${id}`, `the ${noun} "${id}"`]),
  };
}

function titleWordsOf(random: Random, { noun }: World, { title }: Item): Said {
  const value = fragment(random, title);
  return {
    value,
    words: random.pick([
      `the ${noun} "${value}"`,
      `the ${noun} whose title contains "${value}"`,
      `"${value}"`,
      `the ${noun} titled "${value}"`,
      `the ${noun} with "${value}" in its title`,
      `the one called "${value}"`,
    ]),
  };
}

function pointerWords(random: Random, { noun }: World, past: string): string {
  return random.pick([
    `the ${noun} just ${past}`,
    `the ${noun} that was just ${past}`,
    `that ${noun}`,
    "it",
    "the one we just worked on",
    `the current ${noun}`,
    `the ${noun} from just now`,
    `the one just ${past}`,
    `the last ${noun} we ${past}`,
  ]);
}

function noContext(random: Random, { noun }: World): string[] {
  return [
    random.pick([
      `There is no ${noun} list and no ${noun} was used yet, so null refers to nothing.`,
      `There is no ${noun} list and no recent ${noun}: null cannot be resolved.`,
      `No ${noun} list yet, no recent ${noun}.`,
    ]),
  ];
}

function someContext(
  random: Random,
  world: World,
  listed: number,
  active: { index: number; past: string } | null,
): string[] {
  const { noun, plural } = world;
  const query = `${random.pick(titleWords)} ${random.pick(titleWords)}`;
  const lines = [
    random.pick([
      `The list holds the newest ${random.pick(codes)} ${plural} of the last ${1 + random.int(30)} days, at most ${listed}.`,
      `The list holds the results of the search "${query}", at most ${listed}.`,
      `A list of ${listed} ${plural} was loaded.`,
      `The session holds ${listed} ${plural}.`,
    ]),
  ];
  if (active)
    lines.push(
      random.pick([
        `${capital(active.past)} ${noun} ${active.index}: the ${noun} used last, which null refers to.`,
        `Last used: ${noun} ${active.index} (${active.past}). null means this ${noun}.`,
        `${capital(noun)} ${active.index} was ${active.past} just now and is the current one.`,
      ]),
    );
  lines.push(
    random.pick(["This state exists already: do not repeat it.", "This is already done.", "Do not do this again."]),
  );
  return lines;
}

function listing(random: Random, world: World, items: Item[], count: number): string {
  const { plural } = world;
  const found = `Found ${count} ${plural}:`;
  const head = random.pick([found, found, `${count} ${plural}.`, `Got ${count} ${plural}`]);
  // Nothing is asked about the list itself, so most stay short: a base pays for every token.
  const shown = random.next() < 0.2 ? items : items.slice(0, 1 + random.int(3));
  const lines = shown.map(({ id, title }, i) => `${i + 1}. ${id} ${title}`);
  const more = count > shown.length ? [`… and ${count - shown.length} more.`] : [];
  return [head, ...lines, ...more].join("\n");
}

function observe(random: Random, world: World, tool: Tool, items: Item[], item: Item): string {
  if (tool.kind !== "item") return listing(random, world, items, items.length);
  const text = Array.from({ length: 2 + random.int(25) }, () => random.pick(titleWords)).join(" ");
  const id = `{"${world.noun}_id": "${item.id}"`;
  return random.pick([
    `${id}, "status": "${random.pick(["READY", "ok", "done", "PENDING"])}"}`,
    `${id}, "status": "READY", "existed": ${random.next() < 0.5}}`,
    `${id}, "text": "${capital(text)}."}`,
    `${capital(world.noun)} ${item.id}: ${random.pick(["done", "ok", "ready", tool.past])}.`,
  ]);
}

function limitSentence(random: Random, world: World, tool: Tool): string {
  const what = tool.clause.replace("#", random.pick([`any ${world.noun}`, "anything", `a ${world.noun}`]));
  return random.pick([
    `Do not ${what}.`,
    "Do nothing else.",
    `Nothing more, and do not ${what}.`,
    "Only this.",
    `Don't ${what}, please.`,
  ]);
}

/** "archive #" as people ask for it. */
function softenVerb(random: Random, clause: string): string {
  const read = clause.match(/^(.+) the (\w+) of #$/);
  if (!read) return clause;
  const [, , facet] = read;
  return random.pick([
    clause,
    clause,
    `${random.pick(readVerbs)} the ${facet} of #`,
    `tell me the ${facet} of #`,
    `see the ${facet} of #`,
  ]);
}

function joinClauses(random: Random, clauses: string[]): string {
  if (clauses.length === 1) return capital(`${clauses[0]}.`);
  if (random.next() < 0.25)
    return clauses
      .map((clause, i) =>
        capital(
          `${i === 0 ? "" : i === clauses.length - 1 ? random.pick(["finally ", "then "]) : random.pick(["then ", "next "])}${clause}.`,
        ),
      )
      .join(" ");
  if (random.next() < 0.15) return clauses.map((clause, i) => `${i + 1}) ${clause}`).join("; ");
  const link = random.pick([", then ", ", then ", "; then ", ", after that ", ", next "]);
  const end = random.pick([link, " and ", ", and then ", " and finally "]);
  return capital(`${clauses.slice(0, -1).join(link)}${end}${clauses.at(-1)}.`);
}

function wrapTask(random: Random, task: string): string {
  const lower = task.charAt(0).toLowerCase() + task.slice(1);
  const spoken = /^[A-Z][a-z]/.test(task) ? lower : task;
  return random.pick([
    task,
    task,
    task,
    `Please ${spoken}`,
    `Task: ${task}`,
    `I would like you to ${spoken}`,
    `${task} Thank you.`,
    `Could you ${spoken}`,
    `Help me with this: ${spoken}`,
  ]); // prettier
}

function thoughtStyle(random: Random, total: number): (step: Step, i: number) => string {
  const style = random.int(6);
  return ({ plain, object, call }, i) => {
    if (style <= 1) return `Next: ${call.name} for ${object}.`;
    if (style <= 3) return `I need ${call.name} for ${object}.`;
    if (style === 4) return `Step ${i + 1} of ${total}: ${call.name} for ${object}.`;
    return `${capital(plain)} with ${call.name}.`;
  };
}

function doneThought(random: Random, total: number): string {
  return random.pick([
    "All steps are done.",
    "Everything that was asked is done.",
    "The task is done.",
    `All ${total} steps have been carried out.`,
    "Nothing is left to do.",
  ]);
}

function numberWords(random: Random, value: number): string {
  return value < numerals.length && random.next() < 0.15 ? numerals[value]! : String(value);
}

function suffix(index: number): string {
  const teen = index % 100 > 10 && index % 100 < 14;
  return teen ? "th" : (["th", "st", "nd", "rd"][index % 10] ?? "th");
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function titleCase(words: string): string {
  return words.split(" ").map(capital).join(" ");
}
