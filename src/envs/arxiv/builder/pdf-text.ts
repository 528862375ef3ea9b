// Lines of a page from the pieces of text that a PDF library gives.

/** A piece of text as pdf.js gives it. `transform` is [a, b, c, d, x, y], in points from the lower left corner. */
export interface TextPiece {
  str: string;
  transform: readonly number[];
  width: number;
  /** A line break follows. */
  hasEOL: boolean;
}

/** A line of text; points from the lower left corner of the page. */
export interface TextLine {
  text: string;
  left: number;
  right: number;
  /** Of the baseline. */
  y: number;
  /** Of the letters. */
  size: number;
}

/**
 * A page's lines in the order in which they were written, which for LaTeX is column by column. Rotated text is left out:
 * arXiv's stamp in the margin, names of vertical axes.
 */
export function pageLines(pieces: readonly TextPiece[]): TextLine[] {
  const lines: TextLine[] = [];
  let line: TextLine | null = null;
  for (const { str, transform, width, hasEOL } of pieces) {
    const [a = 0, b = 0, , , x = 0, y = 0] = transform;
    if (Math.abs(b) <= Math.abs(a) && str !== "") {
      const size: number = Math.abs(a);
      const same: boolean =
        line !== null && Math.abs(y - line.y) <= 0.6 * Math.max(size, line.size) && x >= line.left - line.size;
      if (line && same) {
        const gap = x - line.right > 0.2 * size && !/\s$/.test(line.text) && !/^\s/.test(str);
        line.text += (gap ? " " : "") + str;
        line.right = Math.max(line.right, x + width);
        line.size = Math.max(line.size, str.trim() === "" ? 0 : size);
      } else {
        line = { text: str, left: x, right: x + width, y, size };
        lines.push(line);
      }
    }
    if (hasEOL) line = null;
  }
  return lines.map((found) => ({ ...found, text: cleanText(found.text) })).filter(({ text }) => text !== "");
}

/** One line of letters: no control characters, no halves of letters, ligatures taken apart. */
function cleanText(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that is what must go
      .replace(/[\u0000-\u001F\u007F-\u009F\u00AD\u200B]/g, " ")
      .replace(/\p{Surrogate}/gu, "\uFFFD")
      .replace(/[\uFB00-\uFB06]/g, (ligature) => ligature.normalize("NFKC"))
      .replace(/\s+/g, " ")
      .trim()
  );
}

/**
 * The running text of all pages: without page numbers, and without what stands on half of the pages or more, as a
 * running head does.
 */
export function bodyLines(pages: readonly (readonly TextLine[])[]): string[] {
  const key = (text: string) => text.replace(/\d+/g, "#");
  const on = new Map<string, number>();
  for (const lines of pages)
    for (const text of new Set(lines.map((line) => key(line.text)))) on.set(text, (on.get(text) ?? 0) + 1);
  const often = Math.max(3, pages.length / 2);
  return pages.flatMap((lines) =>
    lines.map(({ text }) => text).filter((text) => !/^\d{1,4}$/.test(text) && (on.get(key(text)) ?? 0) < often),
  );
}
