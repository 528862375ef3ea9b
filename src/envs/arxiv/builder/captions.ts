import type { TextLine } from "./pdf-text.ts";
import { joinLines } from "./sections.ts";

// Which caption belongs to an image, by where both stand on the page.

/** Points from the lower left corner of the page. */
export interface Box {
  left: number;
  right: number;
  bottom: number;
  top: number;
}

interface Caption extends Box {
  text: string;
}

/** "Figure 3: …", "Fig. 3. …"; not "Figure 3 shows …", which is running text. */
const CAPTION_START = /^fig(?:ure|\.)?\s*\d+\s*(?:[:.|]|$)/i;
/** Lines of a caption stand no further apart than this, in letter sizes. */
const LINE_DISTANCE = 1.8;

/**
 * The captions of a page: text blocks that begin with Figure or Fig and a number. A block goes on as long as the next
 * line stands close below.
 */
export function findCaptions(lines: readonly TextLine[]): Caption[] {
  return lines.flatMap((first, index) => {
    if (!CAPTION_START.test(first.text)) return [];
    const block = [first];
    for (const line of lines.slice(index + 1)) {
      const above = block.at(-1)!;
      const gap = above.y - line.y;
      const below = gap > 0 && gap <= LINE_DISTANCE * Math.max(line.size, above.size);
      const alike = Math.abs(line.size - first.size) <= 0.15 * first.size;
      if (!below || !alike || !overlap(line, first) || CAPTION_START.test(line.text)) break;
      block.push(line);
    }
    return [
      {
        text: joinLines(block.map(({ text }) => text)),
        left: Math.min(...block.map(({ left }) => left)),
        right: Math.max(...block.map(({ right }) => right)),
        top: first.y + first.size,
        bottom: block.at(-1)!.y,
      },
    ];
  });
}

/** The nearest caption that overlaps the image from left to right; "" where none does (arxiv.md 2.2). */
export function captionOf(image: Box, captions: readonly Caption[]): string {
  let nearest = "";
  let least = Number.POSITIVE_INFINITY;
  for (const caption of captions) {
    if (!overlap(image, caption)) continue;
    const distance = Math.max(image.bottom - caption.top, caption.bottom - image.top, 0);
    if (distance < least) [nearest, least] = [caption.text, distance];
  }
  return nearest;
}

function overlap(a: Pick<Box, "left" | "right">, b: Pick<Box, "left" | "right">): boolean {
  return Math.min(a.right, b.right) > Math.max(a.left, b.left);
}
