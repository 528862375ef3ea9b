// The items of a made-up world: what its lists hold.

import type { Random } from "../core/random.ts";
import { titleCase } from "./spelling.ts";
import { codes, titleLinks, titleWords } from "./words.ts";
import type { World } from "./worlds.ts";

export interface Item {
  id: string;
  title: string;
}

/** Items with ids in the world's own style. */
export function drawItems(random: Random, world: World, count: number): Item[] {
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

/** Any value that a reference may take: a position, an id, words of a title or null. */
export function drawRefValue(random: Random, world: World): unknown {
  const item = drawItems(random, world, 1)[0]!;
  return random.pick([1 + random.int(12), 1 + random.int(40), item.id, fragment(random, item.title), null]);
}

/** One to three words of a title, as they stand there. */
export function fragment(random: Random, title: string): string {
  const words = title.split(" ");
  const length = Math.min(words.length, 1 + random.int(3));
  const start = random.int(words.length - length + 1);
  return words.slice(start, start + length).join(" ");
}
