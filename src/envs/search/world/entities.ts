import type { Random } from "../../../core/random.ts";
import { ADJECTIVES, fresh, NOUNS, namePools } from "./names.ts";

// Who and what there is in the invented world, and how it hangs together.

export const KINDS = ["work", "person", "institution", "town", "river", "event", "hill"] as const;
export type Kind = (typeof KINDS)[number];

/** A fact about an entity that leads to another one. */
export interface Link {
  /** As a question says it: "the composer of The Amber Clock". */
  noun: string;
  to: Entity;
  /** Ways to say it, the entity itself being "it", "she", "he". */
  sentences: readonly string[];
}

export interface Entity {
  kind: Kind;
  /** What it is, for tables: "opera", "composer". */
  type: string;
  name: string;
  year: number;
  links: Link[];
}

const CREATORS: Record<string, string> = {
  opera: "composer",
  symphony: "composer",
  novel: "author",
  painting: "painter",
  play: "playwright",
  map: "mapmaker",
};
const INSTITUTIONS = ["Academy", "Museum", "Library", "Observatory", "Theatre"];
const EVENTS = ["Siege", "Treaty", "Great Fire", "Exhibition", "Flood"];

const SIZES = { persons: 310, institutions: 120, works: 260, events: 110 };

export type World = Record<Exclude<Kind, "hill">, Entity[]>;

export function makeEntities(random: Random): World {
  const pools = namePools(random.fork("names"));
  const taken = new Set<string>();
  const entity = (kind: Kind, type: string, name: string): Entity => ({
    kind,
    type,
    name,
    year: 1700 + random.int(230),
    links: [],
  });
  const link = (from: Entity, noun: string, to: Entity, sentences: readonly string[]): void => {
    from.links.push({ noun, to, sentences });
  };

  const hills = pools.hills.map((name) => entity("hill", "hill", name));
  const river = pools.rivers.map((name) => entity("river", "river", `River ${name}`));
  for (const one of river) {
    const hill = random.pick(hills);
    link(one, "source", hill, [`It rises on ${hill.name}.`, `Its source is on the slopes of ${hill.name}.`]);
  }
  const town = pools.towns.map((name) => entity("town", "town", name));
  for (const one of town) {
    const water = random.pick(river);
    link(one, "river", water, [`It lies on the ${water.name}.`, `The ${water.name} runs through its old quarter.`]);
  }
  const person = Array.from({ length: SIZES.persons }, () =>
    entity(
      "person",
      random.pick(Object.values(CREATORS)),
      fresh(taken, () => `${random.pick(pools.given)} ${random.pick(pools.surnames)}`),
    ),
  );
  const institution = Array.from({ length: SIZES.institutions }, () => {
    const [place, type] = [random.pick(town), random.pick(INSTITUTIONS)];
    const name = fresh(taken, () =>
      random.int(2) === 0
        ? `${random.pick(town).name} ${type}`
        : `${random.pick(pools.surnames)} ${random.pick(INSTITUTIONS)}`,
    );
    const one = entity("institution", name.split(" ").at(-1)!.toLowerCase(), name);
    link(one, "home town", place, [`It stands in ${place.name}.`, `Its home town is ${place.name}.`]);
    const founder = random.pick(person);
    link(one, "founder", founder, [`It was founded by ${founder.name}.`, `Its founder was ${founder.name}.`]);
    return one;
  });
  for (const one of person) {
    const place = random.pick(town);
    link(one, "birthplace", place, [`Born in ${place.name}.`, `The birthplace was ${place.name}.`]);
    const teacher = random.pick(person);
    if (teacher !== one)
      link(one, "teacher", teacher, [`Studied under ${teacher.name}.`, `Had ${teacher.name} as a teacher.`]);
    const house = random.pick(institution);
    link(one, "employer", house, [
      `Worked for the ${house.name}.`,
      `The employer for many years was the ${house.name}.`,
    ]);
  }
  const byType = new Map(Object.values(CREATORS).map((type) => [type, person.filter((one) => one.type === type)]));
  const work = Array.from({ length: SIZES.works }, () => {
    const type = random.pick(Object.keys(CREATORS));
    const name = fresh(taken, () => `The ${random.pick(ADJECTIVES)} ${random.pick(NOUNS)}`);
    const one = entity("work", type, name);
    const creator = random.pick(byType.get(CREATORS[type]!)!);
    const noun = CREATORS[type]!;
    link(one, noun, creator, [`It is the work of ${creator.name}.`, `Its ${noun} was ${creator.name}.`]);
    const keeper = random.pick(institution);
    link(one, "keeper", keeper, [`It is kept at the ${keeper.name}.`, `Its keeper is the ${keeper.name}.`]);
    return one;
  });
  const event = Array.from({ length: SIZES.events }, () => {
    const type = random.pick(EVENTS);
    const name = fresh(taken, () => `${random.pick([type, ...EVENTS])} of ${random.pick(pools.surnames)}`);
    const one = entity("event", "event", name);
    const leader = random.pick(person);
    link(one, "leader", leader, [`It was led by ${leader.name}.`, `Its leader was ${leader.name}.`]);
    const place = random.pick(town);
    link(one, "place", place, [`It happened at ${place.name}.`, `Its place was ${place.name}.`]);
    return one;
  });
  return { work, person, institution, town, river, event };
}
