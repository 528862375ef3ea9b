import {
  FIGURE_QUESTIONS,
  type FigureQuestion,
  SECTIONS,
  type Section,
  type Snapshot,
  SUMMARY_BUDGETS,
  SUMMARY_STYLES,
  type SummaryStyle,
} from "./snapshot.ts";

// Extractive texts: what a paper's own sentences say, chosen by rule, so that a recording is the same every time.

export interface ExtractiveSummary {
  summary: string;
  sections_used: Section[];
  backend: string;
}

/** Words that a `structured` summary gives a section at least. */
const SECTION_FLOOR = 12;

const TLDR_ORDER: readonly Section[] = ["abstract", "conclusion", "result", "method"];

/**
 * An extractive summary: whole sentences of the paper, in order, within the word budget. `structured` gives each
 * section its share (12 words at least); `bullet` takes them by the order of sections, a line each. Where no whole
 * sentence fits, the first one is cut. Empty only where the paper has no text at all (arxiv.md 2.2).
 * @param long_sentences What a sentence over the budget does: `stop` ends its section there; `skip` passes over it, and
 *   a section of a structured summary that has none but long ones gives the beginning of its first. Sentences of real
 *   papers are long; the synthetic snapshot's bytes are bound to `stop`.
 */
export function summarize(
  sections: Partial<Record<Section, string>>,
  style: SummaryStyle,
  budget: number,
  long_sentences: "stop" | "skip" = "stop",
): ExtractiveSummary {
  const present = SECTIONS.filter((section) => sections[section]);
  const share = style === "structured" ? Math.max(SECTION_FLOOR, Math.floor(budget / present.length)) : budget;
  const used: Section[] = [];
  const taken: string[] = [];
  let left = budget;
  for (const section of style === "tldr" ? tldrOrder(present) : present) {
    const room = Math.min(share, left);
    const chosen = fit(sections[section]!, room, long_sentences);
    if (chosen.length === 0 && long_sentences === "skip" && style === "structured" && room >= SECTION_FLOOR)
      chosen.push(cutWords(telling(sections[section]!)[0] ?? sections[section]!, room));
    if (chosen.length === 0) continue;
    left -= chosen.reduce((sum, sentence) => sum + countWords(sentence), 0);
    used.push(section);
    if (style === "bullet") taken.push(...chosen.map((sentence) => `- ${sentence}`));
    else if (style === "structured") taken.push(`${capital(section)}: ${chosen.join(" ")}`);
    else taken.push(...chosen);
  }
  if (taken.length === 0 && present[0]) {
    used.push(present[0]);
    taken.push(cutWords(sections[present[0]]!, budget));
  }
  return { summary: taken.join(style === "tldr" ? " " : "\n"), sections_used: used, backend: "extractive" };
}

function tldrOrder(present: readonly Section[]): Section[] {
  return [...present].sort((a, b) => TLDR_ORDER.indexOf(a) - TLDR_ORDER.indexOf(b));
}

/** The first sentences that fit. */
function fit(text: string, budget: number, long_sentences: "stop" | "skip"): string[] {
  const chosen: string[] = [];
  let left = budget;
  for (const sentence of telling(text)) {
    const length = countWords(sentence);
    if (length > left && long_sentences === "stop") break;
    if (length > left) continue;
    chosen.push(sentence);
    left -= length;
  }
  return chosen;
}

/** Sentences with an address, an arXiv stamp or fewer than five words say nothing. */
function telling(text: string): string[] {
  return sentences(text).filter((sentence) => countWords(sentence) >= 5 && !/https?:|www\.|arXiv:/i.test(sentence));
}

const QUESTION_HINTS: Record<Exclude<FigureQuestion, "describe">, RegExp> = {
  axes: /\b(?:(?:[xyz]-)?ax[ie]s|versus|vs|against|as a function of|horizontal|vertical|logarithmic|log-?scale)\b/i,
  trend:
    /\b(?:ris(?:es?|ing)|falls?|falling|grow(?:s|ing|th)?|drops?|level|increas\w+|decreas\w+|improv\w+|degrad\w+|declin\w+|converg\w+|higher|lower|faster|slower|outperform\w*|peaks?|saturat\w+|trend)\b/i,
};

/** What the caption says to a question: its first two sentences, or the first with a word that fits the question. */
export function answerFromCaption(caption: string, question: FigureQuestion): string {
  const parts = sentences(caption.replace(/^(?:Figure|Fig\.?)\s*\d+\s*[:.|]?\s*/i, ""));
  if (parts.length === 0) return "The figure has no caption that tells.";
  if (question === "describe") return parts.slice(0, 2).join(" ");
  return (
    parts.find((sentence) => QUESTION_HINTS[question].test(sentence)) ??
    (question === "axes" ? "The caption names no axes." : "The caption tells of no trend.")
  );
}

/** A paper's summaries in every style and budget. Only of a paper that has some text. */
export function summariesOf(
  sections: Partial<Record<Section, string>>,
  long_sentences: "stop" | "skip" = "stop",
): Snapshot["summary"][string] {
  return Object.fromEntries(
    SUMMARY_STYLES.map((style) => [
      style,
      Object.fromEntries(SUMMARY_BUDGETS.map((budget) => [budget, summarize(sections, style, budget, long_sentences)])),
    ]),
  );
}

/** The answers to every question about each figure. */
export function answersOf(figures: readonly { figure_no: number; caption: string }[]): Snapshot["figure_qa"][string] {
  return Object.fromEntries(
    figures.map(({ figure_no, caption }) => [
      `${figure_no}`,
      Object.fromEntries(
        FIGURE_QUESTIONS.map((question) => [
          question,
          { answer: answerFromCaption(caption, question), backend: "extractive" },
        ]),
      ),
    ]),
  );
}

/** After these a full stop ends no sentence. */
const ABBREVIATION =
  /(?:^|[\s(])(?:Fig|Figs|Eq|Eqs|Sec|Secs|Tab|Alg|Ref|Refs|Thm|No|Dr|Prof|vs|cf|e\.g|i\.e|resp|approx|et al|[A-Z])\.$/;

/** A text's sentences. A blank after `.`, `!` or `?` ends one, unless an abbreviation or an initial stands before. */
export function sentences(text: string): string[] {
  const parts = text.split(/(?<=[.!?])\s+/).filter((part) => part !== "");
  const whole: string[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    if (last !== undefined && ABBREVIATION.test(last)) whole[whole.length - 1] = `${last} ${part}`;
    else whole.push(part);
  }
  return whole;
}

export function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => word !== "").length;
}

function cutWords(text: string, budget: number): string {
  const words = text.split(/\s+/).filter((word) => word !== "");
  return words.length <= budget ? words.join(" ") : `${words.slice(0, budget).join(" ")}...`;
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
