const MARKS = /<(\/?)think(?:ing)?>/gi;

/**
 * A text without what its model only thought: closed `<think>` or `<thinking>` blocks, one that is never closed, and
 * what stands before an end mark without a beginning, which the prompt may have written. Trimmed. So no thought reaches
 * the other side, and neither a call nor a stop token inside one counts.
 */
export function withoutThinking(text: string): string {
  let said = "";
  let at = 0;
  let thinking = false;
  for (const mark of text.matchAll(MARKS)) {
    const opens = mark[1] === "";
    if (opens && thinking) continue;
    if (!thinking) said = opens ? said + text.slice(at, mark.index) : "";
    thinking = opens;
    at = mark.index + mark[0].length;
  }
  return (thinking ? said : said + text.slice(at)).trim();
}
