// How numbers and words are spelled in a made-up world.

import type { Random } from "../core/random.ts";

/** Up to ten, by their number. */
export const ordinals = [
  "zeroth",
  "first",
  "second",
  "third",
  "fourth",
  "fifth",
  "sixth",
  "seventh",
  "eighth",
  "ninth",
  "tenth",
];

const numerals = [
  "zero",
  "one",
  "two",
  "three",
  "four",
  "five",
  "six",
  "seven",
  "eight",
  "nine",
  "ten",
  "eleven",
  "twelve",
];

/** Digits, and now and then a word where the number is small. */
export function numberWords(random: Random, value: number): string {
  return value < numerals.length && random.next() < 0.15 ? numerals[value]! : String(value);
}

/** The end of an ordinal in digits: "st" of 21, "th" of 11. */
export function suffix(index: number): string {
  const teen = index % 100 > 10 && index % 100 < 14;
  return teen ? "th" : (["th", "st", "nd", "rd"][index % 10] ?? "th");
}

/** The same text with its first letter upper case. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The same words, each with its first letter upper case. */
export function titleCase(words: string): string {
  return words.split(" ").map(capital).join(" ");
}
