// What the tools of a made-up world answer.

import type { Random } from "../core/random.ts";
import type { Item } from "./items.ts";
import { capital } from "./spelling.ts";
import { titleWords } from "./words.ts";
import type { Tool, World } from "./worlds.ts";

/** The answer of a tool that lists or searches: how many there are, and the first of them. */
export function listing(random: Random, world: World, items: Item[], count: number): string {
  const { plural } = world;
  const found = `Found ${count} ${plural}:`;
  const head = random.pick([found, found, `${count} ${plural}.`, `Got ${count} ${plural}`]);
  // Nothing is asked about the list itself, so most stay short: a base pays for every token.
  const shown = random.next() < 0.2 ? items : items.slice(0, 1 + random.int(3));
  const lines = shown.map(({ id, title }, i) => `${i + 1}. ${id} ${title}`);
  const more = count > shown.length ? [`… and ${count - shown.length} more.`] : [];
  return [head, ...lines, ...more].join("\n");
}

/** The answer of any tool; one that acts on an item answers with a status or a text. */
export function observe(random: Random, world: World, tool: Tool, items: Item[], item: Item): string {
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
