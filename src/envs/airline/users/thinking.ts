const OPEN = /<think(?:ing)?>/i;
const CLOSE = /<\/think(?:ing)?>/i;

/**
 * A text without what its model only thought: `<think>…</think>` blocks, all before an end mark that has no beginning
 * (the template may have written that), and all behind a beginning that has no end. Trimmed.
 * So no thought reaches the other side, and a stop token inside one does not count.
 */
export function withoutThinking(text: string): string {
  let rest = text;
  let said = "";
  for (;;) {
    const open = OPEN.exec(rest);
    const close = CLOSE.exec(rest);
    if (close && (!open || close.index < open.index)) {
      said = "";
      rest = rest.slice(close.index + close[0].length);
    } else if (open && close) {
      said += rest.slice(0, open.index);
      rest = rest.slice(endOfBlock(rest, open.index + open[0].length));
    } else return (said + (open ? rest.slice(0, open.index) : rest)).trim();
  }
}

/** Where the block ends whose inside begins at `from`; a block in a block belongs to it. */
function endOfBlock(text: string, from: number): number {
  const marks = /<(\/?)think(?:ing)?>/gi;
  marks.lastIndex = from;
  for (let depth = 1; ; ) {
    const mark = marks.exec(text);
    if (!mark) return text.length;
    depth += mark[1] === "/" ? -1 : 1;
    if (depth === 0) return mark.index + mark[0].length;
  }
}
