// A made-up world: one noun and the tools that work on it.

import type { Random } from "../core/random.ts";
import {
  codeParameter,
  flagParameter,
  limitParameter,
  optionParameters,
  type Parameter,
  queryParameter,
  refParameter,
  windowParameter,
} from "./parameters.ts";
import { capital } from "./spelling.ts";
import { codeKinds, facets, limitNames, nouns, readVerbs, refNames, verbs, windowUnits } from "./words.ts";

export interface Tool {
  name: string;
  description: string;
  kind: "list" | "search" | "item";
  /** "archive #", "read the status of #": # stands for the item. Empty for list tools. */
  clause: string;
  past: string;
  parameters_said: Parameter[];
}

export interface World {
  noun: string;
  plural: string;
  ref: string;
  id_style: number;
  tools: Tool[];
}

/** A world of ten tools, in this order: one that lists, one that searches, four actions, four facets to read. */
export function makeWorld(random: Random): World {
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
