import type { Random } from "../../../core/random.ts";
import type { RoundCheckpoint, RunMeta } from "../checkpoints/schemas.ts";
import { searchRound, snippetOf } from "../index/merge.ts";
import type { SearchIndex } from "../index/search.ts";
import { EMPTY_TABLES, type EntityRow, type FoundDocument, type Tables } from "../types.ts";
import { goalOf, type Hop, nameInText, openHops, targetsOf, type WorldQuestion } from "./questions.ts";

// A rule-based system plays a question: some of its clues are good, some are poor. What it leaves behind is input of the
// checkpoint loader.

export const RUNS_PER_QUESTION = 3;
const MOST_SEARCHES = 4;
const MOST_CLUES = 5;
const TOP_K = 5;

export interface PlayedRun {
  meta: RunMeta;
  rounds: RoundCheckpoint[];
}

/** @param skill chance that a round's clues are good, from 0 to 1 */
export function playQuestion(question: WorldQuestion, index: SearchIndex, skill: number, random: Random): PlayedRun {
  const rounds: RoundCheckpoint[] = [];
  const seen = new Set<string>();
  let tables: Tables = { ...EMPTY_TABLES, targets: targetsOf(question, seen) };
  const open = () => openHops(question, seen);
  while (rounds.length < MOST_SEARCHES && open().length > 0) {
    const sub_goal = goalOf(question, seen);
    const write = random.next() < skill ? goodClues : poorClues;
    const clues = write(open(), question, random);
    const found = searchRound(index, clues, TOP_K);
    const fresh = found.filter(({ docid }) => !seen.has(docid));
    for (const { docid } of found) seen.add(docid);
    tables = updateTables(question, tables, fresh, seen);
    rounds.push({
      round: rounds.length + 1,
      strategy: "SEARCH",
      sub_goal,
      clues,
      ...mutable(tables),
      seen_docids: found.map(({ docid }) => docid),
    });
  }
  const solved = open().length === 0;
  if (solved)
    rounds.push({
      round: rounds.length + 1,
      strategy: "ANSWER",
      sub_goal: "",
      clues: [],
      ...mutable(tables),
      seen_docids: [],
    });
  const { question_id } = question;
  return {
    meta: {
      question_id,
      question: question.question,
      solved,
      rounds: rounds.map(({ round, strategy }) => ({ round, strategy, file: roundFile(round) })),
    },
    rounds,
  };
}

export const roundFile = (round: number): string => `round_${String(round).padStart(3, "0")}.json`;

function goodClues(open: readonly Hop[], _: WorldQuestion, random: Random): string[] {
  const clues = open.flatMap(({ subject, link }) => {
    const asked = random.shuffle([`${subject.name} ${link.noun}`, `${link.noun} of ${nameInText(subject)}`]);
    return [...asked.slice(0, 1 + random.int(2)), ...(random.int(2) === 0 ? [subject.name] : [])];
  });
  return clues.length === 1 ? [...clues, open[0]!.subject.name] : clues.slice(0, MOST_CLUES);
}

/** Words that many documents hold, half a name, or what is not known yet. */
function poorClues(open: readonly Hop[], { question, branches }: WorldQuestion, random: Random): string[] {
  const { subject, link } = random.pick(open);
  const half = subject.name.split(" ").at(-1)!;
  const last = branches[0]!.at(-1)!.link.noun;
  const clues = [
    `famous ${link.noun}`,
    `${half} ${last}`,
    `history of the ${last}`,
    `${link.noun} in ${subject.year}`,
    question.split(" ").slice(0, 6).join(" "),
    `who was the ${link.noun}`,
  ];
  return random.shuffle(clues).slice(0, 1 + random.int(3));
}

function updateTables(
  question: WorldQuestion,
  tables: Tables,
  fresh: readonly FoundDocument[],
  seen: ReadonlySet<string>,
): Tables {
  const { branches, judgements } = question;
  const labelled = fresh.flatMap(({ docid, title }) => {
    const label = judgements.get(docid);
    return label ? [{ docid, title, label }] : [];
  });
  const entities = new Map<string, EntityRow>(tables.entities.map((row) => [row.name, row]));
  for (const { docid } of labelled) {
    const hop = branches.flat().find((one) => one.docid === docid);
    if (!hop) continue;
    const { name, type, links } = hop.subject;
    entities.set(name, { name, type, facts: links.map((link) => `${link.noun}: ${link.to.name}`) });
    for (const { to } of links)
      if (!entities.has(to.name)) entities.set(to.name, { name: to.name, type: to.type, facts: [] });
  }
  return {
    entities: [...entities.values()],
    targets: targetsOf(question, seen),
    documents: [...tables.documents, ...labelled],
    context: [
      ...tables.context,
      ...fresh.flatMap(({ docid, snippet }) =>
        judgements.get(docid) === "IMPORTANT" ? [{ source: docid, text: snippetOf(snippet, 160) }] : [],
      ),
    ],
  };
}

function mutable({ entities, targets, documents, context }: Tables) {
  return { entities: [...entities], targets: [...targets], documents: [...documents], context: [...context] };
}
