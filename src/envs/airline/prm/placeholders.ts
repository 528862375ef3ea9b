// Whether a call's arguments are made up: a word that stands for a value, or a value of another form than its argument
// has (airline.md 8.2).

/**
 * `substring`: a keyword anywhere in the value. It also finds "any" in the user id `anya_garcia_5901` and in "company";
 * the golden cases fix that. `token`: keywords as whole words, and free text is left alone.
 */
export type KeywordMode = (typeof keywordModes)[number];
export const keywordModes = ["substring", "token"] as const;

const keywords = [
  ...["previous", "unknown", "placeholder", "none", "null", "n/a", "any", "some", "first", "last"],
  ...["default", "example", "sample", "test", "dummy", "temp", "temporary"],
];

const wholeKeyword = new RegExp(`(?<![\\p{L}\\p{N}])(?:${keywords.join("|")})(?![\\p{L}\\p{N}])`, "u");

/** In `token` mode what these arguments say is no value of the data. */
const freeText: ReadonlySet<string> = new Set(["summary", "thought", "expression"]);

/** Forms by what an argument's name contains; the first that fits decides. */
const forms: readonly (readonly [name: string, form: RegExp])[] = [
  ["reservation_id", /^[A-Z0-9]{6}$/],
  ["user_id", /^[a-z]+_[a-z]+_[0-9]+$/],
  ["payment_id", /^(?:credit_card|gift_card|certificate)_[0-9]+$/],
  ["flight_number", /^[A-Z]{3}[0-9]{3}$/],
  ["origin", /^[A-Z]{3}$/],
  ["destination", /^[A-Z]{3}$/],
  ["date", /^\d{4}-\d{2}-\d{2}$/],
];

/** Whether some top-level text among the arguments is a placeholder; lists, objects and numbers are not looked at. */
export function hasPlaceholder(parameters: Record<string, unknown>, mode: KeywordMode): boolean {
  return Object.entries(parameters).some(
    ([name, value]) => typeof value === "string" && isPlaceholder(name, value, mode),
  );
}

function isPlaceholder(name: string, value: string, mode: KeywordMode): boolean {
  const lower = value.toLowerCase();
  if (mode === "substring" && keywords.some((keyword) => lower.includes(keyword))) return true;
  if (mode === "token" && !freeText.has(name) && wholeKeyword.test(lower)) return true;
  const argument = name.toLowerCase();
  const form = forms.find(([part]) => argument.includes(part))?.[1];
  return form !== undefined && !form.test(value);
}
