import { withoutThinking } from "../thinking.ts";
import { CABINS, type CabinWords, type Slot } from "./script.ts";
import { askedSlots, sentencesOf } from "./slots.ts";

// What the scripted user makes of an agent's text. Source: spec section 6.3, rules 1 to 5.

export interface Heard {
  /** As `readable` makes it. */
  text: string;
  /** Asked for, in order of appearance. */
  slots: Slot[];
  /** It needs a yes. */
  confirmation: boolean;
  /** It says that something can't be done. */
  refusal: boolean;
  /** It announces or offers a transfer to a human agent. */
  transfer: boolean;
  /** It says that something has been done. */
  completion: boolean;
}

/** What an agent wants a yes for. */
export interface Proposal {
  /** Dollars to be paid. */
  amounts: number[];
  /** As "ABC123". */
  flights: string[];
  /** As "2024-05-20"; days of other years are birthdays. */
  dates: string[];
  cabins: CabinWords[];
}

// "Confirmation number" is a reservation's id, no question.
const CONFIRMATION =
  /confirm(?!ation (?:number|code|id|e-?mail))|proceed|go ahead|shall i|would you like me to|do you want me to|is that (?:ok|okay|correct)|yes\/no|\(yes\)/;
const REFUSAL = /cannot|can't|\bunable|not (?:possible|allowed|eligible|permitted)|against .*policy|unfortunately/;
const PERSON = "(?:human|live|agent|representative|specialist|supervisor|colleague|person)";
const TRANSFER = new RegExp(
  `\\btransfer(?:r(?:ing|ed))?\\b[^.?!]*\\b(?:you|${PERSON})|\\b(?:you|${PERSON})\\b[^.?!]*\\btransfer|human agent|` +
    `(?:connect|put|hand)(?:ing)? you\\b[^.?!]*\\b${PERSON}`,
);
const DONE =
  "(?:booked|cancell?ed|updated|changed|added|upgraded|downgraded|modified|replaced|issued|sent|processed|completed)";
const COMPLETION = new RegExp(
  `\\b(?:has|have) (?:now |just )?been (?:successfully )?${DONE}|\\b(?:is|are) now ${DONE}|` +
    `\\bi(?:'ve| have) (?:now |just )?(?:successfully )?${DONE}|successfully ${DONE}|\\ball (?:set|done)\\b`,
);

/** Nobody listens any longer. Some patterns take time with the square of the length: 1 MB would take minutes. */
const MOST_CHARACTERS = 20_000;

/** Lower case, plain apostrophes, no commas within numbers, no thinking; the first 20,000 characters of it. */
export function readable(agent_text: string): string {
  return withoutThinking(agent_text)
    .slice(0, MOST_CHARACTERS)
    .toLowerCase()
    .replaceAll("’", "'")
    .replace(/(?<=\d),(?=\d)/g, "");
}

export function hear(agent_text: string): Heard {
  const text = readable(agent_text);
  return {
    text,
    slots: askedSlots(text),
    confirmation: CONFIRMATION.test(text),
    refusal: REFUSAL.test(text),
    transfer: TRANSFER.test(text),
    completion: COMPLETION.test(text),
  };
}

const MONTHS = "january february march april may june july august september october november december".split(" ");
/** Followed by another year it is a date of birth. */
const MONTH_DAY = new RegExp(
  `\\b(${MONTHS.map((name) => `${name}|${name.slice(0, 3)}`).join("|")})\\.? (\\d{1,2})(?:st|nd|rd|th)?\\b` +
    "(?!,? (?!2024)\\d{4}\\b)",
  "g",
);
/** What a proposal changes from is not what it asks a yes for. */
const CHANGED_FROM =
  /\b(?:from|instead of|current(?:ly)?(?: (?:flight|cabin|date))?(?: is| of|:)?) (?:the )?(?:basic economy|economy|business|[a-z]{3}\d{3}|\d{4}-\d{2}-\d{2})\b/g;
const REFUND = /refund|returned to|credited|get back/;

/** The amounts, flights, dates and cabins of a text that asks for a yes; not what is refunded or changed from. */
export function proposalOf(text: string): Proposal {
  const offered = text.replaceAll("_", " ").replace(CHANGED_FROM, " ");
  const days = [...offered.matchAll(MONTH_DAY)].map(
    ([, month, day]) =>
      `2024-${String(MONTHS.findIndex((name) => name.startsWith(month!)) + 1).padStart(2, "0")}-${day!.padStart(2, "0")}`,
  );
  return {
    amounts: clausesOf(offered)
      .filter((clause) => !REFUND.test(clause))
      .flatMap((clause) => [...clause.matchAll(/\$\s?(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?) (?:us )?dollars/g)])
      .map(([, sign, word]) => Number(sign ?? word)),
    flights: unique([...offered.matchAll(/\b[a-z]{3}\d{3}\b/g)].map(([code]) => code.toUpperCase())),
    dates: unique([...[...offered.matchAll(/\b2024-\d{2}-\d{2}\b/g)].map(([date]) => date), ...days]),
    cabins: unique(
      [...offered.matchAll(new RegExp(`\\b(?:${CABINS.join("|")})\\b`, "g"))].map(([name]) => name as CabinWords),
    ),
  };
}

/** "You pay $50, and $30 are refunded": two clauses. */
function clausesOf(text: string): string[] {
  return sentencesOf(text).flatMap((sentence) => sentence.split(/[,;]|\band\b|\bbut\b/));
}

const unique = <Item>(items: Item[]): Item[] => [...new Set(items)];
