import type { Script, Slot } from "./script.ts";

// The fixed table of what the scripted user says. Which variant is said is computed from task, turn and slot, so equal
// inputs give equal texts.

type Style = Script["persona"]["style"];
/** Variants of each style, at least one. `{…}` is filled in. */
type Variants = Record<Style, readonly string[]>;

export const WORDINGS = {
  greeting: {
    terse: ["Hi.", "Hello."],
    neutral: ["Hello, I need some help.", "Hi, I am calling about a trip."],
    chatty: ["Hello there, I hope you are well! I have something to sort out.", "Hi! Thanks for taking my call."],
  },
  wish: {
    terse: ["I want this: {say}.", "Please: {say}."],
    neutral: ["I would like this: {say}.", "What I want is this: {say}."],
    chatty: ["So, here is what I would really like: {say}.", "I was hoping for this: {say}."],
  },
  next_wish: {
    terse: ["Next: {say}.", "Then: {say}."],
    neutral: ["Then I would also like this: {say}.", "The next thing I want: {say}."],
    chatty: ["Great, and while we are at it: {say}.", "Lovely. One more thing: {say}."],
  },
  other_wish: {
    terse: ["Then instead: {say}.", "In that case: {say}."],
    neutral: ["In that case I want this: {say}.", "Then I would like this instead: {say}."],
    chatty: ["Oh well, in that case let us do this: {say}.", "That is a pity. Then how about this: {say}."],
  },
  again: {
    terse: ["As I said: {say}.", "Again: {say}."],
    neutral: ["As I said, I want this: {say}.", "To say it again: {say}."],
    chatty: ["Well, as I was saying: {say}.", "It is still the same thing: {say}."],
  },
  fact: {
    terse: ["{Label}: {value}."],
    neutral: ["The {label} {is} {value}.", "{Label}: {value}."],
    chatty: ["Sure, the {label} {is} {value}.", "Of course, {label}: {value}."],
  },
  admission: {
    terse: ["Fine. In truth the {label} {is} {value}."],
    neutral: ["I admit it, the {label} really {is} {value}.", "All right, to be honest the {label} {is} {value}."],
    chatty: [
      "Okay, okay, you got me: the {label} {is} in fact {value}.",
      "Well, to be honest, the {label} {is} {value}.",
    ],
  },
  unknown: {
    terse: ["{Label}: I don't remember."],
    neutral: ["I don't remember the {label}.", "{Label}: I don't remember."],
    chatty: ["Oh dear, I don't remember the {label}.", "Sorry, I don't remember the {label} right now."],
  },
  in_profile: {
    terse: ["{Label}: it is in my profile."],
    neutral: ["As for the {label}, it is in my profile.", "{Label}: it is in my profile."],
    chatty: ["You should see the {label}, it is in my profile.", "For the {label}, it is in my profile, I think."],
  },
  no_preference: {
    terse: ["{Label}: I have no preference."],
    neutral: ["I have no preference for the {label}.", "{Label}: I have no preference."],
    chatty: ["Oh, I have no preference for the {label}.", "{Label}? I have no preference, really."],
  },
  yes: {
    terse: ["Yes.", "Yes, do it."],
    neutral: ["Yes, please.", "Yes, that is fine."],
    chatty: ["Yes, that sounds wonderful.", "Yes, please do, thank you."],
  },
  no: {
    terse: ["No. {wish}"],
    neutral: ["No, I don't agree. {wish}", "No, not like this. {wish}"],
    chatty: ["No, I'm afraid that does not suit me. {wish}", "No, sorry, I would rather not. {wish}"],
  },
  persuade: {
    terse: ["Come on. {say}.", "Make an exception. {say}."],
    neutral: ["Please make an exception for me. I still want this: {say}.", "I am sure there is a way. Again: {say}."],
    chatty: [
      "I have been a loyal customer for years, surely something can be done. I still want this: {say}.",
      "Please, it would mean a lot to me. Once more: {say}.",
    ],
  },
  give_in: {
    terse: ["Fine, leave it.", "Then leave it."],
    neutral: ["All right, then leave it as it is.", "I see. Then leave everything as it is."],
    chatty: ["Oh well, it can't be helped, leave it as it is then.", "I understand, never mind, leave it as it is."],
  },
  transfer_wanted: {
    terse: ["Yes, transfer me."],
    neutral: ["Yes, please transfer me.", "Yes, I want to be transferred."],
    chatty: ["Yes, please, it would be great to talk to somebody.", "Yes, do transfer me, thank you."],
  },
  transfer_unwanted: {
    terse: ["No, don't transfer me. {say}."],
    neutral: ["No, I don't want to be transferred. I want this: {say}."],
    chatty: ["Oh no, please don't transfer me, I would rather sort it out with you: {say}."],
  },
  transfer_accepted: {
    terse: ["Fine then."],
    neutral: ["All right, if it has to be.", "Then so be it."],
    chatty: ["Well, if you really think so, so be it.", "Oh well, all right then."],
  },
  over_cost: {
    terse: ["At most {limit}."],
    neutral: ["I pay {limit} at most."],
    chatty: ["I really can't spend more than {limit}."],
  },
  other_flight: {
    terse: ["Only {limit}."],
    neutral: ["It has to be {limit}."],
    chatty: ["I had set my heart on {limit}."],
  },
} as const satisfies Record<string, Variants>;

export type Wording = keyof typeof WORDINGS;

/** What a slot is called, and whether it is more than one thing. */
export const SLOT_LABELS: Readonly<Record<Slot, { label: string; plural?: true }>> = {
  user_id: { label: "user id" },
  reservation_id: { label: "reservation id" },
  reason: { label: "reason" },
  trip_type: { label: "trip type" },
  origin: { label: "origin" },
  destination: { label: "destination" },
  date: { label: "date" },
  return_date: { label: "return date" },
  cabin: { label: "cabin" },
  time_window: { label: "time of day" },
  passenger_count: { label: "number of passengers" },
  passengers: { label: "passengers", plural: true },
  dob: { label: "date of birth" },
  bags: { label: "number of bags" },
  insurance: { label: "insurance" },
  payment: { label: "payment" },
  budget: { label: "budget" },
  other: { label: "rest" },
};

/** A word of the user's own language before the greeting; other tags add none. */
export const FOREIGN_GREETINGS: Readonly<Record<string, string>> = {
  de: "Guten Tag!",
  es: "¡Hola!",
  fr: "Bonjour !",
  it: "Buongiorno!",
  pt: "Olá!",
};

/** FNV-1a, 32 bits, of the text's UTF-8. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(text, "utf8")) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}

/**
 * One of a wording's variants, filled in.
 * @param key what chooses the variant: task id, turn and slot
 */
export function word(wording: Wording, style: Style, key: string, values: Record<string, string> = {}): string {
  const variants: readonly string[] = WORDINGS[wording][style];
  return variants[fnv1a(key) % variants.length]!.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? "");
}

/** Whether a user's text says that the user leaves the wish be. */
export function givesIn(user_text: string): boolean {
  return [...Object.values(WORDINGS.give_in), ...Object.values(WORDINGS.transfer_accepted)]
    .flat()
    .some((variant) => user_text.includes(variant));
}

/** "a", "a and b", "a, b and c". */
export function listed(items: readonly string[]): string {
  return items.length < 2 ? (items[0] ?? "") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
