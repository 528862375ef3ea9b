// Texts as the index takes them. SQLite's tokenizer splits at what is neither letter nor digit; scripts that write no
// blanks between words would be one token a sentence, so their characters are set apart here.

const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/gu;
const UNSPACED_RUN = new RegExp(`${UNSPACED.source}+|[^\\s]+?(?=${UNSPACED.source})|[^\\s]+`, "gu");
const WORD = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;

/** A query of more has no place in a search engine; a clue of 300 characters has at most 150. */
const MOST_TERMS = 256;

/** A text with its unspaced scripts in single characters. */
export function spaced(text: string): string {
  return text.replace(UNSPACED, " $& ").replaceAll("\0", " ");
}

/**
 * What is looked for: the words of a text, and the pairs of neighbours in unspaced scripts, each a list of tokens that
 * stand side by side.
 */
export function termsOf(text: string): string[] {
  const terms: string[] = [];
  for (const [word] of text.matchAll(WORD)) {
    for (const [part] of word.matchAll(UNSPACED_RUN)) {
      const characters = [...part];
      const unspaced = characters[0]!.match(UNSPACED) !== null;
      if (!unspaced) terms.push(part);
      else if (characters.length === 1) terms.push(part);
      else for (let i = 1; i < characters.length; i++) terms.push(`${characters[i - 1]} ${characters[i]}`);
      if (terms.length >= MOST_TERMS) return terms.slice(0, MOST_TERMS);
    }
  }
  return terms;
}

/**
 * Terms as an FTS5 query: each in double quotes, joined by OR. No operator of FTS5 is left of a clue: `NEAR(`, `*`, `-`,
 * `col:` and quotes are what stands between words.
 */
export function matchAny(terms: readonly string[]): string {
  return terms.map((term) => `"${term.replaceAll('"', '""')}"`).join(" OR ");
}

/** A word as the index keeps it: lower case, without accents. */
export function folded(word: string): string {
  return word.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}
