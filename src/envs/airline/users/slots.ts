import type { Slot } from "./script.ts";

// Which questions an agent's text holds. Texts here are as `readable` makes them: lower case, plain apostrophes, no
// commas within numbers.

/** A sentence asks for something only with a question mark or one of these. */
const ASKING = /\?|please provide|could you|can you|\bi(?:'ll)? need\b|let me know|may i have|\bshare\b/;

/**
 * What a question for each slot looks like: English, to be extended by further patterns. Of overlapping matches the
 * longer one counts, so "return date" is not also a question for the date.
 */
export const SLOT_PATTERNS: Readonly<Record<Slot, readonly RegExp[]>> = {
  user_id: [/user id|customer id|account id|profile/g],
  reservation_id: [/reservation (?:id|number|code)|confirmation|booking (?:id|number|reference)/g],
  reason: [/\breasons?\b|\bwhy\b/g],
  trip_type: [/one.?way|round.?trip|trip type/g],
  origin: [
    /from where|departure (?:city|airport)|\borigin\b/g,
    /where .*?(?:fly(?:ing)?|leav(?:e|ing)|depart(?:ing)?|travel(?:ing|ling)?|start(?:ing)?) from/g,
  ],
  destination: [/destination|where .*?(?:fly|go)/g],
  date: [/what date|which date|when (?:would|do)|travel date|departure date/g],
  return_date: [
    /return (?:date|day)|(?:what|which) date .*?return|when (?:would|do) .*?(?:return|come back|fly back)/g,
  ],
  cabin: [/cabin(?: class)?|\bclass\b/g],
  time_window: [/what time|time of day|(?:departure|arrival|preferred) time|time window/g],
  passenger_count: [
    /how many (?:passengers?|people|persons|travell?ers?|tickets|seats)|number of (?:passengers|people|travell?ers)/g,
  ],
  passengers: [/passenger|travell?er|first name/g],
  dob: [/date of birth|\bdob\b|birth/g],
  bags: [/bag|luggage|suitcase/g],
  insurance: [/insurance/g],
  payment: [/payment|\bpay|card|certificate/g],
  budget: [/budget|how much are you willing/g],
  other: [/special (?:request|wish)|other (?:wish|preference)|any(?:thing)? preferences?/g],
};

interface Span {
  slot: Slot;
  from: number;
  to: number;
}

/** The slots that a text asks for, each once, in order of appearance. */
export function askedSlots(text: string): Slot[] {
  const asked: Slot[] = [];
  for (const sentence of sentencesOf(text).filter((one) => ASKING.test(one))) {
    const spans = matches(sentence);
    const own = spans.filter((span) => !spans.some((other) => covers(other, span)));
    for (const { slot } of own.sort((a, b) => a.from - b.from)) if (!asked.includes(slot)) asked.push(slot);
  }
  return asked;
}

function matches(sentence: string): Span[] {
  return Object.entries(SLOT_PATTERNS).flatMap(([slot, patterns]) =>
    patterns.flatMap((pattern) =>
      [...sentence.matchAll(pattern)].map(({ 0: { length }, index }) => ({
        slot: slot as Slot,
        from: index,
        to: index + length,
      })),
    ),
  );
}

function covers(other: Span, span: Span): boolean {
  const longer = other.to - other.from > span.to - span.from;
  return other.slot !== span.slot && longer && other.from <= span.from && other.to >= span.to;
}

const LIST_ITEM = /^\s*(?:[-*•]|\d+[.)])\s+/;

/** Sentences of a text. The items of a list belong to the line with the colon before them: "please provide: - …". */
export function sentencesOf(text: string): string[] {
  const chunks: string[] = [];
  let inList = false;
  for (const line of text.split(/\n+/)) {
    if (line.trim() === "") continue;
    const item = LIST_ITEM.test(line);
    if (item && (inList || chunks.at(-1)?.trimEnd().endsWith(":"))) {
      chunks.push(`${chunks.pop()} ${line.replace(LIST_ITEM, "").trim().replace(/[.;]$/, "")},`);
      inList = true;
    } else {
      chunks.push(item ? line.replace(LIST_ITEM, "") : line);
      inList = false;
    }
  }
  return chunks.flatMap((chunk) => chunk.split(/(?<=[.!?])\s+/)).filter((sentence) => sentence.trim() !== "");
}
