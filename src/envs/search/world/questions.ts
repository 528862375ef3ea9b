import type { Random } from "../../../core/random.ts";
import type { Label, TargetRow } from "../types.ts";
import type { WorldDocument } from "./documents.ts";
import type { Entity, Link, World } from "./entities.ts";

export interface Hop {
  subject: Entity;
  link: Link;
  /** The document that tells. */
  docid: string;
}

export interface WorldQuestion {
  question_id: string;
  question: string;
  /** Chains of hops that the question joins, one or two: each begins with what the question names. */
  branches: Hop[][];
  /** What is listed: IMPORTANT on a chain; LOCAL about one of its entities. */
  judgements: ReadonlyMap<string, Label>;
}

export const QUESTIONS = 60;
/** Hops of each branch: two or three in all. */
const SHAPES = [[2], [3], [1, 1], [1, 1], [2, 1], [2, 1]];

const OPENINGS = [
  (asked: string, many: boolean) => `What ${many ? "are" : "is"} ${asked}?`,
  (asked: string) => `Name ${asked}.`,
  (asked: string, many: boolean) => `Which ${many ? "ones are" : "one is"} ${asked}?`,
];

export function makeQuestions(world: World, documents: readonly WorldDocument[], random: Random): WorldQuestion[] {
  const mainOf = new Map(documents.flatMap(({ about, main, docid }) => (about && main ? [[about, docid]] : [])));
  const starts = [...world.work, ...world.event, ...world.institution];
  const used = new Set<Entity>();

  /** null: the way leads nowhere, or to a document of another question. */
  function chain(length: number, taken: ReadonlySet<Entity>): Hop[] | null {
    const hops: Hop[] = [];
    for (let subject = random.pick(starts); hops.length < length; ) {
      const docid = mainOf.get(subject);
      const again = used.has(subject) || taken.has(subject) || hops.some((hop) => hop.subject === subject);
      if (docid === undefined || again) return null;
      const link = random.pick(subject.links);
      hops.push({ subject, link, docid });
      subject = link.to;
    }
    return hops;
  }

  const questions: WorldQuestion[] = [];
  while (questions.length < QUESTIONS) {
    const branches: Hop[][] = [];
    for (const length of random.pick(SHAPES)) {
      const taken = new Set(branches.flat().map(({ subject }) => subject));
      let branch = chain(length, taken);
      while (!branch) branch = chain(length, taken);
      branches.push(branch);
    }
    for (const { subject } of branches.flat()) used.add(subject);
    const asked = branches.map((hops) =>
      hops.reduce((text, { link }) => `the ${link.noun} of ${text}`, nameInText(hops[0]!.subject)),
    );
    questions.push({
      question_id: `q${String(questions.length + 1).padStart(3, "0")}`,
      question: random.pick(OPENINGS)(asked.join(" and "), branches.length > 1),
      branches,
      judgements: judge(branches, documents),
    });
  }
  return questions;
}

/** Works and towns go without an article of ours. */
export function nameInText({ kind, name }: Entity): string {
  return kind === "institution" || kind === "event" || kind === "river" ? `the ${name}` : name;
}

function judge(branches: readonly Hop[][], documents: readonly WorldDocument[]): Map<string, Label> {
  const hops = branches.flat();
  const chain = new Set(hops.map(({ docid }) => docid));
  const entities = new Set([
    ...hops.map(({ subject }) => subject),
    ...branches.map((branch) => branch.at(-1)!.link.to),
  ]);
  return new Map(
    documents.flatMap(({ docid, about }): [string, Label][] => {
      if (chain.has(docid)) return [[docid, "IMPORTANT"]];
      return about && entities.has(about) ? [[docid, "LOCAL"]] : [];
    }),
  );
}

type Seen = ReadonlySet<string>;

/** The first hop of each branch whose document was not found yet. */
export function openHops({ branches }: Pick<WorldQuestion, "branches">, seen: Seen): Hop[] {
  return branches.flatMap((hops) => hops.find(({ docid }) => !seen.has(docid)) ?? []);
}

/** What is to be found, with what is known of it. */
export function targetsOf({ branches }: WorldQuestion, seen: Seen): TargetRow[] {
  return branches.flatMap((hops) => {
    const open = hops.findIndex(({ docid }) => !seen.has(docid));
    const found = open === -1 ? hops.length : open;
    return hops.map(({ subject, link }, index) => ({
      name: `the ${link.noun} of ${index <= found ? nameInText(subject) : `that ${hops[index - 1]!.link.noun}`}`,
      status: index < found ? link.to.name : "open",
    }));
  });
}

export function goalOf(question: WorldQuestion, seen: Seen): string {
  const open = openHops(question, seen);
  return `Find ${open.map(({ link, subject }) => `the ${link.noun} of ${nameInText(subject)}`).join(" and ")}.`;
}
