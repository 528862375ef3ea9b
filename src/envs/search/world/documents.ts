import type { Random } from "../../../core/random.ts";
import type { CorpusDocument } from "../types.ts";
import type { Entity, Kind, World } from "./entities.ts";

// The documents: one for each entity with its facts, some beside it, and others that only share its name.

export interface WorldDocument extends CorpusDocument {
  /** Whom it is about; null: it shares a name at most. */
  about: Entity | null;
  /** It holds the facts that lead on. */
  main: boolean;
}

type Draft = Omit<WorldDocument, "docid">;

const OPENINGS: Record<Exclude<Kind, "hill">, (one: Entity) => string[]> = {
  work: ({ name, type, year }) => [`${name} is a ${type} of ${year}.`, `The ${type} ${name} was finished in ${year}.`],
  person: ({ name, type, year }) => [
    `${name} was a ${type} who died in ${year}.`,
    `The ${type} ${name} was well known by ${year}.`,
  ],
  institution: ({ name, type, year }) => [
    `The ${name} is a ${type} opened in ${year}.`,
    `Since ${year} the ${name} has served as a ${type}.`,
  ],
  town: ({ name, year }) => [
    `${name} is a town with a charter of ${year}.`,
    `The town of ${name} was rebuilt in ${year}.`,
  ],
  river: ({ name, year }) => [
    `The ${name} was first charted in ${year}.`,
    `A survey of ${year} describes the ${name}.`,
  ],
  event: ({ name, year }) => [`The ${name} took place in ${year}.`, `In ${year} came the ${name}.`],
};

const CLOSINGS: Record<Exclude<Kind, "hill">, string[]> = {
  work: ["Critics of the time were divided.", "Copies were rare for a century.", "It is seldom shown today."],
  person: ["Few letters survive.", "A street bears the name.", "Much of the work was lost in a fire."],
  institution: [
    "It has a reading room and a garden.",
    "Entry is free on feast days.",
    "The roof was replaced after a storm.",
  ],
  town: ["It has two markets and a mill.", "Its walls are partly standing.", "Most houses are of red stone."],
  river: ["Barges use it in summer.", "It freezes in hard winters.", "Fishing rights are old and disputed."],
  event: ["Accounts of it differ.", "A plaque recalls it.", "Songs were made about it."],
};

/** Documents about an entity that lead nowhere. */
const ASIDES: Record<Exclude<Kind, "hill">, ((name: string) => [title: string, text: string])[]> = {
  work: [
    (name) => [
      `Reception of ${name}`,
      `Early reviews of ${name} were cool. Later readers praised its slow middle part.`,
    ],
    (name) => [`Copies of ${name}`, `Three copies of ${name} are known. Two have missing pages and one was restored.`],
  ],
  person: [
    (name) => [
      `Letters of ${name}`,
      `The letters of ${name} fill two volumes. Most of them deal with money and the weather.`,
    ],
    (name) => [`${name} in old age`, `In old age ${name} kept bees. Visitors found a quiet house and a large dog.`],
  ],
  institution: [
    (name) => [`Rules of the ${name}`, `The rules of the ${name} fill one page. Talking is allowed only in the hall.`],
    (name) => [`Cellar of the ${name}`, `The cellar of the ${name} was dry and held coal. It is now a store room.`],
  ],
  town: [
    (name) => [`Markets of ${name}`, `The markets of ${name} sell cloth and pears. They open before dawn.`],
    (name) => [`Walls of ${name}`, `The walls of ${name} are as high as three men. A walk around them takes an hour.`],
  ],
  river: [
    (name) => [`Bridges over the ${name}`, `Nine bridges cross the ${name}. The oldest is of oak.`],
    (name) => [`Fish of the ${name}`, `Trout and pike live in the ${name}. Nets are banned in spring.`],
  ],
  event: [(name) => [`Songs of the ${name}`, `Songs of the ${name} are still sung. Most have more than ten verses.`]],
};

/** Documents that share an entity's name and are about something else. */
const NAMESAKES: ((name: string, other: string) => [title: string, text: string])[] = [
  (name, other) => [
    `${name} (tavern)`,
    `The tavern ${name} near ${other} serves soup and cider. Its sign was painted by a guest.`,
  ],
  (name, other) => [`${name} (ship)`, `The ship ${name} carried salt to ${other}. It sank in calm water.`],
  (name, other) => [`${name} Street`, `${name} Street is a lane in ${other} with a bakery and two wells.`],
  (name, other) => [`Prize of ${name}`, `The prize of ${name} is given each year in ${other} to the fastest rower.`],
  (name, other) => [`New ${name}`, `New ${name} is a hamlet near ${other}. It has one well and no church.`],
];

const SIDE_SHARE: Record<Exclude<Kind, "hill">, number> = {
  work: 0.4,
  person: 0.35,
  institution: 0.4,
  town: 0.7,
  river: 0.8,
  event: 0.3,
};
const NAMESAKE_SHARE = 0.24;

const FILLERS = 100;

/** Documents that hold the words of questions and no name of one. */
const FILLER_TEXTS: ((a: string, b: string, c: string, town: string) => [title: string, text: string])[] = [
  (a, b, c, town) => [
    `What is the ${a} of the ${b}`,
    `A riddle of ${town}: what is the ${a} of the ${b}, and the ${c}?`,
  ],
  (a, b, c, town) => [
    `The ${a} and the ${b}`,
    `A fable of ${town} in which the ${a} and the ${b} quarrel about the ${c}.`,
  ],
  (a, b, c, town) => [`On ${a} and ${b}`, `Notes from ${town} on the words ${a}, ${b} and ${c}.`],
];

/** In a random order, so that a docid tells nothing. */
export function makeDocuments(world: World, random: Random): WorldDocument[] {
  const towns = world.town.map(({ name }) => name);
  const drafts: Draft[] = Object.values(world).flatMap((entities) =>
    entities.flatMap((one) => {
      const kind = one.kind as Exclude<Kind, "hill">;
      const side = ASIDES[kind].filter(() => random.next() < SIDE_SHARE[kind]);
      const namesakes = NAMESAKES.filter(() => random.next() < NAMESAKE_SHARE / NAMESAKES.length);
      return [
        { about: one, main: true, title: one.name, text: mainText(one, kind, random) },
        ...side.map((make) => asDraft(one, make(one.name))),
        ...namesakes.map((make) => asDraft(null, make(one.name, random.pick(towns)))),
      ];
    }),
  );
  const links = Object.values(world).flatMap((entities) => entities.flatMap((one) => one.links));
  const nouns = [...new Set(links.map(({ noun }) => noun))];
  const fillers = Array.from({ length: FILLERS }, (): Draft => {
    const [a, b, c] = random.shuffle(nouns) as [string, string, string];
    return asDraft(null, random.pick(FILLER_TEXTS)(a, b, c, random.pick(towns)));
  });
  return random
    .shuffle([...drafts, ...fillers])
    .map((draft, index) => ({ docid: `d${String(index + 1).padStart(4, "0")}`, ...draft }));
}

function asDraft(about: Entity | null, [title, text]: [string, string]): Draft {
  return { about, main: false, title, text };
}

function mainText(one: Entity, kind: Exclude<Kind, "hill">, random: Random): string {
  const facts = random.shuffle(one.links).map(({ sentences }) => random.pick(sentences));
  return [random.pick(OPENINGS[kind](one)), ...facts, random.pick(CLOSINGS[kind])].join(" ");
}
