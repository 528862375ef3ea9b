// How a task and its context are put into words.

import type { Random } from "../core/random.ts";
import { fragment, type Item } from "./items.ts";
import type { Said } from "./parameters.ts";
import { capital, numberWords, ordinals, suffix } from "./spelling.ts";
import { codes, readVerbs, titleWords } from "./words.ts";
import type { Tool, World } from "./worlds.ts";

/** An item by its position: "ticket 3", "the third one", or "the last one" of `listed`. */
export function indexWords(random: Random, world: World, index: number, listed: number): Said {
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

/** An item by its id. */
export function idWords(random: Random, { noun }: World, { id }: Item): Said {
  return {
    value: id,
    words: random.pick([`${noun} ${id}`, id, `the ${noun} with id ${id}`, `${noun} id ${id}`, `the ${noun} "${id}"`]),
  };
}

/** An item by some words of its title. */
export function titleWordsOf(random: Random, { noun }: World, { title }: Item): Said {
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

/** The item used last, which null stands for: "it", "the ticket just archived". */
export function pointerWords(random: Random, { noun }: World, past: string): string {
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

/** Context of a session in which nothing was listed or used. */
export function noContext(random: Random, { noun }: World): string[] {
  return [
    random.pick([
      `There is no ${noun} list and no ${noun} was used yet, so null refers to nothing.`,
      `There is no ${noun} list and no recent ${noun}: null cannot be resolved.`,
      `No ${noun} list yet, no recent ${noun}.`,
    ]),
  ];
}

/** Context of a session with a list, and with the item used last where there is one. */
export function someContext(
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

/** What the task asks not to do. */
export function limitSentence(random: Random, world: World, tool: Tool): string {
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
export function softenVerb(random: Random, clause: string): string {
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

/** What each step asks for, as one sentence, several or a numbered list. */
export function joinClauses(random: Random, clauses: string[]): string {
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

/** The task as it is, or as a polite request. */
export function wrapTask(random: Random, task: string): string {
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
  ]);
}

/** The thought of a FINISH after every step was done. */
export function doneThought(random: Random, total: number): string {
  return random.pick([
    "All steps are done.",
    "Everything that was asked is done.",
    "The task is done.",
    `All ${total} steps have been carried out.`,
    "Nothing is left to do.",
  ]);
}
