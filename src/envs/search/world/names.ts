import type { Random } from "../../../core/random.ts";

// Names of the invented world. Parts are used again and again, so that many things share words with others.

const ONSETS = [
  "b",
  "br",
  "d",
  "dr",
  "f",
  "g",
  "gr",
  "h",
  "k",
  "l",
  "m",
  "n",
  "p",
  "r",
  "s",
  "st",
  "t",
  "tr",
  "v",
  "w",
];
const VOWELS = ["a", "e", "i", "o", "u", "ai", "ea"];
const CODAS = ["l", "n", "r", "s", "t", "nd", "rn", "lk", "m"];

export const ADJECTIVES = [
  "Amber", "Silent", "Broken", "Golden", "Winter", "Hollow", "Crimson", "Distant", "Paper", "Glass", "Iron", "Pale",
  "Hidden", "Burning", "Salt", "Quiet", "Northern", "Last", "Second", "Blue",
]; // biome-ignore format: a list of words
export const NOUNS = [
  "Clock", "Harbor", "Garden", "Bell", "Mirror", "Ladder", "Lantern", "Bridge", "Feather", "Orchard", "Compass", "Door",
  "Mountain", "Ship", "Crown", "Letter", "Tower", "Winter", "Road", "Hour",
]; // biome-ignore format: a list of words

const TOWN_ENDINGS = ["ford", "holm", "mark", "wick", "stead", "haven", "burg", "mere"];
const SURNAME_ENDINGS = ["er", "en", "is", "ov", "ay", "in", "ard", "el"];

export function capital(word: string): string {
  return word[0]!.toUpperCase() + word.slice(1);
}

function syllable(random: Random, closed: boolean): string {
  return random.pick(ONSETS) + random.pick(VOWELS) + (closed ? random.pick(CODAS) : "");
}

/** Draws until the name is new. */
export function fresh(taken: Set<string>, draw: () => string): string {
  for (;;) {
    const name = draw();
    if (taken.has(name)) continue;
    taken.add(name);
    return name;
  }
}

const distinct = (count: number, draw: () => string): string[] => {
  const taken = new Set<string>();
  return Array.from({ length: count }, () => fresh(taken, draw));
};

/** The pools that names are drawn from. */
export function namePools(random: Random) {
  return {
    given: distinct(48, () =>
      capital(syllable(random, false) + random.pick(["ra", "lan", "nis", "mo", "den", "vel", "ta"])),
    ),
    surnames: distinct(90, () => capital(syllable(random, true) + random.pick(SURNAME_ENDINGS))),
    towns: distinct(130, () => capital(syllable(random, true) + random.pick(TOWN_ENDINGS))),
    rivers: distinct(45, () =>
      capital(syllable(random, false) + syllable(random, false) + random.pick(["", "l", "n"])),
    ),
    hills: distinct(30, () => capital(syllable(random, true) + random.pick(["fell", "horn", "crag"]))),
  };
}
