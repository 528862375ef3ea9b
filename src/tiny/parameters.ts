// The parameters of made-up tools: each draws its values and says them in words.

import type { Random } from "../core/random.ts";
import { numberWords, titleCase } from "./spelling.ts";
import { amounts, choices, codes, flags, queryNames, titleWords } from "./words.ts";

/** A parameter of a made-up tool, with a way to draw a value and to say it. */
export interface Parameter {
  name: string;
  schema: Record<string, unknown>;
  required: boolean;
  draw(random: Random): Said;
}

/** A value and the words by which the task asks for it. */
export interface Said {
  value: unknown;
  words: string;
}

/** Which item is meant. Its value and words come from the plan, which knows the items. */
export function refParameter(name: string): Parameter {
  return {
    name,
    schema: { default: null },
    required: true,
    draw: () => ({ value: null, words: "" }),
  };
}

/** A two-letter code, or "*" for any; the tool names only some of the codes. */
export function codeParameter(random: Random, name: string): Parameter {
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

/** How many items at most. */
export function limitParameter(random: Random, name: string, plural: string): Parameter {
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

/** How far back, in days, hours, weeks or months. */
export function windowParameter(random: Random, unit: string): Parameter {
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

/** Words to search for, some with a field before them or in title case. */
export function queryParameter(random: Random): Parameter {
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

/** A true/false option. The task asks for what is not its default. */
export function flagParameter(random: Random): Parameter {
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

/** None to two options of an item tool, each of its own kind. */
export function optionParameters(random: Random): Parameter[] {
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
