// What a task asks, and the calls that solve it.

import type { Random } from "../core/random.ts";
import { drawItems, drawRefValue, type Item } from "./items.ts";
import { listing, observe } from "./observations.ts";
import type { Said } from "./parameters.ts";
import { capital, numberWords } from "./spelling.ts";
import {
  doneThought,
  idWords,
  indexWords,
  joinClauses,
  limitSentence,
  noContext,
  pointerWords,
  softenVerb,
  someContext,
  titleWordsOf,
} from "./wordings.ts";
import { codeKinds, foreignActions, limitNames, queryNames } from "./words.ts";
import type { Tool, World } from "./worlds.ts";

interface Plan {
  task: string;
  context: string[];
  steps: Step[];
  /** The thought of the closing FINISH. */
  last: string;
  /** A tool that the prompt should show although nothing calls it. */
  near?: Tool;
}

export interface Step {
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

/** "Call archive_ticket with ref 3 and force true.": needs no tool list, teaches copying. */
export function explicitPlan(random: Random, world: World, max_calls: number): Plan {
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
export function drawCall(random: Random, world: World, tool: Tool) {
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

/** "List 5 tickets in AI, then archive the third one.": values and tools have to be read out of plain words. */
export function naturalPlan(random: Random, world: World, max_calls: number): Plan {
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
    const item = items[(pointed ? active!.index : index) - 1]!;
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

/** "Archive ticket 0.": cannot be done, so it is finished without a call, and the thought says why. */
export function refusalPlan(random: Random, world: World): Plan {
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

function listStep(random: Random, world: World, tool: Tool): { step: Step; items: Item[] } {
  const args: Record<string, unknown> = {};
  const parts: string[] = [];
  const chosen = tool.parameters_said.filter((parameter) => parameter.required || random.next() < 0.85);
  const asked = chosen.map((parameter) => [parameter.name, parameter.draw(random)] as const);
  for (const [name, { value }] of asked) args[name] = value;
  const limit = asked.find(([name]) => limitNames.includes(name));
  const count = limit ? (limit[1].value as number) : 5;
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
