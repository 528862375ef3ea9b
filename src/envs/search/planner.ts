import { snippetOf } from "./index/merge.ts";
import type { CorpusDocument, EntityRow, JudgedDocument, RoundContext, Tables } from "./types.ts";

// The agents around the Executor where an episode has more than one round, by rule: an entity manager that brings the
// tables up to date, and a planner that says what to search for next. Source: spec section 2.

export const OPEN = "open";

/** The state after a round. `documentOf` gives whole texts; null: the collection does not have it. */
export function updateContext(
  before: RoundContext,
  found: readonly JudgedDocument[],
  documentOf: (docid: string) => CorpusDocument | null,
): RoundContext {
  const fresh = found.filter(({ seen, label }) => !seen && label !== "DISCARD");
  const important = fresh.flatMap(({ docid, label }) => {
    const document = label === "IMPORTANT" ? documentOf(docid) : null;
    return document ? [document] : [];
  });
  const tables: Tables = {
    entities: important.reduce(addEntities, before.entities),
    targets: resolveTargets(before.targets, important),
    documents: [...before.documents, ...fresh.map(({ docid, title, label }) => ({ docid, title, label }))],
    context: [...before.context, ...important.map(({ docid, text }) => ({ source: docid, text: snippetOf(text) }))],
  };
  const seen_docids = [...new Set([...before.seen_docids, ...found.map(({ docid }) => docid)])];
  return { ...before, ...tables, seen_docids, sub_goal: nextGoal(before, tables) ?? before.sub_goal };
}

/** An important document's subject, and the names that it mentions. */
function addEntities(entities: readonly EntityRow[], { title, text }: CorpusDocument): EntityRow[] {
  const known = new Set(entities.map(({ name }) => name));
  const mentioned = namesIn(text).filter((name) => name !== title);
  const rows: EntityRow[] = [
    { name: title, type: "document", facts: [snippetOf(text)] },
    ...mentioned.map((name) => ({ name, type: "mentioned", facts: [`named in ${title}`] })),
  ];
  return [...entities, ...rows.filter(({ name }) => name !== "" && !known.has(name))];
}

/** Two capitals or more in a row, small words between them aside. Words are bounded, so that any text is read in no time. */
const NAME =
  /(?<![\p{L}\p{M}])\p{Lu}[\p{L}\p{M}'’-]{1,60}(?:(?: (?:of|the|on|in|and|de|la))* \p{Lu}[\p{L}\p{M}'’-]{1,60})+/gu;

export function namesIn(text: string): string[] {
  return [
    ...new Set(
      [...text.matchAll(NAME)].map(([name]) =>
        name.replace(/^(?:The|A|An|In|At|On|It|He|She|Its) (?=\p{Lu}\S* \p{Lu})/u, ""),
      ),
    ),
  ];
}

/** Each important document answers the first target that is open. */
function resolveTargets(targets: Tables["targets"], important: readonly CorpusDocument[]): Tables["targets"] {
  const answers = [...important];
  return targets.map((target) => {
    const answer = target.status === OPEN ? answers.shift() : undefined;
    return answer ? { ...target, status: `found in ${answer.title || answer.docid}` } : target;
  });
}

/** What to search for next; null: nothing is open, and the planner would answer now. */
export function nextGoal({ question }: Pick<RoundContext, "question">, { targets, entities }: Tables): string | null {
  if (targets.length === 0) {
    const latest = entities.at(-1);
    return latest ? `Find what more there is about ${latest.name} for: ${question}` : `Find documents for: ${question}`;
  }
  const open = targets.find(({ status }) => status === OPEN);
  return open ? `Find ${open.name}.` : null;
}

/** Whether the planner goes on searching. */
export const goesOn = (context: RoundContext): boolean => nextGoal(context, context) !== null;
